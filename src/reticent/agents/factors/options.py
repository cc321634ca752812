# SPDX-License-Identifier: Apache-2.0
"""Options of the learner of tastes, and how the agent follows from them."""

from __future__ import annotations

import dataclasses
import math

import jax.numpy as jnp
import numpy as np

from reticent.agents.factors.learner import FactorsLearner
from reticent.agents.factors.vectors import TasteVectors
from reticent.agents.kinds.options import GrowingRounds, growing_rounds, personal_promise
from reticent.agents.kinds.vectors import PlainKindVectors
from reticent.agents.registry import register_with_options
from reticent.agents.score.calibration import calibrate_vectors
from reticent.agents.score.privacy_options import RepeatedVectorPrivacy
from reticent.errors import InvalidInput
from reticent.learning.promise import NoPromise, Promise
from reticent.learning.schedule import Schedule
from reticent.privacy.trust import trust_named
from reticent.worlds import Model
from reticent.worlds.tastes.model import TasteModel, require_tastes
from reticent_wire.forms.factors import Items


@dataclasses.dataclass(frozen=True)
class FactorsOptions(GrowingRounds):
    """Every option of ``factors``: those of :class:`~reticent.agents.kinds.options.GrowingRounds`, and two of its own.

    Attributes:
      prior: standard deviation of the unknown mean of tastes around the pilot's, in units of the spread of tastes.
      bonus: standard deviations of an item's expected reward that are added to it, for items that tell more.
    """

    prior: float = 0.5
    bonus: float = 0.0

    def check(self) -> None:
        super().check()
        if not 0 < self.prior < math.inf:
            raise InvalidInput("prior", self.prior, "a finite number above 0", "leave it at its default")
        if not 0 <= self.bonus < math.inf:
            raise InvalidInput("bonus", self.bonus, "a finite number of at least 0", "leave it at its default")


@dataclasses.dataclass(frozen=True)
class PrivateFactorsOptions(RepeatedVectorPrivacy, FactorsOptions):
    """Every option of ``private-factors``: those of :class:`FactorsOptions`, and of
    :class:`~reticent.agents.score.privacy_options.RepeatedVectorPrivacy`."""


def make_factors(model: Model, episodes: int, options: FactorsOptions) -> FactorsLearner:
    """The learner without privacy: clipped vectors, no noise."""
    options.check()
    tastes = require_tastes(model)
    zero = PlainKindVectors(jnp.zeros(tastes.factors))
    return _learner(tastes, growing_rounds(episodes, options, 1.0), options, zero, 0.0, False, NoPromise())


def make_private_factors(model: Model, episodes: int, options: PrivateFactorsOptions) -> FactorsLearner:
    """The learner that keeps the promise of ``options``."""
    options.check()
    tastes, trust = require_tastes(model), trust_named(options.trust)
    strength = 2.0 / options.round_strength
    schedule = growing_rounds(episodes, options, strength**2 if trust.noised_reports else strength)
    sizes = tuple(schedule.round_sizes[: schedule.releases].tolist())
    noise = calibrate_vectors(
        tastes.factors, trust, adjacency=options.adjacency, epsilon=options.epsilon, delta=options.delta,
        deployment=options.deployment, sizes=sizes, honest=options.honest, participation=options.participation,
    )  # fmt: skip
    sums = TasteVectors(
        noise_scale=jnp.full((1, noise.dimension), noise.scale_in_use),
        grid=jnp.asarray(noise.grid),
        items=items_of(tastes),
        bonus=jnp.asarray(float(options.bonus)),
        counter=noise.counter_of(len(sizes)),
        trust=noise.trust,
        law=noise.law,
    )
    promise = personal_promise(noise, schedule, options)
    return _learner(tastes, schedule, options, sums, noise.scale_in_use, trust.noised_reports, promise)


def items_of(model: TasteModel) -> Items:
    """What is public of items."""
    return Items(model.intercepts, model.loadings, model.noise)


def _learner(
    model: TasteModel,
    schedule: Schedule,
    options: FactorsOptions,
    aggregator: TasteVectors | PlainKindVectors,
    noise_scale: float,
    noised_reports: bool,
    promise: Promise,
) -> FactorsLearner:
    return FactorsLearner(
        model=model,
        aggregator=aggregator,
        schedule=schedule,
        method="value-iteration",
        name="factors",
        promise=promise,
        items=items_of(model),
        prior=jnp.asarray(float(options.prior)),
        bonus=float(options.bonus),
        noise_scale=jnp.asarray(float(noise_scale)),
        sizes=jnp.asarray(schedule.round_sizes.astype(np.float64)),
        noised_reports=noised_reports,
    )


register_with_options(
    "factors",
    "Factors: each device learns its own user's tastes; the mean of tastes is learned, no privacy.",
    make_factors,
    FactorsOptions(),
)
register_with_options(
    "private-factors",
    "Private Factors: tastes learned on the device, their mean from one clipped, noised vector per user.",
    make_private_factors,
    PrivateFactorsOptions(),
)
