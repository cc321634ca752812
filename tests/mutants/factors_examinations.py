# SPDX-License-Identifier: Apache-2.0
"""Examinations of devices that learn their own user's tastes: what a user is shown and sends is theirs alone."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from examinations import Examination, _named, agent_of

from reticent.agents import make_agent
from reticent.runtime import double_precision
from reticent.worlds import Episode
from reticent.worlds.tastes import random_tastes

NAME = "private-factors"


def _device(about: str) -> Any:
    return lambda examine: _named(double_precision(examine), "device", {"factors": about})


def _life(agent: Any, plan: Any, rewards: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The items that a user with these rewards is shown, and the vector that they send."""
    memory, shown = agent.empty_memory(plan), []
    state = jnp.zeros((), int)
    for step, reward in enumerate(rewards):
        item = agent.act_from(plan, memory, step, state, 0.0)
        memory = agent.remember(plan, memory, state, item, jnp.asarray(reward), state)
        shown.append(item)
    episode = Episode(jnp.zeros(len(rewards) + 1, int), jnp.stack(shown), jnp.asarray(rewards))
    return np.asarray(episode.actions), np.asarray(agent.report(plan, episode, None))


@_device("own")
def own() -> list[str]:
    """The items and the vector of one user after users of opposite tastes, under one plan: the same."""
    agent = make_agent(NAME, random_tastes(items=30, factors=2, horizon=2, strength=0.5).model, 4)
    plan, found = agent.plan(agent.init()), []
    for earlier in ((0.0, 0.0), (1.0, 1.0)):
        _life(agent, plan, earlier)
        found.append(_life(agent, plan, (0.9, 0.2)))
    return [
        f"{what} depend on an earlier user's data"
        for what, one, other in zip(("items", "vectors"), *found, strict=True)
        if not np.array_equal(one, other)
    ]


@_device("clip")
def clipped() -> list[str]:
    """Whatever a user's rewards are, the contribution has length 1 at the most."""
    agent = agent_of(NAME, 4)
    plan = agent.plan(agent.init())
    narrow = plan._replace(
        extension=plan.extension._replace(rule=plan.extension.rule._replace(radius=jnp.asarray(1e-3)))
    )
    lengths = [np.linalg.norm(_life(agent, narrow, rewards)[1]) for rewards in ((0.0, 1.0), (1.0, 1.0), (1e9, -1e9))]
    return [] if max(lengths) <= 1 + 1e-12 else ["a vector leaves the device unclipped"]


@_device("prior")
def served() -> list[str]:
    """The vector of a user is that of the mean that they were served, whatever was published before or after."""
    agent = agent_of(NAME, 4)
    plans = []
    for mean in ((0.0, 0.0), (0.5, -0.5)):
        state = agent.init()
        plans.append(agent.plan(state._replace(past=state.past._replace(mean=jnp.asarray(mean)))))
    episode = Episode(jnp.zeros(3, int), jnp.array([0, 1]), jnp.array([0.8, 0.1]))
    items, findings = agent.items, []
    for plan in plans:
        rule, mean = plan.extension.rule, np.asarray(plan.extension.mean)
        load, noise = np.asarray(items.loadings)[:2], np.asarray(items.noise)[:2]
        rest = np.array([0.8, 0.1]) - np.asarray(items.intercepts)[:2]
        known = np.linalg.solve(np.eye(2) + load.T @ (load / noise[:, None]), mean + load.T @ (rest / noise))
        wanted = (known - mean) @ np.asarray(rule.whiten) / float(rule.radius)
        if not np.allclose(agent.statistic(plan, episode), wanted, rtol=1e-7):
            findings.append("a vector is not the score of the mean that its user was served")
    return findings


EXAMINATIONS: tuple[Examination, ...] = (own, clipped, served)
