# SPDX-License-Identifier: Apache-2.0
"""The non-private learners: LinOpt-VI-Reg and LinOpt-PO-Reg with a fixed regularizer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from reticent.agents.linear_mixture.frame import Frame, Span
from reticent.agents.linear_mixture.learner import (
    LinOptLearner,
    Theory,
    learner_for,
    require_declared,
)
from reticent.agents.linear_mixture.mirror import LearningRate, mirror_of
from reticent.agents.linear_mixture.radius import inflation, radii
from reticent.agents.linear_mixture.regularizer import make_fixed_regularizer
from reticent.agents.linear_mixture.reward_coordinates import learned_sizes, reward_coordinates
from reticent.agents.registry import register_with_options
from reticent.errors import InvalidInput
from reticent.learning.learner import Method
from reticent.learning.schedule import Replan, Schedule, replan_sizes
from reticent.worlds import Model


@dataclasses.dataclass(frozen=True)
class RidgeOptions:
    """Options of every optimistic learner with a fixed ridge and no privacy.

    Attributes:
      bonus_scale: multiplies the theory's confidence radius.
      alpha: probability with which a confidence set may fail.
      regularization: λ of the ridge.
      replan: after every episode or on a geometric public schedule of epochs, by default where a plan is large.
    """

    bonus_scale: float = 0.1
    alpha: float = 0.05
    regularization: float = 1.0
    replan: Replan | None = None


@dataclasses.dataclass(frozen=True)
class FixedOptions(RidgeOptions):
    """Options of ``ucrl-vtr`` and ``oppo``. With the statistical ones on, they are a private agent at ε = ∞.

    Attributes:
      learning_rate: η of ``oppo``, by default a multiple of the paper's √(2 ln|A|/(HT)) with each step taken ahead of its
        round; ``paper`` is the paper's η and order, for rewards that change
        (:mod:`reticent.agents.linear_mixture.mirror`).
      centred, span, pool, normalize, contrasts: the private agents' statistical options, off by default as in the paper.
      misspecification: widens the confidence radius for a model that is wrong by that much (total variation;
        :mod:`reticent.agents.linear_mixture.radius`).
    """

    learning_rate: LearningRate = None
    centred: bool = False
    span: Span = "horizon"
    pool: bool | None = False
    normalize: bool | None = False
    misspecification: float = 0.0
    contrasts: bool | None = False

    @property
    def frame(self) -> Frame:
        return Frame(self.centred, self.span)


def make_fixed(model: Model, episodes: int, method: Method, options: FixedOptions) -> LinOptLearner:
    """A learner with a fixed regularizer."""
    check_scale("bonus_scale", options.bonus_scale)
    options = dataclasses.replace(
        options,
        pool=model.stationary if options.pool is None else options.pool,
        normalize=model.sums_to_one if options.normalize is None else options.normalize,
    )
    require_declared(model, pool=bool(options.pool), normalize=bool(options.normalize))
    sizes = replan_sizes(model.states * model.actions, episodes, options.replan)
    rewards = reward_coordinates(model, options.contrasts)
    learned = learned_sizes(model, rewards)
    regularizer = make_fixed_regularizer(
        model.horizon, model.d1, learned.d2, options.regularization, options.regularization, bool(options.pool)
    )
    observations = episodes * (model.horizon if options.pool else 1)
    schedule = Schedule(episodes, sizes, final_release=True)
    users = np.concatenate([[0], schedule.ends])
    mirror = mirror_of(model.actions, model.horizon, episodes, options.learning_rate)
    inflated = inflation(model, options.frame, options.misspecification, users, bool(options.pool))
    return learner_for(model)(
        model=model,
        aggregator=regularizer,
        radii=radii(
            learned,
            options.frame,
            regularizer.certificate(),
            observations,
            options.alpha,
            inflated if options.misspecification else 0.0,
            bool(options.pool),
        ),
        bonus_scale=jnp.asarray(float(options.bonus_scale)),
        learning_rate=jnp.asarray(mirror.rate),
        ahead=mirror.ahead,
        rewards=rewards,
        frame=options.frame,
        schedule=schedule,
        method=method,
        name=method,
        normalize=bool(options.normalize),
        pooled=bool(options.pool),
        theory=Theory(
            regularizer.certificate(),
            options.alpha,
            bonus_scale=options.bonus_scale,
            learning_rate=None if options.learning_rate == "paper" else mirror.rate,
            ahead=mirror.ahead,
            misspecification=options.misspecification,
        ),
    )


def check_scale(field: str, value: float) -> None:
    """Refuse a multiplier that is negative or not finite."""
    if not 0 <= value < float("inf"):
        raise InvalidInput(field, value, "a finite number of at least 0", "1.0 is the theory's value")


def _optimistic(method: Method) -> Callable[[Model, int, FixedOptions], LinOptLearner]:
    return lambda model, episodes, options: make_fixed(model, episodes, method, options)


register_with_options(
    "ucrl-vtr",
    "UCRL-VTR (Ayoub et al. 2020): optimistic value iteration, fixed regularizer, no privacy.",
    _optimistic("value-iteration"),
    FixedOptions(),
    without=("learning_rate",),
)
register_with_options(
    "oppo",
    "OPPO with bandit feedback (Cai et al. 2020): optimistic policy optimization, fixed regularizer, no privacy.",
    _optimistic("policy-optimization"),
    FixedOptions(),
)
