# SPDX-License-Identifier: Apache-2.0
"""What may be chosen about Score-VI, and how the agent follows from it."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import chi2

from reticent.agents.registry import register_with_options
from reticent.agents.score.calibration import VectorNoise, calibrate_vectors, unit_sensitivity
from reticent.agents.score.coordinates import Coordinates, reward_coordinates, transition_coordinates
from reticent.agents.score.dynamic_programming import Score
from reticent.agents.score.learner import ScoreLearner
from reticent.agents.score.model_moments import moments_of_random_users
from reticent.agents.score.off_grid import learner_for
from reticent.agents.score.privacy_options import RepeatedVectorPrivacy
from reticent.agents.score.residual_block import ResidualBlock
from reticent.agents.score.residual_directions import residual_basis
from reticent.agents.score.residual_rule import (
    MOST_BASIS,
    MOST_ROUNDS,
    Residual,
    cells_of,
    why_no_residual,
    without_table,
)
from reticent.agents.score.unit_ball import PlainVectors, UnitBall
from reticent.errors import InvalidInput
from reticent.learning.promise import NoPromise, Promise
from reticent.learning.schedule import Schedule, endless_sizes, fitted_sizes, geometric_sizes
from reticent.learning.stays import check_visits, of_a_stay
from reticent.privacy.trust import Trust, trust_named
from reticent.runtime import on_device
from reticent.worlds import Model
from reticent.worlds.continuous.model import ContinuousModel

GROWTH, GROWTH_OF_TABLES = 1.5, 1.2
"""Ratio of successive rounds, and the same where there are no candidates."""

LEAST_FIRST = 10.0
"""Least number of users, before it is multiplied by ``first``, in the first round: learning needs a few people anyway."""


@dataclasses.dataclass(frozen=True)
class ScoreOptions:
    """Every option of ``score-vi``. One setting serves all worlds; docs/improvements.md has the price of halving each.

    Attributes:
      score: the statistic of transitions: ``values`` (robust where models are wrong) or ``likelihood`` (sharper where
        one is right).
      first: size of the first round in units of the noise on one coordinate of a sum, in users (at least ten).
      growth: ratio of successive rounds, or a little less with residuals, so that rounds fill K. None is 1.5, or 1.2 where
        there are no candidates: there what is reached grows by a step a round, and many small rounds get further than a few
        large ones.
      bonus: posterior standard deviations in the explorers' plan.
      explore: β; explorers of a round of n users are β√n over the predicted loss of exploring.
      ridge: κ of the whitening, relative to the mean variance of a coordinate.
      largest: most users of a round; 0 is no limit. Where users return at most once per round, it is at most their number.
      endless: no round but the last, which is cut where users end, depends on K: for streams without a known end.
      floor: least probability of every action at every decision, so that effects can be estimated afterwards
        (:mod:`reticent.inference`); 0 is none. It does not depend on data and costs no privacy.
      half_life: number of users after which what was learned counts half; 0 is never.
      alarm: chance of a false alarm per round: what was learned is given up when a release is so far from what it let
        expect; 0 is never.
      final_release: whether the policy learned from all K users will be published too.
      residual: whether what the blend leaves unexplained is learned too (:mod:`reticent.agents.score.residual_block`):
        ``on``, ``off``, or ``auto``: on where :func:`why_no_residual` has no objection.
      residual_directions: m, the directions of next states that a round asks about.
      residual_bonus: posterior standard deviations of residuals in the explorers' plan.
      hope: with residuals, the share of what a round hopes to gain by exploring that it may spend on it.
      visits: of one stay, which is one report: a user returns so often and sends the sum of all visits, once, at the end.
    """

    score: Score = "values"
    first: float = 2.0
    growth: float | None = None
    bonus: float = 1.0
    explore: float = 0.3
    ridge: float = 0.1
    largest: int = 0
    endless: bool = False
    floor: float = 0.0
    half_life: float = 0.0
    alarm: float = 0.0
    final_release: bool = True
    residual: Residual = "auto"
    residual_directions: int = 5
    residual_bonus: float = 2.0
    hope: float = 0.1
    visits: int = 1

    def check(self) -> None:
        """Refuse numbers outside their domain."""
        for field, least in (("first", 0.0), ("bonus", 0.0), ("explore", 0.0), ("ridge", 0.0)):
            value = getattr(self, field)
            if not (math.isfinite(value) and (value > least or (value == least and field in ("bonus", "explore")))):
                raise InvalidInput(field, value, "a finite number above 0", "leave it at its default")
        if self.growth is not None and not 1 <= self.growth < math.inf:
            raise InvalidInput("growth", self.growth, "a finite number of at least 1", "leave it at its default")
        if self.largest < 0:
            raise InvalidInput("largest", self.largest, "at least 0", "0 is no limit to the size of a round")
        for field in ("residual_bonus", "hope"):
            if not 0 <= getattr(self, field) < math.inf:
                raise InvalidInput(field, getattr(self, field), "finite and at least 0", "leave it at its default")
        if self.residual_directions < 1:
            raise InvalidInput("residual_directions", self.residual_directions, "at least 1", "residual=off is none")
        if not 0 <= self.half_life < math.inf:
            raise InvalidInput("half_life", self.half_life, "a number of users, or 0", "0 never forgets")
        if not 0 <= self.alarm < 1:
            raise InvalidInput("alarm", self.alarm, "in [0, 1)", "0.001 is one false alarm in a thousand rounds")
        check_visits(self.visits)
        if self.visits > 1 and self.residual == "on":
            raise InvalidInput(
                "residual", "on", "off with visits above 1", "report every visit, or leave residuals off"
            )

    def check_stays(self, model: Model) -> None:
        """Refuse stays in a model whose first states or whose states between nodes a sum of visits does not tell."""
        if self.visits > 1 and (isinstance(model, ContinuousModel) or not model.initial_known):
            raise InvalidInput(
                "visits", self.visits, "1 where states are real or first states unknown",
                "declare the first states, or report every visit",
            )  # fmt: skip

    def check_floor(self, actions: int) -> None:
        """Refuse a floor that so many actions cannot all have."""
        if not 0 <= self.floor * actions <= 1:
            raise InvalidInput("floor", self.floor, f"from 0 to 1/{actions}", "lower it; 1/A is acting at random")


@dataclasses.dataclass(frozen=True)
class PrivateScoreOptions(RepeatedVectorPrivacy, ScoreOptions):
    """Every option of ``private-score-vi``: those of :class:`ScoreOptions`, of
    :class:`~reticent.agents.score.privacy_options.RepeatedVectorPrivacy`, and these.

    Attributes:
      clip: radius to which whole vectors are clipped, in units of √D, the length of a typical whitened vector.
      free: how large noise may be beside the sampling noise √n of a sum; a radius that makes it so large is taken where it
        is larger, so that clipping ends where there are so many users that it would cost more than noise does.
      start_share: where the model does not declare where users begin, the share of μ² that is spent on learning it.
      residual_share: ρ₀, the share of the squared length of a vector that residuals have while the blend is right.
      refuted_share: ρ₁, the same where it is refuted. residual_clip: radius of residuals, in units of their root mean
        square length.
    """

    clip: float = 0.7
    free: float = 0.5
    start_share: float = 0.1
    residual_share: float = 0.15
    refuted_share: float = 0.8
    residual_clip: float = 0.7

    def check(self) -> None:
        super().check()
        if not 0 < self.residual_share <= self.refuted_share < 1:
            raise InvalidInput(
                "residual_share", self.residual_share, f"above 0 and at most refuted_share = {self.refuted_share:g} < 1",
                "leave both at their defaults",
            )  # fmt: skip
        for field in ("clip", "free", "residual_clip"):
            if not 0 < getattr(self, field) < math.inf:
                raise InvalidInput(field, getattr(self, field), "a finite number above 0", "leave it at its default")
        if not 0 < self.start_share < 1:
            raise InvalidInput("start_share", self.start_share, "in (0, 1)", "leave it at its default")
        self.check_honest()


@dataclasses.dataclass(frozen=True)
class Frame:
    """Coordinates of a model's blend, the numbers of what a vector tells about it, and of what it tells about where users
    begin: as many as there are states, or none where that is declared."""

    transitions: Coordinates
    rewards: Coordinates
    dimension: int
    starts: int

    @classmethod
    def of(cls, model: Model, objection: str | None) -> Frame:
        """The coordinates of ``model``; where there is no ``objection`` to residuals, nothing need be left for a blend."""
        if isinstance(model, ContinuousModel):
            require_distributions(model)
        transitions, rewards = transition_coordinates(model), reward_coordinates(model)
        groups = 1 if model.stationary else model.horizon
        moving = 0 if model.horizon == 1 else (1 if model.stationary else model.horizon - 1)
        dimension = moving * transitions.size + groups * rewards.size
        if dimension == 0 and objection is not None:
            raise InvalidInput(
                "model", "one candidate and nothing unknown", "a blend of two candidates or more",
                f"a table without candidates needs residual=auto, and nothing against it: here {objection}; "
                "if the candidate is the truth, just plan",
            )  # fmt: skip
        return cls(transitions, rewards, dimension, 0 if model.initial_known else model.states)


def require_distributions(model: ContinuousModel) -> None:
    """Refuse real states whose candidates are no distributions over the nodes: occupancies need these.

    Raises:
      InvalidInput: candidates are not densities of a blend, a weight of the quadrature is negative, or it is not declared
        where users begin.
    """
    remedy = "use private-linopt-vi"
    if not (model.normalised and model.sums_to_one):
        raise InvalidInput("model", "one whose candidates are no densities of a blend", "a blend of densities", remedy)
    least = float(model.weights.min())
    if least < 0:
        raise InvalidInput(
            "least weight of the quadrature", f"{least:.3g}", "at least 0", f"take other nodes, or {remedy}"
        )
    if not model.initial_known:
        raise InvalidInput("initial_known", False, "True where states are real", "declare the density of first states")


def make_score(model: Model, episodes: int, options: ScoreOptions) -> ScoreLearner:
    """Score-VI without privacy: no clip, no noise."""
    options.check()
    options.check_floor(model.actions)
    options.check_stays(model)
    first, trust = options.first * LEAST_FIRST, trust_named("joint")
    fitted = _objection(model, options, trust) is None
    schedule = _schedule(episodes, options, first, fitted, fitted and _has_no_blend(without_table(model)))
    objection = _objection(model, options, trust, schedule.rounds)
    model = model if objection else without_table(model)
    frame = Frame.of(model, objection)
    block = None if objection else _block(model, frame, options)
    zero = jnp.zeros(frame.dimension + _numbers(model, block) + frame.starts)
    return _learner(
        model, frame, schedule, options, PlainVectors(zero), 0.0, np.ones(schedule.rounds), False, NoPromise(),
        block=block,
    )  # fmt: skip


def make_private_score(model: Model, episodes: int, options: PrivateScoreOptions) -> ScoreLearner:
    """Score-VI that keeps the promise of ``options``."""
    options.check()
    options.check_floor(model.actions)
    options.check_stays(model)
    trust = trust_named(options.trust)
    objection, given = _objection(model, options, trust), model
    model = given if objection else without_table(given)
    frame = Frame.of(model, objection)
    share = options.start_share if frame.starts else 0.0
    schedule = private_schedule(
        episodes, frame.dimension, trust, options, share, model.horizon, residual=objection is None
    )
    if objection is None:
        objection = _objection(model, options, trust, schedule.rounds)
        if objection is not None:
            model, frame = given, Frame.of(given, objection)
            schedule = private_schedule(episodes, frame.dimension, trust, options, share)
    block = None if objection else _block(model, frame, options)
    sizes = tuple(schedule.round_sizes[: schedule.releases].tolist())
    noise = calibrate_vectors(
        frame.dimension + _numbers(model, block) + frame.starts, trust,
        adjacency=options.adjacency, epsilon=options.epsilon, delta=options.delta,
        deployment=options.deployment, sizes=sizes, honest=options.honest, participation=options.participation,
    )  # fmt: skip
    ends = schedule.ends[: schedule.releases]
    return _learner(
        model, frame, schedule, options, _unit_ball(model, frame, noise, len(sizes), options.score, share, block),
        noise.scale_in_use, radii(schedule.round_sizes, frame.dimension, trust, options, share), trust.noised_reports,
        dataclasses.replace(
            noise.guarantee(ends, dataclasses.asdict(options), options.honest), personal=of_a_stay(options.visits)
        ),
        share, block,
    )  # fmt: skip


def private_schedule(
    episodes: int,
    dimension: int,
    trust: Trust,
    options: PrivateScoreOptions,
    start_share: float = 0.0,
    horizon: int = 0,
    residual: bool = False,
) -> Schedule:
    """Rounds whose first is large enough for its noise: a sum's noise in users, or its square where reports are noised.

    ``dimension`` is that of what is told about the blend, for which the rest of ``start_share`` is left. Where there is no
    blend to learn, the noise is that on residuals, whose length is about the root of the ``horizon``.
    """
    strength = options.round_strength * math.sqrt(1 - start_share)
    radius = options.clip * math.sqrt(dimension) if dimension else options.residual_clip * math.sqrt(horizon)
    noise = unit_sensitivity(options.adjacency) * radius / strength
    first = options.first * max(noise**2 if trust.noised_reports else noise, LEAST_FIRST)
    return _schedule(episodes, options, first, residual, alone=dimension == 0)


def radii(
    sizes: np.ndarray, dimension: int, trust: Trust, options: PrivateScoreOptions, start_share: float = 0.0
) -> np.ndarray:
    """R of every round: it never falls, so that an earlier round's vector is within every later radius."""
    strength = options.round_strength * math.sqrt(1 - start_share) / unit_sensitivity(options.adjacency)
    free = 0.0 if trust.noised_reports else options.free * strength
    wanted = np.maximum(options.clip * math.sqrt(dimension), free * np.sqrt(sizes))
    return np.asarray(np.maximum.accumulate(wanted))


