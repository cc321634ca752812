# SPDX-License-Identifier: Apache-2.0
r"""The form ``counts``: which cells of three tables an episode adds to.

At step h a user in state s who takes action a, earns r and moves on to s′ adds 1 to :math:`N_h(s,a)`, 1 to
:math:`N_h(s,a,s')` and r to :math:`R_h(s,a)`. The three tables of a step travel as one row of D = SA(S + 2) numbers. A
contribution does not depend on what was published.

Formal guarantee. Whatever the trajectory, even one that names states that do not exist or rewards that are no numbers, a
contribution has at most one entry of 1 in the visits and one in the transitions of every step, and at most one entry in the
rewards, within [0, 1]: steps outside the tables are dropped and rewards clipped. Two users' contributions are therefore at
most √2 apart in each table of each step.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reticent_wire.clipping import Array, Namespace, clip_interval
from reticent_wire.forms.form import Bounds, Floats, Form

if TYPE_CHECKING:
    from reticent_wire.billboard import Billboard
    from reticent_wire.model import Dimensions, Model, Rules
    from reticent_wire.trajectory import Trajectory


class Counts(NamedTuple):
    """Sums over episodes: visits ``(H, S, A)``, transitions ``(H, S, A, S)``, rewards ``(H, S, A)``."""

    visits: Array
    transitions: Array
    rewards: Array


def packed_width(states: int, actions: int) -> int:
    """D = SA(S + 2), the numbers per step."""
    return states * actions * (states + 2)


def table_slices(states: int, actions: int) -> dict[str, slice]:
    """Which columns of a packed row belong to which table."""
    pairs = states * actions
    return {
        "visits": slice(0, pairs),
        "transitions": slice(pairs, pairs * (states + 1)),
        "rewards": slice(pairs * (states + 1), pairs * (states + 2)),
    }


def count(seen: Any, states: int, actions: int, dtype: Any = np.float64, xp: Namespace = np) -> Counts:
    """The counts of one episode. A step that names a state or an action that does not exist adds nothing."""
    here, action, following = (
        xp.asarray(field).astype(np.int32) for field in (seen.states[:-1], seen.actions, seen.states[1:])
    )
    inside = (following >= 0) & (following < states)

    def one_hot(index: Array, size: int) -> Array:
        # All zeros for a number out of range, so such a step vanishes from every table.
        return (index[:, None] == xp.arange(size)).astype(dtype)

    pair = one_hot(here, states)[:, :, None] * one_hot(action, actions)[:, None]
    pair = pair * inside[:, None, None].astype(dtype)
    onward = pair[..., None] * one_hot(following, states)[:, None, None, :]
    return Counts(pair, onward, pair * xp.asarray(seen.rewards).astype(dtype)[:, None, None])


def pack(counts: Counts, xp: Namespace = np) -> Array:
    """The three tables of every step as one row, ``(H, D)``: visits, transitions, rewards."""
    return xp.concatenate([table.reshape(table.shape[0], -1) for table in counts], axis=-1)


def clip(seen: Any, xp: Namespace = np) -> Any:
    """The episode with rewards in [0, 1]; what is no number counts as 0."""
    return seen._replace(rewards=clip_interval(seen.rewards, 0.0, 1.0, xp))


def clipped_counts(seen: Any, states: int, actions: int, dtype: Any = np.float64, xp: Namespace = np) -> Array:
    """One user's contribution ``(H, D)`` from their episode, whatever it is."""
    return pack(count(clip(seen, xp), states, actions, dtype, xp), xp)


class VisitCounts(Form):
    """Visit counts; see the module docstring."""

    name = "counts"

    def shape(self, sizes: Dimensions) -> tuple[int, int]:
        return sizes.horizon, packed_width(sizes.states, sizes.actions)

    def bounds(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        del sizes
        return {}

    def of_version(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        del sizes
        return {}

    def contribution(self, model: Model, billboard: Billboard, seen: Trajectory) -> Floats:
        del billboard
        return np.asarray(clipped_counts(seen, model.states, model.actions))

    def largest(self, sizes: Dimensions, bounds: Bounds) -> Floats:
        del bounds
        return np.ones(self.shape(sizes))

    def strength(self, sizes: Dimensions, rules: Rules) -> float:
        r"""One Gaussian release per table and step; two users are at most √2 apart, and √2·g more after rounding."""
        square = 0.0
        for row in rules.noise_scale:
            for columns in table_slices(sizes.states, sizes.actions).values():
                least = float(row[columns].min())
                if not least > 0:
                    return math.inf
                square += (math.sqrt(2.0) * (1.0 + rules.grid) / least) ** 2
        return math.sqrt(square)
