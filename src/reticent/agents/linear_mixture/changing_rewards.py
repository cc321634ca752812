# SPDX-License-Identifier: Apache-2.0
r"""Rewards that change from episode to episode and are announced after it: what policy optimization is for.

**The order.** The policy :math:`\pi^k` is published; nature fixes a table :math:`r_k(s,a)\in[0,1]` and user k plays; the
table is announced; the learner evaluates :math:`\pi^k` *under r_k*,

.. math:: Q_h^k=\big[r_k+\phi_h^\top\hat\theta_{h,p}+\beta_p\|\phi_h\|_{\Lambda_{h,p}^{-1}}\big]_{[0,H-h+1]},\qquad
          V_h^k=\langle Q_h^k,\pi_h^k\rangle,\qquad \pi^{k+1}\propto\pi^k\exp(\eta Q^k);

user k's regression pairs are formed with :math:`V^k`. That is LinOpt-PO-Reg in the paper's order with a reward that is
known where the paper estimates one: the learner, its planner and its mirror step are those of rewards that stay
(:class:`~reticent.agents.linear_mixture.learner.LinOptLearner`), and if they do stay the run is the same. A mirror step
uses the last release and a public table, so it need not wait for a release: within a round of many users one is taken
at every announcement.

**Regret.** Terms (i) to (iii) of Theorem PO hold for any sequence of rewards. (i) is the mirror descent lemma,
:math:`\sum_k\langle Q^k,\pi^*-\pi^k\rangle\le\ln|A|/\eta+\eta KH^2/2` at every state and step, which is about arbitrary
:math:`Q^k\in[0,H]`; :math:`r_k` enters the other two only through :math:`Q^k`, without an error since it is known by then.
All three hold for every fixed :math:`\pi^*` at once, so also for the one that is best in hindsight of tables that were
chosen against the learner. The confidence sets need that :math:`V^k` is fixed before the transitions of episode k are
drawn: nature may look at the published policy and at all that came before, not at episode k. *Ahead* and a large η
have no such bound here, for the next Q is not known ahead: :func:`for_changing_rewards` takes both back. Value
iteration has none either: its plan is for a table that has been, and nature may pay for anything else.

**Privacy (theorem).** *Let every table be a function of public things: the designer's choice, the episode's number, and
what was published before it. Then a private learner promises here what it promises without changes, with the same
noise, the same ledger and the same ε.* Proof. A contribution is clipped to bounds that hold for every reward in [0, 1]
and say nothing of a table (the frame's for :math:`\phi` and V, 0 for rewards), so whatever V is chosen one user moves a
round's sum by no more than the declared sensitivity. The V that their pairs are formed with is a function of earlier
releases and of public tables: an adaptive choice of query, which the Gaussian mechanism's composition allows. The
noise is the counter's, drawn without regard to either. Policies and steps are post-processing, and users' actions follow
from the billboard and their own data. ∎

**Where it ends.** If a table is computed from users' data (last week's mean satisfaction, a price that follows demand), its
announcement is itself a release: nothing here hides it, and it must be made private and charged on its own. The same goes
for a table that looks at *who* played or at what user k did.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.linear_mixture.frame import LinOptPlan
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.mirror import paper_learning_rate
from reticent.errors import InvalidInput
from reticent.learning.learner import AgentState
from reticent.learning.plan import Plan
from reticent.runtime import double_precision
from reticent.worlds.continuous.model import ContinuousModel


class Announced(Protocol):
    """What nature says after an episode."""

    @property
    def table(self) -> Any:
        """The mean rewards of the episode, ``(S, A)``."""
        ...


Said = TypeVar("Said", bound=Announced)


@double_precision
def for_changing_rewards(agent: LinOptLearner, learning_rate: float | None = None) -> LinOptLearner:
    """The same agent for rewards that change: mirror steps follow their episode, with the paper's η unless one is given.

    Model, aggregator, schedule and promise are the agent's own.

    Raises:
      InvalidInput: the agent regresses rewards, its states are not finitely many, or η is negative or not finite.
    """
    require_known_rewards(agent)
    if agent.method != "policy-optimization":
        return agent
    if learning_rate is not None and not 0 <= learning_rate < math.inf:
        raise InvalidInput("learning_rate", learning_rate, "a finite number of at least 0", "None is the paper's")
    paper = paper_learning_rate(agent.model.actions, agent.model.horizon, agent.schedule.episodes)
    theory = agent.theory
    if theory is not None:
        theory = dataclasses.replace(theory, learning_rate=learning_rate, ahead=False)
    rate = jnp.asarray(paper if learning_rate is None else learning_rate, agent.learning_rate.dtype)
    return dataclasses.replace(agent, learning_rate=rate, ahead=False, theory=theory)


def require_known_rewards(agent: LinOptLearner) -> None:
    """Refuse an agent that regresses rewards: what was paid under one table says nothing of another.

    Raises:
      InvalidInput: it does, or its states are not finitely many.
    """
    if isinstance(agent.model, ContinuousModel):
        raise InvalidInput("model", "of real states", "of finitely many states", "announce tables over finite states")
    if agent.model.known_rewards is None or agent.rewards is None or agent.rewards.bounds.bound != 0:
        raise InvalidInput(
            "agent", agent.name, "one that learns nothing about rewards",
            "use the model of a reward stream, a horizon of at least 2, and contrasts=true",
        )  # fmt: skip


def with_rewards(agent: LinOptLearner, table: Array) -> LinOptLearner:
    """The agent that takes ``table`` ``(S, A)`` for what is paid."""
    return dataclasses.replace(agent, model=dataclasses.replace(agent.model, known_rewards=table))


def play(
    agent: LinOptLearner, state: AgentState, expected: Array, nature: Callable[[Array], Said]
) -> tuple[Plan[LinOptPlan], Said]:
    """One announcement: what ``nature`` says to the policy that is in force, and the plan that users report under.

    ``nature`` is given the published policy and nothing else, and the policy is computed before it is asked. The plan's
    policy is that policy. Its values are, under policy optimization, those of the announced table; under value
    iteration those of ``expected``, which it was made for.
    """
    if state.log_policy is None:
        plan = with_rewards(agent, expected).plan(state)
        return plan, nature(plan.policy)
    said = nature(jax.nn.softmax(state.log_policy, axis=-1))
    return with_rewards(agent, said.table).plan(state), said
