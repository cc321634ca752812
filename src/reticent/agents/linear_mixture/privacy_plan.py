# SPDX-License-Identifier: Apache-2.0
"""From a promise to everything a private learner needs, before the first user comes.

:class:`PrivateOptions` is what a user may choose; :func:`plan_privacy` turns it into a :class:`PrivacyPlan`: schedule,
frame, counter, noise, shifts, certificate, radii and ledger. All of it is data-independent. ``reticent calibrate``
prints a plan, an agent runs it, a report quotes it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import ClassVar

import numpy as np

from reticent.agents.linear_mixture.calibration import (
    Calibration,
    CalibrationKind,
    Regression,
    Split,
    calibrate_exact,
    calibrate_paper,
)
from reticent.agents.linear_mixture.certificate import Regularization, regularize, regularize_paper
from reticent.agents.linear_mixture.frame import Frame, Span
from reticent.agents.linear_mixture.learner import require_declared
from reticent.agents.linear_mixture.mirror import LearningRate
from reticent.agents.linear_mixture.radius import Radii, inflation, radii
from reticent.agents.linear_mixture.reward_coordinates import (
    RewardBounds,
    RewardCoordinates,
    learned_sizes,
    reward_coordinates,
)
from reticent.agents.linear_mixture.shuffle_calibration import calibrate_shuffle, reach_of
from reticent.errors import InvalidInput
from reticent.learning.learner import Method
from reticent.learning.schedule import Schedule, geometric_sizes
from reticent.privacy.calibration import check_scales, counter_for
from reticent.privacy.counters import CounterName, groups_users
from reticent.privacy.guarantee import Guarantee, check_promise
from reticent.privacy.ledger import Ledger
from reticent.privacy.packing import packed_size
from reticent.privacy.sensitivity import Adjacency
from reticent.privacy.trust import TrustName, trust_named
from reticent.worlds.models.model import Sizes
from reticent_wire.shuffling import coins_for, messages_per_user


@dataclasses.dataclass(frozen=True)
class PrivateOptions:
    """Every option of a private agent; the defaults are what we recommend, ``calibration="paper"`` overrides most.

    Attributes:
      trust: who is trusted with raw data: the server (``joint``), only a shuffler that mixes messages
        (``shuffle``), or no other party (``local``).
      epsilon, delta: the promise.
      counter: how running sums are released (joint model); by default ``epochs``, and ``tree`` for the paper.
      calibration: ``paper`` (its formulas to the letter) or ``exact``.
      adjacency: what may change about one user: everything (``replace``), or their contribution is zero and their place is
        kept (``zero-out``).
      bonus_scale: multiplies the confidence radii; 1 is the theory.
      shift_scale: multiplies the shift that keeps noisy Grams positive definite; 1 is the theory.
      alpha: failure probability of the confidence sets.
      learning_rate: η of policy optimization, each step being taken ahead of its round; by default a multiple of the
        paper's. ``paper`` is the paper's η and order, for rewards that change
        (:mod:`reticent.agents.linear_mixture.mirror`).
      final_release: whether the policy learned from all K users will be published too.
      centred, span: the frame of the values (:class:`reticent.learning.Frame`).
      pool: add up the sums of all steps; by default if the model is declared stationary.
      normalize: project estimates onto {Σθ = 1}; by default if the model declares that.
      contrasts: learn rewards in the coordinates that the model's declarations allow, and spend nothing on rewards that are
        known (:mod:`reticent.agents.linear_mixture.reward_coordinates`); by default if the model declares that.
      split: how the budget is shared out over steps and sums.
      moment_share: weight of moments against Grams.
      first, growth: size of the first epoch and growth of the next (counter ``epochs``, and the local model). By
        default 512 users (fewer if K is small), and 1.5; 1.2 for policy optimization with ``learning_rate=paper``, whose
        one step per epoch comes after it.
      misspecification: widen the confidence radius for a model that is wrong by this much (total variation).
      deployment: account for the integer grid of the secure noise source.
      honest: in the shuffle model, the share of every epoch's users who can be relied upon to follow the protocol.
    """

    trust: TrustName = "joint"
    epsilon: float = 1.0
    delta: float = 1e-5
    counter: CounterName | None = None
    calibration: CalibrationKind = "exact"
    adjacency: Adjacency = "replace"
    bonus_scale: float = 0.1
    shift_scale: float = 0.5
    alpha: float = 0.05
    learning_rate: LearningRate = None
    final_release: bool = True
    centred: bool = True
    span: Span = "seen"
    pool: bool | None = None
    normalize: bool | None = None
    contrasts: bool | None = None
    split: Split = "optimised"
    moment_share: float = 1.0
    misspecification: float = 0.0
    first: int | None = None
    growth: float | None = None
    deployment: bool = False
    honest: float = 1.0

    def resolve(self, model: Sizes, episodes: int, method: Method) -> PrivateOptions:
        """Check the numbers, and fill in what depends on the model or on ``calibration="paper"``."""
        check_promise(self.epsilon, self.delta)
        check_scales(self)
        self._check_shuffle()
        if self.calibration == "paper":
            return dataclasses.replace(
                self,
                counter=self.counter or "tree",
                shift_scale=1.0,
                final_release=False,
                centred=False,
                span="horizon",
                pool=False,
                normalize=False,
                contrasts=False,
                learning_rate="paper" if self.learning_rate is None else self.learning_rate,
            )
        require_declared(model, pool=bool(self.pool), normalize=bool(self.normalize))
        slow = method == "policy-optimization" and self.learning_rate == "paper"
        return dataclasses.replace(
            self,
            counter=self.counter or "epochs",
            first=max(1, min(512, episodes // 8)) if self.first is None else self.first,
            growth=(1.2 if slow else 1.5) if self.growth is None else self.growth,
            pool=model.stationary if self.pool is None else self.pool,
            normalize=model.sums_to_one if self.normalize is None else self.normalize,
            contrasts=reward_coordinates(model, self.contrasts) is not None,
        )

    def _check_shuffle(self) -> None:
        """Refuse what the shuffle model has no protocol for."""
        if trust_named(self.trust).wire != "messages":
            if self.honest != 1:
                raise InvalidInput("honest", self.honest, f"1 with trust={self.trust}", "it is the shuffle model's")
            return
        if self.calibration != "exact":
            raise InvalidInput(
                "calibration", self.calibration, "'exact' in the shuffle model", "the paper has no shuffler"
            )
        if self.counter not in (None, "epochs"):
            raise InvalidInput(
                "counter", self.counter, "'epochs' in the shuffle model", "a user's messages are sent once and for all"
            )


@dataclasses.dataclass(frozen=True)
class PrivacyPlan:
    """What a private learner will do, fixed before the first user; d2 counts the rewards' coordinates."""

    options: PrivateOptions
    schedule: Schedule
    frame: Frame
    calibration: Calibration
    regularization: Regularization
    radii: Radii
    d1: int
    d2: int
    rewards: RewardCoordinates | None = None

    remark: ClassVar[str] = ""
    """What else the guarantee's sentence must say."""

    @property
    def ledger(self) -> Ledger:
        """What will be released when, and what it will have cost."""
        return self.guarantee.ledger

    @functools.cached_property
    def guarantee(self) -> Guarantee:
        """What the agent promises."""
        options, calibration = self.options, self.calibration
        return calibration.guarantee(
            self.schedule.ends[: self.schedule.releases], dataclasses.asdict(options), options.honest,
            calibration=options.calibration, remark=self.remark, releases=calibration.laid_out(self.d1, self.d2),
        )  # fmt: skip

    def messages(self, sizes: Sizes) -> np.ndarray:
        """One-bit messages that a user sends in each released epoch of the shuffle model (none in the others)."""
        rounds = self.schedule.round_sizes[: self.schedule.releases]
        if self.calibration.trust.wire != "messages":
            return np.zeros(len(rounds), np.int64)
        grid = self.calibration.grid
        coins = coins_for(coordinate_scales(self.calibration, self.d1, self.d2), grid)
        reach = reach_of(make_regressions(sizes, self.frame, self.rewards), grid)
        return np.array([messages_per_user(coins, reach, users) for users in rounds.tolist()])


