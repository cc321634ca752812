# SPDX-License-Identifier: Apache-2.0
r"""Always-valid monitoring: evidence that may be looked at after every release, for ever, without raising false alarms.

A test of fixed size may be looked at once. A service runs for years and is looked at all the time, so its evidence is an
*e-process*: a capital that starts at 1 and that a bettor against the promise can, while the promise is kept, not expect
to grow. By Ville's inequality the capital of a kept promise *ever* reaches 1/α with probability at most α; whenever it
does, the promise is broken at that level. No correction is needed for how often or when one looked.

**Noise that is too small** (:class:`NoiseMonitor`). Let z be the noise of a canary's release in units of its promised
scale. The bettor multiplies the capital by the likelihood ratio of noise that is τ < 1 times as large,

.. math:: \Lambda_\tau(z)=\tfrac1\tau\,f(z/\tau)/f(z),\qquad
          \text{Gaussian: }\tfrac1\tau e^{-\frac{z^2}2(\tau^{-2}-1)},\quad\text{Laplace: }\tfrac1\tau e^{-|z|(\tau^{-1}-1)}.

*The null is composite.* Let z = g + w, where g has the promised law and is independent of w and of the past, and w is
anything: more noise, or a shift by data that the monitor does not know. Both ratios fall with \|z\| and are symmetric, and
g is symmetric and unimodal, so by Anderson's inequality :math:`E\,\Lambda_\tau(g+w)\le E\,\Lambda_\tau(g)=1`. Hence noise
that is larger, or data in the release, can only lower the capital. A mixture over τ is again such a capital.

*Noise on a grid* of at most 1/32 of its scale is as good: for the discrete Gaussian the ratio's mean exceeds 1 by
:math:`2e^{-2\pi^2\tau^2/r^2}` at spacing r, by Poisson's sum, and τ is never below 16 spacings; for N fair coins S,
:math:`E\,e^{-aS^2/N}=E\cos^N(g\sqrt{2a/N})\le E\,e^{-ag^2}+P\big(|g|>\tfrac\pi2\sqrt{N/2a}\big)` with g normal.

*Rare failures.* Of a release with numbers :math:`z_1,\dots,z_D`, the factor
:math:`1-\eta+\eta\prod_c\Lambda_{\tau_0}(z_c)` with a tiny :math:`\tau_0` bets that a share η of releases has no noise.

**Users who can be told apart** (:class:`GuessMonitor`). Each canary flips a fair coin and contributes as one or as the
other of a pair; the coin is guessed from what is published. No guess is right more often than
:math:`p_0=\Phi(\mu/2)` under μ-Gaussian-DP, or :math:`(e^\varepsilon+\delta)/(1+e^\varepsilon)` under (ε, δ), whatever the
noise is. The bettor multiplies by :math:`p_1/p_0` or :math:`(1-p_1)/(1-p_0)`, with some p₁ > p₀, which is fair at
p₀ and unfair to the bettor below it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import numpy as np
from scipy.special import logsumexp, ndtr

from reticent.errors import InvalidInput
from reticent.privacy.guarantee import Guarantee

__all__ = ["COARSEST", "DEFAULT_ALPHA", "GuessMonitor", "NoiseMonitor", "largest_accuracy", "log_ratio"]

DEFAULT_ALPHA = 1e-3
"""At most one of a thousand monitors of a kept promise ever raises an alarm."""

SCALES = (0.5, 0.7, 0.8, 0.87, 0.9, 0.93, 0.96, 0.98)
"""Too small scales τ that are betted on, with equal stakes."""

RARE = 1e-3
"""η, the share of silent releases that is betted on, with as much stake as each of the scales."""

SILENT, GRID_STEPS = 1e-6, 16
"""τ₀, and on a grid that many spacings of it."""

COARSEST = SCALES[0] / GRID_STEPS
"""The coarsest grid, in units of the noise's scale, that all ratios are fair to."""

GAINS = (0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9)
"""Where p₁ lies between p₀ and 1, with equal stakes."""

Law = Literal["gaussian", "laplace"]


def log_ratio(numbers: np.ndarray, scale: float, law: Law = "gaussian") -> np.ndarray:
    r""":math:`\ln\Lambda_\tau`: how much likelier noise of ``scale`` τ makes these than noise of scale 1."""
    if law == "laplace":
        return np.asarray(-np.abs(numbers) * (1 / scale - 1) - math.log(scale))
    return np.asarray(-(numbers**2) / 2 * (1 / scale**2 - 1) - math.log(scale))


class _Capital:
    """What bets against a promise have won so far: the part that monitors share, whatever they bet on."""

    alpha: float
    stakes: tuple[float, ...]
    peak: float

    def _check_alpha(self) -> None:
        if not 0 < self.alpha < 1:
            raise InvalidInput("alpha", self.alpha, "strictly between 0 and 1", f"use {DEFAULT_ALPHA}")

    @property
    def log_capital(self) -> float:
        """The logarithm of the e-value."""
        return float(logsumexp(self.stakes)) - math.log(len(self.stakes))

    @property
    def alarm(self) -> bool:
        """Whether the promise is broken at level ``alpha``. Once raised it stays."""
        return self.peak >= -math.log(self.alpha)

    def _after(self, log_factors: np.ndarray) -> dict[str, Any]:
        """Stakes and peak after outcomes that multiplied every bet's capital so, ``(bets, outcomes)``, in order."""
        paths = np.asarray(self.stakes)[:, None] + np.cumsum(log_factors, axis=1)
        together = logsumexp(paths, axis=0) - math.log(len(paths))
        return {"stakes": tuple(paths[:, -1].tolist()), "peak": max(self.peak, float(together.max()))}

    def _summary(self) -> dict[str, Any]:
        capital = self.log_capital
        return {"alarm": self.alarm, "e_value": math.exp(min(capital, 700.0)), "log_e_value": capital}


