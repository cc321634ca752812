"""Counters: the continual release of a running sum. See :mod:`reticent.privacy.counters.counter` for what one is.

To add a counter, write its file, export it here, and give it its name in :func:`reticent.privacy.plan.make_counter`.
"""

from __future__ import annotations

from reticent.privacy.counters.blt import BltCounter
from reticent.privacy.counters.counter import Counter
from reticent.privacy.counters.epochs import EpochCounter
from reticent.privacy.counters.running_sum import RunningSum
from reticent.privacy.counters.toeplitz import ToeplitzCounter
from reticent.privacy.counters.tree import TreeCounter

__all__ = [
    "BltCounter",
    "Counter",
    "EpochCounter",
    "RunningSum",
    "ToeplitzCounter",
    "TreeCounter",
]
