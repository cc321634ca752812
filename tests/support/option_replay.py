# SPDX-License-Identifier: Apache-2.0
"""Options that are off by default, each replayed switched on under every trust model that has it: a user against nothing.

The replay of :mod:`reticent.audit.replay` goes operation by operation and takes minutes for all of them; here rounds are
compiled. Where the round is noised (``joint``, and ``shuffle``, whose users' coins are simulated as the round's noise) the
round's noise hides the user; in the local model the noise of the user's own report does.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.agents import make_agent
from reticent.learning.capabilities import public_memory, rebase_plan
from reticent.learning.control import ControlPlaces
from reticent.learning.learner import AnyLearner
from reticent.learning.plan import ControlGroup, Plan
from reticent.runtime import double_precision
from reticent.worlds import Episode, World, make_world
from reticent.worlds.tastes import random_tastes
from reticent.worlds.transforms.unknown_start import with_unknown_start

ALL = ("joint", "shuffle", "local")
REPEATED = ("joint", "local")
"""Where a user may contribute more than once: a shuffler's coins are counted for one contribution each."""

ROUNDS, USERS = 3, 12


@functools.cache
def small_world() -> World:
    return make_world("random-blend:states=3,actions=2,horizon=2,d1=2,d2=3,per_step=true")


@functools.cache
def pooled_world() -> World:
    """As small, of candidates that are laws of kinds and the same at every step."""
    return make_world("random-blend:states=3,actions=2,horizon=2,d=2")


@functools.cache
def tastes_world() -> Any:
    """As small, of users with tastes, who are shown two of four items."""
    return random_tastes(items=4, factors=1, horizon=2, shift=1.0, seed=1)


@dataclasses.dataclass(frozen=True)
class Option:
    """An agent with options switched on, in a world that has a use for them.

    Attributes:
      controls: whether the first place of every round is a control's.
      trusts: the trust models under which the agent has the option.
      visits: of a user, all of which are reported once.
    """

    agent: str
    world: Callable[[], World | Any]
    controls: bool = False
    trusts: tuple[str, ...] = ALL
    visits: int = 1


FLAGSHIP = "private-score-vi:epsilon=8,first=0.1,growth=1.5,residual=off"
KINDS = "private-kinds:epsilon=8,first=0.1,growth=1.5"
TASTES = "private-factors:epsilon=8,first=0.1,growth=1.5"
ELIMINATION = "private-elimination:epsilon=8,first=0.1,candidates=16"
SEVERAL = "alarm, half_life, floor, endless, unknown start"
OPTIONS: dict[str, Option] = {
    SEVERAL: Option(
        f"{FLAGSHIP},alarm=0.5,half_life=3,floor=0.1,endless=true,start_share=0.3",
        lambda: with_unknown_start(small_world()),
    ),
    "likelihood, contributions": Option(
        f"{FLAGSHIP},score=likelihood,contributions=2,per_round=1,gap=1,largest=3", small_world, trusts=REPEATED
    ),
    "control group": Option(f"{FLAGSHIP},bonus=2", small_world, controls=True),
    "likelihood": Option(f"{FLAGSHIP},score=likelihood,largest=3", small_world, trusts=("shuffle",)),
    "residual": Option(FLAGSHIP.replace("residual=off", "residual=on"), pooled_world, trusts=("joint",)),
    "residual, alarm, half_life, floor, endless": Option(
        FLAGSHIP.replace("residual=off", "residual=on") + ",alarm=0.5,half_life=3,floor=0.1,endless=true",
        pooled_world,
        trusts=("joint",),
    ),
    "residual, likelihood, contributions, control group": Option(
        FLAGSHIP.replace("residual=off", "residual=on")
        + ",score=likelihood,largest=3,contributions=2,per_round=1,gap=1,bonus=2",
        pooled_world,
        controls=True,
        trusts=("joint",),
    ),
    "stays, control group": Option(f"{FLAGSHIP},bonus=2,visits=2", pooled_world, controls=True, visits=2),
    "kinds, contributions, control group": Option(
        f"{KINDS},contributions=2,per_round=1,gap=1", pooled_world, controls=True, trusts=REPEATED
    ),
    "kinds, control group": Option(KINDS, pooled_world, controls=True, trusts=("shuffle",)),
    "kinds, point-based plan, control group": Option(f"{KINDS},plan=point-based,points=2", pooled_world, controls=True),
    "kinds, stays": Option(f"{KINDS},visits=2", pooled_world, visits=2),
    "tastes, bonus, contributions, control group": Option(
        f"{TASTES},bonus=1,contributions=2,per_round=1,gap=1", tastes_world, controls=True, trusts=REPEATED
    ),
    "tastes, bonus, control group": Option(f"{TASTES},bonus=1", tastes_world, controls=True, trusts=("shuffle",)),
    "elimination, lattice": Option(f"{ELIMINATION},oracle=lattice", pooled_world),
    "elimination, unpooled": Option(f"{ELIMINATION},pool=false", pooled_world),
}
"""Every option on which what is learned may depend, several at a time, and how they are switched on."""

