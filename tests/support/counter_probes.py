# SPDX-License-Identifier: Apache-2.0
"""Linear probes: feed a counter unit vectors, and read off the matrices that define it."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from reticent.privacy.counters import COUNTERS, BltCounter, EpochCounter, ToeplitzCounter, TreeCounter, make_counter

BUILT_IN = ("blt", "epochs", "toeplitz", "tree", "tree-reduced")


def all_counters(n: int) -> list:
    """One of each protecting counter, of n rounds, and of each that a plugin registered; epoch sizes are neither equal nor
    sorted."""
    sizes = tuple(1 + (7 * i) % 11 for i in range(n))
    return [
        TreeCounter(n),
        TreeCounter(n, "reduced"),
        ToeplitzCounter(n),
        BltCounter(n),
        BltCounter(n, buffers=3),
        EpochCounter(sizes),
        *(make_counter(name, sizes) for name in COUNTERS if name not in BUILT_IN),
    ]


def label(counter) -> str:
    return f"{counter.name}-{counter.rounds}-{counter.memory}"


@functools.partial(jax.jit, static_argnums=0)
def releases(counter, items, noise):
    """All releases for a stream of items and noise (leading axis: rounds), by ``scan`` under ``jit``."""

    def one_round(state, drawn):
        state = counter.close(state, *drawn)
        return state, counter.release(state)

    return jax.lax.scan(one_round, counter.init(items.shape[1:], items.dtype), (items, noise))[1]


def target_matrix(counter) -> np.ndarray:
    """A: what release t is, without noise, in terms of the items; written from the definition."""
    weights = counter.weights()
    if weights is None:
        return np.tril(np.ones((counter.rounds, counter.rounds)))
    return np.array(
        [
            [weights[i] / max(weights[: t + 1]) if i <= t else 0.0 for i in range(counter.rounds)]
            for t in range(counter.rounds)
        ]
    )


@functools.partial(jax.jit, static_argnums=0)
def states(counter, items, noise):
    """What the state holds after every round, (rounds, arrays, ...): all its arrays that have an item's axes."""

    def one_round(state, drawn):
        state = counter.close(state, *drawn)
        held = [leaf.reshape(-1, *items.shape[1:]) for leaf in jax.tree.leaves(state) if leaf.ndim]
        return state, jnp.concatenate(held)

    return jax.lax.scan(one_round, counter.init(items.shape[1:], items.dtype), (items, noise))[1]


def unit_stream(counter) -> tuple[jax.Array, jax.Array]:
    """Every item and every noise draw as a coordinate of its own, noise draws ordered by round."""
    n = counter.rounds
    draws = n * math.prod(counter.noise_shape_prefix)
    items = np.concatenate([np.eye(n), np.zeros((n, draws))], axis=1)
    noise = np.concatenate([np.zeros((draws, n)), np.eye(draws)], axis=1)
    return jnp.asarray(items), jnp.asarray(noise.reshape(n, *counter.noise_shape_prefix, -1))


@functools.cache
def probed(counter) -> tuple[np.ndarray, np.ndarray]:
    """A and B, measured: the releases in terms of the items and of the noise draws, which are ordered by round."""
    seen = np.array(releases(counter, *unit_stream(counter)))
    seen.flags.writeable = False
    return seen[:, : counter.rounds], seen[:, counter.rounds :]


def probed_states(counter) -> tuple[np.ndarray, np.ndarray]:
    """The state after every round in terms of the items and of the noise draws, ``(rounds, arrays, ...)`` each."""
    seen = np.array(states(counter, *unit_stream(counter)))
    return seen[..., : counter.rounds], seen[..., counter.rounds :]


def probed_noise(counter) -> np.ndarray:
    """B, measured, shape (n, draws)."""
    return probed(counter)[1]


@functools.cache
def strategy(counter) -> np.ndarray:
    """C with B C = A, rows in the order of the noise: what the noise protects."""
    if counter.name != "tree-reduced":
        return np.linalg.solve(probed_noise(counter), target_matrix(counter))
    n, levels = counter.rounds, counter.levels
    incidence = np.zeros((n, levels, n))
    for end in range(1, n + 1):
        for level in range(levels):
            if end % 2**level == 0:
                incidence[end - 1, level, end - 2**level : end] = 1
    return incidence.reshape(n * levels, n)
