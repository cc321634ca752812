"""How a private tabular agent is made and registered: a paper's rule, its method, and the options it has by default."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import jax.numpy as jnp

from reticent.agents.fixed import rate
from reticent.agents.registry import AGENTS, PLANS
from reticent.learning.learner import Method
from reticent.learning.tabular import CountingAgent
from reticent.learning.tabular.rules import Rule
from reticent.privacy.count_plan import CountOptions, CountPlan, plan_counts
from reticent.privacy.count_privatizer import CountPrivatizer
from reticent.worlds import Model


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A private tabular algorithm.

    Attributes:
      rule: how counts become estimates and bonuses.
      method: value iteration or policy optimization.
      defaults: the options it has unless told otherwise.
      fixed: options that it does not offer; they stay at their default.
    """

    rule: Rule
    method: Method
    defaults: CountOptions
    fixed: frozenset[str] = frozenset()

    def plan(self, model: Model, episodes: int, **given: Any) -> CountPlan:
        """The privacy plan that the agent keeps."""
        return plan_counts(model, episodes, self.method, dataclasses.replace(self.defaults, **given))

    def make(self, model: Model, episodes: int, **given: Any) -> tuple[CountingAgent, CountPlan]:
        """The agent, and the plan that it keeps."""
        plan = self.plan(model, episodes, **given)
        options, calibration = plan.options, plan.calibration
        privatizer = CountPrivatizer(
            noise_scale=jnp.asarray(plan.noise_scale),
            grid=jnp.asarray(calibration.grid),
            counter=calibration.counter,
            trust=options.trust,
            law=options.law,
            states=model.states,
            actions=model.actions,
            pooled=bool(options.pool),
        )
        iota = self.rule.logarithm(model.states, model.actions, episodes * model.horizon, options.alpha)
        agent = CountingAgent(
            model=model,
            regularizer=privatizer,
            widths=jnp.asarray(plan.widths),
            iota=jnp.asarray(iota),
            bonus_scale=jnp.asarray(float(options.bonus_scale)),
            learning_rate=rate(model, episodes, options.learning_rate),
            rule=self.rule,
            schedule=plan.schedule,
            method=self.method,
            name=self.method,
        )
        return agent, plan


RECIPES: dict[str, Recipe] = {}
"""The registered private tabular algorithms by name."""


def register(name: str, summary: str, recipe: Recipe) -> None:
    """Enter the algorithm among the agents and its promise among the plans."""
    RECIPES[name] = recipe
    AGENTS.register(name)(_factory(recipe, summary))
    PLANS[name] = recipe.plan


def _factory(recipe: Recipe, summary: str) -> Callable[..., CountingAgent]:
    """A factory ``(model, episodes, *, options)`` whose signature is :class:`CountOptions` with the recipe's defaults."""

    def make(model: Model, episodes: int, **given: Any) -> CountingAgent:
        return recipe.make(model, episodes, **given)[0]

    kinds = get_type_hints(CountOptions)
    left_out = recipe.fixed if recipe.method == "policy-optimization" else recipe.fixed | {"learning_rate"}
    places = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("model", "episodes")]
    places += [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY,
            default=getattr(recipe.defaults, field.name), annotation=kinds[field.name],
        )
        for field in dataclasses.fields(CountOptions)
        if field.name not in left_out
    ]  # fmt: skip
    make.__signature__ = inspect.Signature(places)  # type: ignore[attr-defined]
    make.__doc__ = summary
    return make
