# SPDX-License-Identifier: Apache-2.0
r"""From a promise to the noise of a model-free learner, before the first user comes.

Epochs have public sizes :math:`n_1\le\dots\le n_T` and round t gives epoch i the weight :math:`w_i(t)=n_i/n_t`
(:mod:`reticent.agents.linear_mdp.private_moments`). A user of epoch i is in one matrix per step and in the moments of
rounds i, …, T.

**Theorem.** Let matrices carry noise :math:`\sigma_h` and every round's moments fresh noise :math:`\tau_h`, and let

.. math:: E=\max_i\sum_{t=i}^T\Big(\frac{n_i}{n_t}\Big)^2,\qquad s_h=E\,\sigma_h^2/\tau_h^2 .

Then everything that is ever released is together :math:`\mu`-Gaussian-DP for every user, with
:math:`\mu^2=\sum_hJ(s_h)^2/\sigma_h^2` and J the joint sensitivity of a matrix and a vector of unit bounds
(:func:`reticent.privacy.sensitivity.joint_sensitivity`, weight :math:`\sqrt{s_h}`).

*Proof.* Order the releases by (t, matrices before moments, h from H down). Each is a Gaussian mechanism of the users'
data whose value function, frame and weights are functions of *earlier* releases, so the whole is an adaptive composition
and its μ² is at most the largest sum of the releases' own (Dong, Roth and Su 2022). In this user's sums two neighbours
differ at step h by :math:`xx^\top-yy^\top` once, and in round t by :math:`w_i(t)(v_tx-v_t'y)` with :math:`|v_t|,|v_t'|
\le1`. So step h costs at most

.. math:: \frac1{\sigma_h^2}\Big(\|xx^\top-yy^\top\|_F^2+\frac{\sigma_h^2}{\tau_h^2}\sum_tw_i(t)^2\|v_tx-v_t'y\|^2\Big)
          \le\frac{J(s_h)^2}{\sigma_h^2},

because the proof of J bounds each term of the sum at the same corner :math:`|v|=|v'|=1`, whatever t, and
:math:`\sum_tw_i(t)^2\le E`. The other users' data are functions of the plans they were shown, which are
post-processing; by the billboard lemma the run is jointly DP. ∎

With growing epochs :math:`n_t\propto g^t` E is about :math:`1/(1-g^{-2})`, 1.8 for g = 1.5, however many rounds there are
(the last epoch takes what is left and need not have grown: at most 1 is added). With equal epochs E = T, the plain count
of rounds; that is what moments over all data cost without the weights.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from reticent.agents.linear_mixture.calibration import Split
from reticent.agents.linear_mixture.spectrum import chi_quantile, operator_norm_quantile
from reticent.errors import InvalidInput
from reticent.learning.schedule import Schedule, geometric_sizes
from reticent.privacy.accounting.account import GAUSSIAN, Account
from reticent.privacy.accounting.gaussian import mu_of
from reticent.privacy.calibration import Calibrated, Release, check_scales
from reticent.privacy.counters.epochs import EpochCounter
from reticent.privacy.guarantee import Guarantee, check_promise
from reticent.privacy.sensitivity import Adjacency, accounted_moment_sensitivity, gram_sensitivity, joint_sensitivity
from reticent.privacy.trust import JOINT, Trust

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class LinearMdpOptions:
    """Every option of ``private-lsvi-ucb``.

    Attributes:
      trust: ``joint`` only; :mod:`reticent.agents.linear_mdp.private_moments` says why.
      epsilon, delta: the promise.
      adjacency: what may change about one user: everything (``replace``), or their contribution is zero and their place is
        kept (``zero-out``).
      bonus_scale: multiplies the radii; 1 is Jin et al.'s with constant 1, plus what the noise adds.
      shift_scale: multiplies the shift that keeps noisy matrices positive definite.
      alpha: failure probability of radii and shifts.
      first, growth: size of the first epoch, by default 256 users (fewer if K is small), and growth of the next.
      final_release: whether the policy learned from all K users will be published too.
      split: how the budget is shared out over the steps.
      moment_share: s, the weight of a user's moments in all rounds together against their matrix.
    """

    trust: Literal["joint"] = "joint"
    epsilon: float = 1.0
    delta: float = 1e-5
    adjacency: Adjacency = "replace"
    bonus_scale: float = 0.1
    shift_scale: float = 0.5
    alpha: float = 0.05
    first: int | None = None
    growth: float = 1.5
    final_release: bool = True
    split: Split = "optimised"
    moment_share: float = 1.0

    def resolve(self, episodes: int) -> LinearMdpOptions:
        """Check the numbers, and fill in what depends on K."""
        check_promise(self.epsilon, self.delta)
        check_scales(self)
        if not 0 < self.moment_share <= 4:
            raise InvalidInput("moment_share", self.moment_share, "in (0, 4]", "1 is a good choice")
        first = max(1, min(256, episodes // 8)) if self.first is None else self.first
        return dataclasses.replace(self, first=first)


def reuse(sizes: NDArray[np.int64]) -> Floats:
    r"""After each round t, the largest :math:`\sum_{r=i}^t(n_i/n_r)^2` over epochs i: ``(T,)``, its last entry E.

    >>> reuse(np.array([1, 2, 4])).tolist()
    [1.0, 1.25, 1.3125]
    >>> reuse(np.array([5, 5, 5])).tolist()
    [1.0, 2.0, 3.0]
    """
    if (np.diff(sizes) < 0).any():
        raise InvalidInput("sizes", sizes, "never decreasing", "larger epochs must come later")
    squares = np.tril((sizes[None, :] / sizes[:, None]) ** 2)  # [r, i] for r ≥ i
    return np.asarray(np.cumsum(squares, axis=0).max(axis=1), dtype=np.float64)


@dataclasses.dataclass(frozen=True)
class MomentCalibration(Calibrated):
    """The noise of a run and what it promises; data-independent. Arrays are per step, ``(H,)``."""

    adjacency: Adjacency
    epsilon: float
    delta: float
    counter: EpochCounter
    gram_sigma: Floats
    moment_sigma: Floats
    moment_share: float
    trust: Trust = JOINT
    account: Account = GAUSSIAN

    @property
    def reuse(self) -> Floats:
        """E(t) of the theorem after each round."""
        return reuse(np.asarray(self.counter.sizes))

    def releases(self) -> list[Release]:
        """Two per step; the moments' sensitivity is that of all rounds together, √E times one release's."""
        one = accounted_moment_sensitivity(1.0, 1.0, math.sqrt(self.moment_share), self.adjacency)
        every = math.sqrt(float(self.reuse[-1])) * one
        gram = gram_sensitivity(1.0, self.adjacency)
        rows = []
        for step, (sigma, tau) in enumerate(zip(self.gram_sigma.tolist(), self.moment_sigma.tolist(), strict=True), 1):
            rows.append(Release("gram", step, gram, sigma))
            rows.append(Release("moments of all rounds", step, every, tau, largest=1.0))
        return rows

    def exposure(self, rounds: int) -> Floats:
        """What has been spent after each round: the matrices at once, the moments little by little."""
        del rounds
        so_far = [
            joint_sensitivity(1.0, 1.0, math.sqrt(self.moment_share * part), self.adjacency)
            for part in (self.reuse / self.reuse[-1]).tolist()
        ]
        return np.asarray((np.array(so_far) / so_far[-1]) ** 2)

    def released_by(self, rounds: int) -> str:
        del rounds
        return "epochs, moments anew each round"


@dataclasses.dataclass(frozen=True)
class LinearMdpPlan:
    """What a private model-free learner will do, fixed before the first user.

    Attributes:
      shift, floor: of the matrices' eigenvalues, ``(rounds + 1, H)``.
      noise_radius: what noise and shift add to β, in units of the frame's scale, ``(rounds + 1, H)``.
    """

    options: LinearMdpOptions
    schedule: Schedule
    calibration: MomentCalibration
    shift: Floats
    floor: Floats
    noise_radius: Floats

    @property
    def guarantee(self) -> Guarantee:
        """What the agent promises."""
        return self.calibration.guarantee(
            self.schedule.ends[: self.schedule.releases], dataclasses.asdict(self.options),
            remark=f"their data are used again in each of up to {self.schedule.releases} rounds",
        )  # fmt: skip


def plan_linear_mdp(dimension: int, horizon: int, episodes: int, options: LinearMdpOptions) -> LinearMdpPlan:
    """Everything that follows from the options for ``episodes`` users of a linear MDP of ``dimension`` features.

    Raises:
      InvalidInput: an option is outside its domain; nothing has been spent.
    """
    options = options.resolve(episodes)
    assert options.first is not None
    schedule = Schedule(episodes, geometric_sizes(episodes, options.first, options.growth), options.final_release)
    counter = EpochCounter(tuple(schedule.round_sizes[: schedule.releases].tolist()))
    calibration = calibrate(horizon, counter, options)

    spread = np.concatenate([counter.release_std()[:1], counter.release_std()])[:, None]
    probability = options.alpha / (2 * counter.rounds * horizon)
    operator = spread * calibration.gram_sigma * operator_norm_quantile(dimension, probability)
    vector = calibration.moment_sigma * chi_quantile(dimension, probability)
    low, high = operator + 1.0, 3 * operator + 1.0
    # ‖z‖ in the norm of Λ⁻¹, and ‖Zw‖ of the noise in the matrix with ‖w‖ ≤ √d in the frame.
    radius = vector / np.sqrt(low) + np.sqrt(high * dimension)
    shift, floor = options.shift_scale * 2 * operator + 1.0, options.shift_scale * operator + 1.0
    return LinearMdpPlan(options, schedule, calibration, shift, floor, radius)


def calibrate(horizon: int, counter: EpochCounter, options: LinearMdpOptions) -> MomentCalibration:
    r"""The least noise that (ε, δ) allows by the theorem.

    μ² is shared out over steps so that :math:`\sum_h a_h\sqrt{\sigma_h}` is least, with :math:`a_h` half of what can
    still be earned: :math:`\mu_h^2\propto a_h^{4/5}`, as in
    :func:`reticent.agents.linear_mixture.calibration.calibrate_exact`.
    """
    importance = (np.arange(horizon, 0, -1.0) / 2) ** (0.8 if options.split == "optimised" else 0.0)
    budget = mu_of(options.epsilon, options.delta) * np.sqrt(importance / importance.sum())
    share, adjacency = options.moment_share, options.adjacency
    sigma = joint_sensitivity(1.0, 1.0, math.sqrt(share), adjacency) / budget
    again = float(reuse(np.asarray(counter.sizes))[-1])
    tau = sigma * math.sqrt(again / share)
    return MomentCalibration(adjacency, options.epsilon, options.delta, counter, sigma, tau, options.moment_share)
