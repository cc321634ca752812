# SPDX-License-Identifier: Apache-2.0
"""The adversary that joint differential privacy names: all *other* users together, who see the actions shown to them.

A trial is a whole run of the agent in its world. The canary is the first user; everyone else behaves as the world has it.
What the others see is summarised by how often each action was shown in each state in each later round; a logistic
classifier learns on one half of the trials to tell the two worlds apart, and its scores on the other half are the
evidence. By the billboard lemma it can do no better than the adversary who sees all releases.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.optimize import minimize

from reticent.audit.subject import Subject
from reticent.learning.aggregator import PyTree
from reticent.learning.capabilities import visits_of
from reticent.learning.learner import AnyLearner
from reticent.learning.plan import AnyPlan
from reticent.privacy.neighbouring_datasets import Pair, Scores, Tell, realised_strength
from reticent.runtime import double_precision
from reticent.worlds import Episode
from reticent.worlds.episode import by_visit

__all__ = ["Rollout", "play_actions"]

Rollout = Callable[[AnyLearner, Any, AnyPlan, Array], Episode]
"""``(agent, world, plan, uniforms)`` to an episode: :func:`reticent.simulation.rollout.rollout`."""

LIVE_USERS = 6_000
"""Users whose episodes are alive at a time, which bounds the memory of a batch."""


@double_precision
def play_actions(
    subject: Subject,
    pair: Pair[PyTree],
    world: Any,
    rollout: Rollout,
    trials: int,
    seed: int,
    *,
    tell: Tell | None = None,
) -> Scores:
    """Held-out scores, of about half of ``trials`` trials each, without and with the canary."""
    agent = subject.agent
    batch = max(1, min(trials, LIVE_USERS // int(agent.schedule.round_sizes.max())))
    root = jax.random.key(seed)
    sides = []
    done = 0
    for arm, seen in enumerate((pair.replacement, pair.canary)):
        own = jax.random.fold_in(root, arm)
        parts = []
        for start in range(0, trials, batch):
            key = jax.random.fold_in(own, start)
            parts.append(np.asarray(_histograms(agent, world, seen, key, rollout, batch)))
            done += min(batch, trials - start)
            if tell is not None:
                tell(done)
        sides.append(np.concatenate(parts)[:trials])
    half = trials // 2
    weights = _logistic(sides[0][:half], sides[1][:half])
    possible = realised_strength(subject.sums, pair) * subject.exposure
    return Scores(sides[0][half:] @ weights, sides[1][half:] @ weights, possible)


@functools.partial(jax.jit, static_argnames=("rollout", "batch"))
def _histograms(agent: AnyLearner, world: Any, seen: PyTree, key: Array, rollout: Rollout, batch: int) -> Array:
    """``(batch, rounds - 1, S · A)`` flattened: counts of actions shown to others, per later round and state."""
    return jax.vmap(lambda own: _a_run(agent, world, seen, own, rollout))(jax.random.split(key, batch))


def _a_run(agent: AnyLearner, world: Any, seen: PyTree, key: Array, rollout: Rollout) -> Array:
    model, privatizer = agent.model, agent.aggregator
    users, own_noise, round_noise = jax.random.split(key, 3)

    def play(plan: AnyPlan, number: Array, place: Array) -> tuple[Array, Array]:
        plan = agent.served(plan, place)
        draws = visits_of(agent) * (1 + 3 * model.horizon)
        uniforms = jax.random.uniform(jax.random.fold_in(users, number), (draws,))
        episode = rollout(agent, world, plan, uniforms)
        noise = privatizer.simulate_user_noise(jax.random.fold_in(own_noise, number))
        report = agent.report(plan, episode, noise)
        canary = privatizer.report(seen, noise)
        pairs = by_visit(episode, visits_of(agent)).states[:, :-1].ravel() * model.actions + episode.actions
        shown = jnp.zeros(model.states * model.actions, jnp.float32).at[pairs].add(1.0)
        return jnp.where(number == 0, canary, report), jnp.where(number == 0, 0.0, shown)

    def a_round(carry: tuple[Any, AnyPlan], numbers: Array, t: Array, size: int) -> tuple[tuple[Any, AnyPlan], Array]:
        state, plan = carry
        reports, shown = jax.vmap(play, in_axes=(None, 0, 0))(plan, numbers, jnp.arange(len(numbers)))
        state = agent.absorb(state, reports.sum(axis=0))
        noise = privatizer.simulate_round_noise(jax.random.fold_in(round_noise, t))
        state = agent.close(state, plan, size, noise)
        return (state, agent.plan(state)), shown.sum(axis=0)

    start = agent.init(), agent.plan(agent.init())
    schedule = agent.schedule
    if schedule.sizes is None:
        index = jnp.arange(schedule.episodes)
        _, counts = jax.lax.scan(lambda carry, t: a_round(carry, t[None], t, 1), start, index)
        return counts[1:].ravel()
    carry, seen_counts, first = start, [], 0
    for t, size in enumerate(schedule.sizes):
        carry, count = a_round(carry, first + jnp.arange(size), jnp.asarray(t), size)
        seen_counts.append(count)
        first += size
    return jnp.concatenate(seen_counts[1:]) if len(seen_counts) > 1 else jnp.zeros(1, jnp.float32)


def _logistic(without: np.ndarray, present: np.ndarray, ridge: float = 1e-3) -> np.ndarray:
    """Weights of a ridge logistic regression on standardised features."""
    features = np.concatenate([without, present]).astype(np.float64)
    centre, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 0, scale, np.inf)
    x = (features - centre) / scale
    label = np.repeat([-1.0, 1.0], [len(without), len(present)])

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margin = label * (x @ weights)
        slope = -label / (1 + np.exp(np.clip(margin, -500, 500)))
        value = np.logaddexp(0, -margin).mean() + ridge / 2 * weights @ weights
        return float(value), x.T @ slope / len(x) + ridge * weights

    fitted = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return np.asarray(fitted.x / scale)
