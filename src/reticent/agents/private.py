"""Private-LinOpt-VI and Private-LinOpt-PO: the learners with a privatizer as regularizer (Definitions 6.1 and 6.2)."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import jax.numpy as jnp

from reticent.agents.fixed import rate
from reticent.agents.registry import AGENTS, PLANS
from reticent.errors import InvalidInput
from reticent.learning import Agent
from reticent.learning.learner import Method
from reticent.privacy.plan import PrivacyPlan, PrivateOptions, coordinate_scales, plan_privacy
from reticent.privacy.privatizer import Privatizer
from reticent.worlds import Model


def make_private(model: Model, episodes: int, method: Method, options: PrivateOptions) -> tuple[Agent, PrivacyPlan]:
    """The agent, and the plan that it keeps."""
    plan = plan_privacy(model, episodes, method, options)
    return assemble(model, episodes, method, plan), plan


def assemble(model: Model, episodes: int, method: Method, plan: PrivacyPlan) -> Agent:
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
    bounds, regularization = plan.frame.bounds(model), plan.regularization
    privatizer = Privatizer(
        noise_scale=jnp.asarray(coordinate_scales(plan.calibration, model.d1, model.d2)),
        transition_shift=jnp.asarray(regularization.transition_shift),
        reward_shift=jnp.asarray(regularization.reward_shift),
        transition_floor=jnp.asarray(regularization.transition_floor),
        reward_floor=jnp.asarray(regularization.reward_floor),
        feature_bound=jnp.asarray(bounds.feature),
        target_low=jnp.asarray(bounds.low),
        target_high=jnp.asarray(bounds.high),
        grid=jnp.asarray(plan.calibration.grid),
        counter=plan.calibration.counter,
        trust=plan.options.trust,
        d1=model.d1,
        d2=model.d2,
        pooled=bool(plan.options.pool),
        nonnegative_rewards=model.nonnegative_rewards,
        law="binomial" if plan.options.trust == "shuffle" else "gaussian",
    )
    return Agent(
        model=model,
        regularizer=privatizer,
        radii=plan.radii,
        bonus_scale=jnp.asarray(float(options.bonus_scale)),
        learning_rate=rate(model, episodes, options.learning_rate),
        frame=plan.frame,
        schedule=plan.schedule,
        method=method,
        name=method,
        normalize=bool(plan.options.normalize),
    )


def _factory(method: Method, without: frozenset[str]) -> Callable[..., Agent]:
    """A factory ``(model, episodes, *, options)`` whose signature is :class:`PrivateOptions`."""

    def make(model: Model, episodes: int, **given: Any) -> Agent:
        return make_private(model, episodes, method, PrivateOptions(**given))[0]

    kinds = get_type_hints(PrivateOptions)
    places = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("model", "episodes")]
    places += [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=kinds[field.name]
        )
        for field in dataclasses.fields(PrivateOptions)
        if field.name not in without
    ]
    make.__signature__ = inspect.Signature(places)  # type: ignore[attr-defined]
    return make


private_linopt_vi = _factory("value-iteration", frozenset({"learning_rate"}))
private_linopt_vi.__doc__ = (
    "Private-LinOpt-VI: optimistic value iteration under joint, shuffle or local differential privacy."
)
private_linopt_po = _factory("policy-optimization", frozenset())
private_linopt_po.__doc__ = (
    "Private-LinOpt-PO: optimistic policy optimization under joint, shuffle or local differential privacy."
)

AGENTS.register("private-linopt-vi")(private_linopt_vi)
AGENTS.register("private-linopt-po")(private_linopt_po)


def _plan(method: Method) -> Callable[..., PrivacyPlan]:
    return lambda model, episodes, **given: plan_privacy(model, episodes, method, PrivateOptions(**given))


PLANS["private-linopt-vi"] = _plan("value-iteration")
PLANS["private-linopt-po"] = _plan("policy-optimization")
