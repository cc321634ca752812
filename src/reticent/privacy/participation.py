# SPDX-License-Identifier: Apache-2.0
r"""How often and when one user may contribute, and what that costs: returning users.

A user who contributes once moves one item. One who returns moves several, and noise must hide all of them together.
How much that takes depends on *where* they are. If all g of a user's may be in one round they add up: g times the noise.
If no round holds more than one of them, rounds that are noised separately hide each by itself: √g times.

**Lemma (shifts that follow the past).** Let :math:`y_t=v_t+z_t` with independent :math:`z_t\sim N(0,\sigma^2I)`,
where :math:`v_t` is a function of :math:`y_1,\dots,y_{t-1}` and of the data. If exchanging one user changes every
:math:`v_t` by an :math:`s_t` (again a function of the past) with :math:`\sum_t\|s_t\|^2\le B^2` on *every* path,
then y is μ-Gaussian-DP with :math:`\mu=B/\sigma`.

Proof. Add one more release, moved by :math:`(B^2-\sum_t\|s_t\|^2)^{1/2}`: the adversary sees more, and the sum is
now :math:`B^2` exactly. Under the first data the log-likelihood ratio is
:math:`L=\sum_t(-2\langle s_t,z_t\rangle+\|s_t\|^2)/2\sigma^2`. Given the past, :math:`\langle s_t,z_t\rangle` is
:math:`N(0,\sigma^2\|s_t\|^2)`, so :math:`E\exp(i\lambda\sum_t\langle s_t,z_t\rangle+\tfrac12\lambda^2\sigma^2\sum_t
\|s_t\|^2)=1` by taking expectations from the last round to the first. The second sum is the constant :math:`B^2`;
hence :math:`\sum_t\langle s_t,z_t\rangle` is exactly :math:`N(0,\sigma^2B^2)` and L is exactly
:math:`N(\mu^2/2,\mu^2)`. Under the other data it is :math:`N(-\mu^2/2,\mu^2)` by symmetry. These two laws are those
of one Gaussian mechanism, and they determine δ(ε). ∎

**Theorem (patterns).** Let C be the counter's strategy (lower triangular) with :math:`\langle c_i,c_j\rangle\ge0`,
and let a user's items be in the rounds of a *pattern* π, which may depend on earlier releases and the user's data. With

.. math:: N=\max_\pi\|C\,1_\pi\|_2

over all patterns that are allowed, exchanging all of the user's data moves what the noise protects by at most

* ``zero-out``: :math:`Z\,N` for items of norm at most Z;
* ``replace``, the same rounds: :math:`R\,N` for items at most R apart;
* ``replace``, other rounds (late reports, :mod:`reticent.privacy.late_reports`): :math:`2Z\,N`; and
  :math:`\max(R,\sqrt2\,Z)\,N` where rounds are noised separately (C the identity).

Proof. Let :math:`d_i` be the movement of the item of round i, :math:`\|d_i\|\le R`. The square is
:math:`\sum_{i,j\in\pi}\langle c_i,c_j\rangle\langle d_i,d_j\rangle\le R^2\sum_{i,j\in\pi}\langle c_i,c_j\rangle
=R^2\|C1_\pi\|^2`, with equality if all :math:`d_i` are equal: for this bound there is no better one. Zero-out is the
same with Z. If the rounds are others, the triangle inequality gives ZN for what is taken away and ZN for what is put
in its place. For C = I, rounds in both patterns move by R at most and rounds in one of them by Z: with m common ones
:math:`mR^2+2(g-m)Z^2\le g\max(R^2,2Z^2)`. The Lemma covers that values and patterns follow earlier releases. ∎

For vectors in the unit ball R = 2 and Z = 1: late reports cost nothing. For C = I, :math:`N=\sqrt g`.

*In the local model* every report carries noise of its own, so g reports cost √g wherever they are.

*What is not covered*: whether and when a user comes. Admissions are public; a user who stays away keeps the places
empty.

*Rolling promises.* The theorem is about the rounds in which the two data sets differ. If :func:`allowed` is applied
to every window of w rounds, what a user did within any one window is protected as promised, for ever, whatever they
did before."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from reticent.errors import InvalidInput
from reticent_wire.participation import may_contribute

__all__ = ["ONCE", "Participation", "allowed", "pattern_norm", "rounds_of_patterns", "worst_norm"]


@dataclasses.dataclass(frozen=True)
class Participation:
    """How often and when one user may contribute.

    Attributes:
      contributions: g, how often in all.
      per_round: how often in one round. gap: b, by how many rounds successive rounds of a user differ at least.
    """

    contributions: int = 1
    per_round: int = 1
    gap: int = 1

    def __post_init__(self) -> None:
        for field in ("contributions", "per_round", "gap"):
            value = getattr(self, field)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
                raise InvalidInput(field, value, "a whole number of at least 1", "count contributions of one user")
        if self.per_round > self.contributions:
            raise InvalidInput(
                "per_round",
                self.per_round,
                f"at most contributions={self.contributions}",
                "lower it, or raise the other",
            )

    @property
    def clause(self) -> str:
        """How often, as a clause of the guarantee's sentence; nothing if once."""
        if self.contributions == 1:
            return ""
        often = "once" if self.per_round == 1 else f"{self.per_round} times"
        within = "" if self.per_round == self.contributions else f", at most {often} in a round"
        apart = "" if self.gap == 1 else f" and never in rounds less than {self.gap} apart"
        return f", who contributes at most {self.contributions} times{within}{apart}"

    def separate_exposure(self, rounds: int | np.ndarray) -> np.ndarray:
        r""":math:`N^2` after so many rounds that are noised separately: full rounds of ``per_round``, and the rest.

        >>> Participation(10).separate_exposure(np.array([1, 2, 50])).tolist()
        [1.0, 2.0, 10.0]
        >>> Participation(10, per_round=4).separate_exposure(50).item()
        36.0
        >>> Participation(10, gap=3).separate_exposure(7).item()
        3.0
        """
        possible = -(-np.asarray(rounds) // self.gap)
        full = np.minimum(possible, self.contributions // self.per_round)
        rest = np.where(possible > full, self.contributions - full * self.per_round, 0)
        return np.asarray(full * self.per_round**2 + np.minimum(rest, self.per_round) ** 2, np.float64)

    def local_exposure(self, rounds: int | np.ndarray) -> np.ndarray:
        """Most reports of one user after so many rounds: what noise on every report is charged for."""
        possible = -(-np.asarray(rounds) // self.gap)
        return np.asarray(np.minimum(possible * self.per_round, self.contributions), np.float64)


ONCE = Participation()
"""Every user contributes once."""


def allowed(participation: Participation, counted: Sequence[int], number: int) -> bool:
    """Whether a user whose contributions were counted in the rounds ``counted`` may have one more in round ``number``.

    The rounds are those that *count* the contributions, not those that the user was served in: a late report must be
    asked about when it arrives. What is not allowed is not counted, and only that user can know.

    >>> allowed(Participation(3, gap=2), [0, 2], 3), allowed(Participation(3, gap=2), [0, 2], 4)
    (False, True)
    """
    return may_contribute(
        participation.contributions, participation.per_round, participation.gap, counted, number
    )  # fmt: skip


def rounds_of_patterns(participation: Participation, rounds: int) -> int:
    """In how many rounds a user may contribute at most, of so many."""
    return min(-(-participation.contributions // participation.per_round), -(-rounds // participation.gap))


def pattern_norm(strategy: np.ndarray, participation: Participation) -> float:
    r"""N of the module's theorem for the strategy C ``(m, n)``: exact, or an upper bound.

    Let :math:`G=C^\top C`, which must have no negative entry.

    * If :math:`G_{i,i+\delta}` falls in i and in δ (identity, square-root Toeplitz), the *earliest* pattern 1, 1+b,
      1+2b, … is the worst: any other has its k-th round later and each pair farther apart, so that no term of
      :math:`\sum_{i,j\in\pi}G_{ij}` is larger.
    * Otherwise :math:`\sum_{i\in\pi}\sum_{j\in\pi}G_{ij}\le\max_\pi\sum_{i\in\pi}v_i` with :math:`v_i` the largest
      sum of row i over any pattern; both maxima are found by dynamic programming (Choquette-Choo et al., arXiv
      2306.08153).

    Several contributions in one round are at most ``per_round`` times one of them.

    Raises:
      InvalidInput: two columns of C have a negative inner product.
    """
    return worst_norm(np.asarray(strategy, np.float64).T @ np.asarray(strategy, np.float64), participation)


def worst_norm(gram: np.ndarray, participation: Participation) -> float:
    """:func:`pattern_norm` from the inner products G ``(n, n)`` of the strategy's columns, stated or measured."""
    if gram.min() < -1e-9 * gram.max():
        raise InvalidInput(
            "inner product of the strategy's columns",
            float(gram.min()),
            "at least 0",
            "use a strategy without negatives",
        )
    rounds, gap = len(gram), participation.gap
    if np.allclose(gram, gram[0, 0] * np.eye(rounds), rtol=0, atol=1e-12 * gram[0, 0]):
        return math.sqrt(float(gram[0, 0]) * float(participation.separate_exposure(rounds)))
    count = rounds_of_patterns(participation, rounds)
    if _falls(gram):
        first = np.arange(count) * gap
        squared = float(gram[np.ix_(first, first)].sum())
    else:
        squared = float(_heaviest(_heaviest(gram, count, gap)[None], count, gap)[0])
    return participation.per_round * math.sqrt(squared)


def _falls(gram: np.ndarray) -> bool:
    """Whether an entry never grows if both rounds are later, or if they are farther apart."""
    slack = 1e-12 * gram.max()
    later = (gram[1:, 1:] <= gram[:-1, :-1] + slack).all()
    apart = (np.triu(gram[:, 1:] - gram[:, :-1], 0)[:-1] <= slack).all()
    return bool(later and apart)


def _heaviest(weights: np.ndarray, count: int, gap: int) -> np.ndarray:
    """The largest sum of at most ``count`` entries of each row ``(r, n)`` that are ``gap`` apart, ``(r,)``."""
    rows, rounds = weights.shape
    best = np.zeros((rows, rounds + 1))  # after t rounds, with the present number of entries
    for _ in range(count):
        following = np.zeros_like(best)
        for t in range(1, rounds + 1):
            taken = best[:, max(t - gap, 0)] + weights[:, t - 1]
            following[:, t] = np.maximum(following[:, t - 1], taken)
        best = following
    return np.asarray(best[:, -1])