def _schedule(episodes: int, options: ScoreOptions, first: float, residual: bool, alone: bool) -> Schedule:
    """Rounds that grow as ``options`` say; by default by less where residuals ``alone`` are learned, if these allow it."""
    if options.growth is not None:
        return _growing(episodes, options, first, options.growth, residual)
    slow = _growing(episodes, options, first, GROWTH_OF_TABLES if alone else GROWTH, residual)
    return slow if slow.rounds <= MOST_ROUNDS or not alone else _growing(episodes, options, first, GROWTH, residual)


def _growing(episodes: int, options: ScoreOptions, first: float, growth: float, residual: bool) -> Schedule:
    """Where ``residual`` numbers are learned, what half of the users told is not enough for the other half: rounds fill K
    exactly there, and none at the end is twice as large as it would be."""
    users = max(1, min(episodes, math.ceil(first)))
    if options.endless or options.largest:
        sizes = endless_sizes(episodes, math.ceil(first), growth, options.largest or None)
    else:
        sizes = (fitted_sizes if residual else geometric_sizes)(episodes, users, growth)
    return Schedule(episodes, sizes, options.final_release)


def _unit_ball(
    model: Model,
    frame: Frame,
    noise: VectorNoise,
    releases: int,
    score: Score,
    start_share: float,
    block: ResidualBlock | None,
) -> UnitBall:
    return UnitBall(
        basis=frame.transitions.basis,
        reward_basis=frame.rewards.basis,
        pooled=model.stationary,
        likelihood=score == "likelihood",
        noise_scale=jnp.full((1, noise.dimension), noise.scale_in_use),
        grid=jnp.asarray(noise.grid),
        counter=noise.counter_of(releases),
        trust=noise.trust,
        law=noise.law,
        starts=frame.starts,
        start_share=start_share,
        directions=None if block is None else block.directions,
        rounded=bool(noise.grid),
    )


