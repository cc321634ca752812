# SPDX-License-Identifier: Apache-2.0
r"""What missing or repeated noise proves: a δ that the mechanism has at the least, whatever ε is.

:mod:`reticent.privacy.degenerate_noise` counts and says why a count is evidence. Here it becomes a verdict: with
Clopper and Pearson's lower limit p
on the probability of a point mass, and q the largest probability that honest noise gives it, (ε, δ) is refuted
if :math:`p>\delta+e^\varepsilon q`.

Formal guarantee. A mechanism whose noise is as promised is accused with probability at most :data:`FALSE_ALARM` per kind of
point mass. Noise that is forgotten in one run of a thousand is found in 10⁵ trials at any δ up to 5·10⁻⁴.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from scipy.stats import beta

from reticent.privacy.degenerate_noise import DegenerateCount
from reticent.privacy.guarantee import Guarantee

__all__ = ["FALSE_ALARM", "DegenerateNoiseEvidence", "degenerate_noise_evidence", "lower_limit"]

FALSE_ALARM = 1e-9


@dataclasses.dataclass(frozen=True)
class DegenerateNoiseEvidence:
    """One kind of point mass against a promise.

    Attributes:
      least: lower confidence limit of the probability that a run has one.
      allowed: how probable the promise lets it be.
    """

    count: DegenerateCount
    least: float
    allowed: float

    @property
    def violated(self) -> bool:
        return self.least > self.allowed

    def sentence(self) -> str:
        """The finding in plain words."""
        return (
            f"in at least {self.least:.2g} of the runs a release had {self.count.what} "
            f"({self.count.hits:,} of {self.count.runs:,}): no epsilon holds with a smaller delta"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**self.count._asdict(), "at_least": self.least, "allowed": self.allowed, "violated": self.violated}


def lower_limit(hits: int, runs: int, confidence: float) -> float:
    """The exact lower confidence limit of a probability of which ``hits`` of ``runs`` were seen.

    >>> round(lower_limit(100, 100_000, 1 - 1e-9), 6)
    0.000514
    """
    return 0.0 if hits == 0 else float(beta.ppf(1.0 - confidence, hits, runs - hits + 1))


def degenerate_noise_evidence(
    counts: Iterable[DegenerateCount], guarantee: Guarantee
) -> tuple[DegenerateNoiseEvidence, ...]:
    """What the counts say about the promise."""
    likelier = math.exp(min(guarantee.epsilon, 700.0))
    evidence = []
    for count in counts:
        least = lower_limit(count.hits, count.runs, 1.0 - FALSE_ALARM)
        evidence.append(DegenerateNoiseEvidence(count, least, min(1.0, guarantee.delta + likelier * count.chance)))
    return tuple(evidence)
