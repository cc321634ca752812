# SPDX-License-Identifier: Apache-2.0
"""How a private tabular agent is made and registered: a paper's rule, its method, and the options it has by default."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from reticent.agents.linear_mixture.mirror import LearningRate, mirror_of
from reticent.agents.registry import register_with_options
from reticent.agents.tabular.count_plan import CountOptions, plan_counts
from reticent.agents.tabular.count_privatizer import CountPrivatizer
from reticent.agents.tabular.learner import CountingLearner
from reticent.agents.tabular.rules import Rule
from reticent.learning.learner import Method
from reticent.runtime import on_device
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

    def make(self, model: Model, episodes: int, options: CountOptions) -> CountingLearner:
        """The agent that keeps the promise of ``options``."""
        plan = plan_counts(model, episodes, self.method, options)
        options, calibration = plan.options, plan.calibration
        privatizer = CountPrivatizer(
            noise_scale=on_device(plan.noise_scale),
            grid=jnp.asarray(calibration.grid),
            counter=calibration.counter,
            trust=calibration.trust,
            law=options.law,
            states=model.states,
            actions=model.actions,
            pooled=bool(options.pool),
        )
        iota = self.rule.logarithm(model.states, model.actions, episodes * model.horizon, options.alpha)
        # Its counts are learned from at the paper's pace unless told otherwise; each step follows its round.
        chosen: LearningRate = "paper" if options.learning_rate is None else options.learning_rate
        mirror = mirror_of(model.actions, model.horizon, episodes, chosen)
        return CountingLearner(
            model=model,
            aggregator=privatizer,
            widths=on_device(plan.widths),
            iota=jnp.asarray(iota),
            bonus_scale=jnp.asarray(float(options.bonus_scale)),
            learning_rate=jnp.asarray(mirror.rate),
            rule=self.rule,
            schedule=plan.schedule,
            method=self.method,
            name=self.method,
            promise=plan.guarantee,
        )


def register(name: str, summary: str, recipe: Recipe) -> None:
    """Enter the algorithm among the agents."""
    without = recipe.fixed if recipe.method == "policy-optimization" else recipe.fixed | {"learning_rate"}
    register_with_options(name, summary, recipe.make, recipe.defaults, without)
