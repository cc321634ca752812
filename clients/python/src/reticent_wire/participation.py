# SPDX-License-Identifier: Apache-2.0
"""When a user who returns may contribute: the one rule that simulation, service and device ask. Plain numbers only."""

from __future__ import annotations

from collections.abc import Sequence


def may_contribute(contributions: int, per_round: int, gap: int, earlier: Sequence[int], number: int) -> bool:
    """Whether a user with contributions in the rounds ``earlier`` may have one more in round ``number``.

    At most ``contributions`` in all, at most ``per_round`` of them in one round, and rounds of theirs at least ``gap``
    apart. What noise hides them all is in ``reticent.privacy.participation``.

    >>> may_contribute(3, 1, 2, [0, 2], 3), may_contribute(3, 1, 2, [0, 2], 4), may_contribute(3, 1, 2, [0, 2, 4], 9)
    (False, True, False)
    """
    if len(earlier) >= contributions:
        return False
    here = sum(1 for other in earlier if other == number)
    return here < per_round and not any(other != number and abs(other - number) < gap for other in earlier)
