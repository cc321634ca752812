# SPDX-License-Identifier: Apache-2.0
r"""The searched parameters: weights of a blend, one simplex per group of steps, as one vector η.

:math:`\theta=c+B\eta` for transitions and for rewards (:mod:`reticent.agents.score.coordinates`); η lists all groups of
transitions, then all groups of rewards. A group is a step, or all steps of a stationary model. The transition after
the last step earns nothing and has no coordinates. Every such θ is an MDP, which the analysis needs: values of a
candidate are exact, nothing is clipped.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.coordinates import Coordinates, reward_coordinates, transition_coordinates
from reticent.agents.score.dynamic_programming import Backward, Estimate, plan_backward
from reticent.agents.score.model_moments import mean_rewards
from reticent.errors import InvalidInput
from reticent.worlds import Model
from reticent.worlds.continuous.model import ContinuousModel

EDGE = 1e-9
"""How far outside the simplex rounding may put a weight."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Coordinates of all unknown weights.

    Attributes:
      transitions, rewards: the coordinates of one group.
      moving: groups of steps whose transitions matter. groups: groups of steps.
    """

    transitions: Coordinates
    rewards: Coordinates
    moving: int = dataclasses.field(metadata={"static": True})
    groups: int = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(cls, model: Model) -> Parameters:
        """Of a blend.

        Raises:
          InvalidInput: the model is no blend of distributions, has real states or unknown first states, or nothing is
            unknown.
        """
        remedy = "use private-score-vi"
        if isinstance(model, ContinuousModel):
            raise InvalidInput("model", "one with real states", "one with finitely many", remedy)
        if not model.sums_to_one or (model.known_rewards is None and model.reward_total is None):
            raise InvalidInput("model", "one whose parameters are not weights of a blend", "a blend", remedy)
        if not model.initial_known:
            raise InvalidInput("initial_known", False, "True for elimination", remedy)
        groups = 1 if model.stationary else model.horizon
        moving = 0 if model.horizon == 1 else (1 if model.stationary else model.horizon - 1)
        found = cls(transition_coordinates(model), reward_coordinates(model), moving, groups)
        if found.size == 0:
            raise InvalidInput("model", "without anything unknown", "a blend of two candidates or more", "just plan")
        return found

    @property
    def size(self) -> int:
        """D: the numbers of η."""
        return self.moving * self.transitions.size + self.groups * self.rewards.size

    @property
    def reward_total(self) -> float:
        """The sum of the reward weights; 0 where rewards are known."""
        return self.rewards.total or 0.0

    @property
    def diameter(self) -> float:
        """W: the largest distance of two parameters. A simplex of two corners or more has the diameter √2."""
        squared = 2.0 * self.moving * (self.transitions.size > 0)
        return math.sqrt(squared + 2.0 * self.groups * self.reward_total**2 * (self.rewards.size > 0))

    def weights(self, eta: Array) -> tuple[Array, Array]:
        """The weights of transitions ``(G, d1)`` and of rewards ``(G, d2)``."""
        cut = self.moving * self.transitions.size
        theta = self.transitions.theta(eta[:cut].reshape(self.moving, self.transitions.size))
        # The last step's transition has no coordinates; any distribution does.
        rest = jnp.broadcast_to(self.transitions.centre, (self.groups - self.moving, *self.transitions.centre.shape))
        return (
            jnp.concatenate([theta, rest]),
            self.rewards.theta(eta[cut:].reshape(self.groups, self.rewards.size)),
        )

    def coordinates(self, theta: Array, reward_theta: Array) -> Array:
        """η of weights ``(G, d1)`` and ``(G, d2)``."""
        moving = self.transitions.eta(theta[: self.moving])
        return jnp.concatenate([moving.reshape(-1), self.rewards.eta(reward_theta).reshape(-1)])

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
