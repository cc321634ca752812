r"""The account of a run with Laplace noise: ε adds up, and there is no δ.

Releasing something that one user moves by at most :math:`\Delta_1` in the 1-norm with Laplace noise of scale b costs
:math:`\varepsilon=\Delta_1/b`, and costs add (basic composition, also for adaptive releases). A counter with a strategy of
zeros and ones puts a user's item into several noised blocks and charges each, so after round t

.. math:: \varepsilon(t)=\texttt{exposure}(t)\cdot\sum_i\Delta_{1,i}/b_i ,

the exposure being the number of noised blocks that the most exposed item is in by then: for 0/1 strategies the same number
that :meth:`Counter.exposure` gives for the squared 2-norm.

Formal guarantee. As in :mod:`reticent.privacy.ledger`, every number is a function of the plan alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidInput
from reticent.privacy.counters.counter import Counter
from reticent.privacy.ledger import CounterShare, Trust
from reticent.privacy.sensitivity import Adjacency

WHOLE_STRATEGIES = ("tree", "tree-reduced", "epochs")
"""Counters whose strategy matrix has entries 0 and 1 only; the others have no small 1-norm."""


@dataclasses.dataclass(frozen=True)
class PureEntry:
    """The state of the budget after one round's release; ``what`` names the sums released with it."""

    round: int
    episode: int
    what: tuple[str, ...]
    epsilon: float
    remaining: float
    mu_squared: float | None = None
    """None: there is no Gaussian mechanism here to have one."""


@dataclasses.dataclass(frozen=True, eq=False)  # arrays have no single truth value to compare by
class PureLedger:
    """The privacy account of one run under pure differential privacy.

    ``shares`` hold 1-norm sensitivities and, in place of σ, the Laplace scales b; the other fields are those of
    :class:`~reticent.privacy.ledger.Ledger`.
    """

    adjacency: Adjacency
    trust: Trust
    epsilon: float
    shares: tuple[CounterShare, ...]
    counter: str
    exposure: NDArray[np.float64]
    round_ends: NDArray[np.int64]
    delta: float = 0.0

    def __post_init__(self) -> None:
        if self.exposure.shape != self.round_ends.shape or self.exposure.ndim != 1:
            bound = f"one number per round of the counter, {self.exposure.shape}"
            raise InvalidInput("round_ends.shape", self.round_ends.shape, bound, "give the end of each released round")
        if (np.diff(self.round_ends, prepend=0) <= 0).any():
            raise InvalidInput("round_ends", self.round_ends, "increasing from 1 on", "each user is in one round only")
        if self.spent(self.rounds) > self.epsilon * (1.0 + 1e-6):
            raise InvalidInput(
                "epsilon of the plan", self.spent(self.rounds), f"at most {self.epsilon:g}", "calibrate the noise to it"
            )

    @property
    def rounds(self) -> int:
        return int(self.round_ends.size)

    def spent(self, after_round: int) -> float:
        """ε after the release of round ``after_round`` (1-based; 0 is before the first)."""
        if not 0 <= after_round <= self.rounds:
            raise InvalidInput("after_round", after_round, f"between 0 and {self.rounds}", "ask for a planned round")
        if after_round == 0:
            return 0.0
        return float(self.exposure[after_round - 1]) * pure_cost(self.shares)

    def entries(self, rounds: Iterable[int] | None = None) -> list[PureEntry]:
        """The state after each of ``rounds``, by default all."""
        what = tuple(dict.fromkeys(share.name for share in self.shares))
        rows = []
        for index in range(1, self.rounds + 1) if rounds is None else rounds:
            spent, episode = self.spent(index), int(self.round_ends[index - 1]) if index else 0
            rows.append(PureEntry(index, episode, what, spent, max(0.0, self.epsilon - spent)))
        return rows

    def to_rows(self, rounds: Iterable[int] | None = None) -> list[dict[str, Any]]:
        """:meth:`entries` as plain values, for tables and JSON."""
        return [{**dataclasses.asdict(entry), "what": ", ".join(entry.what)} for entry in self.entries(rounds)]


def pure_cost(shares: Sequence[CounterShare]) -> float:
    """What releasing one item of every share once costs: the sum of 1-norm sensitivities over scales."""
    return float(sum(share.sensitivity / share.sigma for share in shares))


def blocks_of_an_item(counter: Counter) -> float:
    r""":math:`\max_t\|Ce_t\|_1`: in how many noised blocks the most exposed item is.

    Raises:
      InvalidInput: the strategy has other entries than 0 and 1, and a 1-norm that grows with the number of rounds.
    """
    if counter.name not in WHOLE_STRATEGIES:
        raise InvalidInput(
            "counter", counter.name, f"one of {', '.join(WHOLE_STRATEGIES)} with Laplace noise",
            "use law='gaussian' with the others",
        )  # fmt: skip
    return float(round(counter.sensitivity**2))
