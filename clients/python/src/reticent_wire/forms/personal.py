# SPDX-License-Identifier: Apache-2.0
"""What the forms have in common whose users act on a belief about themselves: one vector, clipped to the unit ball.

Acting takes the user's episode so far, which only their own device may know, so that no action follows from a billboard
alone. A vector is formed under the reference of the round that counts it.
"""

from __future__ import annotations

import abc
import math
from typing import TYPE_CHECKING

import numpy as np

from reticent_wire.errors import InvalidInput
from reticent_wire.forms.form import Bounds, Floats, Form

if TYPE_CHECKING:
    from reticent_wire.billboard import Billboard
    from reticent_wire.model import Dimensions, Rules


class PersonalVector(Form):
    """A form of one vector in the unit ball, of users who act on beliefs; see the module docstring."""

    formed_under = "open"
    remembers = True

    @abc.abstractmethod
    def numbers(self, sizes: Dimensions) -> int:
        """How many numbers a vector has."""

    def shape(self, sizes: Dimensions) -> tuple[int, int]:
        return 1, self.numbers(sizes)

    def act(self, billboard: Billboard, step: int, state: int, place: int | None, actions: int, uniform: float) -> int:
        del billboard, step, state, place, actions, uniform
        raise InvalidInput(
            "act", "without the episode so far", "act='device' where users act on a belief about themselves",
            "let the client act on the device: a server would have to be shown the whole episode for every action",
        )  # fmt: skip

    def probability(
        self, billboard: Billboard, step: int, state: int, place: int | None, actions: int, action: int
    ) -> float:
        """1: given the user's own episode so far, the action is certain."""
        del billboard, step, state, place, actions, action
        return 1.0

    def largest(self, sizes: Dimensions, bounds: Bounds) -> Floats:
        del bounds
        return np.ones(self.shape(sizes))

    def strength(self, sizes: Dimensions, rules: Rules) -> float:
        """Two users are at most 2 apart, and g√D more after rounding, in every direction."""
        least = float(rules.noise_scale.min())
        return (2.0 + rules.grid * math.sqrt(self.numbers(sizes))) / least if least > 0 else math.inf
