# SPDX-License-Identifier: Apache-2.0
"""Private-LinOpt-VI and Private-LinOpt-PO: the learners with a privatizer as regularizer (Definitions 6.1 and 6.2)."""

from __future__ import annotations

import jax.numpy as jnp

from reticent.agents.linear_mixture.learner import LinOptLearner, Theory, learner_for
from reticent.agents.linear_mixture.mirror import mirror_of
from reticent.agents.linear_mixture.privacy_plan import (
    PrivacyPlan,
    PrivateOptions,
    coordinate_scales,
    plan_privacy,
    reward_bounds,
)
from reticent.agents.linear_mixture.privatizer import Privatizer
from reticent.agents.registry import register_with_options
from reticent.errors import InvalidInput
from reticent.learning.learner import Method
from reticent.runtime import on_device
from reticent.worlds import Model


def make_private(model: Model, episodes: int, method: Method, options: PrivateOptions) -> LinOptLearner:
    """The agent that keeps the promise of ``options``."""
    return assemble(model, episodes, method, plan_privacy(model, episodes, method, options))


def assemble(model: Model, episodes: int, method: Method, plan: PrivacyPlan) -> LinOptLearner:
    """The agent that keeps ``plan``.

    Raises:
      InvalidInput: the plan's noise does not keep its promise; nothing has been spent.
    """
    options = plan.options
    if plan.calibration.epsilon_spent > options.epsilon * (1 + 1e-6):
        raise InvalidInput(
            "epsilon", options.epsilon, f"kept, but calibration='paper' really spends {plan.calibration.epsilon_spent:.4g}",
            "use calibration='exact', or a smaller epsilon",
        )  # fmt: skip
    mirror = mirror_of(model.actions, model.horizon, episodes, options.learning_rate)
    bounds, regularization = plan.frame.bounds(model), plan.regularization
    pays = reward_bounds(plan.rewards)
    privatizer = Privatizer(
        noise_scale=on_device(coordinate_scales(plan.calibration, plan.d1, plan.d2)),
        transition_shift=on_device(regularization.transition_shift),
        reward_shift=on_device(regularization.reward_shift),
        transition_floor=on_device(regularization.transition_floor),
        reward_floor=on_device(regularization.reward_floor),
        feature_bound=on_device(bounds.feature),
        target_low=on_device(bounds.low),
        target_high=on_device(bounds.high),
        reward_bound=jnp.full(model.horizon, pays.bound),
        reward_low=jnp.full(model.horizon, pays.low),
        reward_high=jnp.full(model.horizon, pays.high),
        reward_basis=jnp.eye(model.d2) if plan.rewards is None else plan.rewards.basis,
        reward_centre=jnp.zeros(model.d2) if plan.rewards is None else plan.rewards.centre,
        grid=jnp.asarray(plan.calibration.grid),
        counter=plan.calibration.counter,
        trust=plan.calibration.trust,
        d1=model.d1,
        d2=plan.d2,
        pooled=bool(plan.options.pool),
        nonnegative_rewards=plan.rewards is None and model.nonnegative_rewards,
        law="binomial" if plan.calibration.trust.wire == "messages" else "gaussian",
    )
    return learner_for(model)(
        model=model,
        aggregator=privatizer,
        radii=plan.radii,
        bonus_scale=jnp.asarray(float(options.bonus_scale)),
        learning_rate=jnp.asarray(mirror.rate),
        ahead=mirror.ahead,
        rewards=plan.rewards,
        frame=plan.frame,
        schedule=plan.schedule,
        method=method,
        name=method,
        normalize=bool(plan.options.normalize),
        pooled=bool(plan.options.pool),
        promise=plan.guarantee,
        theory=Theory(
            plan.regularization.certificate,
            options.alpha,
            plan.calibration.counter.weights() is not None,
            options.bonus_scale,
            options.shift_scale,
            None if options.learning_rate == "paper" else mirror.rate,
            options.misspecification,
            plan,
            mirror.ahead,
        ),
    )


register_with_options(
    "private-linopt-vi",
    "Private-LinOpt-VI: optimistic value iteration under joint, shuffle or local differential privacy.",
    lambda model, episodes, options: make_private(model, episodes, "value-iteration", options),
    PrivateOptions(),
    without={"learning_rate"},
)
register_with_options(
    "private-linopt-po",
    "Private-LinOpt-PO: optimistic policy optimization under joint, shuffle or local differential privacy.",
    lambda model, episodes, options: make_private(model, episodes, "policy-optimization", options),
    PrivateOptions(),
)
