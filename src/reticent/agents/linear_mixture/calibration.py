# SPDX-License-Identifier: Apache-2.0
r"""How much noise: from a promise (ε, δ) to the noise scale of every counter of every step.

Each step h has two *groups* of sums, one per regression: a Gram matrix :math:`\sum xx^\top` and a moment vector
:math:`\sum xy`. A user moves one item of each group; the counter spreads that item over its releases. All noise is
Gaussian, so everything a run ever publishes is together *one* Gaussian mechanism with

.. math:: \mu^2=\|C\|^2\sum_{g}\Delta_g^2/\sigma_g^2 ,

where :math:`\Delta_g` is the joint sensitivity of group g (:mod:`reticent.privacy.sensitivity`), :math:`\sigma_g` its
noise, and :math:`\|C\|` the counter's sensitivity (1 in the local model, where each user noises their own report).

``calibration="paper"`` takes the paper's σ to the letter. ``calibration="exact"`` takes the least noise whose μ is exactly
the one that (ε, δ) allows, shared out over the groups so that the regret bound's private term is least.

Formal guarantee. With ``exact``, releasing all sums of all rounds is (ε, δ)-DP with respect to one user under the stated
adjacency, also for adaptively chosen items; the plans are post-processing and each user's actions are a function of the
plan and of their own data, so by the billboard lemma (Hsu et al. 2016) the run is (ε, δ)-jointly DP. In the local model
the same holds for each user's single report, hence (ε, δ)-LDP.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidInput
from reticent.privacy.accounting.account import GAUSSIAN, Account
from reticent.privacy.calibration import Calibrated, Release, least_noise
from reticent.privacy.counters.counter import Counter
from reticent.privacy.guarantee import check_promise
from reticent.privacy.late_reports import late_report_ratio
from reticent.privacy.noise import quantized_sensitivity, touched_draws
from reticent.privacy.packing import packed_size
from reticent.privacy.sensitivity import (
    Adjacency,
    accounted_moment_sensitivity,
    gram_sensitivity,
    joint_sensitivity,
    moment_sensitivity,
)
from reticent.privacy.trust import Trust

Floats = NDArray[np.float64]
CalibrationKind = Literal["paper", "exact"]
Split = Literal["even", "optimised"]


@dataclasses.dataclass(frozen=True)
class Regression:
    """One of the two regressions, at all H steps: what is summed and within which declared bounds.

    Attributes:
      name: ``"transition"`` or ``"reward"``.
      dimension: d.
      feature: bound L on the features' norm per step, ``(H,)``; 0 where nothing is learned.
      target: bound V on the targets' absolute value per step, ``(H,)``.
      scale: how much an error in this regression matters per step, in units of reward, ``(H,)``; steers the split.
      nonnegative: features have nonnegative inner products and targets are nonnegative, by construction.
    """

    name: str
    dimension: int
    feature: Floats
    target: Floats
    scale: Floats
    nonnegative: bool = False

    @property
    def active(self) -> NDArray[np.bool_]:
        return np.asarray(self.feature > 0)


@dataclasses.dataclass(frozen=True)
class Noise:
    """Sensitivities and noise of one regression's two counters, each ``(H,)``; zero where nothing is learned.

    ``moment_sensitivity`` is the share of the group's *joint* sensitivity that is left to the moment, so that
    sensitivities of different counters compose by adding squares; ``moment_sensitivity_alone`` is what a release of the
    moment by itself would have. ``late_report_ratio`` is the factor by which the noise would have to grow for reports that
    arrive late or never (:mod:`reticent.privacy.late_reports`): 1 with all present sensitivities.
    """

    gram_sensitivity: Floats
    gram_sigma: Floats
    moment_sensitivity: Floats
    moment_sensitivity_alone: Floats
    moment_sigma: Floats
    late_report_ratio: Floats


@dataclasses.dataclass(frozen=True)
class Calibration(Calibrated):
    """The noise of a run, and what it promises. Data-independent: it may be printed before the first user comes."""

    kind: CalibrationKind
    trust: Trust
    adjacency: Adjacency
    epsilon: float
    delta: float
    counter: Counter
    counter_sensitivity: float
    transition: Noise
    reward: Noise
    packed: bool
    """Whether off-diagonal Gram entries carry σ/√2 (isometric packing) or σ (the paper)."""
    grid: float
    """Spacing of the grid that statistics are rounded to, in deployment and by shuffled users; 0 is none."""
    account: Account = GAUSSIAN
    """How the noise is accounted for: the shuffle model's is not Gaussian."""

    def releases(self) -> list[Release]:
        """Gram and moment of both regressions at every step."""
        return self.laid_out(None, None)

    def laid_out(self, d1: int | None, d2: int | None) -> list[Release]:
        """:meth:`releases` with their columns in the statistics of these dimensions."""
        found, start = [], 0
        for name, noise, dimension in (("transition", self.transition, d1), ("reward", self.reward, d2)):
            gram = moment = None
            entries: tuple[float, ...] = ()
            if dimension is not None:
                gram = slice(start, start + packed_size(dimension))
                moment = slice(gram.stop, start := gram.stop + dimension)
                if not self.packed:
                    # The same noise on every entry of a matrix is √2 times that on a packed off-diagonal coordinate.
                    entries = tuple(
                        1.0 if i == j else math.sqrt(2) for i in range(dimension) for j in range(i, dimension)
                    )
            for step, row in enumerate(zip(*dataclasses.astuple(noise), strict=True), 1):
                of_gram, gram_sigma, of_moment, alone, moment_sigma, _ = row
                found.append(Release(f"{name}_gram", step, of_gram, gram_sigma, gram, spread=entries))
                found.append(Release(f"{name}_moment", step, of_moment, moment_sigma, moment, alone))
        return found

    @property
    def charged(self) -> float:
        return self.counter_sensitivity**2

    @property
    def late_report_ratio(self) -> float:
        """By how much the noise falls short if reports may arrive late or never; 1 is not at all, and what is expected."""
        return float(np.concatenate([self.transition.late_report_ratio, self.reward.late_report_ratio]).max())


