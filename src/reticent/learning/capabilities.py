# SPDX-License-Identifier: Apache-2.0
"""What only some families of learners do, as optional protocols.

A family has a capability by defining its methods; nothing is registered. Callers use the functions below, which say what
holds for a learner without it.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.learning.aggregator import PyTree
from reticent.learning.learner import AgentState, AnyLearner
from reticent.learning.plan import AnyPlan, ControlGroup
from reticent.worlds import Episode


@runtime_checkable
class RebasesPlans(Protocol):
    """A learner whose contributions are formed under the plan of the round that counts them."""

    def rebase_plan(
        self, served: AnyPlan, reference: AnyPlan, users: Array | int, control: ControlGroup[Any] | None = None
    ) -> AnyPlan:
        """The served plan's choices with the reference's statistic; see :func:`rebase_plan`."""


@runtime_checkable
class SumsReports(Protocol):
    """A learner that adds up the reports of many simulated users at less than the price of forming each."""

    @property
    def sums_reports(self) -> bool:
        """Whether this one can: reports are neither noised nor rounded one by one."""

    def summed_reports(self, plan: AnyPlan, places: Array, episodes: Episode, present: Array) -> Any:
        """The sum of what :meth:`~reticent.learning.learner.Learner.report` is for the users at these ``places`` ``(n,)``
        who are ``present``."""


@runtime_checkable
class HasRegretBound(Protocol):
    """A learner for whose regret there is a theorem."""

    def regret_bound(self, points: np.ndarray) -> Any:
        """The bound after each of ``points`` users, and its statement; None where the theorem does not apply."""


@runtime_checkable
class HasDiagnostics(Protocol):
    """A learner that says what released numbers tell, for a dashboard."""

    def diagnostics(self, released: np.ndarray, version: int, plan: AnyPlan, memory: PyTree) -> Any:
        """Diagnostics of the sums ``released`` before ``version``, whose plan and memory were published.

        Formal guarantee. A function of what is public; None where there is nothing to say.
        """


@runtime_checkable
class PublishesMemory(Protocol):
    """A learner that publishes more than its plan, for its diagnostics."""

    def public_memory(self, state: AgentState) -> PyTree:
        """What is published with a plan: a function of releases alone."""


@runtime_checkable
class HasAuditHooks(Protocol):
    """A learner that the audit can attack and replay. A family whose agents promise something has these."""

    def audit_hooks(self) -> object:
        """An object with the methods of :mod:`reticent.audit.hooks`, which is not imported by agents."""


@runtime_checkable
class RemembersEpisode(Protocol):
    """A learner whose users act on what has happened to themselves in this episode, on their own devices.

    Formal guarantee. The memory is a function of the published plan and of the user's own episode. It is no part of what
    :meth:`~reticent.learning.learner.Learner.report` sends, so that what others are shown does not depend on it.
    """

    def empty_memory(self, plan: AnyPlan) -> PyTree:
        """The memory at the beginning of an episode."""

    def act_from(
        self, plan: AnyPlan, memory: PyTree, step: Array | int, state: Array | int, uniform: Array | float
    ) -> Array:
        """The action at 0-based ``step`` in ``state``."""

    def remember(
        self, plan: AnyPlan, memory: PyTree, state: Array, action: Array, reward: Array, following: Array
    ) -> PyTree:
        """The memory after one step."""


@runtime_checkable
class ReportsStays(Protocol):
    """A learner whose users report once for a stay of several visits.

    Formal guarantee. Whatever happens in the visits, a stay is one report, formed and clipped as a whole: a user counts
    once, and the promise is about everything that they did in the stay.
    """

    @property
    def visits(self) -> int:
        """V: visits of one stay, all of them under the version that was served at the first."""


def visits_of(agent: AnyLearner) -> int:
    """How many visits one report is about: 1 of an agent without stays."""
    return agent.visits if isinstance(agent, ReportsStays) else 1


def empty_memory(agent: AnyLearner, plan: AnyPlan) -> PyTree:
    """What a user's device remembers at the beginning of an episode; None of an agent whose users act by the plan alone."""
    return agent.empty_memory(plan) if isinstance(agent, RemembersEpisode) else None


def act_from(
    agent: AnyLearner, plan: AnyPlan, memory: PyTree, step: Array | int, state: Array | int, uniform: Array | float
) -> Array:
    """The action at 0-based ``step`` in ``state``, by the plan and what the device remembers."""
    if isinstance(agent, RemembersEpisode):
        return agent.act_from(plan, memory, step, state, uniform)
    return agent.act(plan, step, state, uniform)


def remember(
    agent: AnyLearner, plan: AnyPlan, memory: PyTree, state: Array, action: Array, reward: Array, following: Array
) -> PyTree:
    """What the device remembers after one step."""
    if isinstance(agent, RemembersEpisode):
        return agent.remember(plan, memory, state, action, reward, following)
    return memory


def rebase_plan(
    agent: AnyLearner, served: AnyPlan, reference: AnyPlan, users: Array | int, control: ControlGroup[Any] | None = None
) -> AnyPlan:
    """The plan to close a round of ``users`` with, most of which were ``served`` one plan while their contributions were
    formed under the ``reference`` of another. Users at the places of a ``control`` group were served that group's plan.

    Without the capability contributions do not depend on the round that counts them: the served plan.
    """
    return agent.rebase_plan(served, reference, users, control) if isinstance(agent, RebasesPlans) else served


def regret_bound(agent: AnyLearner, points: np.ndarray) -> Any:
    """The agent's bound on regret after each of ``points`` users; None without one."""
    return agent.regret_bound(points) if isinstance(agent, HasRegretBound) else None


def diagnostics(agent: AnyLearner, released: np.ndarray, version: int, plan: AnyPlan, memory: PyTree) -> Any:
    """The agent's diagnostics; None without any."""
    return agent.diagnostics(released, version, plan, memory) if isinstance(agent, HasDiagnostics) else None


def public_memory(agent: AnyLearner, state: AgentState) -> PyTree:
    """What the agent publishes besides its plan; None without any."""
    return agent.public_memory(state) if isinstance(agent, PublishesMemory) else None


def audit_hooks(agent: AnyLearner) -> object:
    """The agent's audit hooks.

    Raises:
      InvalidInput: its family has none.
    """
    if not isinstance(agent, HasAuditHooks):
        raise InvalidInput(
            "agent", agent.name, "of a family with audit hooks", "define audit_hooks(); see reticent.audit.hooks"
        )
    return agent.audit_hooks()
