# SPDX-License-Identifier: Apache-2.0
"""Evaluate once, improve once: the uniform policy's values under privacy, and the greedy policy of these.

The simplest use of private policy evaluation (Balle, Gomrokchi and Precup 2016), as a yardstick for learners that explore:
a public share of the users meets the uniform policy, its Q is published once with noise, and all later users are served
the greedy policy of that Q. One step of policy improvement reaches the optimum only where the uniform policy's values
rank actions as the optimal ones do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.evaluation.evaluation_plan import EvaluationOptions, Regression, plan_evaluation
from reticent.agents.evaluation.policy_evaluation import make_evaluation
from reticent.agents.evaluation.returns import PrivateReturns, ReturnSums, RewardsByPair
from reticent.agents.linear_mdp.learner import features_of
from reticent.agents.registry import register_with_options
from reticent.learning.learner import AgentState, Learner
from reticent.learning.plan import Plan
from reticent.worlds import Episode, Model

if TYPE_CHECKING:
    from reticent.agents.evaluation.audit_hooks import EvaluationHooks


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOnce(Learner[RewardsByPair, ReturnSums, Array, None]):
    """Uniform play in the first round, then the greedy policy of its published values.

    Attributes:
      features: φ, ``(d, S, A)``.
    """

    features: Array

    @property
    def ceilings(self) -> Array:
        """The most that can be earned from each step on, ``(H,)``."""
        return self.model.horizon - jnp.arange(self.model.horizon, dtype=self.features.dtype)

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan[None]:
        del action_values  # probabilities come with the values that they are weighted by
        weights = self.aggregator.released(state.aggregate)
        estimated = jnp.einsum("hd,dsa->hsa", weights, self.features) + self.ceilings[:, None, None] / 2
        table = jnp.clip(estimated, 0, self.ceilings[:, None, None])
        greedy = jax.nn.one_hot(estimated.argmax(axis=-1), self.model.actions, dtype=table.dtype)
        policy = jnp.where(state.rounds > 0, greedy, jnp.full_like(greedy, 1 / self.model.actions))
        values = (policy * table).sum(axis=-1)
        return Plan(
            policy=policy,
            values=jnp.concatenate([values, jnp.zeros_like(values[:1])]),
            extension=None,
            action_values=table,
        )

    def audit_hooks(self) -> EvaluationHooks:
        from reticent.agents.evaluation.audit_hooks import EvaluationHooks

        return EvaluationHooks(self)

    def statistic(self, plan: Plan[None], episode: Episode) -> RewardsByPair:
        del plan
        return RewardsByPair(episode.states[:-1] * self.model.actions + episode.actions, episode.rewards)


def make_evaluate_once(model: Model, episodes: int, regression: Regression, options: EvaluationOptions) -> EvaluateOnce:
    """The agent that keeps the promise of ``options``."""
    features = features_of(model)
    d, horizon, pairs = features.shape[0], model.horizon, model.states * model.actions
    plan = plan_evaluation(d, horizon, episodes, options)
    # Every step has weights of its own: block-diagonal features, and a user is in one place of each block.
    one_step = np.asarray(features).reshape(d, pairs).T
    ridge = None
    if regression == "lsl":
        ridge = float(plan.explorers) if options.ridge is None else options.ridge
    evaluation = make_evaluation(
        np.kron(np.eye(horizon), one_step),
        1.0,
        np.repeat(np.arange(horizon, 0, -1.0) / 2, pairs),
        plan.explorers,
        options.epsilon,
        options.delta,
        ridge=ridge,
        groups=np.repeat(np.arange(horizon), pairs),
    )
    return EvaluateOnce(
        model=model,
        aggregator=PrivateReturns(evaluation, horizon, pairs),
        schedule=plan.schedule,
        method="policy-optimization",
        name=f"{regression}-improve",
        features=features,
        promise=plan.guarantee,
    )


def _evaluating(regression: Regression) -> Callable[[Model, int, EvaluationOptions], EvaluateOnce]:
    return lambda model, episodes, options: make_evaluate_once(model, episodes, regression, options)


register_with_options(
    "lsw-improve",
    "Evaluate the uniform policy once by DP-LSW (Balle et al. 2016), then act greedily on it; joint privacy.",
    _evaluating("lsw"),
    EvaluationOptions(),
    without=("ridge",),
)
register_with_options(
    "lsl-improve",
    "Evaluate the uniform policy once by DP-LSL (Balle et al. 2016), then act greedily on it; joint privacy.",
    _evaluating("lsl"),
    EvaluationOptions(),
)