@dataclasses.dataclass(frozen=True)
class NoiseMonitor(_Capital):
    """Is the noise at least as large as promised? A value: :meth:`observe` gives the next one, and nothing else changes.

    Formal guarantee. If the noise of every observed release is the promised one plus anything independent of it, the
    monitor ever raises an alarm with probability at most ``alpha``. Noise at 0.9 of its scale is found within 3000 numbers
    (5000 if it is Laplace; of as many releases, or of fewer with many numbers each) with probability above 0.99 at
    α = 0.001.

    Attributes:
      alpha: probability of a false alarm, ever.
      law: of the noise.
      resolution: spacing of the noise's grid in units of its scale; 0 is none.
      releases, numbers: how many have been seen.
      stakes: log-capital of every bet, one per scale and one on silent releases.
      peak: the largest log-capital ever, all bets together.
    """

    alpha: float = DEFAULT_ALPHA
    law: Law = "gaussian"
    resolution: float = 0.0
    releases: int = 0
    numbers: int = 0
    stakes: tuple[float, ...] = (0.0,) * (len(SCALES) + 1)
    peak: float = 0.0

    def __post_init__(self) -> None:
        self._check_alpha()
        if not 0 <= self.resolution <= COARSEST:
            bound = f"between 0 and {COARSEST:g}"
            raise InvalidInput("resolution", self.resolution, bound, "the ratios are not fair to coarser noise")

    def observe(self, noise: np.ndarray) -> NoiseMonitor:
        """The monitor after one more release, or several ``(releases, D)``: their noise in units of its promised scale."""
        rows = np.atleast_2d(np.asarray(noise, dtype=np.float64))
        if not rows.size:
            return self
        won = self._after(self.log_factors(rows))
        return dataclasses.replace(self, releases=self.releases + len(rows), numbers=self.numbers + rows.size, **won)

    def log_factors(self, rows: np.ndarray) -> np.ndarray:
        """By how much each bet's log-capital grows with each of the releases ``(..., D)``: ``(bets, ...)``."""
        # What is not a number is no noise at all, which is betted on; nothing may stop the monitor.
        seen = np.nan_to_num(rows, nan=0.0, posinf=1e100, neginf=-1e100)
        bets = [log_ratio(seen, scale, self.law).sum(axis=-1) for scale in SCALES]
        smallest = max(SILENT, GRID_STEPS * self.resolution)
        silent = log_ratio(seen, smallest, self.law).sum(axis=-1)
        bets.append(np.logaddexp(math.log1p(-RARE), math.log(RARE) + silent))
        return np.stack(bets)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; ``NoiseMonitor(**monitor.to_dict()["state"])`` goes on where this one stands."""
        return {**self._summary(), "state": dataclasses.asdict(self)}


def largest_accuracy(guarantee: Guarantee) -> float:
    """p₀: the most often that a fair coin can be guessed from what is published, if the promise is kept."""
    if guarantee.pure:
        odds = math.exp(-guarantee.epsilon)
        return (1 + odds * guarantee.delta) / (1 + odds)
    return float(ndtr(guarantee.promised_strength / 2))


@dataclasses.dataclass(frozen=True)
class GuessMonitor(_Capital):
    """Can canaries be told apart more often than promised? A value, as :class:`NoiseMonitor` is.

    Formal guarantee. If no guess is right with more than probability ``accuracy``, given what came before, the monitor ever
    raises an alarm with probability at most ``alpha``.
    """

    accuracy: float
    alpha: float = DEFAULT_ALPHA
    guesses: int = 0
    right: int = 0
    stakes: tuple[float, ...] = (0.0,) * len(GAINS)
    peak: float = 0.0

    def __post_init__(self) -> None:
        self._check_alpha()
        if not 0.5 <= self.accuracy < 1:
            raise InvalidInput("accuracy", self.accuracy, "at least 0.5 and below 1", "a promise of less than 1 is one")

    def observe(self, right: np.ndarray) -> GuessMonitor:
        """The monitor after these guesses, in order; each was right or not."""
        seen = np.atleast_1d(np.asarray(right, dtype=bool))
        if not seen.size:
            return self
        won = self._after(self.log_factors(seen))
        return dataclasses.replace(self, guesses=self.guesses + seen.size, right=self.right + int(seen.sum()), **won)

    def log_factors(self, right: np.ndarray) -> np.ndarray:
        """By how much each bet's log-capital grows with each guess: ``(bets, ...)``."""
        better = self.accuracy + (1 - self.accuracy) * np.asarray(GAINS)
        gain, loss = np.log(better / self.accuracy), np.log((1 - better) / (1 - self.accuracy))
        column = (slice(None), *[None] * right.ndim)
        return np.where(right[None], gain[column], loss[column])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; ``GuessMonitor(**monitor.to_dict()["state"])`` goes on where this one stands."""
        return {**self._summary(), "state": dataclasses.asdict(self)}