def _objection(model: Model, options: ScoreOptions, trust: Trust, rounds: int = 0) -> str | None:
    """What speaks against residuals, in words; None where they are learned.

    Raises:
      InvalidInput: they are asked for where they cannot be.
    """
    if options.residual == "off":
        return "residual=off"
    if options.visits > 1:
        return "visits above 1"
    objection = why_no_residual(model, options.residual_directions, trust, rounds)
    if objection is None and options.alarm and _has_no_blend(without_table(model)):
        objection = "an alarm, which only a blend gives"
    if objection is not None and options.residual == "on":
        raise InvalidInput(
            "residual",
            "on",
            f"off or auto with {objection}",
            "the blend alone is learned then; a table needs candidates for it",
        )
    return objection


def _has_no_blend(model: Model) -> bool:
    """Whether there is one candidate and nothing unknown but what it leaves unexplained."""
    return model.d1 == 1 and (model.d2 == 1 or model.known_rewards is not None)


def _block(model: Model, frame: Frame, options: ScoreOptions) -> ResidualBlock:
    basis = residual_basis(model, MOST_BASIS)
    private = options if isinstance(options, PrivateScoreOptions) else PrivateScoreOptions()
    return ResidualBlock(
        basis=on_device(basis),
        directions=min(options.residual_directions, basis.shape[1]),
        bonus=float(options.residual_bonus),
        hope=float(options.hope),
        least_share=float(private.residual_share),
        most_share=float(private.refuted_share),
        clip=float(private.residual_clip),
        alone=frame.dimension == 0,
    )


