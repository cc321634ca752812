r"""How much noise visit counts need: from a promise to the scale of the noise on every cell.

One user adds at most 1 to one cell of each of three tables at each of H steps
(:mod:`reticent.privacy.count_privatizer`). Replacing her moves each table of a step by at most

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
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from reticent.errors import InvalidInput
from reticent.privacy.accountant import epsilon_of, mu_of
from reticent.privacy.arrivals import arrival_ratio
from reticent.privacy.calibration import check_promise
from reticent.privacy.counters.counter import Counter
from reticent.privacy.ledger import CounterShare, Ledger, Trust
from reticent.privacy.pure_ledger import PureLedger, blocks_of_an_item, pure_cost
from reticent.privacy.sensitivity import Adjacency

CountLaw = Literal["gaussian", "laplace"]
TABLES = ("visits", "transitions", "rewards")


def table_sensitivity(law: CountLaw, adjacency: Adjacency) -> float:
    """How far one user moves one table of one step, in the norm that the law is charged in."""
    if adjacency == "zero-out":
        return 1.0
    return 2.0 if law == "laplace" else math.sqrt(2.0)


@dataclasses.dataclass(frozen=True)
class CountCalibration:
    """The noise of a run, and what it promises. Data-independent.

    Attributes:
      sensitivity: of one table of one step, in the law's norm.
      scale: of the noise on every cell, σ or b.
      counter_sensitivity: how often an item is charged: ‖C‖₂ under Gaussian noise, ‖C‖₁ under Laplace; 1 in the local
        model.
      grid: 0, as counts are not rounded in simulation.
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
    grid: float = 0.0
    account: None = None
    """No noise here is binomial (:class:`~reticent.privacy.calibration.Calibration` may have an account of such)."""

    def shares(self) -> list[CounterShare]:
        """One row per table and step (1-based)."""
        steps = range(1, self.horizon + 1)
        return [CounterShare(name, step, self.sensitivity, self.scale) for step in steps for name in TABLES]

    @property
    def mu(self) -> float | None:
        """The joint μ of everything released; None under Laplace noise, which has none."""
        if self.law == "laplace":
            return None
        return self.counter_sensitivity * math.sqrt(sum(share.mu_squared for share in self.shares()))

    @property
    def epsilon_spent(self) -> float:
        """The ε that the noise really gives at the promised δ (0 under Laplace noise)."""
        mu = self.mu
        return self.counter_sensitivity * pure_cost(self.shares()) if mu is None else epsilon_of(mu, self.delta)

    @property
    def arrival_ratio(self) -> float:
        """1: a user who leaves one round and joins another moves no more than one who is replaced."""
        return arrival_ratio(self.sensitivity, 1.0, self.adjacency) if self.law == "gaussian" else 1.0

    def ledger(self, round_ends: Any) -> Ledger | PureLedger:
        """The account of a run that releases after these numbers of episodes."""
        ends = np.asarray(round_ends, dtype=np.int64)
        local = self.trust == "local"
        exposure = np.ones(len(ends)) if local else np.asarray(self.counter.exposure(), dtype=np.float64)
        name, shares = "local noise" if local else self.counter.name, tuple(self.shares())
        if self.law == "laplace":
            return PureLedger(self.adjacency, self.trust, self.epsilon, shares, name, exposure, ends)
        return Ledger(self.adjacency, self.trust, self.epsilon, self.delta, shares, name, exposure, ends)

    def to_rows(self, release_std_max: float) -> list[dict[str, Any]]:
        """The table of noises of a report; ``sigma`` is the scale b under Laplace noise."""
        deviation = self.scale * (math.sqrt(2.0) if self.law == "laplace" else 1.0)
        return [
            {
                "name": share.name,
                "step": share.step,
                "sensitivity": share.sensitivity,
                "sigma": share.sigma,
                "release_std_max": deviation * release_std_max,
            }
            for share in self.shares()
        ]


def calibrate_counts(
    horizon: int,
    counter: Counter,
    *,
    trust: Trust,
    adjacency: Adjacency,
    law: CountLaw,
    epsilon: float,
    delta: float,
) -> CountCalibration:
    """The least noise that the promise allows; δ is 0 whatever is given where the law is Laplace."""
    check_promise(epsilon, delta if law == "gaussian" else 0.5)
    sensitivity, tables = table_sensitivity(law, adjacency), len(TABLES) * horizon
    if law == "laplace":
        charged = 1.0 if trust == "local" else blocks_of_an_item(counter)
        scale, delta = charged * tables * sensitivity / epsilon, 0.0
    else:
        charged = 1.0 if trust == "local" else counter.sensitivity
        if not math.isfinite(charged):
            raise InvalidInput("counter", counter.name, "one that protects its items", "use epochs, tree or blt")
        scale = charged * sensitivity * math.sqrt(tables) / mu_of(epsilon, delta)
    return CountCalibration(
        trust, adjacency, law, epsilon, delta, counter, charged, horizon, sensitivity, scale
    )  # fmt: skip


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
