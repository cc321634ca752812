"""Worst-case neighbours of agents that count: pairs of episodes that share no cell at any step.

The proof's worst case is two users who are never in the same cell of a table at the same step, both with reward 1. Beside
that pair and random ones there are hostile episodes: states and actions that do not exist, rewards out of range or no
numbers. All go through the agent's own ``report``, so that a clip that is missing shows.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from reticent.agents.tabular.count_privatizer import nothing_seen
from reticent.audit.subject import Subject
from reticent.worlds import Episode, World

EpisodePair = tuple[Episode, Episode, str]


def episode_pairs(subject: Subject, random: int, seed: int) -> list[EpisodePair]:
    """All proposals: the proof's corner, hostile ones, random ones; each against nothing under zero-out adjacency."""
    model = subject.agent.model
    horizon, states, actions = model.horizon, model.states, model.actions
    last, other = states - 1, actions - 1
    corner = _episode([0] * (horizon + 1), [0] * horizon, [1.0] * horizon)
    far = _episode([last] * (horizon + 1), [other] * horizon, [1.0] * horizon)
    pairs = [
        (corner, far, "corner: no cell in common, all rewards 1"),
        (corner, corner._replace(rewards=0 * corner.rewards), "corner: rewards alone"),
    ]
    for value in (10.0, 1e160, -10.0, np.nan, np.inf, -np.inf):
        spoiled = corner._replace(rewards=jnp.full(horizon, value))
        pairs += [
            (spoiled, far, f"hostile: rewards {value}"),
            (spoiled, corner, f"hostile: rewards {value}, same cell"),
        ]
    for value in (-1, states, 2**30):
        lost = corner._replace(states=jnp.full(horizon + 1, value, jnp.int32))
        pairs.append((far, lost, f"hostile: state {value}"))
    pairs.append((far, corner._replace(actions=jnp.full(horizon, actions, jnp.int32)), "hostile: an action too many"))
    draw = np.random.default_rng(seed)
    for index in range(random):
        sides = [
            _episode(
                draw.integers(0, states, horizon + 1), draw.integers(0, actions, horizon), draw.uniform(-0.5, 1.5, horizon)
            )
            for _ in range(2)
        ]  # fmt: skip
        pairs.append((sides[0], sides[1], f"random {index}"))
    if subject.zero_out:
        return [(one, nothing_seen(horizon), f"{origin}, against nothing") for one, _, origin in pairs]
    return pairs


def possible_pair(subject: Subject, world: World, *, seed: int) -> EpisodePair:
    """Two episodes that ``world`` can produce and that are far apart: the best of many drawn pairs.

    How far apart two episodes are is a sum over steps of whether they share a cell, which differing states or actions
    prevent; with uniformly random actions most pairs of a world with several states are near the worst one.
    """
    draw = np.random.default_rng(seed)
    episodes = [_possible_episode(world, draw) for _ in range(1 if subject.zero_out else 24)]
    if subject.zero_out:
        return episodes[0], nothing_seen(world.model.horizon), "trajectories of this world, against nothing"
    pairs = [(one, other) for at, one in enumerate(episodes) for other in episodes[:at]]
    one, other = max(pairs, key=lambda pair: _cells_apart(*pair))
    return one, other, "trajectories of this world"


def _possible_episode(world: World, draw: np.random.Generator) -> Episode:
    possible = np.broadcast_to(
        np.asarray(world.transitions) > 0,
        (world.model.horizon, world.model.states, world.model.actions, world.model.states),
    )
    means = np.broadcast_to(np.asarray(world.mean_rewards), possible.shape[:3])
    states = [int(draw.choice(np.flatnonzero(np.asarray(world.model.initial) > 0)))]
    actions, rewards = [], []
    for h in range(world.model.horizon):
        action = int(draw.integers(world.model.actions))
        mean = float(means[h, states[-1], action])
        rewards.append(float(mean > 0) if world.reward_kind == "bernoulli" else mean)
        actions.append(action)
        states.append(int(draw.choice(np.flatnonzero(possible[h, states[-1], action]))))
    return _episode(states, actions, rewards)


def _cells_apart(one: Episode, other: Episode) -> float:
    """Steps at which two episodes are in different cells, those of transitions and of rewards included."""
    a, b = (tuple(np.asarray(field) for field in side) for side in (one, other))
    pair = (a[0][:-1] != b[0][:-1]) | (a[1] != b[1])
    onward = pair | (a[0][1:] != b[0][1:])
    return float(pair.sum() + onward.sum() + np.where(pair, a[2] + b[2], np.abs(a[2] - b[2])).sum() / 2)


def _episode(states: Any, actions: Any, rewards: Any) -> Episode:
    return Episode(
        jnp.asarray(np.asarray(states), jnp.int32),
        jnp.asarray(np.asarray(actions), jnp.int32),
        jnp.asarray(np.asarray(rewards, float)),
    )
