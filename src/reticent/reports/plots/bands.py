# SPDX-License-Identifier: Apache-2.0
"""Mean and band over seeds, and the words that say what the band is; the numbers of a picture, without Matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from reticent.simulation.simulate import Curves

FEW_SEEDS = 5
"""Below this many seeds a standard error says little, and the band is the range from least to greatest."""


class Reference(NamedTuple):
    """A further line in the regret panel, such as a theorem's bound: ``regret`` at ``episodes``."""

    label: str
    episodes: np.ndarray
    regret: np.ndarray


class Band(NamedTuple):
    """Mean over the seeds, and the band around it (None for a single seed)."""

    mean: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None

    def at_least(self, floor: float) -> Band:
        """Raised to ``floor`` where below: a logarithmic axis has no place for zero."""
        low = None if self.low is None else self.low.clip(floor)
        high = None if self.high is None else self.high.clip(floor)
        return Band(self.mean.clip(floor), low, high)


def band(samples: np.ndarray) -> Band:
    """Mean and band of ``samples`` ``(n, p)`` over their first axis; :func:`band_words` says what it is."""
    mean, count = samples.mean(axis=0), len(samples)
    if count == 1:
        return Band(mean, None, None)
    if count < FEW_SEEDS:
        return Band(mean, samples.min(axis=0), samples.max(axis=0))
    reach = 1.96 * samples.std(axis=0, ddof=1) / np.sqrt(count)
    return Band(mean, mean - reach, mean + reach)


def band_words(seeds: int) -> str:
    """What line and band are, in words.

    >>> band_words(16)
    'Lines and bands: mean ± 1.96 standard errors over 16 seeds.'
    """
    if seeds == 1:
        return "Lines: a single seed."
    if seeds < FEW_SEEDS:
        return f"Lines and bands: mean, least and greatest of {seeds} seeds."
    return f"Lines and bands: mean ± 1.96 standard errors over {seeds} seeds."


def gaps(curves: Curves) -> tuple[np.ndarray, np.ndarray]:
    """Mean gap to the optimal value between neighbouring points of a logarithmic grid: episodes and gaps ``(n, p)``.

    Regret is the running sum of the gaps, so its slope is their exact mean: smoother than the gap at single episodes.
    """
    wanted = np.unique(np.geomspace(1, curves.episodes[-1], 45).round().astype(np.int64))
    chosen = np.unique(np.searchsorted(curves.episodes, wanted).clip(max=len(curves.episodes) - 1))
    episodes, regret = curves.episodes[chosen], curves.regret[:, chosen]
    steps = np.diff(episodes, prepend=0)
    return episodes, np.diff(regret, axis=1, prepend=0) / steps