SEEN = "depend on a user"
"""What a finding says."""

REPLAYED = [(option, trust) for option, one in OPTIONS.items() for trust in one.trusts]


@double_precision
def option_findings(option: str, trust: str) -> list[str]:
    """What shows of one user in three rounds with options switched on, the user's part being hidden in the noise.

    Everything public (releases, plans, what is remembered) must be as without them. The user is surprising: paid at every
    step, or never.
    """
    chosen = OPTIONS[option]
    agent = make_agent(f"{chosen.agent},trust={trust}", chosen.world().model, USERS)
    play = _Compiled(agent)
    found = []
    for who, paid in (("a user who was paid at every step", 1.0), ("a user who was never paid", 0.0)):
        many = chosen.visits
        episode = Episode(np.tile([0, 1, 2], many), np.tile([1, 0], many), np.full(2 * many, paid))
        seen = [_public_run(agent, play, episode, present, chosen.controls) for present in (True, False)]
        found += [
            f"{option}, {trust}: {name} {place} depend on {who}"
            for name, (left, right) in _paired(*seen)
            for place, (a, b) in enumerate(zip(left, right, strict=True))
            if not _same(a, b)
        ]
    return found


class _Compiled:
    """An agent's functions as programs that are compiled once."""

    def __init__(self, agent: AnyLearner) -> None:
        self.plan = jax.jit(agent.plan)
        self.report = jax.jit(lambda plan, place, episode, own: agent.report(agent.served(plan, place), episode, own))
        self.nothing = jax.jit(lambda plan, episode, own: _nothing(agent, plan, episode, own))
        self.end = jax.jit(lambda state, plan, total, size, noise: _ended(agent, state, plan, total, size, noise))


def _nothing(agent: AnyLearner, plan: Plan, episode: Episode, own: Any) -> Any:
    """What a user sends who shows nothing."""
    return agent.aggregator.report(jnp.zeros_like(agent.statistic(agent.served(plan, 0), episode)), own)


def _ended(agent: AnyLearner, state: Any, plan: Plan, total: Any, size: Any, noise: Any) -> tuple[Any, Plan]:
    closed = agent.close(agent.absorb(state, total), plan, size, noise)
    return closed, agent.plan(closed)


def _public_run(
    agent: AnyLearner, play: _Compiled, episode: Episode, present: bool, controls: bool
) -> dict[str, list[Any]]:
    """Rounds of users who do ``episode``; in the second only its first user sends, or hides in the noise."""
    state = agent.init()
    first = plan = play.plan(state)
    seen: dict[str, list[Any]] = {"plans": [plan], "releases": [], "memories": []}
    for number in range(min(ROUNDS, agent.schedule.releases)):
        size, key = int(agent.schedule.round_sizes[number]), jax.random.key(number)
        used = plan
        if controls:
            places = ControlPlaces(*(jnp.asarray(one, jnp.int64) for one in (size, 1, 0)))
            used = rebase_plan(agent, plan, plan, size, ControlGroup(first, places))
        draws = [agent.aggregator.simulate_user_noise(jax.random.fold_in(key, place)) for place in range(size)]
        noise = agent.aggregator.simulate_round_noise(key)
        own = np.asarray(play.report(plan, 0, episode, draws[0]))
        if number == 1 and not present:
            silent = np.asarray(play.nothing(plan, episode, draws[0]))
            if noise is None:  # the local model: the user's own noise hides them
                own = np.asarray(play.nothing(plan, episode, draws[0] + (own - silent)))
            else:
                noise = np.asarray(noise) + (own - silent).reshape(noise.shape)
                own = silent
        others = () if number == 1 else range(1, size)
        total = sum((np.asarray(play.report(plan, place, episode, draws[place])) for place in others), own)
        given = None if noise is None else jnp.asarray(noise)
        state, plan = play.end(state, used, jnp.asarray(total), jnp.asarray(size), given)
        seen["plans"].append(plan)
        seen["releases"].append(agent.aggregator.released(state.aggregate))
        seen["memories"].append(public_memory(agent, state))
    return seen


def _paired(
    one: dict[str, list[Any]], other: dict[str, list[Any]]
) -> Iterator[tuple[str, tuple[list[Any], list[Any]]]]:
    for name, values in one.items():
        yield name, (values, other[name])


def _same(left: Any, right: Any) -> bool:
    """Equal up to rounding, but for choices: where two actions are as good, rounding may decide either way."""
    if isinstance(left, Plan):
        left, right = (_numbers(plan) for plan in (left, right))
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.allclose(a, b, rtol=1e-6, atol=1e-6 * (1 + np.abs(a).max(initial=0.0))) for a, b in pairs)


def _numbers(plan: Plan) -> Any:
    """What of a plan does not jump where two actions are as good."""
    told = plan.extension
    if hasattr(told, "hoped"):  # the flagship's
        return plan.values, told.hoped, told.reference, told.share, told.initial
    return plan.values, told
