# SPDX-License-Identifier: Apache-2.0
"""A regularizer for tests: noise that is written down beforehand."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from reticent.agents.linear_mixture.statistics import Observation, Statistics, products


class ScriptState(NamedTuple):
    closed: Statistics
    open: Statistics
    rounds: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ScriptedRegularizer:
    """Adds a written-down sequence (Z^k, z^k) to the true sums: what a privatizer does, without the privacy."""

    script: Statistics
    pooled = False

    def init(self) -> ScriptState:
        zero = jax.tree.map(lambda leaf: jnp.zeros_like(leaf[0]), self.script)
        return ScriptState(zero, zero, jnp.zeros((), jnp.int32))

    def report(self, seen: Observation, noise: Any) -> Statistics:
        return products(seen)

    def absorb(self, state: ScriptState, report: Statistics) -> ScriptState:
        return state._replace(open=jax.tree.map(jnp.add, state.open, report))

    def close(self, state: ScriptState, noise: Any) -> ScriptState:
        closed = jax.tree.map(jnp.add, state.closed, state.open)
        return ScriptState(closed, jax.tree.map(jnp.zeros_like, closed), state.rounds + 1)

    def released(self, state: ScriptState) -> Statistics:
        return jax.tree.map(lambda total, row: total + row[state.rounds], state.closed, self.script)

    def simulate_user_noise(self, key: jax.Array) -> None:
        return None

    def simulate_round_noise(self, key: jax.Array) -> None:
        return None
