# SPDX-License-Identifier: Apache-2.0
"""Where learning and privacy meet: users' contributions in, released numbers out.

A learner never reads raw sums. It hands what it saw of an episode to an *aggregator* and gets back what may be known of all
episodes so far. Whether an aggregator adds noise, and who does, is its own business; the learner cannot tell.

Data flow of one *round* (one user, or a fixed public number of them)::

    report(seen)             on the user's side: clip, form statistics, add the user's noise if that is the trust model
    absorb(state, report)    on the server: add to the open round's sum
    close(state, noise)      end of the round: the sum enters the running total with its noise
    released(state)          what is released after the last closed round
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, TypeVar

from jax import Array

PyTree: TypeAlias = Any
"""A tree of arrays, as JAX understands it; its structure is its owner's business."""

Noise: TypeAlias = PyTree
"""Noise for one report or one round, in the shape that the aggregator asks for; None where it asks for none."""

Seen_contra = TypeVar("Seen_contra", contravariant=True)
Report = TypeVar("Report")
Released_co = TypeVar("Released_co", covariant=True)


class Aggregator(Protocol[Seen_contra, Report, Released_co]):
    """Takes users' contributions and gives what may be known of them. All methods are pure and jit/vmap/scan-able.

    Its three types: what a learner shows of an episode, what leaves the user, and what the learner plans from.
    """

    def init(self) -> PyTree:
        """The state before any user."""
        ...

    def report(self, seen: Seen_contra, noise: Noise) -> Report:
        """What one user sends, given the user's own noise (ignored where users are not asked to add any)."""
        ...

    def absorb(self, state: PyTree, report: Report) -> PyTree:
        """Add one report, or a sum of reports, to the open round."""
        ...

    def close(self, state: PyTree, noise: Noise) -> PyTree:
        """End the round with its noise (ignored where the server adds none)."""
        ...

    def released(self, state: PyTree) -> Released_co:
        """What the learner plans from, after the last closed round."""
        ...

    def simulate_user_noise(self, key: Array) -> Noise:
        """Noise for one report, for simulation only."""
        ...

    def simulate_round_noise(self, key: Array) -> Noise:
        """Noise for one round, for simulation only."""
        ...
