# SPDX-License-Identifier: Apache-2.0
r"""From two samples of scores to a lower bound on ε, with confidence.

``scores`` without and with the canary are the adversary's evidence. Three bounds, from the most general to the sharpest:

* **clopper-pearson**: for one threshold, exact upper limits on the two error rates. Assumes nothing but independent
  trials. (ε, δ)-DP allows no test with :math:`p+e^\varepsilon q<1-\delta` or the reverse, where p and q are the rates
  of false alarms and of misses.
* **gdp-threshold**: the same two limits, read against the *claim*: a μ-Gaussian-DP mechanism allows no test with
  :math:`\Phi^{-1}(1-p)-\Phi^{-1}(q)>\mu`.
* **gdp-fit**: the scores of a Gaussian mechanism are normal with one variance, so μ is the distance of the two means
  in standard deviations, and the noncentral t distribution bounds it from below. Normality is tested; if it fails,
  the fit is void and ``gdp-threshold`` takes its place.

A promise without δ, or one that is no Gaussian mechanism's, can be held to the first bound only.

Formal guarantee. Each bound exceeds the truth with probability at most 1 − ``confidence``; the threshold of the first
two is chosen on other trials than those that are counted.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import ndtri
from scipy.stats import beta, f, kstest

from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import epsilon_of

__all__ = ["Bound", "Evidence", "clopper_pearson_limit", "epsilon_of_rates", "lower_bounds", "noncentral_limit"]

LARGEST_MU = 1e3
"""A score that separates the two worlds without error is reported as this μ."""

NORMALITY_ALARM = 1e-6


@dataclasses.dataclass(frozen=True)
class Bound:
    """A lower bound on ε at the audited δ, and on μ where the method knows one."""

    method: str
    epsilon: float
    mu: float | None


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What the trials say.

    Attributes:
      bounds: by method name.
      best: the method whose bound is the headline.
      threshold: of the two threshold bounds, in the scores' unit.
      rates: false positive and false negative rate at it, as counted.
      normal: whether the scores pass the normality test that the fit needs.
      mu_estimate: the fit's point estimate.
    """

    bounds: dict[str, Bound]
    best: str
    threshold: float
    rates: tuple[float, float]
    normal: bool
    mu_estimate: float

    @property
    def lower_bound(self) -> Bound:
        return self.bounds[self.best]


def clopper_pearson_limit(errors: int, trials: int, confidence: float) -> float:
    """The exact upper confidence limit of a probability of which ``errors`` of ``trials`` were seen.

    >>> round(clopper_pearson_limit(0, 100, 0.95), 4)  # the rule of three
    0.0295
    """
    return 1.0 if errors >= trials else float(beta.ppf(confidence, errors + 1, trials - errors))


def epsilon_of_rates(false_positive: float, false_negative: float, delta: float) -> float:
    """The least ε that allows a test with these error rates."""
    least = 0.0
    for accepted, rare in ((false_positive, false_negative), (false_negative, false_positive)):
        if 1.0 - delta - accepted > rare:
            least = max(least, math.log((1.0 - delta - accepted) / max(rare, 1e-300)))
    return least


def noncentral_limit(distance: float, without: int, present: int, confidence: float) -> float:
    r"""Lower confidence limit of a standardised mean difference (one-sided, by the noncentral t distribution).

    ``distance`` is the difference of the sample means over the pooled standard deviation. Uses Johnson and Welch's
    approximation of the noncentral t, :math:`\delta\ge t\,(1-\tfrac1{4\nu})-z\sqrt{1+t^2/2\nu}`, which
    errs on the safe side: the tail it leaves is 8% too small with 30 scores a side, and exact from hundreds on.
    """
    size = math.sqrt(without * present / (without + present))
    freedom = without + present - 2
    t = distance * size
    limit = t * (1.0 - 1.0 / (4.0 * freedom)) - float(ndtri(confidence)) * math.sqrt(1.0 + t * t / (2.0 * freedom))
    return limit / size