def paper_sigma(sensitivity: Floats | float, *, levels: int, horizon: int, epsilon: float, delta: float) -> Floats:
    r"""σ of section 6: :math:`\frac{H\Delta}{\epsilon}\sqrt{32\,m\ln(4H/\delta)}`."""
    return np.asarray(
        horizon * np.asarray(sensitivity) / epsilon * math.sqrt(32 * levels * math.log(4 * horizon / delta))
    )


def calibrate_paper(
    regressions: tuple[Regression, Regression],
    counter: Counter,
    *,
    trust: Trust,
    adjacency: Adjacency,
    epsilon: float,
    delta: float,
) -> Calibration:
    """The paper's noise. Its sensitivities (L² and LV) are those of zero-out adjacency; σ is computed from them whatever
    ``adjacency`` is, and the promise really kept (:attr:`Calibration.epsilon_spent`) is stated under ``adjacency``."""
    check_promise(epsilon, delta)
    if not trust.noised_reports and counter.name != "tree":
        raise InvalidInput(
            "counter", counter.name, "'tree' with calibration='paper'", "use calibration='exact' for the others"
        )
    horizon = len(regressions[0].feature)
    levels = round(trust.sensitivity(counter) ** 2)
    noises = []
    for one in regressions:
        gram, moment = one.feature**2, one.feature * one.target
        noises.append(
            Noise(
                gram_sensitivity=each_step(gram_sensitivity, one.feature, adjacency=adjacency),
                gram_sigma=paper_sigma(gram, levels=levels, horizon=horizon, epsilon=epsilon, delta=delta),
                moment_sensitivity=each_step(moment_sensitivity, one.feature, one.target, adjacency=adjacency),
                moment_sensitivity_alone=each_step(moment_sensitivity, one.feature, one.target, adjacency=adjacency),
                moment_sigma=paper_sigma(moment, levels=levels, horizon=horizon, epsilon=epsilon, delta=delta),
                # Its matrices and vectors are accounted for apart, and for each replacing costs √2 times zeroing or more.
                late_report_ratio=np.ones(horizon),
            )
        )
    sensitivity = trust.sensitivity(counter)
    transition, reward = noises
    return Calibration(
        "paper", trust, adjacency, epsilon, delta, counter, sensitivity, transition, reward, packed=False, grid=0.0
    )


