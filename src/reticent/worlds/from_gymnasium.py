# SPDX-License-Identifier: Apache-2.0
"""Gymnasium's tabular environments as worlds: FrozenLake, Taxi, CliffWalking, and every other one that keeps its table.

Such an environment keeps ``P[s][a]``, a list of (probability, next state, reward, whether the episode ends). The table is
read as it is:

* *The end.* An episode here has H steps. What ends earlier goes to a state that keeps to itself and pays what Gymnasium's
  ``0`` is in [0, 1]: the terminal state itself, or one more state at the end of the list where the same state is also
  passed without ending.
* *Rewards* are mapped from ``reward_range`` to [0, 1]. A pair pays its mean over next states; it is paid as such where it
  does not depend on the next state, and as a coin of that mean otherwise.
* *First states* are the environment's own ``initial_state_distrib``.

:class:`reticent.worlds.gymnasium_env.FixedHorizon` wraps the environment itself in the same way, for
:func:`reticent.play`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.errors import InvalidInput
from reticent.extras import require
from reticent.worlds.models.finite import finite_mdp
from reticent.worlds.world import World

if TYPE_CHECKING:
    import gymnasium

RewardRange = tuple[float, float]


def from_gymnasium(
    env: gymnasium.Env[Any, Any] | str,
    horizon: int,
    *,
    candidates: Sequence[gymnasium.Env[Any, Any]] = (),
    reward_range: RewardRange | None = None,
    initial: Any | None = None,
    name: str | None = None,
) -> World:
    """The world of a Gymnasium environment that keeps its table as ``P``; see the module.

    Args:
      env: the environment, or its id.
      horizon: number of steps H of an episode.
      candidates: environments of the same states and actions that agents are told of, such as the same lake on other
        days; the truth is then near a blend of their tables. Without any, agents are told nothing.
      reward_range: least and largest reward, mapped to 0 and 1; by default those of the tables.
      initial: first state or its distribution, where the environment does not say.
      name: what the world is called in results; by default the environment's id.

    Raises:
      InvalidInput: the environment has no table, spaces are not ``Discrete`` or differ, first states are not known, or a
        reward is out of range.

    >>> import gymnasium
    >>> world = from_gymnasium(gymnasium.make("FrozenLake-v1"), horizon=100)
    >>> world, round(world.optimal_value, 3)
    (World('FrozenLake-v1', states=16, actions=4, horizon=100, d1=1, d2=1), 0.744)
    """
    require("gymnasium", "reticent.from_gymnasium")
    import gymnasium

    opened = gymnasium.make(env) if isinstance(env, str) else env
    tables = [read_table(one) for one in (opened, *candidates)]
    own = tables[0]
    for number, table in enumerate(tables[1:]):
        if (table.states, table.actions) != (own.states, own.actions):
            raise InvalidInput(
                f"candidates[{number}]",
                f"{table.states} states, {table.actions} actions",
                f"{own.states} states and {own.actions} actions, as the environment",
                "use the same spaces",
            )
    span = _range(tables, reward_range)
    # One way to end for all: where one of them needs a state of its own for it, every one gets it.
    added = any(table.added_end for table in tables)
    parts = [table.absorbed(span, added) for table in tables]
    start = own.initial if initial is None else initial
    if start is None:
        raise InvalidInput(
            "initial", None, "known, or the environment's initial_state_distrib", "pass initial=state or probabilities"
        )
    if added and np.ndim(start) == 1:
        start = np.append(np.asarray(start, dtype=np.float64), 0.0)
    spec = opened.spec
    return finite_mdp(
        parts[0][0],
        parts[0][1],
        horizon,
        candidates=[rows for rows, _ in parts[1:]],
        reward_candidates=[means for _, means in parts[1:]],
        initial=start,
        name=name or (spec.id if spec is not None else type(opened.unwrapped).__name__),
        reward_kind="deterministic" if own.certain_rewards else "bernoulli",
    )


@dataclasses.dataclass(frozen=True)
class Table:
    """An environment's ``P`` as arrays, one entry for each listed transition, and how its episodes end.

    Attributes:
      states, actions: S and A.
      pair: s·A + a of each entry.
      following, probability, reward, ended: the rest of the entry.
      initial: distribution of the first state, or None where the environment does not say.
      terminal: states ``(S,)`` in which episodes end.
      added_end: whether one of them is also passed without ending, so that a state of its own has to stand for the end.
    """

    states: int
    actions: int
    pair: np.ndarray
    following: np.ndarray
    probability: np.ndarray
    reward: np.ndarray
    ended: np.ndarray
    initial: np.ndarray | None
    terminal: np.ndarray
    added_end: bool

    @property
    def reward_range(self) -> RewardRange:
        """Least and largest reward, with the zero that is paid after the end."""
        low, high = min(0.0, float(self.reward.min())), max(0.0, float(self.reward.max()))
        return (low, high) if low < high else (low, low + 1.0)

    @property
    def certain_rewards(self) -> bool:
        """Whether no reward depends on the next state."""
        pairs = self.states * self.actions
        least, most = np.full(pairs, np.inf), np.full(pairs, -np.inf)
        np.minimum.at(least, self.pair, self.reward)
        np.maximum.at(most, self.pair, self.reward)
        return bool((most <= least).all())

    def absorbed(self, span: RewardRange, added: bool) -> tuple[Any, np.ndarray]:
        """Transitions ``(S·A, S)``, sparse, in which ends absorb, and mean rewards ``(S, A)`` in [0, 1]; one state more
        with ``added``."""
        import scipy.sparse

        low, high = span
        outside = (self.reward < low) | (self.reward > high)
        if outside.any() or not low <= 0 <= high:
            found = f"{min(0.0, self.reward.min()):g} to {max(0.0, self.reward.max()):g}, with the 0 after the end"
            raise InvalidInput("rewards", found, f"in [{low:g}, {high:g}]", "pass reward_range=(least, most)")
        total, actions = self.states + added, self.actions
        nothing = (0.0 - low) / (high - low)
        stays = np.append(np.zeros(self.states, bool), True) if added else self.terminal
        kept = ~stays[self.pair // actions]
        following = np.where(self.ended, self.states, self.following) if added else self.following
        own = (np.flatnonzero(stays)[:, None] * actions + np.arange(actions)).ravel()
        entries = np.concatenate([self.probability[kept], np.ones(len(own))])
        places = np.concatenate([self.pair[kept], own]), np.concatenate([following[kept], own // actions])
        rows = scipy.sparse.coo_array((entries, places), shape=(total * actions, total)).tocsr()
        paid = self.probability * (self.reward - low) / (high - low)
        means = np.bincount(self.pair[kept], weights=paid[kept], minlength=total * actions)
        means[own] = nothing
        return rows, np.clip(means, 0, 1).reshape(total, actions)


def read_table(env: gymnasium.Env[Any, Any]) -> Table:
    """The table of an environment.

    Raises:
      InvalidInput: it has none, or its spaces are not ``Discrete`` from 0.
    """
    import gymnasium

    sizes = []
    for field in ("observation_space", "action_space"):
        space = getattr(env, field)
        if not isinstance(space, gymnasium.spaces.Discrete) or int(space.start) != 0:
            raise InvalidInput(field, space, "Discrete, starting at 0", "discretise it with a Gymnasium wrapper")
        sizes.append(int(space.n))
    states, actions = sizes
    listed = getattr(env.unwrapped, "P", None)
    if listed is None:
        raise InvalidInput(
            "env.unwrapped.P",
            "missing",
            "the table of transitions",
            "estimate one by exploring it: reticent.worlds.blend_from_simulators([env], horizon, seed=0)",
        )
    entries = np.array(
        [
            (state * actions + action, following, probability, reward, ended)
            for state in range(states)
            for action in range(actions)
            for probability, following, reward, ended in listed[state][action]
            if probability > 0
        ],
        dtype=np.float64,
    )
    pair, following = entries[:, 0].astype(np.int64), entries[:, 1].astype(np.int64)
    ended = entries[:, 4] > 0
    start = getattr(env.unwrapped, "initial_state_distrib", None)
    initial = None if start is None else np.asarray(start, dtype=np.float64) / np.sum(start)
    terminal = np.zeros(states, bool)
    terminal[following[ended]] = True
    first = np.ones(states, bool) if initial is None else initial > 0
    source = pair // actions
    passed = _reached(first, source[~ended], following[~ended])
    return Table(
        states,
        actions,
        pair,
        following,
        entries[:, 2],
        entries[:, 3],
        ended,
        initial,
        terminal,
        added_end=bool((terminal & passed).any()),
    )


def _reached(first: np.ndarray, source: np.ndarray, following: np.ndarray) -> np.ndarray:
    """States that are reached from ``first`` ones by these transitions."""
    reached = first.copy()
    while True:
        wider = reached.copy()
        wider[following[reached[source]]] = True
        if (wider == reached).all():
            return reached
        reached = wider


def _range(tables: Sequence[Table], given: RewardRange | None) -> RewardRange:
    if given is not None:
        if not -np.inf < given[0] < given[1] < np.inf:
            raise InvalidInput(
                "reward_range", given, "(least, most), finite and in this order", "give a single reward's"
            )
        return float(given[0]), float(given[1])
    spans = [table.reward_range for table in tables]
    return min(low for low, _ in spans), max(high for _, high in spans)
