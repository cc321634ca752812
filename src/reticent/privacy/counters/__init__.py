"""Counters: the continual release of a running sum. See :mod:`reticent.privacy.counters.counter` for what one is.

:data:`COUNTERS` makes one by name for a number of episodes: ``COUNTERS.make("blt", 10_000)``. To add a counter, write
its file and register its factory here.
"""

from __future__ import annotations

from reticent.learning.schedule import geometric_sizes
from reticent.naming import Registry
from reticent.privacy.counters.blt import BltCounter
from reticent.privacy.counters.counter import Counter
from reticent.privacy.counters.epochs import EpochCounter
from reticent.privacy.counters.running_sum import RunningSum
from reticent.privacy.counters.toeplitz import ToeplitzCounter
from reticent.privacy.counters.tree import TreeCounter

COUNTERS: Registry[Counter] = Registry("counter")


@COUNTERS.register("tree")
def _tree(episodes: int) -> Counter:
    """Binary counting mechanism of the paper: noisy dyadic blocks."""
    return TreeCounter(episodes)


@COUNTERS.register("tree-reduced")
def _tree_reduced(episodes: int) -> Counter:
    """Binary tree with estimates that use every noisy block below."""
    return TreeCounter(episodes, "reduced")


@COUNTERS.register("toeplitz")
def _toeplitz(episodes: int) -> Counter:
    """Square-root Toeplitz factorization; remembers every round's noise."""
    return ToeplitzCounter(episodes)


@COUNTERS.register("blt")
def _blt(episodes: int, *, buffers: int = 4) -> Counter:
    """Buffered linear Toeplitz: the least noise of a plain sum, in a few buffers."""
    return BltCounter(episodes, buffers)


@COUNTERS.register("epochs")
def _epochs(episodes: int, *, first: int = 64, growth: float = 2.0) -> Counter:
    """Growing epochs, each noised once and weighted by its size."""
    return EpochCounter(geometric_sizes(episodes, first, growth))


__all__ = [
    "COUNTERS",
    "BltCounter",
    "Counter",
    "EpochCounter",
    "RunningSum",
    "ToeplitzCounter",
    "TreeCounter",
]
