# SPDX-License-Identifier: Apache-2.0
"""What a learner is: six pure functions over pytrees, whatever it learns.

Every agent of this library, linear or tabular, private or not, is a :class:`Learner`: ``init``, ``plan``, ``act``,
``report``, ``absorb``, ``close``. A subclass says how it starts (``init``), what it publishes (``plan``), what it takes
from a user's episode (``statistic``) and how a round ends (``close``); what users send and how the server adds it up is the
*aggregator*'s part (:mod:`reticent.learning.aggregator`), where privacy enters. It carries the guarantee it gives its users
(``promise``). What only some families do, such as bounds, diagnostics and audit hooks, are optional protocols
(:mod:`reticent.learning.capabilities`).

Everything is a pytree and every method is pure: simulation vectorises them, a service calls them one user at a time.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import jax.numpy as jnp
from jax import Array

from reticent.errors import InvalidInput
from reticent.learning import plan as plans
from reticent.learning.aggregator import Aggregator, Noise, PyTree
from reticent.learning.plan import AnyPlan, Extension, Plan
from reticent.learning.promise import NoPromise, Promise
from reticent.learning.schedule import Schedule
from reticent.runtime import scope_methods
from reticent.short_repr import ShortRepr
from reticent.worlds import Episode, Model

Method = Literal["value-iteration", "policy-optimization"]

SCOPED = (
    "init",
    "plan",
    "for_many",
    "served",
    "rebase_plan",
    "act",
    "empty_memory",
    "act_from",
    "remember",
    "policy_to_judge",
    "plan_value",
    "statistic",
    "report",
    "absorb",
    "close",
    "improve",
    "update",
)
"""Methods that run in double precision whatever the caller's setting is, in every subclass (:mod:`reticent.runtime`)."""

Seen = TypeVar("Seen")
Report = TypeVar("Report")
Released = TypeVar("Released")


class AgentState(NamedTuple):
    """What an agent carries from one user to the next.

    Attributes:
      aggregate: the aggregator's state.
      log_policy: ``(H, S, A)`` unnormalised log-policy of policy optimization; None under value iteration.
      rounds: number of closed rounds (a public number).
      past: what a family keeps besides, such as the plans that policy optimization has stepped along; else None.
    """

    aggregate: PyTree
    log_policy: Array | None
    rounds: Array
    past: PyTree = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learner(ShortRepr, abc.ABC, Generic[Seen, Report, Released, Extension]):
    """The interface; see the module docstring. Subclasses are registered pytrees.

    Attributes:
      model: what is known of the world. All other arrays of an agent are numbers (settings); the model is shared.
      aggregator: takes users' reports and gives back what may be known of them, with or without noise.
      schedule: when rounds end.
      method: whether plans are greedy choices (``value-iteration``) or probabilities (``policy-optimization``).
      name: as registered, with options.
      promise: what its users are promised.
    """

    model: Model
    aggregator: Aggregator[Seen, Report, Released]
    schedule: Schedule = dataclasses.field(metadata={"static": True})
    method: Method = dataclasses.field(metadata={"static": True})
    name: str = dataclasses.field(metadata={"static": True})
    promise: Promise = dataclasses.field(default=NoPromise(), metadata={"static": True})

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        scope_methods(cls, SCOPED)

    def __repr__(self) -> str:
        # Inside a compiled program a learner may be without its model.
        sizes = ", ".join(f"{size}={getattr(self.model, size, None)}" for size in ("states", "actions", "horizon"))
        return f"{type(self).__name__}({self.name!r}, {self.schedule.episodes:,} users, {sizes})"

    def init(self) -> AgentState:
        """The state before the first user."""
        log_policy = None
        if self.method == "policy-optimization":
            shape = (self.model.horizon, self.model.states, self.model.actions)
            log_policy = jnp.zeros(shape, self.model.reward_features.dtype)
        return AgentState(self.aggregator.init(), log_policy, jnp.zeros((), jnp.int32))

    @abc.abstractmethod
    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan[Extension]:
        """The billboard for the coming round: a function of released sums and public numbers only.

        ``action_values`` keeps the optimistic Q in it; policy optimization needs it and always does.
        """

    def for_many(self, plan: Plan[Extension]) -> Plan[Extension]:
        """The same plan with what it pays to compute once if many users are served it."""
        return plan

    def served(self, plan: Plan[Extension], place: Array | int) -> Plan[Extension]:
        """What the user at the 0-based ``place`` of a round is served of its plan: all the same, unless places differ.

        A place is public and follows from the order of admissions; it never depends on data.
        """
        del place
        return plan

    def act(self, plan: Plan[Extension], step: Array | int, state: Array | int, uniform: Array | float) -> Array:
        """The action at 0-based ``step`` in ``state``; ``uniform`` in [0, 1) decides where the policy is random."""
        return plans.act(plan, jnp.asarray(step), jnp.asarray(state), jnp.asarray(uniform))

    def policy_to_judge(self, plan: Plan[Extension], world: Any) -> Array:
        """The policy of ``plan`` as ``world`` judges policies: on its own states, as choices or probabilities."""
        del world
        return plan.policy

    def plan_value(self, plan: Plan[Extension], world: Any) -> Array:
        """What ``plan`` is worth in ``world`` to a user of its round, on average over places; uses the hidden truth."""
        value: Array = world.policy_value(self.policy_to_judge(plan, world))
        return value

    @abc.abstractmethod
    def statistic(self, plan: Plan[Extension], episode: Episode) -> Seen:
        """What the aggregator is shown of ``episode``, whose user was served ``plan``."""

    def report(self, plan: Plan[Extension], episode: Episode, noise: Noise = None) -> Report:
        """What the user of ``episode``, who was served ``plan``, sends to the server."""
        return self.aggregator.report(self.statistic(plan, episode), noise)

    def absorb(self, state: AgentState, report: Report) -> AgentState:
        """Add a report (or a sum of reports) to the open round."""
        return state._replace(aggregate=self.aggregator.absorb(state.aggregate, report))

    def close(self, state: AgentState, plan: Plan[Extension], users: Array | int, noise: Noise = None) -> AgentState:
        """End the round of ``users`` users who were served ``plan``."""
        del plan, users
        return state._replace(aggregate=self.aggregator.close(state.aggregate, noise), rounds=state.rounds + 1)

    def update(
        self,
        state: AgentState,
        plan: Plan[Extension],
        episode: Episode,
        user_noise: Noise = None,
        round_noise: Noise = None,
    ) -> AgentState:
        """Absorb one episode and end its round: the whole of an algorithm when every episode is a round."""
        return self.close(self.absorb(state, self.report(plan, episode, user_noise)), plan, 1, round_noise)


scope_methods(Learner, SCOPED)

AnyLearner = Learner[Any, Any, Any, Any]
"""A learner of whatever family: what simulation, service and audit take."""


def mirror_step(log_policy: Array, plan: AnyPlan, rate: Array) -> Array:
    r"""The log-policy after :math:`\pi\propto\pi\exp(\text{rate}\cdot Q)`, its largest entry per state 0."""
    if plan.action_values is None:
        raise InvalidInput("plan.action_values", None, "given for policy optimization", "use agent.plan(state)")
    log_policy = log_policy + rate * plan.action_values
    return log_policy - log_policy.max(axis=-1, keepdims=True)
