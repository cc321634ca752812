# SPDX-License-Identifier: Apache-2.0
r"""The searched parameters: weights of a blend, one simplex per group of steps, as one vector η.

:math:`\theta=c+B\eta` for transitions and for rewards (:mod:`reticent.agents.score.coordinates`); η lists all groups of
transitions, then all groups of rewards. A group is a step, or all steps of a stationary model. The transition after
the last step earns nothing and has no coordinates.

Reward weights are divided by their declared sum and reward features multiplied by it. Inner products are the same, and
both simplices have the diameter √2 in η: the W of Corollary 2 does not depend on how a model scales its reward
features.

Every such θ is an MDP: :meth:`Parameters.of` raises where a corner of a simplex is none. The analysis needs it, because
(1) holds for values that are not clipped.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.score.coordinates import (
    Coordinates,
    reward_coordinates,
    simplex_coordinates,
    transition_coordinates,
)
from reticent.agents.score.dynamic_programming import Backward, Estimate, plan_backward
from reticent.agents.score.model_moments import mean_rewards
from reticent.errors import InvalidInput
from reticent.worlds import Model
from reticent.worlds.continuous.model import ContinuousModel

EDGE = 1e-9
"""How far outside the simplex rounding may put a weight."""

ROUNDING = 1e-6
"""How far rounding may put a row's sum from 1 and a reward outside [0, 1]."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Coordinates of all unknown weights.

    Attributes:
      transitions, rewards: the coordinates of one group; reward weights are in units of their sum.
      reward_total: the sum of the reward weights; 1 where rewards are known.
      moving: groups of steps whose transitions matter. groups: groups of steps.
    """

    transitions: Coordinates
    rewards: Coordinates
    reward_total: float = dataclasses.field(metadata={"static": True})
    moving: int = dataclasses.field(metadata={"static": True})
    groups: int = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(cls, model: Model) -> Parameters:
        """Of a blend.

        Raises:
          InvalidInput: the model is no blend of distributions and of rewards in [0, 1], has real states or unknown first
            states, or nothing is unknown.
        """
        remedy = "use private-score-vi"
        if isinstance(model, ContinuousModel):
            raise InvalidInput("model", "one with real states", "one with finitely many", remedy)
        if not model.sums_to_one or (model.known_rewards is None and model.reward_total is None):
            raise InvalidInput("model", "one whose parameters are not weights of a blend", "a blend", remedy)
        if not model.initial_known:
            raise InvalidInput("initial_known", False, "True for elimination", remedy)
        _require_mdps(model, remedy)
        groups = 1 if model.stationary else model.horizon
        moving = 0 if model.horizon == 1 else (1 if model.stationary else model.horizon - 1)
        learned = model.known_rewards is None
        rewards = simplex_coordinates(model.d2, 1.0) if learned else reward_coordinates(model)
        total = float(model.reward_total) if learned and model.reward_total is not None else 1.0
        found = cls(transition_coordinates(model), rewards, total, moving, groups)
        if found.size == 0:
            raise InvalidInput("model", "without anything unknown", "a blend of two candidates or more", "just plan")
        return found

    @property
    def size(self) -> int:
        """D: the numbers of η."""
        return self.moving * self.transitions.size + self.groups * self.rewards.size

    @property
    def diameter(self) -> float:
        """W: the largest distance of two η. A simplex of two corners or more has the diameter √2."""
        return math.sqrt(2.0 * (self.moving * (self.transitions.size > 0) + self.groups * (self.rewards.size > 0)))

    def weights(self, eta: Array) -> tuple[Array, Array]:
        """The weights of transitions ``(G, d1)`` and of rewards ``(G, d2)``."""
        cut = self.moving * self.transitions.size
        theta = self.transitions.theta(eta[:cut].reshape(self.moving, self.transitions.size))
        # The last step's transition has no coordinates; any distribution does.
        rest = jnp.broadcast_to(self.transitions.centre, (self.groups - self.moving, *self.transitions.centre.shape))
        return (
            jnp.concatenate([theta, rest]),
            self.reward_total * self.rewards.theta(eta[cut:].reshape(self.groups, self.rewards.size)),
        )

    def coordinates(self, theta: Array, reward_theta: Array) -> Array:
        """η of weights ``(G, d1)`` and ``(G, d2)``."""
        moving = self.transitions.eta(theta[: self.moving])
        paying = self.rewards.eta(reward_theta / self.reward_total)
        return jnp.concatenate([moving.reshape(-1), paying.reshape(-1)])

    def inside(self, eta: Array) -> Array:
        """Whether all weights are nonnegative."""
        theta, reward_theta = self.weights(eta)
        return (theta >= -EDGE).all() & (reward_theta >= -EDGE).all()

    def draw(self, key: Array) -> Array:
        """Weights that are uniform on their simplices."""
        first, second = jax.random.split(key)
        dtype = self.transitions.centre.dtype
        theta = jax.random.dirichlet(first, jnp.ones_like(self.transitions.centre), (self.groups,), dtype)
        reward_theta = self.reward_total * jax.random.dirichlet(
            second, jnp.ones_like(self.rewards.centre), (self.groups,), dtype
        )
        return self.coordinates(theta, reward_theta)

    def estimate(self, model: Model, eta: Array) -> Estimate:
        """The MDP of η."""
        theta, reward_theta = self.weights(eta)
        return Estimate(theta, mean_rewards(model, reward_theta), model.initial)

    def solve(self, model: Model, eta: Array) -> Backward:
        """The optimal plan of the MDP of η, its values and action values; ties go to the first action."""
        return plan_backward(model, self.estimate(model, eta), None, True)

    def value(self, model: Model, eta: Array) -> Array:
        """The optimal value of the MDP of η, averaged over first states."""
        return (model.initial * self.solve(model, eta).values[0]).sum()


def _require_mdps(model: Model, remedy: str) -> None:
    """Every corner is an MDP, and so every blend: rows are distributions, mean rewards are in [0, 1]."""
    rows = np.asarray(model.transition_features)
    if rows.min() < -EDGE or np.abs(rows.sum(axis=-1) - 1).max() > ROUNDING:
        raise InvalidInput("model", "a blend of rows that are not distributions", "a blend of distributions", remedy)
    if model.known_rewards is not None or model.reward_total is None:
        return
    rewards = model.reward_total * np.asarray(model.reward_features)
    if rewards.min() < -ROUNDING or rewards.max() > 1 + ROUNDING:
        raise InvalidInput(
            "reward_features", f"mean rewards in [{rewards.min():.3g}, {rewards.max():.3g}] at the corners",
            "within [0, 1]", remedy,
        )  # fmt: skip
