# SPDX-License-Identifier: Apache-2.0
"""What a trust model is: who adds the noise, what is exposed to which party, and how a contribution leaves its user.

The rest of the library asks these objects and never compares names. A new trust model is one file beside this one, its
entry in :data:`reticent.privacy.trust.TRUSTS`, and its form on the wire.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.privacy.counters.counter import Counter
from reticent_wire.grid import nearest

Law = Literal["gaussian", "laplace", "binomial"]
WireForm = Literal["trajectory", "report", "messages"]
Draw = Callable[[tuple[int, ...]], Array]
"""Simulated noise with the given leading axes, of the sums' own law and scale."""


class Trust(abc.ABC):
    """A trust model. Instances hold nothing: there is one of each, and they are equal by identity.

    Attributes:
      name: as in options and on the wire.
      exposed: what an adversary sees, as the subject of the guarantee's sentence.
      trusted: the parties that a user must trust, and with what.
      wire: what crosses from the user to the service.
      noised_reports: whether every report is private by itself, so that all the server does is post-processing.
      noised_rounds: whether a round's sum is noised when it is released, by whomever.
      grouped: whether rounds are groups of users whatever the counter is.
      silence: what else the guarantee rests on, and what it shows if nothing comes from a user; sentences with a leading
        space, or nothing.
    """

    name: ClassVar[str]
    exposed: ClassVar[str]
    trusted: ClassVar[str]
    wire: ClassVar[WireForm]
    noised_reports: ClassVar[bool] = False
    noised_rounds: ClassVar[bool] = True
    grouped: ClassVar[bool] = False
    silence: ClassVar[str] = ""

    # -- what users send ----------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def send(self, contribution: Array, noise: Array | None, grid: Array) -> Array:
        """A clipped contribution as it leaves its user, ``grid`` being the spacing that it is rounded to (0 is none)."""

    @abc.abstractmethod
    def simulate_user_noise(self, key: Array, like: Array, draw: Draw) -> Array | None:
        """What :meth:`send` needs for one simulated user of contributions like ``like``; None if nothing."""

    # -- what is released ---------------------------------------------------------------------------------------------

    def counter(self, chosen: Callable[[], Counter], rounds: int) -> Counter:
        """The counter behind which the server adds reports up; ``chosen`` makes the one of the options."""
        del rounds
        return chosen()

    def sensitivity(self, counter: Counter) -> float:
        """How far an item of norm 1 moves everything that its noise protects."""
        return counter.sensitivity

    def exposure(self, counter: Counter) -> np.ndarray:
        """How often the most exposed item is charged after each release."""
        return counter.exposure()

    def release_std(self, counter: Counter, round_ends: np.ndarray) -> np.ndarray:
        """Standard deviation of the noise in each release, per unit of the noise scale."""
        del round_ends
        return counter.release_std()

    def released_by(self, counter: Counter) -> str:
        """How sums are released, for display."""
        return counter.name

    def reliance(self, honest: float) -> str:
        """The parties that the promise relies on besides mathematics; a sentence with a leading space, or nothing."""
        del honest
        return ""

    def __repr__(self) -> str:
        return self.name


def on_grid(contribution: Array, grid: Array) -> Array:
    """Rounded to the nearest multiple of ``grid``; as it is where the grid is 0."""
    spacing = jnp.where(grid > 0, grid, 1.0)
    return jnp.where(grid > 0, nearest(contribution, spacing, jnp) * spacing, contribution)
