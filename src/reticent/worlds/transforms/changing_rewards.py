# SPDX-License-Identifier: Apache-2.0
r"""Rewards that change: one world's dynamics, and a reward table for every episode that is announced after it.

The table of episode k is a mixture :math:`r_k=\sum_jw_{kj}t_j` of a few public tables :math:`t_j(s,a)`, whose weights
are on the simplex. Nature chooses them when the policy of the episode is published and before its user plays, and
announces the *whole* table afterwards: full information, as in Cai et al. (2020). How it chooses is the *kind*:

==============  =====================================================================================================
alternating     one table after the other, each for ``period`` episodes
drifting        back and forth between the first table and the last: a cosine that takes ``period`` episodes
adversarial     the table that pays the published policy least under the true dynamics
==============  =====================================================================================================

**What is public.** The tables are the designer's, and the weights are a function of the episode's number or of the
published policy. None of them is a function of what a user did, so announcing them spends nothing
(:mod:`reticent.agents.linear_mixture.changing_rewards` has the theorem, and where it ends).

**The best fixed policy in hindsight** is exact: values are linear in rewards, so over any n episodes
:math:`\max_\pi\sum_kV^\pi(r_k)=n\max_\pi V^\pi(\bar r)` with :math:`\bar r` their mean table: one dynamic program.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from reticent.errors import InvalidInput
from reticent.runtime import double_precision, double_precision_methods
from reticent.worlds.models.blend import check_unit_interval
from reticent.worlds.world import World

StreamKind = Literal["alternating", "drifting", "adversarial"]

PERIODS: dict[str, int] = {"alternating": 1, "drifting": 1000, "adversarial": 1}
"""Period of each kind where none is given."""


@double_precision_methods
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RewardStream:
    """A world whose rewards change; build one with :func:`reward_stream` or :func:`stream_of_tables`.

    Attributes:
      world: the dynamics. Its model says as ``known_rewards`` what may be expected before the first announcement.
      tables: the public tables, ``(m, S, A)``.
      kind: how nature chooses among them. period: its period in episodes; the adversary has none.
    """

    world: World
    tables: Array
    kind: StreamKind = dataclasses.field(metadata={"static": True})
    period: int = dataclasses.field(metadata={"static": True})

    def values(self, policy: Array) -> Array:
        """What a policy, choices or probabilities, is worth under each of the tables, ``(m,)``."""
        values: Array = jax.vmap(lambda table: self.paying(table).policy_value(policy))(self.tables)
        return values

    def weights(self, episode: Array | int, values: Array) -> Array:
        """Nature's choice for the 0-based ``episode`` whose policy has these :meth:`values`: on the simplex, ``(m,)``."""
        count = len(self.tables)
        if self.kind == "adversarial":
            return jax.nn.one_hot(jnp.argmin(values), count, dtype=self.tables.dtype)
        if self.kind == "alternating":
            return jax.nn.one_hot(episode // self.period % count, count, dtype=self.tables.dtype)
        # Divided before it is multiplied: the remainder is exact, and so the drift has its period to the last bit.
        share = (1 - jnp.cos(2 * math.pi * (episode % self.period / self.period))) / 2
        return jnp.zeros(count, self.tables.dtype).at[0].add(1 - share).at[count - 1].add(share)

    def table(self, weights: Array) -> Array:
        """The mixture of the tables, ``(S, A)``."""
        return jnp.tensordot(weights, self.tables, axes=1)

    def paying(self, table: Array) -> World:
        """The world where ``table`` is what is paid on average."""
        return dataclasses.replace(self.world, reward_means=table[None])

    def best_value(self, weights: Array) -> Array:
        """What the best policy for the mixture of the tables is worth: by dynamic programming with the true dynamics."""
        return self.paying(self.table(weights)).optimal_policy_value()


@double_precision
def stream_of_tables(world: World, tables: ArrayLike, kind: StreamKind, *, period: int | None = None) -> RewardStream:
    """The stream of these public ``tables`` ``(m, S, A)`` in the dynamics of ``world``.

    Its model declares their mean as the rewards to expect before the first announcement, so that agents learn nothing
    about rewards and spend nothing on them.

    Raises:
      InvalidInput: an unknown kind, a period below 1, no table, or a table that leaves [0, 1].
    """
    if kind not in get_args(StreamKind):
        raise InvalidInput("kind", kind, f"one of {', '.join(get_args(StreamKind))}", "choose how rewards change")
    chosen = PERIODS[kind] if period is None else period
    if chosen < 1:
        raise InvalidInput("period", chosen, "at least 1 episode", "1 changes the table after every episode")
    array = np.asarray(tables, dtype=np.float64)
    pairs = (world.model.states, world.model.actions)
    if array.ndim != 3 or array.shape[1:] != pairs or not len(array):
        raise InvalidInput("tables.shape", array.shape, f"(m, {pairs[0]}, {pairs[1]})", "stack the tables along axis 0")
    check_unit_interval(array, "tables", ("table", "state", "action"))
    expected = jnp.asarray(array.mean(axis=0))
    model = dataclasses.replace(world.model, known_rewards=expected)
    known = dataclasses.replace(world, model=model, reward_means=expected[None])
    return RewardStream(known, jnp.asarray(array), kind, int(chosen))


def reward_stream(
    world: World, kind: StreamKind, *, swing: float = 0.5, period: int | None = None, seed: int = 0
) -> RewardStream:
    r"""A stream of two tables about the rewards of ``world``: :math:`(1-s)r+sc` and :math:`(1-s)r+s(1-c)`.

    c is a random table that is 1 for one half of the actions of every state (the smaller one where they are odd) and 0
    for the other, and s is ``swing``: that share of what is paid is now for one half, now for the other. Over an even
    number of turns it cancels, and what is best in hindsight is what is best for r, which takes learning the dynamics;
    who follows the last announcement follows c.

    Raises:
      InvalidInput: the swing is not in [0, 1], rewards differ from step to step, or what :func:`stream_of_tables` refuses.
    """
    if not 0 <= swing <= 1:
        raise InvalidInput("swing", swing, "from 0 to 1", "0 never changes, 1 pays nothing else")
    if len(world.reward_means) != 1:
        raise InvalidInput("world", world.name, "of rewards that are the same at every step", "use a stationary one")
    mean = np.asarray(world.reward_means)[0]
    halves = np.broadcast_to(np.arange(mean.shape[1]) % 2, mean.shape)
    side = np.random.default_rng(seed).permuted(halves, axis=1).astype(np.float64)
    tables = np.stack([(1 - swing) * mean + swing * side, (1 - swing) * mean + swing * (1 - side)])
    return stream_of_tables(world, tables.clip(0, 1), kind, period=period)
