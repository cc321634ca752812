# SPDX-License-Identifier: Apache-2.0
"""The seeds of a simulation, in groups that run on the cores of a machine side by side.

An accelerator runs all seeds as one program. XLA's programs for a CPU keep little more than one core busy, so there seeds
are cut into groups of a few dozen, which threads run one each. The groups depend on the number of seeds alone,
not on the number of cores: the same seeds give the same numbers on any number of them.
"""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.learning.learner import AnyLearner
from reticent.runtime import double_precision, wake_devices
from reticent.simulation import engine
from reticent.simulation.engine import Block, Carry, Shape
from reticent.simulation.rollout import streams
from reticent.simulation.world_batch import AnyPlace, WorldBatch

LEAST, MOST = 8, 32
"""Seeds of a group on a CPU: enough to vectorise over, few enough that the usual 16 are two groups. Where users of a round
are rolled out side by side there is enough to vectorise over anyway, and the least keeps a block in the cache."""


class SeedBatches:
    """All seeds of a simulation: their carries, and the program that advances them.

    ``resume`` is a carry of all seeds, every leaf with leading axes ``(settings, seeds)``; it is copied.
    """

    def __init__(
        self, agents: AnyLearner, place: AnyPlace, seeds: Sequence[int], shape: Shape, resume: Carry | None
    ) -> None:
        wake_devices()
        self._agents, self._count, self._shape = agents, len(seeds), shape
        size = group_size(len(seeds), MOST if shape.width == 1 else LEAST)
        groups = -(-len(seeds) // size)
        # The last group is filled up with a seed that is there already, so that all are one program; it is not read.
        filled = np.pad(np.asarray(seeds, dtype=np.uint32), (0, groups * size - len(seeds)), mode="edge")
        self._keys = [jax.vmap(streams)(jnp.asarray(part)) for part in filled.reshape(groups, size)]
        members = np.minimum(np.arange(groups * size), len(seeds) - 1).reshape(groups, size)
        # With a truth for every seed, each group has its own ones.
        self._places = [place.some(at) if isinstance(place, WorldBatch) else place for at in members]
        if resume is None:
            self._carries = [
                engine.begin(agents, own, keys) for own, keys in zip(self._places, self._keys, strict=True)
            ]
        else:
            self._carries = [jax.tree.map(lambda leaf, at=at: leaf[:, at], resume) for at in members]

    def compile(self, segment: Block) -> None:
        """Compile the program for segments of this length, apart from running it."""
        first = (self._agents, self._places[0], self._keys[0], self._carries[0], segment, jnp.asarray(0))
        self._program = engine.compiled(first, self._shape)

    def advance(self, segment: Block, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The next ``count`` blocks of all seeds; regret and value of each, ``(blocks, settings, seeds)``."""

        @double_precision  # a scope belongs to its thread
        def one(number: int) -> tuple[Array, Array]:
            self._carries[number], curves = self._program(
                self._agents,
                self._places[number],
                self._keys[number],
                self._carries[number],
                segment,
                jnp.asarray(count),
            )
            return jax.block_until_ready(curves)  # type: ignore[no-any-return]

        if len(self._keys) == 1:
            found = [one(0)]
        else:
            with concurrent.futures.ThreadPoolExecutor(workers()) as pool:
                found = list(pool.map(one, range(len(self._keys))))
        regret, value = (np.concatenate(parts, axis=2)[..., : self._count] for parts in zip(*found, strict=True))
        return regret, value

    def play_unlearned(self) -> None:
        """One more user each, not learned from: only the regret grows."""
        self._carries = [
            carry._replace(regret=carry.regret + (place.optimal_policy_value() - carry.value))
            for place, carry in zip(self._places, self._carries, strict=True)
        ]

    @property
    def carry(self) -> Carry:
        """The carry of all seeds."""

        def join(*leaves: Any) -> Array:
            return jnp.concatenate(leaves, axis=1)[:, : self._count]

        together: Carry = self._carries[0] if len(self._carries) == 1 else jax.tree.map(join, *self._carries)
        return together


def group_size(seeds: int, most: int) -> int:
    """Seeds of a group: all of them on an accelerator, else half of them, within :data:`LEAST` and ``most``."""
    if jax.default_backend() != "cpu":
        return seeds
    groups = -(-seeds // min(most, max(LEAST, -(-seeds // 2))))
    return -(-seeds // groups)


def workers() -> int:
    """How many groups run at once: one per core, but no more than XLA's threads have room for (:mod:`reticent.runtime`)."""
    return max(1, min(len(os.sched_getaffinity(0)), wake_devices() // 4))
