# SPDX-License-Identifier: Apache-2.0
r"""Noise that is not there, or that was there before: exact zeros and repeats, which honest noise has (almost) never.

A mechanism that forgets its noise once in a thousand runs looks right in every test of scale or shape, and is
:math:`\delta=10^{-3}`-private at best: an observer of the exact sum, or of two releases with one noise, knows the canary.
Such failures are *point masses*: values that have positive probability where the promised law gives them none.

**What counts.** Given all contributions, the noise that explains a run's releases is known. In units of its scale
it is *missing* where it is 0 up to rounding, and a *repeat* where two of its projections on fixed random directions are
those of another release, in the same run or in another.

**What a count proves.** Let S be the event that the adversary reads the canary's exact contribution off a run. If it has
probability at least p with the canary, while noise that is as promised gives it at most q without, then (ε, δ)-DP demands
:math:`p\le e^\varepsilon q+\delta`. For continuous noise q is the probability of hitting a given number up to rounding,
10⁻⁹ or so; so δ must be p at the least, whatever ε is. On a grid q is the largest probability of a grid point.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

__all__ = [
    "DegenerateCount",
    "DegenerateDraws",
    "HonestNoise",
    "NoiseReader",
    "count_degenerate",
    "make_reader",
    "reader_of_units",
    "tolerance",
]

MISSING, PARTLY, REPEATED = "no noise on a whole release", "no noise on some number", "the noise of another release"


class DegenerateCount(NamedTuple):
    """How often noise was not there, or had been there before, in so many runs.

    Attributes:
      what: what a release had in these runs.
      runs, hits: how many runs there were, and in how many it happened.
      chance: the largest probability that it happens in a run whose noise is as promised.
    """

    what: str
    runs: int
    hits: int
    chance: float


class DegenerateDraws(NamedTuple):
    """What was seen of one run's noise; with leading axes, of many runs'.

    Attributes:
      missing: whether a whole release had none.
      partly: whether some number had none.
      repeated: whether two of its releases had the same.
      mark: two projections of one release's noise, ``(2,)``, by which runs are compared.
    """

    missing: Array
    partly: Array
    repeated: Array
    mark: Array


class NoiseReader(NamedTuple):
    """From a run's releases to its noise.

    Attributes:
      inverse: from releases to the noises that explain them, ``(n, T)``.
      scale: of the noise, ``(H, D)``; 1 where there is to be none.
      active: where there is to be noise, ``(H, D)``.
      directions: two orthonormal directions among the active numbers, ``(2, H, D)``.
      marked: which of the noises is compared between runs.
    """

    inverse: Array
    scale: Array
    active: Array
    directions: Array
    marked: int

    def noise(self, released: Array, noiseless: Array) -> Array:
        """The noise of every release in units of its scale, ``(n, H, D)``."""
        return jnp.tensordot(self.inverse, released - noiseless, axes=1) / self.scale

    def read(self, released: Array, noiseless: Array) -> DegenerateDraws:
        """The point masses of a run that released ``released`` ``(T, H, D)`` and, without noise, would ``noiseless``."""
        noise = self.noise(released, noiseless)
        zero = jnp.abs(noise) <= tolerance(noise.dtype)
        marks = jnp.einsum("nhd,khd->nk", noise, self.directions)
        ordered = marks[jnp.argsort(marks[:, 0])]
        near = (jnp.abs(ordered[1:] - ordered[:-1]) <= tolerance(noise.dtype)).all(axis=-1)
        missing = (zero | ~self.active).all(axis=(1, 2))
        # Two releases without noise are not called repeats as well.
        return DegenerateDraws(
            missing.any(), (zero & self.active).any(), near.any() & ~missing.any(), marks[self.marked]
        )  # fmt: skip


def make_reader(inverse: np.ndarray, scale: np.ndarray, marked: int) -> NoiseReader:
    """A reader of noise of this scale ``(H, D)``; its directions are fixed once and for all."""
    active = scale > 0
    draw = np.random.default_rng(20_240_229).normal(size=(2, *scale.shape)) * active
    first = draw[0] / max(float(np.linalg.norm(draw[0])), 1e-300)
    second = draw[1] - (draw[1] * first).sum() * first
    length = float(np.linalg.norm(second))
    second = second / length if length > 1e-9 else 0 * second
    return NoiseReader(
        inverse=jnp.asarray(inverse),
        scale=jnp.asarray(np.where(active, scale, 1.0)),
        active=jnp.asarray(active),
        directions=jnp.asarray(np.stack([first, second])),
        marked=marked,
    )


def reader_of_units(releases: int, shape: tuple[int, int]) -> NoiseReader:
    """A reader for adversaries who have the noise of every release in units of its scale, ``(releases, *shape)``."""
    return make_reader(np.eye(releases), np.ones(shape), 0)


def tolerance(dtype: np.dtype[Any]) -> float:
    """How near to 0, in units of its scale, noise counts as missing: a million times the rounding of its numbers."""
    return float(2**20 * np.finfo(dtype).eps)


@dataclasses.dataclass(frozen=True)
class HonestNoise:
    """How probable point masses are under the promise: ``numbers`` of a release, each 0 with probability at most ``each``.

    Attributes:
      rounds: releases of a run.
      each: per number that is to have noise, ``(numbers,)``.
      whole: the probability that all of a release's are.
      near: the probability that a projection of a release's noise is that of another, up to rounding.
    """

    rounds: int
    each: np.ndarray
    whole: float
    near: float

    @classmethod
    def of(cls, law: str, scale: np.ndarray, grid: float, rounds: int) -> HonestNoise:
        """Noise of this law and scale ``(H, D)``."""
        active = scale[scale > 0]
        # Densities of the laws here are below 1 in units of their scale, on either side.
        near = 2 * tolerance(scale.dtype)
        if law == "binomial":  # the most probable sum of N coins has less than √(2/πN), and coordinates are independent
            coins = np.maximum(1.0, np.round(4 * (active / grid) ** 2))
            each = np.minimum(1.0, np.sqrt(2 / (math.pi * coins)))
            return cls(rounds, each, math.exp(float(np.log(each).sum())), near)
        return cls(rounds, np.full(active.size, near), near if active.size else 1.0, near)

    def missing(self) -> float:
        """Of a whole release, in some round."""
        return min(1.0, self.rounds * self.whole)

    def partly(self) -> float:
        """On some number, in some round."""
        return min(1.0, self.rounds * float(self.each.sum()))

    def repeated(self, runs: int) -> float:
        """Of a run whose noise is compared with that of ``runs`` others and within itself: both projections agree."""
        pairs = runs + self.rounds**2 / 2
        # On a grid two releases may also be alike number by number.
        alike = self.whole if self.each.max(initial=0.0) > self.near else 0.0
        return float(min(1.0, pairs * (self.near ** min(2, self.each.size) + alike)))


def count_degenerate(runs: list[DegenerateDraws], honest: HonestNoise) -> tuple[DegenerateCount, ...]:
    """The counts over all runs; each element of ``runs`` holds many."""
    missing, partly, repeated, marks = (
        np.concatenate([np.asarray(part) for part in parts]) for parts in zip(*runs, strict=True)
    )
    order = np.argsort(marks[:, 0])
    near = (np.abs(np.diff(marks[order], axis=0)) <= tolerance(marks.dtype)).all(axis=1)
    again = np.zeros(len(marks), bool)
    again[order[1:]] = near
    return (
        DegenerateCount(MISSING, len(marks), int(missing.sum()), honest.missing()),
        DegenerateCount(PARTLY, len(marks), int(partly.sum()), honest.partly()),
        DegenerateCount(REPEATED, len(marks), int(((repeated | again) & ~missing).sum()), honest.repeated(len(marks))),
    )