def _numbers(model: Model, block: ResidualBlock | None) -> int:
    """Of the residual block of a vector."""
    return 0 if block is None else cells_of(model) * (block.directions + 2)


def _learner(
    model: Model,
    frame: Frame,
    schedule: Schedule,
    options: ScoreOptions,
    aggregator: UnitBall | PlainVectors,
    noise_scale: float,
    radius: np.ndarray,
    noised_reports: bool,
    promise: Promise,
    start_share: float = 0.0,
    block: ResidualBlock | None = None,
) -> ScoreLearner:
    return learner_for(model)(
        model=model,
        aggregator=aggregator,
        schedule=schedule,
        method="value-iteration",
        name="score-vi",
        promise=promise,
        coordinates=frame.transitions,
        reward_coordinates=frame.rewards,
        noise_scale=jnp.asarray(float(noise_scale)),
        radii=on_device(radius),
        sizes=jnp.asarray(schedule.round_sizes.astype(np.float64)),
        first_moments=jax.jit(moments_of_random_users, static_argnums=(3, 4))(
            model, frame.transitions, frame.rewards, options.score, options.floor
        ).of_stay(options.visits),
        bonus=jnp.asarray(float(options.bonus)),
        explore=jnp.asarray(float(options.explore)),
        ridge=jnp.asarray(float(options.ridge)),
        score=options.score,
        clipped=isinstance(aggregator, UnitBall),
        noised_reports=noised_reports,
        floor=options.floor,
        start_share=start_share,
        half_life=options.half_life or math.inf,
        alarm=float(chi2.isf(options.alarm, frame.dimension)) if options.alarm else math.inf,
        residual=block,
        visits=options.visits,
    )


register_with_options(
    "score-vi",
    "Score-VI: value iteration from one vector per user, no privacy; what private-score-vi is at ε = ∞.",
    make_score,
    ScoreOptions(),
)
register_with_options(
    "private-score-vi",
    "Private Score-VI: one clipped, noised vector per user; joint, shuffle or local privacy. The default.",
    make_private_score,
    PrivateScoreOptions(),
)
