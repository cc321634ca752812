# SPDX-License-Identifier: Apache-2.0
"""How many users it takes until next to nothing is lost any more: what a study's designer asks for.

Simulation only: gaps are measured against the hidden truth. A point of a thinned curve stands for the users since the point
before it, so that the number is rounded up to a point.
"""

from __future__ import annotations

import numpy as np

TARGET = 0.05
"""The gap that reports ask about, as a share of what acting at random loses."""


def users_until(episodes: np.ndarray, gap: np.ndarray, target: float = TARGET) -> np.ndarray:
    """After how many users the gap stays at or below ``target``, one number per row; infinite where it never does.

    ``episodes`` are the curve's points ``(p,)``, ``gap`` the gap in force at each, ``(n, p)``.

    >>> users_until(np.array([10, 20, 30, 40]), np.array([[0.5, 0.01, 0.2, 0.01], [0.01] * 4, [0.5] * 4]))
    array([40., 10., inf])
    """
    above = gap > target
    # One past the last point above the target: from the plan after it on, the gap stays below.
    past = above.shape[1] - above[:, ::-1].argmax(axis=1)
    past = np.where(above.any(axis=1), past, 0)
    reached = np.append(np.asarray(episodes, np.float64), np.inf)
    return np.asarray(np.where(past == 0, episodes[0], reached[past]))


def median_users_until(
    episodes: np.ndarray, value: np.ndarray, optimal: float, scale: float, target: float = TARGET
) -> float | None:
    """The median over seeds of :func:`users_until`, from values ``(n, p)``; None where half of them never get there, or
    where acting at random loses nothing (``scale``)."""
    if not (scale > 0 and len(episodes)):
        return None
    found = np.sort(users_until(episodes, (optimal - value) / scale, target))
    # The upper of the two in the middle: of an even number of seeds, half are there after as many users.
    median = float(found[len(found) // 2])
    return median if np.isfinite(median) else None
