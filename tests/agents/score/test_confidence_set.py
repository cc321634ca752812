# SPDX-License-Identifier: Apache-2.0
"""The proven confidence set of docs/theory/score-vi.md: it covers the truth, is not everything, and needs its noise."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from reticent.agents import make_agent
from reticent.runtime import double_precision
from reticent.simulation.rollout import episode_uniforms, rollout
from reticent.worlds import blend, make_world

WORLD = make_world("random-blend:states=4,actions=2,horizon=2,d=3")
USERS, RUNS, REPLICAS, ALPHA = 4000, 32, 4000, 0.2


@functools.cache
@double_precision
def misfits(epsilon: float) -> tuple[dict[str, np.ndarray], np.ndarray, float, int]:
    """‖Y_t − m_t‖² by run and round under the truth and under the candidate that it has least of; sizes, σ and D."""
    agent = make_agent(f"private-score-vi:epsilon={epsilon:g}", WORLD.model, USERS)
    model, sizes, sigma = agent.model, agent.schedule.sizes, float(np.asarray(agent.noise_scale).ravel()[0])
    corners = [
        np.eye(3)[np.asarray(theta).reshape(-1, 3)[0].argmin()]
        for theta in (WORLD.transition_theta, WORLD.reward_theta)
    ]
    tables = np.asarray(model.reward_features) * model.reward_total
    other = blend(model.transition_features, tables, *corners, model.horizon, initial=model.initial)

    def reports(world, plan, key, count, place_of):
        def user(number):
            served = agent.served(plan, place_of(number))
            episode = rollout(agent, world, served, episode_uniforms(key, number, model.horizon))
            return agent.report(served, episode).reshape(-1)

        return jax.vmap(user)(jnp.arange(count))

    def expected(world, plan, key, size):
        """m_t by simulation: explorers and users of the greedy plan apart, as the round has them."""
        explorers = jnp.minimum(plan.extension.explorers, size)
        exploring = reports(world, plan, key, REPLICAS, lambda _: 0).mean(axis=0)
        greedy = reports(world, plan, jax.random.fold_in(key, 1), REPLICAS, lambda _: size - 1).mean(axis=0)
        return explorers * exploring + (size - explorers) * greedy

    @jax.jit
    def a_round(state, key, size):
        users, noise, replicas = jax.random.split(key, 3)
        plan = agent.plan(state)
        seen = reports(WORLD, plan, users, max(sizes), lambda number: number)
        total = jnp.where(jnp.arange(max(sizes))[:, None] < size, seen, 0.0).sum(axis=0)
        drawn = sigma * jax.random.normal(noise, total.shape)
        off = [((total + drawn - expected(world, plan, replicas, size)) ** 2).sum() for world in (WORLD, other)]
        return agent.close(agent.absorb(state, total[None]), plan, size, drawn[None]), jnp.stack(off)

    many = jax.jit(jax.vmap(a_round, in_axes=(0, 0, None)))
    state = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (RUNS, *leaf.shape)), agent.init())
    keys, found = jax.random.split(jax.random.key(7), RUNS), []
    for number, size in enumerate(sizes):
        state, off = many(state, jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number), size)
        found.append(np.asarray(off))
    stacked = np.stack(found, axis=1)
    return {"truth": stacked[..., 0], "other": stacked[..., 1]}, np.array(sizes), sigma, agent.dimension


def covered(off: np.ndarray, sizes: np.ndarray, sigma: float, dimension: int) -> np.ndarray:
    """Whether both sets of the page hold a parameter: every round's ball, and the least-squares sum after every round.

    The simulation of m_t is part of the proxy: (explorers² + others²)/N ≤ n²/N.
    """
    proxy, rounds = sizes + sigma**2 + sizes**2 / REPLICAS, len(sizes)
    level = math.log(2 * rounds / ALPHA)
    ratio = off / proxy

    def radius(numbers: np.ndarray | int) -> np.ndarray:
        return numbers + 2 * np.sqrt(np.asarray(numbers) * level) + 2 * level

    single = (ratio <= radius(dimension)).all(axis=1)
    summed = (ratio.cumsum(axis=1) <= radius(dimension * np.arange(1, rounds + 1))).all(axis=1)
    return single & summed


@pytest.mark.verify
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_the_truth_is_in_the_set_at_all_rounds(epsilon: float) -> None:
    """Of 32 runs each misses with probability at most α = 0.2: false alarm 1e-6."""
    off, sizes, sigma, dimension = misfits(epsilon)
    missed = RUNS - int(covered(off["truth"], sizes, sigma, dimension).sum())
    assert missed <= binom.isf(1e-6, RUNS, ALPHA)


@pytest.mark.verify
def test_a_set_without_the_noise_would_be_noticed() -> None:
    """With σ left out of the proxy the test above must fail at a small ε."""
    off, sizes, _, dimension = misfits(0.3)
    missed = RUNS - int(covered(off["truth"], sizes, 0.0, dimension).sum())
    assert missed > binom.isf(1e-6, RUNS, ALPHA)


@pytest.mark.verify
def test_the_set_is_not_everything() -> None:
    """One of the candidates alone is outside in nearly all runs at ε = 3."""
    off, sizes, sigma, dimension = misfits(3.0)
    assert covered(off["other"], sizes, sigma, dimension).sum() <= RUNS / 8


def test_a_small_mean_vector_means_a_kept_promise() -> None:
    """Δ² ≤ 2HW‖E u‖ of Proposition 2, by exact occupancies in random blends; never far from equality in all of them."""
    draw, ratios = np.random.default_rng(0), []
    for _ in range(200):
        states, actions, horizon, d = 3, 2, 3, 2
        P, r = draw.dirichlet(np.ones(states), (d, states, actions)), draw.uniform(size=(d, states, actions))
        truth, model = draw.dirichlet(np.ones(d), (2, 2))  # each: weights of transitions, of rewards
        V, policy = np.zeros((horizon + 1, states)), np.zeros((horizon, states), int)
        for h in reversed(range(horizon)):
            Q = np.tensordot(model[1], r, 1) + np.tensordot(model[0], P, 1) @ V[h + 1]
            policy[h], V[h] = Q.argmax(axis=1), Q.max(axis=1)
        w, where, promised = truth - model, np.eye(states)[0], V[0, 0]
        mean, earned = np.zeros((2, d)), 0.0
        for h in range(horizon):
            here = np.arange(states), policy[h]
            x = np.stack([P[:, here[0], here[1]] @ V[h + 1], r[:, here[0], here[1]]])  # (2, d, S)
            x = x - x.mean(axis=1, keepdims=True)
            mean += np.einsum("bds,bes,be,s->bd", x, x, w, where)
            earned += where @ np.tensordot(truth[1], r, 1)[here]
            where = where @ np.tensordot(truth[0], P, 1)[here]
        W = 2.0
        ratios.append((promised - earned) ** 2 / (2 * horizon * W * np.linalg.norm(mean)))
    assert max(ratios) <= 1
    assert max(ratios) > 0.05
