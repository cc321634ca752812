# SPDX-License-Identifier: Apache-2.0
"""What an object with arrays looks like in an interpreter: a few lines, and no numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

LONGEST = 60
"""Most characters of one field."""


class ShortRepr:
    """A dataclass whose ``repr`` gives type and shape of its arrays.

    Subclasses that are dataclasses too inherit it: the one that the decorator would write prints every number.
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = cls.__repr__  # type: ignore[method-assign]  # the inherited one, where the decorator sees it

    def __repr__(self) -> str:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
        shown = ", ".join(f"{field.name}={short(getattr(self, field.name))}" for field in fields if field.repr)
        return f"{type(self).__name__}({shown})"


def short(value: object) -> str:
    """One field in at most :data:`LONGEST` characters.

    >>> import numpy as np
    >>> short(np.zeros((2, 3))), short(1.5), short("x" * 100)[-5:]
    ('float64[2, 3]', '1.5', 'xxx …')
    """
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{dtype}{list(shape)}"
    if isinstance(value, tuple | list) and len(value) > 4:
        return f"{type(value).__name__} of {len(value):,}"
    written = f"{type(value).__name__}(…)" if isinstance(value, ShortRepr) else repr(value)
    return written if len(written) <= LONGEST else f"{written[: LONGEST - 2]} …"
