# SPDX-License-Identifier: Apache-2.0
"""History in the state: the last few observations of an episode, as one state number.

A model may have been made for states that are *contexts*: what is observed now together with what was observed before.
Contexts are listed in the model, publicly; one that was rare in the public log is not, and folds into a shorter one. The
state is the **longest listed context with which the user's observations end**. It is a function of the list and of the
user's own observations, so a device computes it by itself, and nothing but the state is ever reported.

An observation is the number of what is seen now: ``plain · remembered + code``. Codes are remembered, the plain part
(such as whether a suggestion is still to be made) is not. With n contexts the state is ``plain · n + context``; one more
state may follow for users who have left.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from reticent_wire.errors import InvalidInput
from reticent_wire.trajectory import index_within

START = -1
"""What stands before the first observation of an episode."""

MOST_DEPTH = 8


@dataclasses.dataclass(frozen=True)
class History:
    """Which contexts there are.

    Attributes:
      depth: how many observations a context has at most, the present one included.
      remembered: number of codes that are remembered; a divisor of the number of observations.
      observations: what observations are called, in the order of their numbers.
      contexts: codes, the present one last; :data:`START` may stand first. Every code is a context by itself.

    >>> pages = History(2, 2, ("front", "news"), ((0,), (1,), (START, 0), (0, 1)))
    >>> pages.state([0]), pages.state([0, 1]), pages.state([1]), pages.state([0, 1, 0])
    (2, 3, 1, 0)
    """

    depth: int
    remembered: int
    observations: tuple[str, ...]
    contexts: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        seen = len(self.observations)
        checks = (
            ("depth", self.depth, 1 <= self.depth <= MOST_DEPTH, f"from 1 to {MOST_DEPTH}"),
            ("remembered", self.remembered, self.remembered >= 1 and seen > 0 and seen % self.remembered == 0,
             f"a divisor of {seen}, the number of observations"),
            ("contexts", f"{len(self.contexts)}", len(self.index) == len(self.contexts), "all different"),
            ("contexts", "one without it", all((code,) in self.index for code in range(self.remembered)),
             "with every single code"),
            ("contexts", "another code", all(map(self._valid, self.contexts)),
             f"of 1 to {self.depth} codes from 0 to {self.remembered - 1}, {START} only first"),
        )  # fmt: skip
        for field, value, holds, bound in checks:
            if not holds:
                raise InvalidInput(
                    f"history.{field}", value, bound, "use the history of a model that reticent fit wrote"
                )

    def _valid(self, context: tuple[int, ...]) -> bool:
        codes = context[1:] if context[:1] == (START,) else context
        return len(context) <= self.depth and len(codes) > 0 and all(0 <= code < self.remembered for code in codes)

    @functools.cached_property
    def index(self) -> dict[tuple[int, ...], int]:
        """The number of each context."""
        return {context: number for number, context in enumerate(self.contexts)}

    @property
    def states(self) -> int:
        """How many states the contexts make, without one for users who have left."""
        return len(self.observations) // self.remembered * len(self.contexts)

    def context(self, codes: Sequence[int]) -> int:
        """The longest listed context with which all codes of an episode so far end."""
        recent = tuple(codes[-self.depth :])
        if len(codes) < self.depth:
            recent = (START, *recent)
        while recent not in self.index:
            recent = recent[1:]
        return self.index[recent]

    def state(self, seen: Sequence[Any]) -> int:
        """The state after the observations ``seen`` of one episode, the first one first, the present one last.

        One that there is not is taken for the nearest, and what is missing for the first: a refusal would stop the episode,
        which the service sees.

        Raises:
          InvalidInput: there are none, whatever the user saw.
        """
        if len(seen) == 0:
            raise InvalidInput("observations", "none", "at least one", "begin with what the user sees first")
        recent = [index_within(number, len(self.observations)) for number in seen[-self.depth :]]
        codes = [number % self.remembered for number in recent]
        return recent[-1] // self.remembered * len(self.contexts) + self.context(codes)

    def to_dict(self) -> dict[str, Any]:
        """For a JSON document; :meth:`read` is the inverse."""
        return {
            "depth": self.depth,
            "remembered": self.remembered,
            "observations": list(self.observations),
            "contexts": [list(context) for context in self.contexts],
        }

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> History:
        """What :meth:`to_dict` wrote, or a service published.

        Raises:
          InvalidInput: that is no history.
        """
        try:
            depth, remembered, labels, contexts = (
                content[field] for field in ("depth", "remembered", "observations", "contexts")
            )
            whole = all(
                type(number) is int for number in (depth, remembered, *(code for each in contexts for code in each))
            )
            if not whole or not all(isinstance(label, str) for label in labels):
                raise TypeError
            return cls(depth, remembered, tuple(labels), tuple(tuple(context) for context in contexts))
        except (KeyError, TypeError):
            raise InvalidInput(
                "names.history", "something else", "depth, remembered, observations and contexts", "ask the operator"
            ) from None
