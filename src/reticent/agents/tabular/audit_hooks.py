# SPDX-License-Identifier: Apache-2.0
"""Worst-case neighbours of agents that count: pairs of episodes that share no cell at any step.

The proof's worst case is two users who are never in the same cell of a table at the same step, both with reward 1. Beside
that pair and random ones there are hostile episodes: states and actions that do not exist, rewards out of range or no
numbers. All go through the agent's own ``report``, so that a clip that is missing shows.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from reticent.agents.tabular.count_privatizer import nothing_seen
from reticent.agents.tabular.learner import CountingLearner
from reticent.privacy.guarantee import guarantee_of
from reticent.privacy.neighbouring_datasets import Pair, against
from reticent.runtime import double_precision_methods
from reticent.worlds import Episode, World

TRIES = 24
"""Episodes drawn in a world; the two farthest apart are the canary and their replacement."""


@double_precision_methods
@dataclasses.dataclass(frozen=True)
class CountingHooks:
    """What the audit must know of an agent that counts (:mod:`reticent.audit.hooks`)."""

    agent: CountingLearner

    @property
    def zero_out(self) -> bool:
        guarantee = guarantee_of(self.agent)
        return guarantee is not None and guarantee.adjacency == "zero-out"

    def nothing(self) -> Episode:
        """The episode that adds nothing."""
        return nothing_seen(self.agent.model.horizon)

    def worst_cases(self, count: int, seed: int) -> list[Pair[Episode]]:
        """The proof's corner, and hostile episodes."""
        del count, seed  # there is nothing to turn
        model = self.agent.model
        horizon, states, actions = model.horizon, model.states, model.actions
        corner = make_episode([0] * (horizon + 1), [0] * horizon, [1.0] * horizon)
        far = make_episode([states - 1] * (horizon + 1), [actions - 1] * horizon, [1.0] * horizon)
        pairs = [
            Pair(corner, far, "corner: no cell in common, all rewards 1"),
            Pair(corner, corner._replace(rewards=0 * corner.rewards), "corner: rewards alone"),
        ]
        for value in (10.0, 1e160, -10.0, np.nan, np.inf, -np.inf):
            spoiled = corner._replace(rewards=jnp.full(horizon, value))
            pairs += [
                Pair(spoiled, far, f"hostile: rewards {value}"),
                Pair(spoiled, corner, f"hostile: rewards {value}, same cell"),
            ]
        for number in (-1, states, 2**30):
            lost = corner._replace(states=jnp.full(horizon + 1, number, jnp.int32))
            pairs.append(Pair(far, lost, f"hostile: state {number}"))
        beyond = corner._replace(actions=jnp.full(horizon, actions, jnp.int32))
        pairs.append(Pair(far, beyond, "hostile: an action too many"))
        return self._neighbours(pairs)

    def random_pairs(self, count: int, seed: int) -> list[Pair[Episode]]:
        """Episodes of random cells, rewards in and out of range."""
        model, draw = self.agent.model, np.random.default_rng(seed)
        horizon = model.horizon

        def drawn() -> Episode:
            return make_episode(
                draw.integers(0, model.states, horizon + 1),
                draw.integers(0, model.actions, horizon),
                draw.uniform(-0.5, 1.5, horizon),
            )

        return self._neighbours([Pair(drawn(), drawn(), f"random {index}") for index in range(count)])

    def possible_pair(self, world: World, seed: int) -> Pair[Episode]:
        """Two episodes that ``world`` can produce and that are far apart: the best of many drawn pairs.

        How far apart two episodes are is a sum over steps of whether they share a cell, which differing states or actions
        prevent; with uniformly random actions most pairs of a world with several states are near the worst one.
        """
        draw, origin = np.random.default_rng(seed), "trajectories of this world"
        if self.zero_out:
            return Pair(possible_episode(world, draw), self.nothing(), f"{origin}, against nothing")
        episodes = [possible_episode(world, draw) for _ in range(TRIES)]
        pairs = [(first, second) for at, first in enumerate(episodes) for second in episodes[:at]]
        canary, replacement = max(pairs, key=lambda pair: _cells_apart(*pair))
        return Pair(canary, replacement, origin)

    def _neighbours(self, pairs: list[Pair[Episode]]) -> list[Pair[Episode]]:
        return against(pairs, self.nothing()) if self.zero_out else pairs


def possible_episode(world: World, draw: np.random.Generator) -> Episode:
    """An episode of ``world`` with random actions, and with the largest reward that each pair can have."""
    possible = np.broadcast_to(
        np.asarray(world.transitions) > 0,
        (world.model.horizon, world.model.states, world.model.actions, world.model.states),
    )
    means = np.broadcast_to(np.asarray(world.mean_rewards), possible.shape[:3])
    states = [int(draw.choice(np.flatnonzero(np.asarray(world.initial) > 0)))]
    actions, rewards = [], []
    for h in range(world.model.horizon):
        action = int(draw.integers(world.model.actions))
        mean = float(means[h, states[-1], action])
        rewards.append(float(mean > 0) if world.reward_kind == "bernoulli" else mean)
        actions.append(action)
        states.append(int(draw.choice(np.flatnonzero(possible[h, states[-1], action]))))
    return make_episode(states, actions, rewards)


def make_episode(states: ArrayLike, actions: ArrayLike, rewards: ArrayLike) -> Episode:
    """An episode of these numbers."""
    return Episode(
        jnp.asarray(np.asarray(states), jnp.int32),
        jnp.asarray(np.asarray(actions), jnp.int32),
        jnp.asarray(np.asarray(rewards, float)),
    )


def _cells_apart(first: Episode, second: Episode) -> float:
    """Steps at which two episodes are in different cells, those of transitions and of rewards included."""
    (states, actions, rewards), (others, chosen, earned) = (
        tuple(np.asarray(field) for field in side) for side in (first, second)
    )
    pair = (states[:-1] != others[:-1]) | (actions != chosen)
    onward = pair | (states[1:] != others[1:])
    return float(pair.sum() + onward.sum() + np.where(pair, rewards + earned, np.abs(rewards - earned)).sum() / 2)
