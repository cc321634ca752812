# SPDX-License-Identifier: Apache-2.0
"""UCB-VI without privacy: what the private tabular agents are at ε = ∞."""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp

from reticent.agents.linear_mixture.learner import require_declared
from reticent.agents.linear_mixture.linopt import check_scale
from reticent.agents.registry import AGENTS
from reticent.agents.tabular.counts import make_exact_counts
from reticent.agents.tabular.learner import CountingLearner
from reticent.agents.tabular.rules import Bernstein, Hoeffding, Rule
from reticent.errors import InvalidInput
from reticent.learning.schedule import Replan, Schedule, replan_sizes
from reticent.worlds import Model

RULES: dict[str, Rule] = {"hoeffding": Hoeffding(), "bernstein": Bernstein()}


@AGENTS.register("ucbvi")
def ucbvi(
    model: Model,
    episodes: int,
    *,
    bonus: Literal["hoeffding", "bernstein"] = "hoeffding",
    bonus_scale: float = 0.0007,
    alpha: float = 0.05,
    replan: Replan | None = None,
    pool: bool = False,
) -> CountingLearner:
    """UCB-VI (Azar et al. 2017): optimistic value iteration on visit counts, no privacy.

    ``bonus_scale`` multiplies the paper's bonus, whose constants suit proofs; ``replan`` is after every episode or
    on a geometric public schedule of epochs; ``pool`` adds up the counts of all steps of a model that is declared
    stationary.
    """
    check_scale("bonus_scale", bonus_scale)
    check_alpha(alpha)
    require_declared(model, pool=pool, normalize=False)
    sizes = replan_sizes(model.states * model.actions, episodes, replan)
    rule = RULES[bonus]
    iota = rule.logarithm(model.states, model.actions, episodes * model.horizon, alpha)
    return CountingLearner(
        model=model,
        aggregator=make_exact_counts(model, pool),
        widths=jnp.zeros((1, 3)),
        iota=jnp.asarray(iota),
        bonus_scale=jnp.asarray(float(bonus_scale)),
        learning_rate=jnp.asarray(0.0),
        rule=rule,
        schedule=Schedule(episodes, sizes, final_release=True),
        method="value-iteration",
        name="ucbvi",
    )


def check_alpha(alpha: float) -> None:
    """Refuse a failure probability that is none."""
    if not 0 < alpha <= 1:
        raise InvalidInput("alpha", alpha, "in (0, 1]", "use 0.05 if in doubt")
