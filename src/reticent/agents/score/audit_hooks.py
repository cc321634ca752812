# SPDX-License-Identifier: Apache-2.0
"""Worst-case neighbours of Score-VI: vectors at opposite ends of the unit ball, and what an attacker would send instead.

The proof's worst case is two users at opposite points of the ball. Beside such pairs, turned in many ways, there are
hostile vectors: far outside, infinite, or no numbers. Where first states are not declared, both parts of a vector are at
the end of their own ball. All go through the agent's own ``report``, so that a clip that is
missing, or that clips coordinate by coordinate, shows.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.score.learner import ScoreLearner
from reticent.agents.score.round_plan import ScorePlan
from reticent.learning.capabilities import visits_of
from reticent.learning.plan import Plan, without_ties
from reticent.privacy.guarantee import guarantee_of
from reticent.privacy.neighbouring_datasets import Pair, against
from reticent.runtime import double_precision_methods
from reticent.worlds import Episode, World
from reticent.worlds.continuous import ContinuousWorld
from reticent.worlds.episode import as_stay

TRIES = 256
"""Episodes drawn in a world; the two farthest apart are the canary and their replacement."""


@double_precision_methods
@dataclasses.dataclass(frozen=True)
class ScoreHooks:
    """What the audit must know of Score-VI (:mod:`reticent.audit.hooks`); an observation is a vector ``(D,)``."""

    agent: ScoreLearner

    @property
    def dimension(self) -> int:
        return self.agent.dimension

    def nothing(self) -> Array:
        """The vector that adds nothing."""
        return jnp.zeros(self.dimension)

    def worst_cases(self, count: int, seed: int) -> list[Pair[Array]]:
        """Opposite points of the ball along axes, diagonals and ``count`` random directions; hostile vectors."""
        draw = np.random.default_rng(seed)
        first, diagonal = (self._at_the_end(vector) for vector in (np.eye(self.dimension)[0], np.ones(self.dimension)))
        turned = [self._at_the_end(vector) for vector in draw.normal(size=(max(count, 1), self.dimension))]
        pairs = [
            Pair(jnp.asarray(direction), jnp.asarray(-direction), f"corner: opposite, {name}")
            for name, direction in [("axis", first), ("diagonal", diagonal)]
            + [(f"turned {index}", direction) for index, direction in enumerate(turned)]
        ]
        for length in (2.0, 1e3, 1e160):
            far = length * diagonal
            pairs.append(Pair(jnp.asarray(far), jnp.asarray(-far), f"hostile: length {length:g}"))
            pairs.append(Pair(jnp.asarray(far), self.nothing(), f"hostile: length {length:g} against nothing"))
        # Every coordinate within 1, the whole far outside: a clip of coordinates would let it through.
        ones = jnp.ones(self.dimension)
        pairs.append(Pair(ones, -ones, "hostile: every coordinate 1"))
        for value in (np.nan, np.inf, -np.inf):
            pairs.append(Pair(jnp.full(self.dimension, value), ones, f"hostile: all {value}"))
            pairs.append(Pair(ones.at[0].set(value), -ones, f"hostile: one {value}"))
            pairs.append(Pair(ones.at[-1].set(value), -ones, f"hostile: the last one {value}"))
        if starts := self.agent.starts:
            # What two users of a world can be at most: opposite surprises, and other first states.
            one, other = (diagonal.copy(), -diagonal)
            one[-starts:], other[-starts:] = np.eye(starts)[0], np.eye(starts)[-1]
            pairs.append(Pair(jnp.asarray(one), jnp.asarray(other), "users: opposite, other first states"))
        return self._neighbours(pairs)

    def random_pairs(self, count: int, seed: int) -> list[Pair[Array]]:
        """Gaussian directions, lengths from inside to twice the radius."""
        draw = np.random.default_rng(seed)

        def drawn() -> Array:
            vector = draw.normal(size=self.dimension)
            return jnp.asarray(vector * 2 * draw.random() / np.linalg.norm(vector))

        return self._neighbours([Pair(drawn(), drawn(), f"random {index}") for index in range(count)])

    def possible_pair(self, world: World | ContinuousWorld, seed: int) -> Pair[Array]:
        """The two of many users of ``world``, who act at random under the first plan, whose vectors are farthest apart."""
        agent, key = self.agent, jax.random.key(seed)
        plan = agent.served(agent.plan(agent.init()), 0)
        episodes = jax.vmap(lambda own: _random_stay(agent, world, own))(jax.random.split(key, TRIES))
        vectors = jax.vmap(lambda episode: agent.statistic(plan, episode))(episodes)
        clipped = np.asarray(jax.vmap(lambda vector: agent.aggregator.report(vector, _silence(agent))[0])(vectors))
        if self._zero_out:
            farthest = int(np.linalg.norm(clipped, axis=1).argmax())
            return Pair(vectors[farthest], self.nothing(), "a user of this world, against nothing")
        apart = ((clipped[:, None] - clipped[None]) ** 2).sum(axis=-1)
        one, other = np.unravel_index(int(apart.argmax()), apart.shape)
        return Pair(vectors[one], vectors[other], "users of this world")

    def comparable(self, plan: Plan[ScorePlan]) -> Plan[ScorePlan]:
        """The plan with choices blanked where two actions are as good: rounding may decide those either way."""
        extension = plan.extension
        curious = without_ties(extension.curious, extension.hopes)
        return plan._replace(
            policy=without_ties(plan.policy, plan.action_values), extension=extension._replace(curious=curious)
        )

    def _at_the_end(self, vector: np.ndarray) -> np.ndarray:
        """The vector ``(D,)`` with both parts as long as their clips let them; a part without a direction gets one."""
        starts = self.agent.starts
        parts = np.split(vector, [self.dimension - starts]) if starts else [vector]
        parts = [part if part.any() else np.eye(part.size)[0] for part in parts]
        return np.concatenate([part / np.linalg.norm(part) for part in parts])

    @property
    def _zero_out(self) -> bool:
        guarantee = guarantee_of(self.agent)
        return guarantee is not None and guarantee.adjacency == "zero-out"

    def _neighbours(self, pairs: list[Pair[Array]]) -> list[Pair[Array]]:
        return list(against(pairs, self.nothing())) if self._zero_out else pairs


def _silence(agent: ScoreLearner) -> Array | None:
    """No noise, for reports that would carry some."""
    return jnp.zeros((1, agent.dimension)) if agent.noised_reports else None


def _random_stay(agent: ScoreLearner, world: World | ContinuousWorld, key: Array) -> Episode:
    """All visits of a user of ``world`` who acts at random."""
    visits = visits_of(agent)
    if visits == 1:
        return _random_user(agent, world, key)
    return as_stay(jax.vmap(lambda own: _random_user(agent, world, own))(jax.random.split(key, visits)))


def _random_user(agent: ScoreLearner, world: World | ContinuousWorld, key: Array) -> Episode:
    """A user of ``world`` who acts at random."""
    horizon, actions = agent.model.horizon, agent.model.actions
    uniforms = jax.random.uniform(key, (world.start_draws + horizon * (1 + world.step_draws),))
    first, draws = uniforms[: world.start_draws], uniforms[world.start_draws :].reshape(horizon, -1)
    start = world.start(first if isinstance(world, ContinuousWorld) else first[0])

    def step(state: Array, at: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array, Array]]:
        index, draw = at
        action = jnp.minimum((draw[0] * actions).astype(jnp.int32), actions - 1)
        following, reward = world.step(index, state, action, draw[1:])
        return following, (state, action, reward)

    last, (states, chosen, rewards) = jax.lax.scan(step, start, (jnp.arange(horizon), draws))
    return Episode(jnp.concatenate([states, last[None]]), chosen, rewards)
