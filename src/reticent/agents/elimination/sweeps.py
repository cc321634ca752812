# SPDX-License-Identifier: Apache-2.0
"""The public schedule: epochs of sweeps, each sweep a ladder of rounds that double.

Epoch e has ``sweeps`` sweeps, a sweep of epoch e has the rounds of n₀, 2n₀, …, 2ᵉn₀ users. Inside a sweep no model is
served to 2ʲn₀ users before it passed the test with half as many. The schedule depends on K and public settings only,
never on data. The last round is cut where users end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reticent.errors import InvalidInput


class Sweeps(NamedTuple):
    """Round sizes, and after which rounds a sweep ends, ``(rounds,)``."""

    sizes: tuple[int, ...]
    ends: np.ndarray


def sweep_rounds(episodes: int, first: int, sweeps: int) -> Sweeps:
    """The rounds of ``episodes`` users.

    >>> sweep_rounds(20, 2, 2).sizes
    (2, 2, 2, 4, 2, 4, 2, 2)
    >>> sweep_rounds(20, 2, 2).ends.tolist()
    [True, True, False, True, False, True, False, True]
    """
    for field, value in (("episodes", episodes), ("first", first), ("sweeps", sweeps)):
        if value < 1:
            raise InvalidInput(field, value, "at least 1", "give a positive whole number")
    sizes: list[int] = []
    ends: list[bool] = []
    left, epoch = episodes, 0
    while left > 0:
        for _ in range(sweeps):
            for step in range(epoch + 1):
                if left == 0:
                    break
                sizes.append(min(first * 2**step, left))
                ends.append(step == epoch)
                left -= sizes[-1]
        epoch += 1
    ends[-1] = True
    return Sweeps(tuple(sizes), np.asarray(ends))
