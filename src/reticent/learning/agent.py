r"""A learner as four pure functions: ``init``, ``plan``, ``act``, ``update``.

:class:`Agent` is LinOpt-VI-Reg (Algorithm 1) or LinOpt-PO-Reg (Algorithm 2) over *any* regularizer: with a fixed one it is
UCRL-VTR or OPPO, with a privatizer Private-LinOpt-VI or Private-LinOpt-PO. Nothing here knows which.

Everything is a pytree and every method is pure: simulation vectorises them, a service calls them one user at a time.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.learning import off_grid, planner
from reticent.learning.constraint import project_sum
from reticent.learning.frame import Frame
from reticent.learning.planner import Plan
from reticent.learning.radius import Radii
from reticent.learning.regularizer import Noise, Report
from reticent.learning.ridge import estimates
from reticent.learning.schedule import Schedule
from reticent.learning.statistics import observe
from reticent.worlds import Episode, Model
from reticent.worlds.continuous.model import ContinuousModel
from reticent.worlds.model import Sizes

Method = Literal["value-iteration", "policy-optimization"]


class AgentState(NamedTuple):
    """What an agent carries from one user to the next.

    Attributes:
      regularizer: the regularizer's state.
      log_policy: ``(H, S, A)`` unnormalised log-policy of policy optimization; None under value iteration.
      rounds: number of closed rounds (a public number).
      past: the plans that policy optimization has stepped along, where states are real vectors; else None.
    """

    regularizer: Any
    log_policy: Array | None
    rounds: Array
    past: off_grid.Past | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Agent:
    """LinOpt-VI-Reg or LinOpt-PO-Reg with a regularizer; see the module docstring.

    Attributes:
      model: the known features.
      regularizer: fixed or private (any :class:`~reticent.learning.regularizer.Regularizer` that is a pytree).
      radii: confidence radii per round and step.
      bonus_scale: multiplies the radii; 1 is the theory.
      learning_rate: η of policy optimization, per episode.
      frame: how values enter the regression.
      schedule: when rounds end.
      method: which of the two algorithms.
      name: as registered, with options.
      normalize: project transition estimates onto {Σθ = 1} (:mod:`reticent.learning.constraint`).
    """

    model: Model
    regularizer: Any
    radii: Radii
    bonus_scale: Array
    learning_rate: Array
    frame: Frame = dataclasses.field(metadata={"static": True})
    schedule: Schedule = dataclasses.field(metadata={"static": True})
    method: Method = dataclasses.field(metadata={"static": True})
    name: str = dataclasses.field(metadata={"static": True})
    normalize: bool = dataclasses.field(default=False, metadata={"static": True})

    def init(self) -> AgentState:
        """The state before the first user."""
        log_policy, past = None, None
        if self.method == "policy-optimization":
            shape = (self.model.horizon, self.model.states, self.model.actions)
            log_policy = jnp.zeros(shape, self.model.reward_features.dtype)
            if isinstance(self.model, ContinuousModel):
                past = off_grid.empty_past(self.model, self.schedule.rounds)
        return AgentState(self.regularizer.init(), log_policy, jnp.zeros((), jnp.int32), past)

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan:
        """The billboard for the coming round: a function of released statistics and public numbers only.

        ``action_values`` keeps the optimistic Q in it; policy optimization needs it and always does.
        """
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
        """The action at 0-based ``step`` in ``state``; ``uniform`` in [0, 1) decides where the policy is random."""
        step, state, uniform = jnp.asarray(step), jnp.asarray(state), jnp.asarray(uniform)
        if isinstance(self.model, ContinuousModel):
            return off_grid.act(self.model, plan.extension, step, state, uniform)
        return planner.act(plan, step, state, uniform)

    def report(self, plan: Plan, episode: Episode, noise: Noise = None) -> Report:
        """What the user of ``episode``, who was served ``plan``, sends to the server."""
        if isinstance(self.model, ContinuousModel):
            seen = off_grid.observe(self.model, plan.extension, plan.framed_values(), episode)
        else:
            seen = observe(self.model, plan.framed_values(), episode)
        return self.regularizer.report(seen, noise)

    def absorb(self, state: AgentState, report: Report) -> AgentState:
        """Add a report (or a sum of reports) to the open round."""
        return state._replace(regularizer=self.regularizer.absorb(state.regularizer, report))

    def close(self, state: AgentState, plan: Plan, users: Array | int, noise: Noise = None) -> AgentState:
        r"""End the round of ``users`` users who were served ``plan``.

        Policy optimization takes its mirror step here, :math:`\pi\propto\pi\exp(\eta\,n\,Q)` for a round of n users: one
        step of the paper per user, all with the round's Q.
        """
        log_policy, past = state.log_policy, state.past
        if log_policy is not None:
            if plan.action_values is None:
                raise InvalidInput("plan.action_values", None, "given for policy optimization", "use agent.plan(state)")
            log_policy = log_policy + self.learning_rate * users * plan.action_values
            log_policy = log_policy - log_policy.max(axis=-1, keepdims=True)
        if past is not None:
            past = off_grid.record(past, state.rounds, plan.extension.published, self.learning_rate * users)
        return AgentState(self.regularizer.close(state.regularizer, noise), log_policy, state.rounds + 1, past)

    def update(
        self, state: AgentState, plan: Plan, episode: Episode, user_noise: Noise = None, round_noise: Noise = None
    ) -> AgentState:
        """Absorb one episode and end its round: the whole of Algorithm 1 or 2 when every episode is a round."""
        return self.close(self.absorb(state, self.report(plan, episode, user_noise)), plan, 1, round_noise)


def require_declared(sizes: Sizes, *, pool: bool, normalize: bool) -> None:
    """Refuse to use a property of θ that the model does not declare."""
    if pool and not sizes.stationary:
        raise InvalidInput("pool", True, "False for a model that is not stationary", "declare the model stationary")
    if normalize and not sizes.sums_to_one:
        raise InvalidInput("normalize", True, "False unless θ sums to one", "declare the model with sums_to_one")


def paper_learning_rate(actions: int, horizon: int, episodes: int) -> float:
    r"""η of Theorem PO, :math:`\sqrt{2\ln|A|/(HT)}` with T = KH."""
    return float(np.sqrt(2 * np.log(max(actions, 2)) / (horizon * episodes * horizon)))
