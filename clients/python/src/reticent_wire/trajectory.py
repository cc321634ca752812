# SPDX-License-Identifier: Apache-2.0
"""One user's episode as numbers, whatever they are: her values are clipped, never refused.

A refusal that depends on a user's data is itself a release (her place would go to another, or the server would see that
nothing came). So only the public *form* of an episode may be refused: its lengths, and what kind of numbers there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reticent_wire.clipping import clip_interval
from reticent_wire.errors import InvalidInput


class Trajectory(NamedTuple):
    """One episode: ``states`` (H + 1), ``actions`` (H), ``rewards`` (H).

    ``place`` is its user's 0-based place in her round, where what she is served depends on it; it is public.
    """

    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    place: int | None = None


def together(seen: Sequence[Trajectory]) -> Trajectory:
    """Several episodes as one with a leading axis, for what is computed of all of them at once. Places are left out."""
    states, actions, rewards, _ = zip(*seen, strict=True)
    return Trajectory(np.stack(states), np.stack(actions), np.stack(rewards))


class Sizes(Protocol):
    """How many steps, states and actions there are."""

    @property
    def horizon(self) -> int: ...
    @property
    def states(self) -> int: ...
    @property
    def actions(self) -> int: ...


def well_formed(sizes: Sizes, states: Any, actions: Any, rewards: Any, place: int | None = None) -> Trajectory:
    """The episode as arrays with every value in range: what is not a state, an action or a reward is clipped to one.

    Raises:
      InvalidInput: its public form is wrong: lengths, or what kind of numbers there are. No value is quoted.
    """
    earned = plain_array("rewards", rewards)
    if earned.shape != (sizes.horizon,) or earned.dtype.kind not in "iuf":
        raise InvalidInput("rewards.shape", earned.shape, f"{sizes.horizon} numbers", "send one reward per step")
    return Trajectory(
        _indices("states", states, sizes.horizon + 1, sizes.states),
        _indices("actions", actions, sizes.horizon, sizes.actions),
        clip_reward(earned),
        place,
    )


def all_well_formed(sizes: Sizes, episodes: Sequence[Any], places: Sequence[int | None]) -> list[Trajectory]:
    """:func:`well_formed` of several episodes, each with ``states``, ``actions`` and ``rewards``, in one go.

    Raises:
      InvalidInput: one of them is not; ask :func:`well_formed` which.
    """
    count = len(episodes)
    states, actions, rewards = (
        plain_array(field, [getattr(one, field) for one in episodes]) for field in ("states", "actions", "rewards")
    )
    shapes = ((count, sizes.horizon + 1), (count, sizes.horizon), (count, sizes.horizon))
    if (states.shape, actions.shape, rewards.shape) != shapes or not (
        states.dtype.kind in "iu" and actions.dtype.kind in "iu" and rewards.dtype.kind in "iuf"
    ):
        raise InvalidInput("episodes", "some other form", "whole episodes of H steps", "send each by itself")
    inside = (clip_index(states, sizes.states), clip_index(actions, sizes.actions), clip_reward(rewards))
    return [Trajectory(*each) for each in zip(*inside, places, strict=True)]


def plain_array(field: str, values: Any) -> NDArray[Any]:
    """``values`` as an array of whatever kind.

    Raises:
      InvalidInput: they are no array, such as lists of different lengths.
    """
    try:
        return np.asarray(values)
    except ValueError:
        raise InvalidInput(
            field, type(values).__name__, "an array of numbers", "send numbers, all of one kind"
        ) from None


def clip_reward(reward: Any) -> NDArray[np.float64]:
    """Rewards within [0, 1]; what is no number counts as 0."""
    clipped: NDArray[np.float64] = clip_interval(np.asarray(reward, np.float64), 0.0, 1.0)
    return clipped


def clip_index(index: Any, below: int) -> NDArray[np.int64]:
    """Indices within 0 … ``below`` − 1."""
    return np.asarray(np.clip(index, 0, below - 1), np.int64)


def number_of(value: Any) -> float:
    """One value of a user as a number; what is missing or no number is NaN, which every clip takes for its lower bound."""
    if isinstance(value, str | bytes):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # an integer beyond all floating-point numbers
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


def reward_within(reward: Any) -> float:
    """One reward within [0, 1], whatever it is: what is missing or no number counts as 0."""
    return float(clip_interval(number_of(reward), 0.0, 1.0))


def index_within(index: Any, below: int) -> int:
    """One index within 0 … ``below`` − 1, whatever it is: what is missing or no number counts as 0, fractions are dropped."""
    return int(clip_interval(number_of(index), 0.0, below - 1.0))


def _indices(field: str, values: Any, length: int, below: int) -> NDArray[np.int64]:
    numbers = plain_array(field, values)
    if numbers.shape != (length,):
        raise InvalidInput(f"{field}.shape", numbers.shape, f"({length},)", "send one whole episode of H steps")
    if numbers.dtype.kind not in "iu":
        raise InvalidInput(f"{field}.dtype", numbers.dtype, "integers", "number states and actions from 0")
    return clip_index(numbers, below)