def lower_bounds(
    without: np.ndarray, present: np.ndarray, delta: float, confidence: float, *, gaussian: bool = True
) -> Evidence:
    """All bounds from the scores ``without`` and with (``present``) the canary; larger scores speak for the canary.

    ``gaussian`` says whether Gaussian DP was promised; if not, only the bound that assumes nothing applies.
    """
    for field, scores in (("scores without", without), ("scores with", present)):
        if scores.ndim != 1 or scores.size < 100 or not np.isfinite(scores).all():
            raise InvalidInput(field, scores.shape, "at least 100 finite numbers", "use more trials")
    threshold, rates, limits = _threshold(without, present, confidence)
    counted = Bound("clopper-pearson", epsilon_of_rates(*limits, delta), None)
    if delta == 0 or not gaussian:
        return Evidence({counted.method: counted}, counted.method, threshold, rates, False, _distance(without, present))
    mu_rates = max(0.0, min(LARGEST_MU, -float(ndtri(limits[0])) - float(ndtri(limits[1]))))
    distance = _distance(without, present)
    mu_fit = max(0.0, min(LARGEST_MU, noncentral_limit(distance, without.size, present.size, confidence)))
    normal = bool(distance < LARGEST_MU and _is_normal(without, present))
    bounds = {
        "gdp-fit": Bound("gdp-fit", epsilon_of(mu_fit, delta), mu_fit),
        "gdp-threshold": Bound("gdp-threshold", epsilon_of(mu_rates, delta), mu_rates),
        "clopper-pearson": counted,
    }
    return Evidence(bounds, "gdp-fit" if normal else "gdp-threshold", threshold, rates, normal, distance)


def _distance(without: np.ndarray, present: np.ndarray) -> float:
    gap = float(present.mean() - without.mean())
    pooled = math.sqrt((float(without.var(ddof=1)) + float(present.var(ddof=1))) / 2.0)
    if pooled <= 1e-9 * abs(gap):
        return math.copysign(LARGEST_MU, gap) if gap else 0.0
    return max(-LARGEST_MU, min(LARGEST_MU, gap / pooled))


def _is_normal(without: np.ndarray, present: np.ndarray) -> bool:
    """Both samples standardised by their own mean and deviation look normal, and their variances agree."""
    ratio = float(present.var(ddof=1) / without.var(ddof=1))
    freedom = present.size - 1, without.size - 1
    alike = 2 * min(f.cdf(ratio, *freedom), f.sf(ratio, *freedom)) > NORMALITY_ALARM
    # With the parameters estimated, Kolmogorov-Smirnov's p-value is too large: the test is lenient, never alarmist.
    shape = [kstest((sample - sample.mean()) / sample.std(), "norm").pvalue for sample in (without, present)]
    return bool(alike and min(shape) > NORMALITY_ALARM)


def _threshold(
    without: np.ndarray, present: np.ndarray, confidence: float
) -> tuple[float, tuple[float, float], tuple[float, float]]:
    """A threshold chosen on the first half of the trials; error rates and their upper limits on the second."""
    first, second = (sample[: sample.size // 2] for sample in (without, present))
    candidates = np.quantile(np.concatenate([first, second]), np.linspace(0.005, 0.995, 199))
    positive = 1.0 - np.searchsorted(np.sort(first), candidates, side="right") / first.size
    negative = np.searchsorted(np.sort(second), candidates, side="right") / second.size
    # Where the estimated μ, less its own standard error, is largest.
    p, n = (np.clip(rate, 0.5 / first.size, 1 - 0.5 / first.size) for rate in (positive, negative))
    spread = np.sqrt(sum(r * (1 - r) / first.size / _density(r) ** 2 for r in (p, n)))
    threshold = float(candidates[np.argmax(-ndtri(p) - ndtri(n) - 3 * spread)])
    rest, other = without[without.size // 2 :], present[present.size // 2 :]
    wrong = int((rest > threshold).sum()), int((other <= threshold).sum())
    each = 1.0 - (1.0 - confidence) / 2.0
    limits = tuple(
        clopper_pearson_limit(errors, size, each) for errors, size in zip(wrong, (rest.size, other.size), strict=True)
    )
    return threshold, (wrong[0] / rest.size, wrong[1] / other.size), (limits[0], limits[1])


def _density(rate: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-(ndtri(rate) ** 2) / 2) / math.sqrt(2 * math.pi))
