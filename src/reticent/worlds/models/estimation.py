# SPDX-License-Identifier: Apache-2.0
r"""Candidate models from counts, and how far off they may be.

From n transitions out of a pair (s, a), :math:`N(s')` of them into s', the estimate is the Dirichlet mean

.. math:: \tilde P(s'\mid s,a)=\frac{N(s')+\kappa\,\Pi(s'\mid s)}{n+\kappa}

for a prior Π and κ pseudo-counts; a pair that was never tried has the prior alone. With m the most next states that a pair
can have, with probability at least 1 − δ *all* pairs of all d candidates satisfy

.. math:: \|\tilde P-P\|_1\le\frac{n\,\epsilon_n+2\kappa}{n+\kappa},\qquad
          \epsilon_n=\sqrt{\frac2n\Big(\ln(2^m-2)+\ln\frac{2dSA\,n(n+1)}\delta\Big)},

and the mean rewards, averages of n numbers in [0, 1], :math:`|\tilde r-r|\le\sqrt{\ln(4dSA\,n(n+1)/\delta)/2n}`. The first
is the bound of Weissman et al. (2003) for the empirical distribution, the second Hoeffding's, each at half of δ shared out
over pairs. The factor n(n+1) makes both hold for every n at once (its inverses sum to one), as they must: how often a pair
comes up in a trajectory is itself random. κ moves the estimate by at most 2κ/(n+κ). Samples of one pair are taken to be
independent and of one distribution, which is what being a Markov model means.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, NamedTuple

import numpy as np

Prior = Literal["stay", "seen"]


class Sample(NamedTuple):
    """Transitions of one source, in any order.

    ``states``, ``actions``, ``following`` and ``rewards`` are ``(N,)``; ``ended`` says whether the following state
    ended its episode by itself; ``firsts`` are the states in which episodes began.
    """

    states: np.ndarray
    actions: np.ndarray
    following: np.ndarray
    rewards: np.ndarray
    ended: np.ndarray
    firsts: np.ndarray


@dataclasses.dataclass(frozen=True)
class CandidateReport:
    """What one candidate rests on.

    Attributes:
      name: of the source.
      samples, episodes: how many transitions and episodes were used.
      counts: transitions out of each pair, ``(S, A)``.
      absorbing: states ``(S,)`` that ended episodes and were never acted in: they keep to themselves and pay nothing
        more, by what an end means and not by estimation.
      transition_error: bound on :math:`\\|\\tilde P-P\\|_1` of each pair, ``(S, A)``; 2, the most there is, where
        nothing is known, and 0 for absorbing states.
      reward_error: bound on the error of mean rewards, ``(S, A)``, at most 1.
    """

    name: str
    samples: int
    episodes: int
    counts: np.ndarray
    absorbing: np.ndarray
    transition_error: np.ndarray
    reward_error: np.ndarray

    @property
    def least_count(self) -> int:
        """The fewest samples of any pair of a state that is not absorbing."""
        return int(self.counts[~self.absorbing].min()) if self.pairs else 0

    @property
    def pairs(self) -> int:
        """How many pairs had to be estimated."""
        return int(self.counts[~self.absorbing].size)

    @property
    def untried(self) -> int:
        """How many of them have no sample at all, and are the prior."""
        return int((self.counts[~self.absorbing] == 0).sum())

    @property
    def visited_error(self) -> float:
        """The bound on the L1 error averaged over the samples: what it is where the source goes."""
        return float((self.transition_error * self.counts).sum() / self.counts.sum())


@dataclasses.dataclass(frozen=True)
class EstimationReport:
    """How well estimated candidates are known; see :mod:`reticent.worlds.models.estimation` for the bounds.

    Attributes:
      candidates: one report each.
      confidence: all bounds hold together with at least this probability.
      smoothing, prior: κ and Π of the Dirichlet means.
      outcomes: m, the number of next states that a pair was taken to have at most.
      first_states: from how many episodes the distribution of the first state was estimated; 0 if it was given.
    """

    candidates: tuple[CandidateReport, ...]
    confidence: float
    smoothing: float
    prior: Prior
    outcomes: int
    first_states: int

    @property
    def samples(self) -> int:
        """Transitions used, over all candidates."""
        return sum(candidate.samples for candidate in self.candidates)

    @property
    def least_count(self) -> int:
        """The fewest samples that any pair of any candidate rests on."""
        return min(candidate.least_count for candidate in self.candidates)

    @property
    def zeta(self) -> float:
        r"""By how much a truth that blends the *sources* may be off the span of the estimates, in total variation.

        Half the largest L1 bound: :math:`\|\sum_iw_i(\tilde P_i-P_i)\|_1\le\max_i\|\tilde P_i-P_i\|_1` for weights on
        the simplex. It is 1, which says nothing, as soon as one pair was never tried.
        """
        return max(float(candidate.transition_error.max()) for candidate in self.candidates) / 2

    def __str__(self) -> str:
        head = f"{'candidate':<24} {'samples':>10} {'least count':>12} {'untried':>14} {'L1 error ≤':>11} {'visited ≤':>10}"
        rows = [
            f"{one.name[:24]:<24} {one.samples:>10,} {one.least_count:>12,} {f'{one.untried} of {one.pairs}':>14} "
            f"{one.transition_error.max():>11.3f} {one.visited_error:>10.3f}"
            for one in self.candidates
        ]
        foot = (
            f"bounds hold together with probability {self.confidence:g}, for at most {self.outcomes} next states a pair; "
            f"prior {self.prior!r} with {self.smoothing:g} pseudo-counts"
        )
        return "\n".join([head, *rows, foot])


class Tally(NamedTuple):
    """Counts of one source: transitions as a sparse ``(S·A, S)``, sums of rewards and counts ``(S, A)``."""

    transitions: Any
    rewards: np.ndarray
    counts: np.ndarray
    absorbing: np.ndarray


def tally(sample: Sample, states: int, actions: int) -> Tally:
    """Count a sample."""
    import scipy.sparse  # not at the top: few worlds need it

    pair = sample.states * actions + sample.actions
    shape = (states * actions, states)
    transitions = scipy.sparse.coo_array((np.ones(len(pair)), (pair, sample.following)), shape=shape).tocsr()
    counts = np.bincount(pair, minlength=shape[0]).reshape(states, actions)
    rewards = np.bincount(pair, weights=sample.rewards, minlength=shape[0]).reshape(states, actions)
    ends = np.bincount(sample.following[sample.ended], minlength=states) > 0
    return Tally(transitions, rewards, counts, ends & (counts.sum(axis=1) == 0))


def dirichlet_means(tallies: list[Tally], smoothing: float, prior: Prior) -> list[Any]:
    """The estimated transitions of every source, sparse ``(S·A, S)`` each; every row is a distribution."""
    import scipy.sparse

    states, actions = tallies[0].counts.shape
    stay = scipy.sparse.eye_array(states, format="csr")
    by_state = scipy.sparse.kron(stay, np.ones((1, actions)), format="csr")  # row s sums the pairs of state s
    reached = sum((by_state @ one.transitions for one in tallies), start=scipy.sparse.csr_array((states, states)))
    means = []
    for one in tallies:
        centre = stay
        if prior == "seen":
            # Uniform over all states that were seen to follow this one in any source; itself where there are none.
            alone = one.absorbing | (reached.sum(axis=1) == 0)
            kept = scipy.sparse.diags_array(np.where(alone, 0.0, 1.0))
            pattern = (kept @ reached).astype(bool).astype(np.float64) + scipy.sparse.diags_array(alone.astype(float))
            centre = scipy.sparse.diags_array(1 / pattern.sum(axis=1)) @ pattern
        counts = one.counts.ravel().astype(np.float64)
        weight = np.where(counts == 0, 1.0, smoothing)
        smoothed = one.transitions + scipy.sparse.diags_array(weight) @ (by_state.T @ centre)
        means.append((scipy.sparse.diags_array(1 / (counts + weight)) @ smoothed).tocsr())
    return means


def transition_error(
    counts: np.ndarray, outcomes: int, smoothing: float, candidates: int, confidence: float
) -> np.ndarray:
    """The module's bound on the L1 error of every pair, for ``counts`` ``(S, A)``; at most 2."""
    n = np.maximum(counts, 1).astype(np.float64)
    # ln(2^m − 2) without forming 2^m; a single possible outcome has no error.
    patterns = outcomes * math.log(2) + math.log1p(-(2.0 ** (1 - outcomes))) if outcomes > 1 else -math.inf
    spread = np.sqrt(np.maximum(2 / n * (patterns + _log_share(n, counts.size * candidates, confidence)), 0))
    bound = np.where(counts == 0, 2.0, (n * spread + 2 * smoothing) / (n + smoothing))
    return np.asarray(np.minimum(bound, 2.0))


def reward_error(counts: np.ndarray, candidates: int, confidence: float) -> np.ndarray:
    """The module's bound on the error of every mean reward, for ``counts`` ``(S, A)``; at most 1."""
    n = np.maximum(counts, 1).astype(np.float64)
    bound = np.sqrt((math.log(2) + _log_share(n, counts.size * candidates, confidence)) / (2 * n))
    return np.asarray(np.where(counts == 0, 1.0, np.minimum(bound, 1.0)))


def _log_share(n: np.ndarray, pairs: int, confidence: float) -> np.ndarray:
    """ln(1/δ′) with δ′ the share of half of δ that one pair has at its n-th sample."""
    return np.asarray(np.log(2 * pairs * n * (n + 1) / (1 - confidence)))
