# SPDX-License-Identifier: Apache-2.0
"""The planning oracle: the most promising parameter that no release contradicts.

The maximum of V^θ is not a convex problem: V^θ is not concave, and a strip whose width grows with the distance is not
convex. :class:`~reticent.agents.elimination.lattice.Lattice` solves it exactly over finitely many points; it is for few
dimensions. :class:`~reticent.agents.elimination.population.Population` searches everywhere and is approximate.

Lemma 3 needs of an oracle that what it returns satisfies the constraints of *all earlier catches*; the other
constraints may be forgotten. An oracle that cannot return such a point is outside the theorem.
"""

from __future__ import annotations

from typing import Any, Protocol

import jax.numpy as jnp
from jax import Array

from reticent.agents.elimination.constraint import Constraint
from reticent.agents.elimination.parameters import Parameters
from reticent.worlds import Model

SLACK = 1e-12


class Search(Protocol):
    """A planning oracle. All methods are pure and jit/vmap/scan-able."""

    @property
    def exact(self) -> bool:
        """Whether :meth:`best` is the maximum over the searched set."""
        ...

    @property
    def biases(self) -> tuple[float, float]:
        """(β per unit of ρ_h, β per step for rewards): how far the truth may be from the searched set."""
        ...

    def init(self) -> Any:
        """The state before any release."""
        ...

    def narrow(
        self, model: Model, parameters: Parameters, state: Any, constraint: Constraint, caught: Array, key: Array
    ) -> Any:
        """The state after one more release, which ``caught`` its model or not; ``key`` is public."""
        ...

    def best(self, state: Any) -> Array:
        """The chosen η ``(D,)``."""
        ...


def most_promising(eta: Array, values: Array, violation: Array) -> Array:
    """The η of the largest value among those that satisfy all constraints; among the least violating if none does.

    This makes the algorithm a total map, as Lemma 0 needs. On the event of Lemma 1 the second case does not occur for an
    exact search (Lemma 2). Ties go to the first.
    """
    allowed = jnp.maximum(violation.min(), 1.0) * (1 + SLACK)
    return eta[jnp.where(violation <= allowed, values, -jnp.inf).argmax()]
