# SPDX-License-Identifier: Apache-2.0
"""An A/B share: which places of a round are served the control's version, by public numbers alone.

Of a round of n places m are *controls*, evenly spaced from a public random beginning: the places ⌊(j·n + o)/m⌋ for
j = 0 … m − 1, with o below n drawn by a hash of the deployment's public identity and the round's number. So

* who is a control is a function of identity, round and place. It depends on no user's data and on no name;
* m is known beforehand: ⌊share·e⌋ − ⌊share·b⌋ for a round of the b-th to before the e-th admission. All rounds
  together have exactly ⌊share·K⌋ controls, and each is within one of its share, however small rounds are;
* every place is a control with probability m/n over o, and between two controls there are ⌊n/m⌋ or ⌈n/m⌉ places.

Nothing here needs JAX: workers of the service ask it for every admission.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from fractions import Fraction
from typing import Any, NamedTuple

from reticent.errors import InvalidInput
from reticent.learning.schedule import Schedule


class ControlPlaces(NamedTuple):
    """The controls of one round: ``controls`` (m) of ``size`` (n) places, the first of them by ``offset`` (o).

    Whole numbers, or arrays of them where a compiled program counts.
    """

    size: Any
    controls: Any
    offset: Any

    def before(self, place: Any) -> Any:
        """How many controls there are at the places below this one, which is from 0 to n: those with j·n + o < place·m."""
        return -((self.offset - place * self.controls) // self.size)

    def has(self, place: int) -> bool:
        """Whether this 0-based place is a control's."""
        return bool(self.before(place + 1) > self.before(place))


@dataclasses.dataclass(frozen=True)
class Control:
    """``share`` of every round's places is served version 0, which is made of public numbers alone, for ever.

    Raises:
      InvalidInput: the share is not strictly between 0 and 1.
    """

    share: float

    version = 0
    """What controls are served."""

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise InvalidInput(
                "control.share",
                self.share,
                "above 0 and below 1",
                "leave control out, or use shadow, to serve one group",
            )

    def places(self, schedule: Schedule, number: int, identity: str) -> ControlPlaces:
        """The controls of round ``number`` of the deployment with this identity."""
        size = int(schedule.round_sizes[number])
        return _places(self.share, int(schedule.ends[number]) - size, size, number, identity)

    def require_both_groups(self, users: int) -> None:
        """Raise if either group would be empty in a deployment of so many users.

        Raises:
          InvalidInput: one group would be empty.
        """
        if not 1 <= _whole(self.share, users) < users:
            raise InvalidInput(
                "control.share", self.share, f"such that {users} users are some controls and some others",
                "raise it or lower it, or leave control out",
            )  # fmt: skip


def _whole(share: float, users: int) -> int:
    """⌊share·users⌋ of the share as it is written: a fifth of five is one."""
    return int(Fraction(repr(float(share))) * users)


@functools.lru_cache(maxsize=64)
def _places(share: float, first: int, size: int, number: int, identity: str) -> ControlPlaces:
    drawn = hashlib.sha256(f"reticent control {identity} {number}".encode()).digest()
    return ControlPlaces(size, _whole(share, first + size) - _whole(share, first), int.from_bytes(drawn, "big") % size)
