# SPDX-License-Identifier: Apache-2.0
"""From a promise to everything a private tabular learner needs, before the first user comes.

The counterpart of :mod:`reticent.agents.linear_mixture.privacy_plan` for visit counts: :class:`CountOptions` is what a
user may choose, :func:`plan_counts` turns it into a :class:`CountPlan`. All of it is data-independent.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from reticent.agents.linear_mixture.learner import require_declared
from reticent.agents.tabular.count_calibration import TABLES, CountCalibration, CountLaw, calibrate_counts, noise_width
from reticent.agents.tabular.count_privatizer import table_slices
from reticent.agents.tabular.counts import check_size, packed_width
from reticent.learning.learner import Method
from reticent.learning.schedule import Schedule, geometric_sizes
from reticent.privacy.calibration import check_scales, counter_for
from reticent.privacy.counters import CounterName, groups_users
from reticent.privacy.guarantee import Guarantee
from reticent.privacy.sensitivity import Adjacency
from reticent.privacy.trust import trust_named
from reticent.worlds import Model

TrustOption = Literal["joint", "local"]
"""Shuffled counts are not built: their messages would be S²A per step."""


@dataclasses.dataclass(frozen=True)
class CountOptions:
    """Every option of a private tabular agent. Where
    :class:`~reticent.agents.linear_mixture.privacy_plan.PrivateOptions` has one of the same
    name, it means the same.

    Attributes:
      trust: who is trusted with raw data: the server (``joint``) or no other party (``local``).
      epsilon, delta: the promise; ``delta`` is not used (there is none) with Laplace noise.
      law: ``gaussian`` noise for (ε, δ), or ``laplace`` for (ε, 0) as in most of the papers.
      counter: how running sums are released (joint model); by default ``blt`` with Gaussian noise, so that there is a new
        plan after every user, and ``epochs`` with Laplace noise, which goes with epochs and trees only.
      adjacency: what may change about one user: everything (``replace``), or their contribution is zero and their place is
        kept (``zero-out``).
      bonus_scale: multiplies the paper's bonus.
      shift_scale: multiplies the widths E of the noise in shifts and bonuses; 1 is the theory.
      alpha: failure probability of the confidence sets.
      learning_rate: η of policy optimization; by default the paper's.
      final_release: whether the policy learned from all K users will be published too.
      pool: add up the counts of all steps; by default if the model is declared stationary.
      first, growth: size of the first round and growth of the next. By default every user is a round, but for the counter
        ``epochs``: 128 users (fewer if K is small), and 1.15, or 1.1 for policy optimization.
      deployment: account for the integer grid of the secure noise source (Gaussian noise only).
    """

    trust: TrustOption = "joint"
    epsilon: float = 1.0
    delta: float = 1e-5
    law: CountLaw = "gaussian"
    counter: CounterName | None = None
    adjacency: Adjacency = "replace"
    bonus_scale: float = 0.01
    shift_scale: float = 0.03
    alpha: float = 0.05
    learning_rate: float | None = None
    final_release: bool = True
    pool: bool | None = None
    first: int | None = None
    growth: float | None = None
    deployment: bool = False

    def resolve(self, model: Model, episodes: int, method: Method) -> CountOptions:
        """Check the numbers, and fill in what depends on the model."""
        check_scales(self)
        require_declared(model, pool=bool(self.pool), normalize=False)
        counter = self.counter or ("epochs" if self.law == "laplace" else "blt")
        first = self.first
        if first is None and not trust_named(self.trust).grouped and groups_users(counter):
            first = max(1, min(128, episodes // 8))
        return dataclasses.replace(
            self,
            delta=0.0 if self.law == "laplace" else self.delta,
            counter=counter,
            pool=model.stationary if self.pool is None else self.pool,
            first=first,
            growth=(1.15 if method == "value-iteration" else 1.1) if self.growth is None else self.growth,
        )


@dataclasses.dataclass(frozen=True)
class CountPlan:
    """What a private tabular learner will do, fixed before the first user.

    ``widths`` are those of visits, transitions and rewards after t rounds, ``(releases + 1, 3)``, scaled by
    ``shift_scale``; row 0, before any release, repeats row 1.
    """

    options: CountOptions
    schedule: Schedule
    calibration: CountCalibration
    widths: NDArray[np.float64]
    states: int
    actions: int

    @property
    def noise_scale(self) -> NDArray[np.float64]:
        """Scale of the noise per cell, ``(H, D)``: the same everywhere."""
        shape = (self.calibration.horizon, packed_width(self.states, self.actions))
        return np.full(shape, self.calibration.scale)

    @property
    def guarantee(self) -> Guarantee:
        """What the agent promises."""
        ends = self.schedule.ends[: self.schedule.releases]
        return self.calibration.guarantee(ends, dataclasses.asdict(self.options))


def plan_counts(model: Model, episodes: int, method: Method, options: CountOptions) -> CountPlan:
    """Everything that follows from the options for ``episodes`` users of ``model``.

    Raises:
      InvalidInput: an option is outside its domain, or the tables are too large; nothing has been spent.
    """
    check_size(model)
    options = options.resolve(model, episodes, method)
    schedule = make_schedule(options, episodes)
    trust = trust_named(options.trust)
    calibration = calibrate_counts(
        model.horizon, counter_for(trust, str(options.counter), schedule),
        trust=trust, adjacency=options.adjacency, law=options.law, epsilon=options.epsilon, delta=options.delta,
        deployment=options.deployment, columns=table_slices(model.states, model.actions),
    )  # fmt: skip
    widths = make_widths(model, schedule, calibration, options)
    return CountPlan(options, schedule, calibration, widths, model.states, model.actions)


def make_schedule(options: CountOptions, episodes: int) -> Schedule:
    """Every episode a round, or growing rounds where there is a first one."""
    assert options.growth is not None
    sizes = None if options.first is None else geometric_sizes(episodes, options.first, options.growth)
    return Schedule(episodes, sizes, options.final_release)


def make_widths(
    model: Model, schedule: Schedule, calibration: CountCalibration, options: CountOptions
) -> NDArray[np.float64]:
    """The widths E for all cells and releases at once, with probability 1−α, by a union bound."""
    ends = schedule.ends[: schedule.releases]
    private = calibration.trust.noised_reports
    power = ends.astype(np.float64) if private else calibration.counter.release_std() ** 2
    power = power * (model.horizon if options.pool else 1)
    cells = packed_width(model.states, model.actions) * (1 if options.pool else model.horizon)
    width = noise_width(calibration.law, calibration.scale, power, options.alpha / (cells * schedule.releases))
    rows = options.shift_scale * np.concatenate([width[:1], width])
    return np.repeat(rows[:, None], len(TABLES), axis=1)