def plan_privacy(sizes: Sizes, episodes: int, method: Method, options: PrivateOptions) -> PrivacyPlan:
    """Everything that follows from the options for ``episodes`` users of a model of these sizes.

    Raises:
      InvalidInput: an option is outside its domain; nothing has been spent.
    """
    options = options.resolve(sizes, episodes, method)
    frame = Frame(options.centred, options.span)
    schedule = make_schedule(options, episodes)
    rewards = reward_coordinates(sizes, options.contrasts)
    calibration = make_calibration(sizes, frame, schedule, options)
    sizes = learned_sizes(sizes, rewards)
    dimensions = {"d1": sizes.d1, "d2": sizes.d2}
    if options.calibration == "paper":
        regularization = regularize_paper(calibration, episodes=episodes, alpha=options.alpha, **dimensions)
    else:
        ends = schedule.ends[: schedule.releases]
        regularization = regularize(
            calibration, ends, alpha=options.alpha, **dimensions,
            shift_scale=options.shift_scale, pooled=bool(options.pool),
        )  # fmt: skip
    # Epoch weights differ from release to release, so the self-normalised bound is used once per release.
    each = options.alpha / schedule.releases if calibration.counter.weights() is not None else options.alpha
    observations = episodes * (sizes.horizon if options.pool else 1)
    pooled, users = bool(options.pool), np.concatenate([[0], schedule.ends])
    inflated = inflation(sizes, frame, options.misspecification, users, pooled)
    confidence = radii(
        sizes, frame, regularization.certificate, observations, each,
        inflated[: schedule.releases + 1] if options.misspecification else 0.0, pooled,
    )  # fmt: skip
    return PrivacyPlan(options, schedule, frame, calibration, regularization, confidence, sizes.d1, sizes.d2, rewards)


