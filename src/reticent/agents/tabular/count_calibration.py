# SPDX-License-Identifier: Apache-2.0
r"""How much noise visit counts need: from a promise to the scale of the noise on every cell.

One user adds at most 1 to one cell of each of three tables at each of H steps
(:mod:`reticent.agents.tabular.count_privatizer`). Replacing them moves each table of a step by at most

=============  ==================  ==================
adjacency      1-norm :math:`Δ_1`  2-norm :math:`Δ_2`
=============  ==================  ==================
``replace``    2                   √2
``zero-out``   1                   1
=============  ==================  ==================

Proof. Visits and transitions: two unit vectors that differ are 2 and √2 apart. Rewards: :math:`r e_i-r'e_j` with r, r′ in
[0, 1] has at most these norms if i ≠ j, and at most 1 if i = j. Against nothing, one entry of at most 1 is left. ∎

All 3H sums get noise of the same scale. Through a counter whose strategy C has entries 0 and 1,

* **Gaussian** noise σ is one Gaussian mechanism of :math:`\mu^2=\|C\|_2^2\cdot3H\Delta_2^2/\sigma^2`, so
  :math:`\sigma=\|C\|_2\Delta_2\sqrt{3H}/\mu(\varepsilon,\delta)` is exact;
* **Laplace** noise b costs :math:`\varepsilon=\|C\|_1\cdot3H\Delta_1/b`, by basic composition, and no δ.

:math:`\|C\|_2^2=\|C\|_1` is the number of noised blocks an item is in: the levels of a tree, 1 for epochs, 1 in the local
model. The factors H and log K that the published simulations of these algorithms leave out are in here.

Formal guarantee. Releasing all sums of all rounds is (ε, δ)-DP, or (ε, 0)-DP with Laplace noise, for one user under the
stated adjacency, also for adaptively chosen items. Plans are post-processing; by the billboard lemma the run is jointly
private, and in the local model each report is locally private.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from reticent.errors import InvalidInput
from reticent.privacy.accounting.account import LAPLACE, Account
from reticent.privacy.calibration import Calibrated, Release, least_noise
from reticent.privacy.counters import COUNTERS, Counter, make_counter
from reticent.privacy.guarantee import check_promise
from reticent.privacy.late_reports import late_report_ratio
from reticent.privacy.noise import touched_draws
from reticent.privacy.sensitivity import Adjacency
from reticent.privacy.trust import Trust

CountLaw = Literal["gaussian", "laplace"]
TABLES = ("visits", "transitions", "rewards")


def table_sensitivity(law: CountLaw, adjacency: Adjacency) -> float:
    """How far one user moves one table of one step, in the norm that the law is charged in."""
    if adjacency == "zero-out":
        return 1.0
    return 2.0 if law == "laplace" else math.sqrt(2.0)


@dataclasses.dataclass(frozen=True)
class CountCalibration(Calibrated):
    """The noise of a run, and what it promises. Data-independent.

    Attributes:
      sensitivity: of one table of one step, in the law's norm.
      scale: of the noise on every cell, σ or b.
      counter_sensitivity: how often an item is charged: ‖C‖₂ under Gaussian noise, ‖C‖₁ under Laplace; 1 in the local
        model.
      grid: spacing that rewards are rounded to in a deployment; 0 is none.
      columns: the tables' places in the packed counts, by name.
    """

    trust: Trust
    adjacency: Adjacency
    law: CountLaw
    epsilon: float
    delta: float
    counter: Counter
    counter_sensitivity: float
    horizon: int
    sensitivity: float
    scale: float
    grid: float
    account: Account
    columns: Mapping[str, slice]

    def releases(self) -> Sequence[Release]:
        """One per table and step."""
        steps = range(1, self.horizon + 1)
        return [
            Release(name, step, self.sensitivity, self.scale, self.columns.get(name))
            for step in steps
            for name in TABLES
        ]

    def largest(self, round_ends: NDArray[np.int64]) -> float:
        """In standard deviations, whichever the law."""
        return (math.sqrt(2.0) if self.law == "laplace" else 1.0) * super().largest(round_ends)

    @property
    def late_report_ratio(self) -> float:
        """1: a user who leaves one round and joins another moves no more than one who is replaced."""
        return late_report_ratio(self.sensitivity, 1.0, self.adjacency) if self.law == "gaussian" else 1.0


def calibrate_counts(
    horizon: int,
    counter: Counter,
    *,
    trust: Trust,
    adjacency: Adjacency,
    law: CountLaw,
    epsilon: float,
    delta: float,
    deployment: bool = False,
    columns: Mapping[str, slice] = MappingProxyType({}),
) -> CountCalibration:
    """The least noise that the promise allows; δ is 0 whatever is given where the law is Laplace.

    ``deployment`` accounts for rounding rewards to an integer grid, as the secure noise needs; visits and transitions are
    whole numbers and stay what they are. Rounding moves one entry of either neighbour by at most half the grid g, so any
    table by at most √2·g more.
    """
    exact, tables = table_sensitivity(law, adjacency), len(TABLES) * horizon
    if law == "laplace":
        check_promise(epsilon, 0.5)
        if deployment:
            raise InvalidInput("law", law, "'gaussian' in a deployment", "secure noise is drawn from that law only")
        charged = trust.sensitivity(counter) ** 2 if trust.noised_reports else blocks_of_an_item(counter)
        scale = charged * tables * exact / epsilon
        return CountCalibration(
            trust, adjacency, law, epsilon, 0.0, counter, charged, horizon, exact, scale, 0.0, LAPLACE, columns
        )
    charged = trust.sensitivity(counter)
    if not math.isfinite(charged):
        raise InvalidInput("counter", counter.name, "one that protects its items", "use epochs, tree or blt")

    def noise(strength: float, grid: float) -> tuple[float, float]:
        if not grid:
            return exact, charged * exact * math.sqrt(tables) / strength
        moved = exact + math.sqrt(2.0) * grid
        return moved, charged * math.sqrt(tables) / strength * moved

    # One user is in one cell of every table: only those draws can tell the user from another, and the other's.
    (sensitivity, scale), grid, account = least_noise(
        noise, lambda found: found[1], epsilon=epsilon, delta=delta, coarsest=1.0,
        draws=touched_draws(2 * tables, charged**2) if deployment else 0,
    )  # fmt: skip
    return CountCalibration(
        trust, adjacency, law, epsilon, delta, counter, charged, horizon, sensitivity, scale, grid, account, columns
    )


def blocks_of_an_item(counter: Counter) -> float:
    r""":math:`\max_t\|Ce_t\|_1`: in how many noised blocks the most exposed item is.

    Raises:
      InvalidInput: the strategy has other entries than 0 and 1, and a 1-norm that grows with the number of rounds.
    """
    if not counter.integer_strategy:
        whole = [name for name in COUNTERS if make_counter(name, (1,)).integer_strategy]
        raise InvalidInput(
            "counter",
            counter.name,
            f"one of {', '.join(whole)} with Laplace noise",
            "use law='gaussian' with the others",
        )
    return float(round(counter.sensitivity**2))


def noise_width(law: CountLaw, scale: float, power: NDArray[np.float64], probability: float) -> NDArray[np.float64]:
    r"""What a sum of independent noises exceeds in absolute value with at most this probability.

    ``power`` is :math:`\sum_iw_i^2` of the weights w with which draws of ``scale`` enter. Gaussian: the exact quantile.
    Laplace: Chernoff's bound with the exact moment generating function, for weights of at most 1,

    .. math:: P\Big(\Big|\sum_iw_iz_i\Big|>x\Big)\le2\inf_{0<s<1}e^{-sx/b}\prod_i\frac1{1-w_i^2s^2}
              \le2\inf_s e^{-sx/b}(1-s^2)^{-\sum w_i^2},

    as :math:`-\ln(1-ws^2)` is convex in w and 0 at 0.
    """
    if law == "gaussian":
        return np.asarray(scale * np.sqrt(power) * -ndtri(probability / 2))
    # Any s gives a bound, so the least over a fine grid is one. The best s falls with the root of the power.
    grid = np.concatenate([np.geomspace(1e-5, 0.5, 240), 1 - np.geomspace(0.5, 1e-6, 60)])
    fixed, per_power = math.log(2 / probability) / grid, -np.log1p(-(grid**2)) / grid
    values, places = np.unique(power, return_inverse=True)
    return np.asarray(scale * np.array([(fixed + value * per_power).min() for value in values])[places])
