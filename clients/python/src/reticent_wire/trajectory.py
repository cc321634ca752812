# SPDX-License-Identifier: Apache-2.0
"""One user's episode as numbers, whatever they are: values are clipped, never refused.

A refusal that depends on a user's data is itself a release (the user's place would go to another, or the server would see
that nothing came). So only the public *form* of an episode may be refused: its lengths, and what kind of numbers there are.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reticent_wire.clipping import clip_interval
from reticent_wire.errors import InvalidInput

LARGEST = 2**63 - 1
"""The largest index that is told from larger ones; all of them are clipped alike."""


class Trajectory(NamedTuple):
    """One episode: ``states`` (H + 1), ``actions`` (H), ``rewards`` (H); of a stay those of its visits, one after another.

    ``place`` is the user's 0-based place in their round, where what they are served depends on it; it is public.
    """

    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    place: int | None = None


def together(seen: Sequence[Trajectory]) -> Trajectory:
    """Several episodes as one with a leading axis, for what is computed of all of them at once. Places are left out."""
    states, actions, rewards, _ = zip(*seen, strict=True)
    return Trajectory(np.stack(states), np.stack(actions), np.stack(rewards))


def by_visit(seen: Trajectory, visits: int) -> Trajectory:
    """A stay, or several on leading axes, with an axis of visits before that of steps."""
    states, actions = (part.reshape(*part.shape[:-1], visits, -1) for part in (seen.states, seen.actions))
    return Trajectory(states, actions, seen.rewards.reshape(actions.shape), seen.place)


class Sizes(Protocol):
    """How many steps, visits, states and actions there are."""

    @property
    def horizon(self) -> int: ...
    @property
    def visits(self) -> int: ...
    @property
    def states(self) -> int: ...
    @property
    def actions(self) -> int: ...


def well_formed(sizes: Sizes, states: Any, actions: Any, rewards: Any, place: int | None = None) -> Trajectory:
    """The episode as arrays with every value in range: what is not a state, an action or a reward is clipped to one.

    Any number is a value, also one beyond 64 bits, one that is not finite, a truth value, a fraction for an index, or None
    (what JSON makes of NaN): it is clipped. An array of NumPy's has one kind of numbers, which is public.

    Raises:
      InvalidInput: its public form is wrong: lengths, or what kind of numbers there are. No value is quoted.
    """
    formed = _formed(sizes, states, actions, rewards)
    return Trajectory(
        clip_index(formed.states, sizes.states),
        clip_index(formed.actions, sizes.actions),
        clip_reward(formed.rewards),
        place,
    )


def each_well_formed(
    sizes: Sizes, episodes: Sequence[Any], places: Sequence[int | None]
) -> list[Trajectory | InvalidInput]:
    """:func:`well_formed` of several episodes, each with ``states``, ``actions`` and ``rewards``.

    A wrong form is the problem of its own episode, and changes nothing about the others.
    """
    found: list[Trajectory | InvalidInput] = []
    for one, place in zip(episodes, places, strict=True):
        try:
            found.append(_formed(sizes, one.states, one.actions, one.rewards)._replace(place=place))
        except InvalidInput as wrong:
            found.append(wrong)
    good = [one for one in found if isinstance(one, Trajectory)]
    if not good:
        return found
    all_of_them = together(good)
    states, actions = clip_index(all_of_them.states, sizes.states), clip_index(all_of_them.actions, sizes.actions)
    inside = zip(states, actions, clip_reward(all_of_them.rewards), strict=True)
    return [Trajectory(*next(inside), one.place) if isinstance(one, Trajectory) else one for one in found]


def plain_array(field: str, values: Any) -> NDArray[Any]:
    """``values`` as an array of whatever kind.

    Raises:
      InvalidInput: they are no array, such as lists of different lengths.
    """
    try:
        return np.asarray(values)
    except (ValueError, OverflowError, RecursionError):
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
    """One index within 0 … ``below`` − 1, whatever it is: 0 for what is missing or no number, fractions are dropped."""
    return int(clip_interval(number_of(index), 0.0, below - 1.0))


def whole_number(value: Any) -> Any:
    """A number of 64 bits for one that stands where an index belongs, clipped; None and NaN count as 0.

    Fractions are dropped and truth values are 0 and 1, as on a device: whether a number has a fraction is a matter of the
    user's data. What is no number is of another kind and is left as it is.
    """
    if value is None:
        return 0
    if isinstance(value, bool | np.bool_):
        return int(value)
    if not isinstance(value, numbers.Integral):
        if not isinstance(value, numbers.Real):
            return value
        number = number_of(value)  # of whatever precision
        value = 0 if math.isnan(number) else int(min(max(number, -float(LARGEST)), float(LARGEST)))
    return min(max(int(value), -LARGEST), LARGEST)


def _formed(sizes: Sizes, states: Any, actions: Any, rewards: Any) -> Trajectory:
    """The episode as arrays of its public form, whose values may still be out of range.

    Raises:
      InvalidInput: its public form is wrong.
    """
    earned, steps = _numbers("rewards", rewards, "iuf", _reward), sizes.visits * sizes.horizon
    if earned.shape != (steps,) or earned.dtype.kind not in "iuf":
        raise InvalidInput("rewards.shape", earned.shape, f"{steps} numbers", "send one reward per step")
    return Trajectory(
        _indices("states", states, steps + sizes.visits),
        _indices("actions", actions, steps),
        earned.astype(np.float64),
    )


def _indices(field: str, values: Any, length: int) -> NDArray[np.int64]:
    found = _numbers(field, values, "i", whole_number)
    if found.shape != (length,):
        raise InvalidInput(f"{field}.shape", found.shape, f"({length},)", "send one whole episode of H steps")
    if found.dtype.kind not in "iu":
        raise InvalidInput(f"{field}.dtype", found.dtype, "integers", "number states and actions from 0")
    inside: NDArray[np.int64] = np.minimum(found, LARGEST).astype(np.int64)
    return inside


def _numbers(field: str, values: Any, kinds: str, number: Callable[[Any], Any]) -> NDArray[Any]:
    """An array of a list's numbers. Where one of them makes NumPy choose another kind than ``kinds``, such as one beyond 64
    bits, each is brought to a number by itself first."""
    found = plain_array(field, values)
    if found.dtype.kind in kinds or not isinstance(values, list | tuple):
        return found
    return plain_array(field, [number(value) for value in values])


def _reward(value: Any) -> Any:
    if value is None:
        return math.nan
    if isinstance(value, bool | np.bool_):
        return float(value)
    return number_of(value) if isinstance(value, numbers.Real) else value
