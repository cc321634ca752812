# SPDX-License-Identifier: Apache-2.0
"""Exact values of a finite world, by dynamic programming: compiled functions of arrays, not methods.

A scan over a closure would be compiled anew for every call, and a world's name is no reason for another program.

``rows`` are probabilities of the next state ``(H or 1, S, A, S)``, or of ``successors`` ``(S, A, n)`` where they are given,
then ``(H or 1, S, A, n)``; ``means`` are the mean rewards ``(H or 1, S, A)``.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import Array

from reticent.runtime import unrolling

LARGEST_UNROLLED = 10**5
"""Loops over the steps of worlds with so many entries at most are written out in programs for accelerators."""


def row_of(array: Array, step: Array) -> Array | int:
    """Where ``step`` is found on the leading axis of rows that may be the same at every step."""
    return step if array.shape[0] > 1 else 0


def backup_of(rows: Array, means: Array, successors: Array | None, step: Array, following: Array) -> Array:
    """One backup: Q_h ``(S, A)`` from V_{h+1} ``(S,)``."""
    chances, reward = rows[row_of(rows, step)], means[row_of(means, step)]
    if successors is None:
        return reward + chances @ following
    return reward + (chances * following[successors]).sum(axis=-1)


@jax.jit
def evaluate(rows: Array, means: Array, successors: Array | None, policy: Array) -> Array:
    """V^π ``(H + 1, S)`` of choices ``(H, S)`` or probabilities ``(H, S, A)``."""
    everywhere = jnp.arange(rows.shape[1])

    def chosen(following: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
        step, action = at
        chances, reward = (array[row_of(array, step), everywhere, action] for array in (rows, means))
        if successors is None:
            values = reward + (chances * following).sum(axis=-1)
        else:
            values = reward + (chances * following[successors[everywhere, action]]).sum(axis=-1)
        return values, values

    def averaged(following: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
        step, weights = at
        values = (backup_of(rows, means, successors, step, following) * weights).sum(axis=-1)
        return values, values

    if policy.ndim == 2:
        backup, steps = chosen, policy
    else:
        backup, steps = averaged, policy.astype(rows.dtype)
    end = jnp.zeros(rows.shape[1], rows.dtype)
    # Not a sparse world: XLA would compute a value anew for each of the n gathers that read it, n^H times in all.
    unroll = unrolling(len(steps)) if successors is None and rows[0].size <= LARGEST_UNROLLED else 1
    _, values = jax.lax.scan(backup, end, (jnp.arange(len(steps)), steps), reverse=True, unroll=unroll)
    return jnp.concatenate([values, end[None]])


@functools.partial(jax.jit, static_argnames="horizon")
def optimal_action_values(rows: Array, means: Array, successors: Array | None, horizon: int) -> Array:
    """Q* ``(H, S, A)`` by value iteration."""

    def backup(following: Array, step: Array) -> tuple[Array, Array]:
        table = backup_of(rows, means, successors, step, following)
        return table.max(axis=-1), table

    end = jnp.zeros(rows.shape[1], rows.dtype)
    return jax.lax.scan(backup, end, jnp.arange(horizon), reverse=True)[1]


@jax.jit
def expected_return(initial: Array, values: Array) -> Array:
    """V_1 ``(H + 1, S)`` where episodes begin."""
    return initial @ values[0]


@jax.jit
def best_return(initial: Array, table: Array) -> Array:
    """V_1 of Q* ``(H, S, A)`` where episodes begin."""
    return initial @ table[0].max(axis=-1)


@functools.partial(jax.jit, static_argnames="shape")
def dense(rows: Array, successors: Array | None, shape: tuple[int, int, int, int]) -> Array:
    """``rows`` with every state as a successor, of every step."""
    if successors is not None:
        state, action = jnp.ogrid[: shape[1], : shape[2]]
        place = (slice(None), state[..., None], action[..., None], successors)
        rows = jnp.zeros((len(rows), *shape[1:]), rows.dtype).at[place].add(rows)
    return jnp.broadcast_to(rows, shape)
