# SPDX-License-Identifier: Apache-2.0
r"""The tabular learner: counts in, an optimistic plan out.

:class:`CountingLearner` is UCB-VI over *any* regularizer of counts and *any* rule: with exact counts it is the algorithm of
Azar et al. (2017), with a count privatizer each of the private ones; with ``method="policy-optimization"`` it takes mirror
steps along the optimistic Q of its own policy (UCB-PO). Nothing here knows which.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.tabular.counts import Counts
from reticent.agents.tabular.planning import Widths, plan_with
from reticent.agents.tabular.rules import Rule
from reticent.learning.aggregator import Noise
from reticent.learning.learner import AgentState, Learner, mirror_step
from reticent.learning.plan import Plan
from reticent.worlds import Episode

if TYPE_CHECKING:
    from reticent.agents.tabular.audit_hooks import CountingHooks


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class CountingLearner(Learner[Episode, Array, Counts, None]):
    """A learner of visit counts; see the module docstring.

    Attributes:
      widths: of the noise in visits, transitions and rewards after t rounds, ``(rounds + 1, 3)``, or one row for all t.
      iota: the rule's logarithm.
      bonus_scale: multiplies the bonus; 1 is the paper's.
      learning_rate: η of policy optimization, per episode.
      rule: how counts become estimates and bonuses.
    """

    widths: Array
    iota: Array
    bonus_scale: Array
    learning_rate: Array
    rule: Rule = dataclasses.field(metadata={"static": True})

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan[None]:
        horizon = self.model.horizon
        row = self.widths[jnp.minimum(state.rounds, self.widths.shape[0] - 1)]
        counts = self.aggregator.released(state.aggregate)
        estimate = self.rule.estimate(counts, Widths(row[0], row[1], row[2]), self.iota, horizon)
        bonus = functools.partial(self.rule.bonus, iota=self.iota, horizon=horizon)
        policy = None if state.log_policy is None else jax.nn.softmax(state.log_policy, axis=-1)
        return plan_with(estimate, bonus, self.bonus_scale, horizon, policy, action_values)

    def audit_hooks(self) -> CountingHooks:
        from reticent.agents.tabular.audit_hooks import CountingHooks

        return CountingHooks(self)

    def statistic(self, plan: Plan[None], episode: Episode) -> Episode:
        """The episode itself: counts do not depend on what was published."""
        del plan
        return episode

    def close(self, state: AgentState, plan: Plan[None], users: Array | int, noise: Noise = None) -> AgentState:
        r"""End the round; policy optimization takes its mirror step, :math:`\pi\propto\pi\exp(\eta\,n\,Q)` for n users."""
        log_policy = state.log_policy
        if log_policy is not None:
            log_policy = mirror_step(log_policy, plan, self.learning_rate * users)
        return super().close(state, plan, users, noise)._replace(log_policy=log_policy)