def calibrate_exact(
    regressions: tuple[Regression, Regression],
    counter: Counter,
    *,
    trust: Trust,
    adjacency: Adjacency,
    epsilon: float,
    delta: float,
    split: Split = "optimised",
    moment_share: float = 1.0,
    deployment: bool = False,
) -> Calibration:
    r"""The least noise that (ε, δ) allows.

    Args:
      split: how μ² is shared out over the groups. ``"optimised"`` minimises
        :math:`\sum_g a_g\sqrt{\sigma_g}`, the private term of the regret bound up to a constant
        (β grows with √λ_max, λ_max with σ), with :math:`a_g` = scale × √d and σ relative to L²: by Lagrange
        :math:`\mu_g^2\propto a_g^{4/5}`.
      moment_share: s = w²V²/L², the weight of the moment against the Gram inside a group; 1 gives them equal relative
        noise, and 0 < s ≤ 2 is where a joint release is cheapest.
      deployment: account for rounding the statistics to an integer grid, as the secure noise needs.
    """
    sensitivity = trust.sensitivity(counter)
    if not math.isfinite(sensitivity):
        raise InvalidInput("counter", counter.name, "one that protects its items", "use tree, blt, toeplitz or epochs")
    coordinates = sum(
        (packed_size(regression.dimension) + regression.dimension) * int(regression.active.sum())
        for regression in regressions
    )

    def noise(strength: float, grid: float) -> tuple[Noise, Noise]:
        return share_out(
            regressions, strength / sensitivity, split=split, moment_share=moment_share, adjacency=adjacency, grid=grid
        )

    def least(found: tuple[Noise, Noise]) -> float:
        scales = np.concatenate([np.concatenate([one.gram_sigma, one.moment_sigma]) for one in found])
        return float(scales[scales > 0].min())

    draws = touched_draws(coordinates, sensitivity**2) if deployment else 0
    (transition, reward), grid, account = least_noise(noise, least, epsilon=epsilon, delta=delta, draws=draws)
    return Calibration(
        "exact", trust, adjacency, epsilon, delta, counter, sensitivity, transition, reward, packed=True, grid=grid,
        account=account,
    )  # fmt: skip


def share_out(
    regressions: tuple[Regression, Regression],
    mu: float,
    *,
    split: Split,
    moment_share: float,
    adjacency: Adjacency,
    grid: float,
) -> tuple[Noise, Noise]:
    """The noise of both regressions for a budget ``mu`` of one item, with statistics on ``grid`` (0: as they are)."""
    if not 0 < moment_share <= 4:
        raise InvalidInput("moment_share", moment_share, "in (0, 4]", "1 is a good choice")
    importance = [np.where(one.active, _importance(one, split), 0.0) for one in regressions]
    for one, weights in zip(regressions, importance, strict=True):
        if (one.active & ~(weights > 0)).any():
            raise InvalidInput(
                f"scale of the {one.name} regression", one.scale, "above 0 wherever its feature bound is",
                "sums without noise would be released as they are",
            )  # fmt: skip
    total = sum(float(weights.sum()) for weights in importance)
    transition, reward = (
        _regression_noise(one, mu * np.sqrt(weights / total), moment_share, adjacency, grid)
        for one, weights in zip(regressions, importance, strict=True)
    )
    return transition, reward


def _regression_noise(one: Regression, mus: Floats, moment_share: float, adjacency: Adjacency, grid: float) -> Noise:
    """The noise of one regression's two counters at every step, for a budget μ per step (of one item, not a stream)."""
    rows = []
    for bound, target, mu in zip(one.feature.tolist(), one.target.tolist(), mus.tolist(), strict=True):
        if mu == 0:
            rows.append([0.0] * 5 + [1.0])
            continue
        weight = math.sqrt(moment_share) * bound / target
        gram = gram_sensitivity(bound, adjacency)
        joint = joint_sensitivity(bound, target, weight, adjacency, nonnegative=one.nonnegative)
        accounted = accounted_moment_sensitivity(bound, target, weight, adjacency, nonnegative=one.nonnegative)
        alone = moment_sensitivity(bound, target, adjacency, nonnegative=one.nonnegative)
        longest = joint_sensitivity(bound, target, weight, "zero-out")
        if grid > 0:
            # Rounding moves every coordinate of both neighbours by up to half the grid; moments weigh w each.
            entries = packed_size(one.dimension)
            gram = quantized_sensitivity(gram, grid, entries)
            rounding = grid * math.sqrt(entries + weight**2 * one.dimension)
            joint, longest = joint + rounding, longest + rounding / 2
            accounted = math.sqrt(max(joint**2 - gram**2, 0.0)) / weight
            alone = quantized_sensitivity(alone, grid, one.dimension)
        sigma = joint / mu
        rows.append([gram, sigma, accounted, alone, sigma / weight, late_report_ratio(joint, longest, adjacency)])
    return Noise(*np.array(rows).T)


def _importance(one: Regression, split: Split) -> Floats:
    if split == "even":
        return np.ones_like(one.feature)
    return np.asarray((one.scale * math.sqrt(one.dimension)) ** 0.8)


def each_step(function: Any, *columns: Floats, adjacency: Adjacency) -> Floats:
    """A sensitivity at every step from the declared bounds there; 0 where nothing is learned."""
    return np.array(
        [function(*map(float, row), adjacency) if row[0] > 0 else 0.0 for row in zip(*columns, strict=True)]
    )
