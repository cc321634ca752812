# SPDX-License-Identifier: Apache-2.0
"""The search for the worst pair of neighbours: those whose reports are farthest apart in units of the noise.

A family proposes what its proof calls worst, what an attacker would try, and random pairs
(:class:`reticent.audit.hooks.Neighbours`). From the random ones the search climbs: gradient ascent on the realised strength
over observations *before* they are clipped, so that a clip that can be got around is got around.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.audit.subject import Subject
from reticent.learning.aggregator import PyTree
from reticent.privacy.neighbouring_datasets import Pair, realised_strength, realised_strengths, report_of
from reticent.runtime import double_precision

__all__ = ["ascend", "realised_mu", "worst_pair"]


@double_precision
def realised_mu(subject: Subject, pair: Pair[PyTree]) -> float:
    """How far the pair's reports are apart, in units of the noise on each coordinate: the strength of one item."""
    return realised_strength(subject.sums, pair)


@double_precision
def worst_pair(
    subject: Subject, *, seed: int = 0, random: int = 16, gradient: bool = True
) -> tuple[Pair[PyTree], float]:
    """The pair of largest strength among all proposals, and that strength (of one item; a counter multiplies it)."""
    proposed = [*subject.neighbours.worst_cases(random, seed)]
    sampled = [*subject.neighbours.random_pairs(random, seed)]
    if gradient and sampled and _is_real(sampled[0]):
        sampled += ascend(subject, sampled)
    proposed += sampled
    strengths = realised_strengths(subject.sums, proposed)
    best = int(np.argmax(strengths))
    return proposed[best], float(strengths[best])


@double_precision
def ascend(subject: Subject, pairs: Sequence[Pair[PyTree]], steps: int = 60) -> list[Pair[PyTree]]:
    """Follow the gradient of the squared distance in units of noise from each pair of real observations."""
    sums, scale = subject.sums, subject.noise_scale
    weight = jnp.asarray(np.where(scale > 0, 1 / np.where(scale > 0, scale, 1.0), 0.0))

    def squared(sides: tuple[PyTree, PyTree]) -> Array:
        moved = report_of(sums, sides[0]) - report_of(sums, sides[1])
        return ((moved * weight) ** 2).sum()

    @jax.jit
    def climb(sides: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        def step(at: tuple[PyTree, PyTree], rate: Array) -> tuple[tuple[PyTree, PyTree], None]:
            slope = jax.grad(squared)(at)
            # Each field moves by its own normalised gradient: their units differ.
            return jax.tree.map(lambda x, g: x + rate * g / (jnp.sqrt((g**2).sum()) + 1e-12), at, slope), None

        return jax.lax.scan(step, sides, jnp.geomspace(0.5, 0.01, steps))[0]

    starts = [[pair.canary for pair in pairs], [pair.replacement for pair in pairs]]
    stacked = tuple(jax.tree.map(lambda *leaves: jnp.stack(leaves), *side) for side in starts)
    reached = jax.vmap(climb)(stacked)
    climbed = []
    for index, pair in enumerate(pairs):
        canary, replacement = jax.tree.map(lambda leaf, i=index: leaf[i], reached)
        if subject.zero_out:
            replacement = subject.neighbours.nothing()
        climbed.append(Pair(canary, replacement, f"gradient from {pair.origin}"))
    return climbed


def _is_real(pair: Pair[PyTree]) -> bool:
    leaves = jax.tree.leaves((pair.canary, pair.replacement))
    return all(jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating) for leaf in leaves)
