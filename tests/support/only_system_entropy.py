# SPDX-License-Identifier: Apache-2.0
"""Python's and NumPy's generators raise: what draws a deployment's noise may use the operating system's entropy alone."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from unittest import mock

import numpy as np

PYTHON = [
    name for name in dir(random) if name.islower() and not name.startswith("_") and callable(getattr(random, name))
]
NUMPY = [name for name in dir(np.random) if not name.startswith("_") and callable(getattr(np.random, name))]


class OtherEntropy(AssertionError):
    """Something drew from a generator whose state can be guessed, copied or seeded."""


@contextlib.contextmanager
def only_system_entropy() -> Iterator[None]:
    """Within the block, every function of ``random`` and every function and generator of ``numpy.random`` raises."""

    def refuse(*_: object, **__: object) -> object:
        raise OtherEntropy("a generator of Python or NumPy was used")

    with contextlib.ExitStack() as stack:
        for module, names in ((random, PYTHON), (np.random, NUMPY)):
            for name in names:
                stack.enter_context(mock.patch.object(module, name, refuse))
        stack.enter_context(mock.patch.object(random, "Random", refuse))
        stack.enter_context(mock.patch.object(random, "SystemRandom", refuse))
        yield