def make_schedule(options: PrivateOptions, episodes: int) -> Schedule:
    """Every episode a round for the streaming counters; growing epochs for ``epochs``, and in the other trust models."""
    final = options.final_release and options.calibration == "exact"
    grouped = options.calibration == "exact" and (
        trust_named(options.trust).grouped or groups_users(str(options.counter))
    )
    # Not "or": a first epoch of 0 users is a mistake to be told of, not a wish for the default.
    first = 1 if options.first is None else options.first
    growth = 1.0 if options.growth is None else options.growth
    sizes = geometric_sizes(episodes, first, growth) if grouped else None
    return Schedule(episodes, sizes, final)


def make_regressions(
    model: Sizes, frame: Frame, rewards: RewardCoordinates | None = None
) -> tuple[Regression, Regression]:
    """What is summed at every step, and within which bounds."""
    bounds = frame.bounds(model)
    remaining = np.arange(model.horizon - 1, -1, -1, dtype=np.float64)
    ones, pays, learned = np.ones(model.horizon), reward_bounds(rewards), learned_sizes(model, rewards)
    return (
        # The last step predicts nothing that matters, but where its features are not zero they must be hidden too.
        Regression("transition", model.d1, bounds.feature, bounds.high, scale=np.maximum(remaining, 1) / 2),
        Regression(
            "reward", learned.d2, pays.bound * ones, pays.reach * ones, scale=pays.reach * ones,
            nonnegative=learned.nonnegative_rewards,
        ),
    )  # fmt: skip


def reward_bounds(rewards: RewardCoordinates | None) -> RewardBounds:
    """What reward pairs are clipped to; without coordinates, the paper's unit ball and [0, 1]."""
    return RewardBounds() if rewards is None else rewards.bounds


def make_calibration(model: Sizes, frame: Frame, schedule: Schedule, options: PrivateOptions) -> Calibration:
    """The noise of every counter of every step."""
    regressions = make_regressions(model, frame, reward_coordinates(model, options.contrasts))
    trust = trust_named(options.trust)
    counter = counter_for(trust, str(options.counter), schedule)
    if options.calibration == "paper":
        return calibrate_paper(
            regressions, counter,
            trust=trust, adjacency=options.adjacency, epsilon=options.epsilon, delta=options.delta,
        )  # fmt: skip
    if trust.wire == "messages":
        return calibrate_shuffle(
            regressions, counter, adjacency=options.adjacency, epsilon=options.epsilon, delta=options.delta,
            split=options.split, moment_share=options.moment_share, honest=options.honest,
        )  # fmt: skip
    return calibrate_exact(
        regressions, counter,
        trust=trust, adjacency=options.adjacency, epsilon=options.epsilon, delta=options.delta,
        split=options.split, moment_share=options.moment_share, deployment=options.deployment,
    )  # fmt: skip


def coordinate_scales(calibration: Calibration, d1: int, d2: int) -> np.ndarray:
    """Standard deviation of the noise per coordinate of the packed statistics, ``(H, D)``."""
    excess = calibration.account.excess
    blocks = []
    for noise, dimension in ((calibration.transition, d1), (calibration.reward, d2)):
        diagonal = np.equal(*np.triu_indices(dimension))
        # The paper noises entries, we noise packed coordinates: an off-diagonal one is √2 times its entry.
        spread = np.ones(packed_size(dimension)) if calibration.packed else np.where(diagonal, 1.0, math.sqrt(2))
        blocks += [noise.gram_sigma[:, None] * spread, noise.moment_sigma[:, None] * np.ones(dimension)]
    return excess * np.concatenate(blocks, axis=1)
