# SPDX-License-Identifier: Apache-2.0
"""Options of the kinds learner, and how the agent follows from them."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import jax.numpy as jnp
import numpy as np

from reticent.agents.kinds.belief import Laws
from reticent.agents.kinds.learner import KindsLearner, optimal_tables
from reticent.agents.kinds.point_based import require_small
from reticent.agents.kinds.vectors import KindVectors, PlainKindVectors
from reticent.agents.registry import register_with_options
from reticent.agents.score.calibration import VectorNoise, calibrate_vectors
from reticent.agents.score.coordinates import Coordinates, simplex_coordinates
from reticent.agents.score.privacy_options import RepeatedVectorPrivacy
from reticent.errors import InvalidInput
from reticent.learning.promise import NoPromise, Promise
from reticent.learning.schedule import Schedule, geometric_sizes
from reticent.learning.stays import check_visits, of_a_stay
from reticent.privacy import guarantee
from reticent.privacy.guarantee import Guarantee
from reticent.privacy.trust import trust_named
from reticent.worlds import Model
from reticent.worlds.kinds import kind_means, require_kinds

LEAST_FIRST = 10.0
"""Least number of users, before it is multiplied by ``first``, in the first round."""

BLEND_DOUBT = 0.5
"""Standard deviation of the share of the blend before the first user, whose mean is ``blended``."""


@dataclasses.dataclass(frozen=True)
class GrowingRounds:
    """When rounds end.

    Attributes:
      first: size of the first round in units of the noise on one coordinate of a sum, in users (at least ten).
      growth: ratio of successive rounds.
      final_release: whether what is learned from all K users will be published too.
    """

    first: float = 3.0
    growth: float = 1.5
    final_release: bool = True

    def check(self) -> None:
        """Raise if a number is outside its domain."""
        if not 0 < self.first < math.inf:
            raise InvalidInput("first", self.first, "a finite number above 0", "leave it at its default")
        if not 1 <= self.growth < math.inf:
            raise InvalidInput("growth", self.growth, "at least 1", "leave it at its default")


@dataclasses.dataclass(frozen=True)
class KindsOptions(GrowingRounds):
    """Every option of ``kinds``: those of :class:`GrowingRounds`, and its own.

    Rounds are fewer and larger than those of :class:`GrowingRounds`: shares from a first round that is mostly noise are
    worse than none, and each round pays the noise again.

    Attributes:
      blended: share of the blend, as one more kind, before the first user.
      prior: precision of the prior of the shares, in units of a uniform distribution's on the simplex of kinds. The share
        of the blend has a standard deviation of :data:`BLEND_DOUBT` beside it.
      visits: of one stay, which is one report: a user returns so often, acts on one belief and reports once, at the end.
      plan: ``qmdp`` acts as if the kind became known after the action; ``point-based`` also plans what users will learn of
        themselves (small models; :mod:`reticent.agents.kinds.point_based`).
      points: beliefs of every step and state at which a point-based plan is made.
    """

    first: float = 7.0
    growth: float = 1.6
    blended: float = 0.5
    prior: float = 1.0
    visits: int = 1
    plan: Literal["qmdp", "point-based"] = "qmdp"
    points: int = 16

    def check(self) -> None:
        super().check()
        if not 0 < self.prior < math.inf:
            raise InvalidInput("prior", self.prior, "a finite number above 0", "leave it at its default")
        if not 0 < self.blended < 1:
            raise InvalidInput("blended", self.blended, "in (0, 1)", "leave it at its default")
        check_visits(self.visits)
        if self.points < 1:
            raise InvalidInput("points", self.points, "at least 1", "leave it at its default")
        if self.plan == "point-based" and self.visits > 1:
            raise InvalidInput(
                "plan", self.plan, "qmdp with visits above 1", "report every visit, or leave the plan at qmdp"
            )

    def points_in(self, model: Model) -> int:
        """Beliefs of every step and state at which a plan over beliefs is made; 0 for QMDP.

        Raises:
          InvalidInput: the model is too large for them.
        """
        if self.plan == "qmdp":
            return 0
        require_small(model, self.points)
        return self.points


@dataclasses.dataclass(frozen=True)
class PrivateKindsOptions(RepeatedVectorPrivacy, KindsOptions):
    """Every option of ``private-kinds``: those of :class:`KindsOptions`, and of
    :class:`~reticent.agents.score.privacy_options.RepeatedVectorPrivacy`."""


PERSONAL = (
    " A user's belief and actions are functions of what is published and of the user's own data: nothing that others are"
    " shown depends on them. The party that serves an action sees it, and it tells about the user's whole past in the"
    " {extent}."
)
"""What the promise says about belief and actions, in every trust model."""

ON_DEVICE = " The server sees no action: choose and show the content on the device."
"""What must hold besides where the server is not trusted with raw data."""

NOT_COVERED = (
    "the user's own actions, which depend on all of their own past: that is personalisation",
    "a belief that is kept on a device between visits: it is data at rest, to be protected as such",
    *guarantee.NOT_COVERED[1:],
)


def make_kinds(model: Model, episodes: int, options: KindsOptions) -> KindsLearner:
    """The learner without privacy: clipped vectors, no noise."""
    options.check()
    require_kinds(model)
    schedule = growing_rounds(episodes, options, 1.0)
    zero = jnp.zeros(model.d1)
    return _learner(model, schedule, options, PlainKindVectors(zero), 0.0, False, NoPromise())


def make_private_kinds(model: Model, episodes: int, options: PrivateKindsOptions) -> KindsLearner:
    """The learner that keeps the promise of ``options``."""
    options.check()
    require_kinds(model)
    trust = trust_named(options.trust)
    strength = 2.0 / options.round_strength
    schedule = growing_rounds(episodes, options, strength**2 if trust.noised_reports else strength)
    sizes = tuple(schedule.round_sizes[: schedule.releases].tolist())
    noise = calibrate_vectors(
        model.d1, trust, adjacency=options.adjacency, epsilon=options.epsilon, delta=options.delta,
        deployment=options.deployment, sizes=sizes, honest=options.honest, participation=options.participation,
    )  # fmt: skip
    sums = KindVectors(
        noise_scale=jnp.full((1, noise.dimension), noise.scale_in_use),
        grid=jnp.asarray(noise.grid),
        basis=simplex_coordinates(model.d1 + 1, 1.0).basis,
        tables=optimal_tables(kinds_of(model), model),
        reward_total=jnp.asarray(model.reward_total),
        counter=noise.counter_of(len(sizes)),
        trust=noise.trust,
        law=noise.law,
        planned=options.plan != "qmdp",
    )
    promise = personal_promise(noise, schedule, options, options.visits)
    return _learner(model, schedule, options, sums, noise.scale_in_use, trust.noised_reports, promise)


def kinds_of(model: Model) -> Laws:
    """The laws of the kinds: one per candidate."""
    return Laws(model.transition_features, kind_means(model))


def growing_rounds(episodes: int, options: GrowingRounds, noise: float) -> Schedule:
    """Growing rounds, the first of so many users as the noise on one coordinate asks for."""
    first = max(1, min(episodes, math.ceil(options.first * max(noise, LEAST_FIRST))))
    return Schedule(episodes, geometric_sizes(episodes, first, options.growth), options.final_release)


def personal_promise(
    noise: VectorNoise, schedule: Schedule, options: RepeatedVectorPrivacy, visits: int = 1
) -> Guarantee:
    """What a run promises whose devices act on beliefs about their own users, in so many ``visits`` of a stay."""
    return dataclasses.replace(
        noise.guarantee(schedule.ends[: schedule.releases], dataclasses.asdict(options), options.honest),
        personal=PERSONAL.format(extent="episode" if visits == 1 else "stay")
        + of_a_stay(visits)
        + ("" if noise.trust.wire == "trajectory" else ON_DEVICE),
        not_covered=NOT_COVERED,
    )


def prior_precision(basis: np.ndarray, precision: float) -> np.ndarray:
    """Of η before the first user: shares among the kinds as ``precision`` uniform distributions on their simplex say, and
    independently the share of the blend, which is against all kinds alike."""
    kinds = basis.shape[1]
    against = basis.T @ np.append(np.full(kinds, -1 / kinds), 1.0)
    along = np.outer(against, against) / (against @ against)
    among = precision * kinds * (kinds + 1) * (np.eye(kinds) - along)
    found: np.ndarray = among + along / (against @ against * BLEND_DOUBT**2)
    return found


def _learner(
    model: Model,
    schedule: Schedule,
    options: KindsOptions,
    aggregator: KindVectors | PlainKindVectors,
    noise_scale: float,
    noised_reports: bool,
    promise: Promise,
) -> KindsLearner:
    simplex = simplex_coordinates(model.d1 + 1, 1.0)
    start = np.append(np.full(model.d1, (1 - options.blended) / model.d1), options.blended)
    return KindsLearner(
        model=model,
        aggregator=aggregator,
        schedule=schedule,
        method="value-iteration",
        name="kinds",
        promise=promise,
        kinds=kinds_of(model),
        tables=optimal_tables(kinds_of(model), model),
        coordinates=Coordinates(jnp.asarray(start), simplex.basis, simplex.variance, simplex.total),
        prior=jnp.asarray(prior_precision(np.asarray(simplex.basis), options.prior)),
        noise_scale=jnp.asarray(float(noise_scale)),
        sizes=jnp.asarray(schedule.round_sizes.astype(np.float64)),
        noised_reports=noised_reports,
        visits=options.visits,
        points=options.points_in(model),
    )


register_with_options(
    "kinds",
    "Kinds: each device acts on its belief about its own user; shares of kinds are learned, no privacy.",
    make_kinds,
    KindsOptions(),
)
register_with_options(
    "private-kinds",
    "Private Kinds: belief on the device, shares of kinds learned from one clipped, noised vector per user.",
    make_private_kinds,
    PrivateKindsOptions(),
)
