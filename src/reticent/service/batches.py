r"""A shuffled batch: what a shuffler hands over of one round, and what it must look like to be believed.

By the theorem of :mod:`reticent_client.wire.shuffling` a permuted sequence of bits says exactly how many bits and how many
ones there are, so a batch *is* two numbers per coordinate: ``ones`` and ``messages``. What they must be and what they say
is :meth:`reticent_client.wire.shuffle_rules.ShuffleRules.doubled_sum`; here are the rules of an agent's noisy sums.
"""

from __future__ import annotations

import numpy as np

from reticent.learning.schedule import Schedule
from reticent.privacy.sums import PrivateSums
from reticent_client.wire.shuffle_rules import ShuffleRules
from reticent_client.wire.shuffling import coins_for


def batch_rules(sums: PrivateSums, schedule: Schedule, honest: float) -> ShuffleRules:
    """The rules that follow from noisy sums with ``trust=shuffle``."""
    grid = float(sums.grid)
    return ShuffleRules(
        reach=np.ceil(sums.contribution_bound / grid).astype(np.int64),
        coins=coins_for(np.asarray(sums.noise_scale), grid),
        round_sizes=tuple(schedule.round_sizes[: schedule.releases].tolist()),
        honest=honest,
    )
