# SPDX-License-Identifier: Apache-2.0
r"""The paper's learner for linear mixture models.

:class:`LinOptLearner` is LinOpt-VI-Reg (Algorithm 1) or LinOpt-PO-Reg (Algorithm 2) over *any* regularizer: with a
fixed one it is UCRL-VTR or OPPO, with a privatizer Private-LinOpt-VI or Private-LinOpt-PO. Nothing here knows which.

**When policy optimization steps.** The paper serves :math:`\pi^k` and steps afterwards, with the Q that was made before
user k came: :math:`\pi^{k+1}\propto\pi^k\exp(\eta Q^k)`. A round of n users takes n such steps at once, all with a Q that
knows nothing of them. *Ahead* is the other order: the round is served

.. math:: \pi^k\propto\pi^{k-1}\exp(\eta n_kQ^k),

where Q^k is that of π^k itself: backward induction meets Q_h before it needs π_h. By the three-point identity
:math:`\eta n_k\langle Q^k,\pi^*-\pi^k\rangle=KL(\pi^*\|\pi^{k-1})-KL(\pi^*\|\pi^k)-KL(\pi^k\|\pi^{k-1})` at every state and
step, so that term (i) of Theorem PO is :math:`\sum_kn_k\langle Q^k,\pi^*-\pi^k\rangle\le H\ln|A|/\eta` over all steps,
*whatever η and the rounds are*: the second-order term that asks for a small η is gone. What is left of it is an
adversary who changes rewards from user to user: the next Q is then not known ahead, and the paper's order and η are
right.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.linear_mixture import off_grid, planner
from reticent.agents.linear_mixture.constraint import project_sum
from reticent.agents.linear_mixture.frame import Frame, LinOptPlan, framed_values
from reticent.agents.linear_mixture.radius import Radii
from reticent.agents.linear_mixture.regularizer import Certificate
from reticent.agents.linear_mixture.reward_coordinates import RewardCoordinates
from reticent.agents.linear_mixture.statistics import Observation, Statistics, estimates, observe
from reticent.errors import InvalidInput
from reticent.learning.aggregator import Noise
from reticent.learning.learner import AgentState, Learner, mirror_step
from reticent.learning.plan import Plan
from reticent.learning.ridge import Estimate
from reticent.static_metadata import StaticMetadata
from reticent.worlds import Episode, Model
from reticent.worlds.continuous.model import ContinuousModel
from reticent.worlds.models.model import Sizes

if TYPE_CHECKING:
    from reticent.agents.linear_mixture.audit_hooks import LinearMixtureHooks, OffGridHooks
    from reticent.agents.linear_mixture.bounds import Bound
    from reticent.agents.linear_mixture.privacy_plan import PrivacyPlan
    from reticent.learning.diagnostics import Diagnostics


class Estimates(NamedTuple):
    """What a plan is made from: both estimates, and their radii ``(H,)`` times the bonus scale."""

    transition: Estimate
    reward: Estimate
    transition_radius: Array
    reward_radius: Array


@dataclasses.dataclass(frozen=True, eq=False)
class Theory(StaticMetadata):
    """What the theorems need to know of a learner (:mod:`reticent.agents.linear_mixture.bounds`).

    Attributes:
      certificate: the constants of Assumption 2.
      alpha: failure probability of the confidence sets.
      weighted: whether rounds are weighted by their size.
      bonus_scale, shift_scale: multiples of the theory's radii and shifts.
      learning_rate: η where it is not the paper's, else None.
      ahead: whether policy optimization steps along the Q of the round that it is about to serve.
      misspecification: how wrong the model may be.
      privacy: the plan of a private learner.
    """

    certificate: Certificate
    alpha: float
    weighted: bool = False
    bonus_scale: float = 1.0
    shift_scale: float = 1.0
    learning_rate: float | None = None
    misspecification: float = 0.0
    privacy: PrivacyPlan | None = None
    ahead: bool = False


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class LinOptLearner(Learner[Observation, Any, Statistics, LinOptPlan]):
    """LinOpt-VI-Reg or LinOpt-PO-Reg with a regularizer; see the module docstring.

    Attributes:
      radii: confidence radii per round and step.
      bonus_scale: multiplies the radii; 1 is the theory.
      learning_rate: η of policy optimization, per episode.
      ahead: whether its mirror step is taken before a round is served, with that round's Q, or after it (the paper).
      frame: how values enter the regression.
      pooled: whether all steps share one regression, as the aggregator's sums then do.
      theory: what the regret bounds are computed from, where there are any.
      normalize: project transition estimates onto {Σθ = 1} (:mod:`reticent.agents.linear_mixture.constraint`).
      rewards: the coordinates in which rewards are learned; None is the paper's regression of r on φ.
    """

    radii: Radii
    bonus_scale: Array
    learning_rate: Array
    rewards: RewardCoordinates | None = None
    frame: Frame = dataclasses.field(metadata={"static": True})
    pooled: bool = dataclasses.field(metadata={"static": True})
    normalize: bool = dataclasses.field(default=False, metadata={"static": True})
    ahead: bool = dataclasses.field(default=False, metadata={"static": True})
    theory: Theory | None = dataclasses.field(default=None, metadata={"static": True})

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan[LinOptPlan]:
        return self._plan(state, self._estimates(state), action_values)

    def _estimates(self, state: AgentState) -> Estimates:
        """Estimates and scaled radii after the last closed round."""
        sums = self.aggregator.released(state.aggregate)
        if self.pooled:  # every step has the same sums: they are solved once
            sums = jax.tree.map(lambda leaf: leaf[:1], sums)
        transition, reward = estimates(sums)
        if self.normalize:
            transition = project_sum(transition)
        radius_p, radius_r = self.radii.after(state.rounds)
        return Estimates(transition, reward, self.bonus_scale * radius_p, self.bonus_scale * radius_r)

    def _plan(self, state: AgentState, estimates: Estimates, action_values: bool) -> Plan[LinOptPlan]:
        given = state.log_policy is not None
        return planner.backward_induction(
            self.model, self.frame, *estimates, state.log_policy, self._step_ahead(state.rounds), self.rewards,
            action_values=action_values or given,
        )  # fmt: skip

    def _step_ahead(self, rounds: Array) -> Array:
        """η·n of the mirror step that comes before the round after ``rounds`` closed ones; 0 if it comes afterwards.

        n is what the public schedule says, so that a plan does not depend on how many users did report.
        """
        if not self.ahead:
            return jnp.zeros_like(self.learning_rate)
        if self.schedule.sizes is None:
            return self.learning_rate
        sizes = jnp.asarray(self.schedule.sizes, self.learning_rate.dtype)
        return self.learning_rate * sizes[jnp.minimum(rounds, len(self.schedule.sizes) - 1)]

    def regret_bound(self, points: np.ndarray) -> tuple[np.ndarray, Bound] | None:
        """The regret bound of the theorems at each of ``points``, and at the end with its remark; None without a theory."""
        from reticent.agents.linear_mixture.certified_bounds import bound_of

        return None if self.theory is None else bound_of(self, self.theory, points)

    def audit_hooks(self) -> LinearMixtureHooks:
        from reticent.agents.linear_mixture.audit_hooks import LinearMixtureHooks

        return LinearMixtureHooks(self)

    def diagnostics(
        self, released: np.ndarray, version: int, plan: Plan[LinOptPlan], memory: Any
    ) -> Diagnostics | None:
        from reticent.agents.linear_mixture.diagnostics import diagnostics_of

        del memory
        return diagnostics_of(self, released, version, np.asarray(plan.policy))

    def for_many(self, plan: Plan[LinOptPlan]) -> Plan[LinOptPlan]:
        if planner.states_at_once(self.model) < self.model.states:
            return plan
        features = jax.vmap(self.model.value_features)(framed_values(plan))
        return plan._replace(extension=plan.extension._replace(features=features))

    def statistic(self, plan: Plan[LinOptPlan], episode: Episode) -> Observation:
        """The regression pairs of ``episode`` under ``plan``."""
        return observe(self.model, framed_values(plan), episode, plan.extension.features, self.rewards)

    def close(self, state: AgentState, plan: Plan[LinOptPlan], users: Array | int, noise: Noise = None) -> AgentState:
        """End the round of ``users`` users who were served ``plan``, and :meth:`improve` the policy by them."""
        return self.improve(super().close(state, plan, users, noise), plan, users)

    def improve(self, state: AgentState, plan: Plan[LinOptPlan], users: Array | int) -> AgentState:
        r"""The policy after the mirror step :math:`\pi\propto\pi\exp(\eta\,n\,Q)` for n users who were served ``plan``.

        It is one step of the paper per user, all with the plan's Q; if it was taken ahead, this is how it is remembered.
        Nothing is released by it: where rewards change it is taken at every announcement, within a round too
        (:mod:`reticent.agents.linear_mixture.changing_rewards`). Value iteration has no policy to keep.
        """
        if state.log_policy is None:
            return state
        return state._replace(log_policy=mirror_step(state.log_policy, plan, self.learning_rate * users))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class OffGridLearner(LinOptLearner):
    """The same where states are real vectors: plans go on between the quadrature nodes (:mod:`.off_grid`)."""

    model: ContinuousModel

    def init(self) -> AgentState:
        state = super().init()
        if state.log_policy is not None:
            state = state._replace(past=off_grid.empty_past(self.model, self.schedule.rounds))
        return state

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan[LinOptPlan]:
        estimates = self._estimates(state)
        plan = self._plan(state, estimates, action_values)
        published = off_grid.publish(*estimates, plan)
        past = state.past
        if past is not None and self.ahead:
            past = off_grid.record(past, state.rounds, published, self._step_ahead(state.rounds))
        return plan._replace(extension=plan.extension._replace(off_grid=off_grid.Between(published, past)))

    def act(self, plan: Plan[LinOptPlan], step: Array | int, state: Array | int, uniform: Array | float) -> Array:
        return off_grid.act(
            self.model, plan.extension.between, jnp.asarray(step), jnp.asarray(state), jnp.asarray(uniform)
        )

    def policy_to_judge(self, plan: Plan[LinOptPlan], world: Any) -> Array:
        return off_grid.policy_on(self.model, plan.extension.between, world.judged_states)

    def audit_hooks(self) -> OffGridHooks:
        from reticent.agents.linear_mixture.audit_hooks import OffGridHooks

        return OffGridHooks(self)

    def for_many(self, plan: Plan[LinOptPlan]) -> Plan[LinOptPlan]:
        return plan

    def statistic(self, plan: Plan[LinOptPlan], episode: Episode) -> Observation:
        return off_grid.observe(self.model, plan.extension.between, framed_values(plan), episode)

    def close(self, state: AgentState, plan: Plan[LinOptPlan], users: Array | int, noise: Noise = None) -> AgentState:
        past = state.past
        if past is not None:
            past = off_grid.record(past, state.rounds, plan.extension.between.published, self.learning_rate * users)
        return super().close(state, plan, users, noise)._replace(past=past)


def learner_for(model: Model) -> type[LinOptLearner]:
    """The learner of worlds like this one."""
    return OffGridLearner if isinstance(model, ContinuousModel) else LinOptLearner


def require_declared(sizes: Sizes, *, pool: bool, normalize: bool) -> None:
    """Refuse to use a property of θ that the model does not declare."""
    if pool and not sizes.stationary:
        raise InvalidInput("pool", True, "False for a model that is not stationary", "declare the model stationary")
    if normalize and not sizes.sums_to_one:
        raise InvalidInput("normalize", True, "False unless θ sums to one", "declare the model with sums_to_one")
