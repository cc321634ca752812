# SPDX-License-Identifier: Apache-2.0
r"""A shuffled batch: what a shuffler hands over of one round, and what it must look like to be believed.

By the theorem of :mod:`reticent_wire.shuffling` a permuted sequence of bits says exactly how many bits and how many
ones there are, so a batch *is* two numbers per coordinate: ``ones`` and ``messages``. What they must be and what they say
is :meth:`reticent_wire.shuffle_rules.ShuffleRules.doubled_sum`; here are the rules of an agent's noisy sums.

**A batch that never comes** must not stop the learning. It is waited for until a number of admissions that was published
with the rules; then the round is *lost*: it is released as dummies alone, which are the coins of all its places and no
user's value, and the learner is told that it learned from no user. A batch that comes later is refused. Whether a round is
lost depends on the shuffler and on admissions, never on what a user sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reticent_wire.shuffle_rules import ShuffleRules
from reticent_wire.shuffling import coins_for

if TYPE_CHECKING:  # the rules are worked out once, with JAX; batches are taken without
    from reticent.learning.schedule import Schedule
    from reticent.privacy.sums import PrivateSums


def batch_rules(sums: PrivateSums, schedule: Schedule, honest: float) -> ShuffleRules:
    """The rules that follow from noisy sums with ``trust=shuffle``."""
    grid = float(sums.grid)
    return ShuffleRules(
        reach=np.ceil(sums.contribution_bound / grid).astype(np.int64),
        coins=coins_for(np.asarray(sums.noise_scale), grid),
        round_sizes=tuple(schedule.round_sizes[: schedule.releases].tolist()),
        honest=honest,
    )


def overdue(rules: ShuffleRules, number: int, clock: Any) -> bool:
    """Whether the batch of a round is waited for no longer; once true it stays so. ``clock`` is the public clock's row."""
    until = rules.until(number)
    return bool(clock.finished or (until is not None and clock.admitted >= until))


def dummies_alone(rules: ShuffleRules, number: int) -> np.ndarray:
    """Twice the sum of a round in which every place is silent, in grid steps: its coins and nothing else."""
    size = rules.size(number)
    return rules.doubled_sum(number, size, rules.silent(number, range(size)))
