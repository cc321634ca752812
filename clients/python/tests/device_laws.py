# SPDX-License-Identifier: Apache-2.0
"""What tests of a device's noise need of statistics, without SciPy: this package's tests run where NumPy alone is."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

FALSE_ALARM = 1e-6


def chi_square_quantile(probability: float, degrees: int) -> float:
    """Where a chi-square law has ``probability`` below it, by Wilson and Hilferty: within 6% from 4 degrees on."""
    normal = NormalDist().inv_cdf(probability)
    return degrees * (1 - 2 / (9 * degrees) + normal * math.sqrt(2 / (9 * degrees))) ** 3


def squares_fit(squares: float, degrees: int) -> bool:
    """Whether a sum of so many squares of unit Gaussians may be this; false alarm 1e-6 and a little less."""
    low, high = (chi_square_quantile(p, degrees) for p in (FALSE_ALARM / 2, 1 - FALSE_ALARM / 2))
    return 0.99 * low < squares < 1.01 * high


def pearson_fits(counts: np.ndarray, expected: np.ndarray) -> bool:
    """Pearson's test; cells have more than 50 expected draws, where the limit law holds well."""
    assert expected.min() > 50
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return statistic < 1.01 * chi_square_quantile(1 - FALSE_ALARM, len(counts) - 1)


def normal_below(x: np.ndarray) -> np.ndarray:
    """The normal distribution function."""
    return np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in np.ravel(x)]).reshape(np.shape(x))
