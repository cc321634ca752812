# SPDX-License-Identifier: Apache-2.0
r"""The exact oracle: a lattice of spacing 1/q on the simplices, with all values computed once.

Every point of a simplex in :math:`\mathbb R^d` is within ℓ₁ distance 2a/q of a lattice point, a = ⌊d/2⌋⌈d/2⌉/d (round
by largest remainders). Two points at that distance predict :math:`\langle x,\theta\rangle` differently by at most
(a/q)(max x − min x), which is the bias β that the radius has to carry (docs/theory/elimination.md, "A grid as
oracle"). With it the theorem's assumptions hold for this search as it is. β is a constant, so the bound has a term that
is linear in K; at the numbers of points that can be enumerated that term exceeds the trivial bound.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.elimination.constraint import Constraint, violations
from reticent.agents.elimination.parameters import Parameters
from reticent.agents.elimination.search import most_promising
from reticent.errors import InvalidInput
from reticent.worlds import Model

AT_ONCE = 256
"""Points whose values are computed side by side."""


class Remaining(NamedTuple):
    """The largest violation of every point so far, ``(N,)``."""

    violation: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Lattice:
    """Exact search over a lattice; see the module docstring.

    Attributes:
      eta: the points ``(N, D)``. values: their optimal values ``(N,)``.
      transition_bias: a/q of transitions. reward_bias: a/q of rewards times their total and the largest difference of two
        reward features of a pair.
    """

    eta: Array
    values: Array
    transition_bias: float = dataclasses.field(metadata={"static": True})
    reward_bias: float = dataclasses.field(metadata={"static": True})

    exact = True

    @classmethod
    def of(cls, model: Model, parameters: Parameters, points: int) -> Lattice:
        """The finest lattice of at most ``points`` points, the same spacing in both simplices.

        Raises:
          InvalidInput: steps have parameters of their own, or not even the corners fit.
        """
        if parameters.groups > 1:
            raise InvalidInput(
                "oracle", "lattice", "population where steps differ", "a lattice over H simplices has too many points"
            )
        first = model.d1 if parameters.moving and parameters.transitions.size else 1
        second = model.d2 if parameters.rewards.size else 1
        spacing = 0
        while math.comb(spacing + first, first - 1) * math.comb(spacing + second, second - 1) <= points:
            spacing += 1
        if spacing == 0:
            raise InvalidInput("candidates", points, f"at least {first * second} with oracle=lattice", "raise it")
        weights = _simplex(first, spacing) if first > 1 else np.asarray(parameters.transitions.centre)[None]
        rewards = (
            parameters.reward_total * _simplex(second, spacing)
            if second > 1
            else np.asarray(parameters.rewards.centre)[None]
        )
        pairs = [(one, other) for one in weights for other in rewards]
        theta, reward_theta = (jnp.asarray(np.stack(part)[:, None]) for part in zip(*pairs, strict=True))
        eta = jax.vmap(parameters.coordinates)(theta, reward_theta)
        values = jax.jit(
            lambda points: jax.lax.map(lambda one: parameters.value(model, one), points, batch_size=AT_ONCE)
        )
        features = np.asarray(model.reward_features)
        apart = float((features.max(axis=0) - features.min(axis=0)).max()) * parameters.reward_total
        return cls(
            eta, values(eta), covering(first) / spacing, covering(second) / spacing * apart if second > 1 else 0.0
        )

    @property
    def biases(self) -> tuple[float, float]:
        return self.transition_bias, self.reward_bias

    def init(self) -> Remaining:
        return Remaining(jnp.zeros_like(self.values))

    def narrow(
        self, model: Model, parameters: Parameters, state: Remaining, constraint: Constraint, caught: Array, key: Array
    ) -> Remaining:
        del model, parameters, caught, key
        return Remaining(jnp.maximum(state.violation, violations(constraint, self.eta)))

    def best(self, state: Remaining) -> Array:
        return most_promising(self.eta, self.values, state.violation)


def covering(dimension: int) -> float:
    """a: half the largest ℓ₁ distance from the lattice of whole numbers with a fixed sum.

    >>> covering(3), covering(4)
    (0.6666666666666666, 1.0)
    """
    return (dimension // 2) * ((dimension + 1) // 2) / dimension


def _simplex(dimension: int, spacing: int) -> np.ndarray:
    """All points of the simplex with coordinates that are multiples of 1/``spacing``, ``(N, d)``."""
    bars = itertools.combinations(range(spacing + dimension - 1), dimension - 1)
    placed = np.array([(-1, *bar, spacing + dimension - 1) for bar in bars])
    return (np.diff(placed, axis=1) - 1) / spacing
