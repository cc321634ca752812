# SPDX-License-Identifier: Apache-2.0
"""Counters: the continual release of a running sum. See :mod:`reticent.privacy.counters.counter` for what one is."""

from __future__ import annotations

from reticent.privacy.counters.blt import BltCounter
from reticent.privacy.counters.counter import Counter
from reticent.privacy.counters.epochs import EpochCounter
from reticent.privacy.counters.registry import COUNTERS, CounterName, groups_users, make_counter, register_counter
from reticent.privacy.counters.running_sum import RunningSum
from reticent.privacy.counters.separate import SeparateRounds
from reticent.privacy.counters.toeplitz import ToeplitzCounter
from reticent.privacy.counters.tree import TreeCounter

__all__ = [
    "COUNTERS",
    "BltCounter",
    "Counter",
    "CounterName",
    "EpochCounter",
    "RunningSum",
    "SeparateRounds",
    "ToeplitzCounter",
    "TreeCounter",
    "groups_users",
    "make_counter",
    "register_counter",
]
