# SPDX-License-Identifier: Apache-2.0
"""What a belief about the own user's kind would earn with ``private-kinds``, in words, before the first user.

Truths here are *kinds*: each user lives by one candidate, and the shares of candidates are drawn from the public prior.
What a rehearsal simulates otherwise are truths in which every step is drawn from the blend; what the agent loses there is
said beside it. Candidates, prior and simulated users are public, so this costs no privacy.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.kinds.learner import LEAST_SHARE, KindsLearner
from reticent.agents.kinds.options import KindsOptions
from reticent.agents.kinds.point_based import require_small
from reticent.agents.registry import AGENTS, make_agent
from reticent.errors import InvalidInput
from reticent.learning.learner import AgentState
from reticent.learning.promise import NoPromise
from reticent.naming import join, split
from reticent.runtime import double_precision
from reticent.simulation.simulate import simulate
from reticent.worlds import Model
from reticent.worlds.kinds import KindsWorld, kinds_world

PRIVATE, PLAIN = "private-kinds", "kinds"
TRUTHS = 8
"""Truths that are simulated at most; each is a run of K users with and without privacy."""

VALUED = 2**14
"""Simulated users behind one value; the same random numbers for all."""

LEAST_GAIN = 0.002
"""Share of the value from which a plan over beliefs is said to pay: below, it is not worth the larger billboards."""


@dataclasses.dataclass(frozen=True)
class WorthOfBelief:
    """What plans earn per user (or per visit of a stay) in truths of kinds and of users without a kind.

    Attributes:
      agent: the private agent. users: K.
      one_plan: the best plan that is the same for all users, by the true shares, ``(truths,)``.
      known: told each user's kind. plain, private: after K users, without privacy and with it.
      no_kinds: what the private agent earns where users have no kind, as a share of the best there, ``(truths,)``.
      planning: what ``plan=point-based`` earns over QMDP, with the true shares, ``(truths,)``; None where it is refused.
    """

    agent: str
    users: int
    one_plan: np.ndarray
    known: np.ndarray
    plain: np.ndarray
    private: np.ndarray
    no_kinds: np.ndarray
    planning: np.ndarray | None = None

    @property
    def gain(self) -> np.ndarray:
        """What the private agent earns over one plan for all, as a share of that plan's value, ``(truths,)``."""
        found: np.ndarray = (self.private - self.one_plan) / np.maximum(np.abs(self.one_plan), 1e-12)
        return found

    def words(self) -> str:
        """In words that need no background."""
        base = np.maximum(np.abs(self.one_plan), 1e-12)
        gain, taken = self.gain, (self.plain - self.private) / base
        room, lost = (self.known - self.one_plan) / base, self.no_kinds - 1
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.inf
        pays = "BELIEF PAYS" if gain.mean() > 2 * error and gain.mean() > 0 else "BELIEF DOES NOT PAY"
        return (
            f"{pays}: if each user is of one kind, belief on the device earns {_percent(gain.mean())} over the best plan"
            f" that is the same for all ({_percent(gain.min())} to {_percent(gain.max())} in {len(gain)} drawn truths,"
            f" after {self.users:,} users); being told each user's kind would earn {_percent(room.mean())}. Privacy takes"
            f" {_percent(taken.mean())} of that plan's value. If users have no kind, the change is {_percent(lost.mean())}."
            + self._words_on_planning(base)
        )

    def _words_on_planning(self, base: np.ndarray) -> str:
        if self.planning is None:
            return ""
        gained = self.planning / base
        pays = "pays" if gained.mean() >= LEAST_GAIN else "does not pay"
        return (
            f" Planning what users will learn of themselves (plan=point-based) {pays}: {_percent(gained.mean())}"
            f" ({_percent(gained.min())} to {_percent(gained.max())}) over plan=qmdp."
        )

    def to_dict(self) -> dict[str, object]:
        """For a JSON document: means over truths."""
        names = ("one_plan", "known", "plain", "private", "no_kinds")
        return (
            {"agent": self.agent, "users": self.users, "words": self.words()}
            | {name: float(getattr(self, name).mean()) for name in names}
            | {"planning": None if self.planning is None else float(self.planning.mean())}
        )


def _percent(share: float) -> str:
    return f"{100 * share:+.1f}%"


@double_precision
def worth_of_belief(
    model: Model, agent: str, users: int, *, truths: int = TRUTHS, seed: int = 0, concentration: float = 1.0
) -> WorthOfBelief:
    """Simulate ``agent``, a ``private-kinds`` with its promise, and the same without privacy.

    Raises:
      InvalidInput: candidates are no laws of kinds, or an option is wrong.
    """
    private = _learner(agent, model, users)
    given = {key: value for key, value in split(agent)[1].items() if key in AGENTS.find(PLAIN).options}
    plain = _learner(join(PLAIN, given), model, users)
    rows, planning = [], []
    planned = _planned(private)
    for number in range(truths):
        shares = np.random.default_rng([seed, number]).dirichlet(np.full(model.d1, concentration))
        world, mixed = kinds_world(model, shares), kinds_world(model, shares, mixed=True)
        one_plan = float(world.policy_value(world.blend_plan()))
        earned = [_earned(one, world, seed + number) for one in (plain, private)]
        best = max(mixed.optimal_value, 1e-12)
        if planned is not None:
            by_tables = dataclasses.replace(private, points=0)
            planning.append(_with_shares(planned, world) - _with_shares(by_tables, world))
        rows.append((one_plan, world.optimal_value, *earned, _earned(private, mixed, seed + number) / best))
    found = WorthOfBelief(agent, users, *np.array(rows).T)
    return dataclasses.replace(found, planning=np.array(planning) if planning else None)


def _learner(spec: str, model: Model, users: int) -> KindsLearner:
    made = make_agent(spec, model, users)
    assert isinstance(made, KindsLearner)
    return dataclasses.replace(made, promise=NoPromise())


def _planned(agent: KindsLearner) -> KindsLearner | None:
    """The same agent with a plan over beliefs; None where that is refused."""
    points = agent.points or KindsOptions().points
    try:
        require_small(agent.model, points)
    except InvalidInput:
        return None
    return dataclasses.replace(agent, points=points) if agent.visits == 1 else None


def _with_shares(agent: KindsLearner, world: KindsWorld) -> float:
    """What the plan with the true shares is worth to a user."""
    state, shares = agent.init(), jnp.append(world.shares, 0.0)
    known = (1 - LEAST_SHARE * shares.size) * shares + LEAST_SHARE
    return float(
        _value(agent, state._replace(past=state.past._replace(shares=known, blend=world.shares)), world, VALUED)
    )


def _earned(agent: KindsLearner, world: KindsWorld, seed: int) -> float:
    """What the plan after all users is worth to a user (a visit of theirs)."""
    carry = simulate(agent, world, [seed]).carry
    assert carry is not None
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], carry.state)
    return float(_value(agent, state, world, max(1, VALUED // agent.visits)))


@jax.jit(static_argnames="users")
def _value(agent: KindsLearner, state: AgentState, world: KindsWorld, users: int) -> Array:
    return agent.simulated_value(agent.plan(state), world, users)
