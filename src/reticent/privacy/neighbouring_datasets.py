# SPDX-License-Identifier: Apache-2.0
r"""Two users in one place: how far apart their contributions are, and what was measured by trying to tell them apart.

Everything an audit and a family of agents tell each other is here, so that neither has to know the other: an agent's
family proposes a :class:`Pair` of neighbours, the audit asks for :class:`Scores` and gets a :class:`Replay`.

How far apart two users are is the *strength* of one item: the distance of their reports in units of the noise on each
coordinate, in the norm that the noise is charged in. Under Gaussian noise that is μ, under Laplace noise ε. It goes
through the agent's own ``report``, so that a clip that is missing shows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.learning.aggregator import PyTree
from reticent.learning.plan import AnyPlan
from reticent.privacy.degenerate_noise import DegenerateCount
from reticent.privacy.sums import PrivateSums
from reticent.runtime import double_precision

__all__ = [
    "Group",
    "Pair",
    "Replay",
    "Scores",
    "Tell",
    "User",
    "against",
    "cost_of",
    "in_noise",
    "length_of",
    "realised_strength",
    "realised_strengths",
    "report_of",
]

Seen = TypeVar("Seen")

User: TypeAlias = Callable[[AnyPlan], PyTree]
"""A user's data: what the agent sees under any plan that the user is shown."""

Tell: TypeAlias = Callable[[int], None]
"""Told how many trials are done."""


class Pair(NamedTuple, Generic[Seen]):
    """Two users who may differ in everything: the ``canary`` took part, or the ``replacement`` in the same place.

    ``origin`` says who proposed it.
    """

    canary: Seen
    replacement: Seen
    origin: str


@dataclasses.dataclass(frozen=True)
class Scores:
    """What an adversary computed in trials without and with the canary; larger scores speak for the canary.

    Attributes:
      possible: the strength that this canary can show in principle: μ, or ε where the promise has no δ.
      degenerate: how often noise was missing or repeated, where the adversary can see it.
    """

    without: np.ndarray
    present: np.ndarray
    possible: float
    degenerate: tuple[DegenerateCount, ...] = ()


class Group(NamedTuple):
    """How far one declared group of sums of one step moved: against its sensitivity, and in units of its noise."""

    name: str
    step: int
    moved: float
    declared: float
    strength: float


@dataclasses.dataclass(frozen=True)
class Replay:
    """What a replay measured. ``findings`` is empty if the promise held for this pair of sequences.

    Attributes:
      realised: the strength that this pair has, all releases together: μ, or ε under Laplace noise.
      promised: what the promise allows.
      groups: the movement by declared group and step, where sums are declared.
      exposure: the largest measured exposure of any round, and ``exposure_declared`` what the ledger counts.
    """

    findings: tuple[str, ...]
    realised: float
    promised: float
    groups: tuple[Group, ...] = ()
    exposure: float = 1.0
    exposure_declared: float = 1.0


def against(pairs: list[Pair[Seen]], nothing: Seen) -> list[Pair[Seen]]:
    """The same canaries under zero-out adjacency: each against a user who contributes nothing."""
    return [Pair(pair.canary, nothing, f"{pair.origin}, against nothing") for pair in pairs]


@double_precision
def report_of(sums: PrivateSums, seen: PyTree) -> Array:
    """The agent's own report of an observation, with the noise that users add themselves set to zero."""
    silence = jnp.zeros_like(sums.noise_scale) if sums.trust.noised_reports else None
    return sums.report(seen, silence)


def in_noise(moved: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """``moved / scale`` where 0/0 is 0 and anything else over no noise is infinite."""
    moved, scale = np.broadcast_arrays(np.asarray(moved, float), scale)
    bare = np.where(moved == 0, 0.0, np.inf)
    with np.errstate(all="ignore"):
        return np.where(scale > 0, moved / np.where(scale > 0, scale, 1.0), bare)


def length_of(sums: PrivateSums, moved: np.ndarray) -> float:
    """The norm of a movement that noise of this law is charged for."""
    return float(np.linalg.norm(np.ravel(moved), ord=1 if sums.law == "laplace" else 2))


def cost_of(sums: PrivateSums, moved: np.ndarray) -> float:
    """What one item's movement ``(H, D)`` costs, in units of the noise on each coordinate."""
    return length_of(sums, in_noise(moved, np.asarray(sums.noise_scale)))


@double_precision
def realised_strength(sums: PrivateSums, pair: Pair[Any]) -> float:
    """How far the pair's reports are apart, in units of the noise: the strength of one item; a counter multiplies it."""
    with np.errstate(all="ignore"):  # without a clip there may be infinities
        sides = [np.asarray(report_of(sums, side)) for side in (pair.canary, pair.replacement)]
        return cost_of(sums, sides[0] - sides[1])


@double_precision
def realised_strengths(sums: PrivateSums, pairs: list[Pair[Any]]) -> np.ndarray:
    """:func:`realised_strength` of many pairs of one structure at once; what is no number counts as infinite."""
    stacked = [
        jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *side)
        for side in ([pair.canary for pair in pairs], [pair.replacement for pair in pairs])
    ]
    with np.errstate(all="ignore"):
        canaries, others = (np.asarray(jax.vmap(lambda seen: report_of(sums, seen))(side)) for side in stacked)
        white = in_noise(canaries - others, np.asarray(sums.noise_scale)).reshape(len(pairs), -1)
        strengths = np.linalg.norm(white, ord=1 if sums.law == "laplace" else 2, axis=1)
    return np.where(np.isnan(strengths), np.inf, strengths)
