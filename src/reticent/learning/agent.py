r"""The paper's learner for linear mixture models.

:class:`Agent` is LinOpt-VI-Reg (Algorithm 1) or LinOpt-PO-Reg (Algorithm 2) over *any* regularizer: with a fixed one it is
UCRL-VTR or OPPO, with a privatizer Private-LinOpt-VI or Private-LinOpt-PO. Nothing here knows which.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.learning import off_grid, planner
from reticent.learning.constraint import project_sum
from reticent.learning.frame import Frame
from reticent.learning.learner import AgentState, Learner, mirror_step
from reticent.learning.planner import Plan
from reticent.learning.radius import Radii
from reticent.learning.regularizer import Noise
from reticent.learning.ridge import estimates
from reticent.learning.statistics import Observation, observe
from reticent.worlds import Episode
from reticent.worlds.continuous.model import ContinuousModel
from reticent.worlds.model import Sizes


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Agent(Learner):
    """LinOpt-VI-Reg or LinOpt-PO-Reg with a regularizer; see the module docstring.

    Attributes:
      radii: confidence radii per round and step.
      bonus_scale: multiplies the radii; 1 is the theory.
      learning_rate: η of policy optimization, per episode.
      frame: how values enter the regression.
      normalize: project transition estimates onto {Σθ = 1} (:mod:`reticent.learning.constraint`).
    """

    radii: Radii
    bonus_scale: Array
    learning_rate: Array
    frame: Frame = dataclasses.field(metadata={"static": True})
    normalize: bool = dataclasses.field(default=False, metadata={"static": True})

    def init(self) -> AgentState:
        state = super().init()
        if state.log_policy is not None and isinstance(self.model, ContinuousModel):
            state = state._replace(past=off_grid.empty_past(self.model, self.schedule.rounds))
        return state

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan:
        sums = self.regularizer.regularized(state.regularizer)
        if self.regularizer.pooled:  # every step has the same sums: they are solved once
            sums = jax.tree.map(lambda leaf: leaf[:1], sums)
        transition, reward = estimates(sums)
        if self.normalize:
            transition = project_sum(transition)
        radius_p, radius_r = self.radii.after(state.rounds)
        policy = None if state.log_policy is None else jax.nn.softmax(state.log_policy, axis=-1)
        radius_p, radius_r = self.bonus_scale * radius_p, self.bonus_scale * radius_r
        plan = planner.backward_induction(
            self.model, self.frame, transition, reward, radius_p, radius_r, policy,
            action_values=action_values or policy is not None,
        )  # fmt: skip
        if isinstance(self.model, ContinuousModel):
            published = off_grid.publish(transition, reward, radius_p, radius_r, plan.values, plan.centres, plan.scales)
            plan = plan._replace(extension=off_grid.Extension(published, state.past))
        return plan

    def act(self, plan: Plan, step: Array | int, state: Array | int, uniform: Array | float) -> Array:
        if isinstance(self.model, ContinuousModel):
            return off_grid.act(self.model, plan.extension, jnp.asarray(step), jnp.asarray(state), jnp.asarray(uniform))
        return super().act(plan, step, state, uniform)

    def for_many(self, plan: Plan) -> Plan:
        if isinstance(self.model, ContinuousModel) or planner.states_at_once(self.model) < self.model.states:
            return plan
        return plan._replace(features=jax.vmap(self.model.value_features)(plan.framed_values()))

    def see(self, plan: Plan, episode: Episode) -> Observation:
        """The regression pairs of ``episode`` under ``plan``."""
        if isinstance(self.model, ContinuousModel):
            return off_grid.observe(self.model, plan.extension, plan.framed_values(), episode)
        return observe(self.model, plan.framed_values(), episode, plan.features)

    def close(self, state: AgentState, plan: Plan, users: Array | int, noise: Noise = None) -> AgentState:
        r"""End the round of ``users`` users who were served ``plan``.

        Policy optimization takes its mirror step here, :math:`\pi\propto\pi\exp(\eta\,n\,Q)` for a round of n users: one
        step of the paper per user, all with the round's Q.
        """
        log_policy, past = state.log_policy, state.past
        if log_policy is not None:
            log_policy = mirror_step(log_policy, plan, self.learning_rate * users)
        if past is not None:
            past = off_grid.record(past, state.rounds, plan.extension.published, self.learning_rate * users)
        return AgentState(self.regularizer.close(state.regularizer, noise), log_policy, state.rounds + 1, past)


def require_declared(sizes: Sizes, *, pool: bool, normalize: bool) -> None:
    """Refuse to use a property of θ that the model does not declare."""
    if pool and not sizes.stationary:
        raise InvalidInput("pool", True, "False for a model that is not stationary", "declare the model stationary")
    if normalize and not sizes.sums_to_one:
        raise InvalidInput("normalize", True, "False unless θ sums to one", "declare the model with sums_to_one")


def paper_learning_rate(actions: int, horizon: int, episodes: int) -> float:
    r"""η of Theorem PO, :math:`\sqrt{2\ln|A|/(HT)}` with T = KH."""
    return float(np.sqrt(2 * np.log(max(actions, 2)) / (horizon * episodes * horizon)))
