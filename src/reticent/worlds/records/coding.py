# SPDX-License-Identifier: Apache-2.0
r"""From what is recorded to states and actions: the coding that service, device and model share.

A state is a *product* of parts, each of which reads one column: named categories, or a number between public cut
points. With parts of sizes :math:`n_1,\dots,n_k` and codes :math:`c_1,\dots,c_k` the state's index is the mixed-radix
number

.. math:: s=\big((c_1 n_2+c_2)n_3+\dots\big)n_k+c_k ,

the first part being the slowest, and one more state, *over*, may follow for those who have left. An action is one
named category. What was observed before may be part of the state as well (``history``): then the number above is that of
an *observation*, and the state that of a context (:mod:`reticent_wire.history`).

Cut points and categories are part of the model: they are public, and must not be computed from protected users' data
(:mod:`reticent.worlds.models.provenance`).

This module needs NumPy and nothing else: a device codes its own user's moments.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from reticent.errors import InvalidInput
from reticent_wire.history import START, History

OVER = "over"
"""What the state of those who have left is called."""


def text_of(value: Any) -> str:
    """How a recorded value is written as a category: whole numbers without a point, truth values in small letters.

    >>> [text_of(value) for value in (True, 3, 3.0, 2.5, " rest ")]
    ['true', '3', '3', '2.5', 'rest']
    """
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, np.generic):
        value = value.item()
    return str(value).strip()


@dataclasses.dataclass(frozen=True)
class Categories:
    """A column of named values, coded by their place in the list; ``other`` is the one that all unlisted values are."""

    column: str
    values: tuple[str, ...]
    other: str | None = None

    def __post_init__(self) -> None:
        if not self.values or any(not value.strip() for value in self.values):
            raise InvalidInput(f"categories of {self.column!r}", self.values, "non-empty names", "name them all")
        if len(set(self.values)) != len(self.values):
            raise InvalidInput(f"categories of {self.column!r}", self.values, "all different", "list each name once")
        if self.other is not None and self.other not in self.values:
            raise InvalidInput(f"categories of {self.column!r}", self.values, f"with {self.other!r}", "list it too")

    @property
    def size(self) -> int:
        return len(self.values)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.values

    @property
    def titles(self) -> tuple[str, ...]:
        """The values with the column's name, for states of several columns."""
        return tuple(f"{self.column}: {value}" for value in self.values)

    def encode(self, raw: Any) -> np.ndarray:
        """Codes of recorded values, in their shape; of ``other``, or −1, for one that is not in the list."""
        array = np.asarray(raw)
        if array.dtype == object:
            array = np.array([text_of(value) for value in array.ravel()], dtype=str).reshape(array.shape)
        distinct, place = np.unique(array, return_inverse=True)
        codes = {value: code for code, value in enumerate(self.values)}
        unlisted = -1 if self.other is None else codes[self.other]
        table = np.array([codes.get(text_of(value), unlisted) for value in distinct.tolist()], dtype=np.int64)
        return table[place].reshape(array.shape)

    def to_dict(self) -> dict[str, Any]:
        folded = {} if self.other is None else {"other": self.other}
        return {"column": self.column, "values": list(self.values), **folded}


@dataclasses.dataclass(frozen=True)
class Bins:
    """A column of numbers, coded by how many cut points are at or below them: bin j is [cut_j, cut_{j+1})."""

    column: str
    cuts: tuple[float, ...]

    def __post_init__(self) -> None:
        rising = all(low < high for low, high in itertools.pairwise(self.cuts))
        if not self.cuts or not rising or not all(math.isfinite(cut) for cut in self.cuts):
            raise InvalidInput(
                f"cut points of {self.column!r}", self.cuts, "finite and rising", "list them from the least to the most"
            )

    @property
    def size(self) -> int:
        return len(self.cuts) + 1

    @property
    def labels(self) -> tuple[str, ...]:
        between = [f"{low:g} ≤ {self.column} < {high:g}" for low, high in itertools.pairwise(self.cuts)]
        return (f"{self.column} < {self.cuts[0]:g}", *between, f"{self.column} ≥ {self.cuts[-1]:g}")

    def encode(self, raw: Any) -> np.ndarray:
        """Codes of recorded numbers, in their shape; −1 for one that is not a number."""
        array = np.asarray(raw, dtype=np.float64)
        codes = np.searchsorted(np.asarray(self.cuts), array, side="right").astype(np.int64)
        return np.where(np.isnan(array), -1, codes)

    def to_dict(self) -> dict[str, Any]:
        return {"column": self.column, "cuts": list(self.cuts)}


Part: TypeAlias = Categories | Bins


@dataclasses.dataclass(frozen=True)
class Coding:
    """How recorded columns become state and action indices, and what these are called.

    Attributes:
      parts: the state's columns, the slowest first.
      action: the action's column; its first value is index 0.
      over: whether a last state stands for those who have left.
      reward_range: recorded rewards are mapped from here to [0, 1].
      history: which earlier observations are part of the state; None where the present one is all.

    >>> place, steps = Categories("place", ("home", "work")), Bins("steps", (10.0, 100.0))
    >>> coding = Coding((place, steps), Categories("send", ("no", "yes")))
    >>> int(coding.state_of(place="work", steps=50)), coding.state_names[4]
    (4, 'place: work, 10 ≤ steps < 100')
    """

    parts: tuple[Part, ...]
    action: Categories
    over: bool = False
    reward_range: tuple[float, float] = (0.0, 1.0)
    history: History | None = None

    def __post_init__(self) -> None:
        columns = [part.column for part in self.parts]
        if not columns or len(set(columns)) != len(columns):
            raise InvalidInput("state columns", columns, "at least one, all different", "name each column once")
        low, high = self.reward_range
        if not -math.inf < low < high < math.inf:
            raise InvalidInput("reward_range", self.reward_range, "(least, most), finite", "give them in this order")

    @property
    def moments(self) -> int:
        """How many observations there are: the product of the parts' sizes."""
        return math.prod(part.size for part in self.parts)

    @property
    def states(self) -> int:
        return (self.moments if self.history is None else self.history.states) + self.over

    @property
    def actions(self) -> int:
        return self.action.size

    @property
    def observation_names(self) -> tuple[str, ...]:
        """What observations are called: of several columns, those of categories say which one they are."""
        return _joined(self.parts, alone=len(self.parts) == 1)

    @property
    def state_names(self) -> tuple[str, ...]:
        """What states are called: the observation, and what came before it where that is part of the state."""
        names = self.observation_names if self.history is None else self._context_names(self.history)
        return (*names, OVER) if self.over else names

    def _context_names(self, history: History) -> tuple[str, ...]:
        size, kept = 1, len(self.parts)
        while size < history.remembered:
            kept -= 1
            size *= self.parts[kept].size
        alone = len(self.parts) == 1
        codes = _joined(self.parts[kept:], alone=alone)
        before = tuple(f"{name}, " for name in _joined(self.parts[:kept], alone=alone)) if kept else ("",)
        contexts = [_context_name(context, codes, history.depth) for context in history.contexts]
        return tuple(plain + context for plain in before for context in contexts)

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.action.labels

    def codes(self, columns: Mapping[str, Any]) -> np.ndarray:
        """The code of each part, ``(parts, ...)``; −1 where a value is unknown."""
        return np.stack([part.encode(columns[part.column]) for part in self.parts])

    def join(self, codes: np.ndarray) -> np.ndarray:
        """Observations from the codes of their parts ``(parts, ...)``, which without a history are the states; −1 where one
        is unknown."""
        state = np.zeros(codes.shape[1:], np.int64)
        for part, code in zip(self.parts, codes, strict=True):
            state = state * part.size + code
        return np.where((codes < 0).any(axis=0), -1, state)

    def split(self, states: Any) -> np.ndarray:
        """The parts' codes ``(parts, ...)`` of observations: the inverse of :meth:`join`."""
        sizes = [part.size for part in self.parts]
        return np.stack(np.unravel_index(np.asarray(states), sizes))

    def state_of(self, **values: Any) -> np.ndarray:
        """State indices of recorded values, one keyword per column; arrays of one shape, or single values.

        Where there is a history these are observations: ``coding.history.state`` makes a state of those of an episode.

        Raises:
          InvalidInput: a column is missing, or a value is not in its list.
        """
        for part in self.parts:
            if part.column not in values:
                raise InvalidInput(f"state column {part.column!r}", "missing", "given", "pass all state columns")
        codes = self.codes({column: np.asarray(value) for column, value in values.items()})
        for part, code in zip(self.parts, codes, strict=True):
            if (code < 0).any():
                known = ", ".join(part.labels) if isinstance(part, Categories) else "a number"
                wrong = np.asarray(values[part.column])[code < 0].ravel()[0]
                raise InvalidInput(f"state column {part.column!r}", wrong, f"one of {known}", "see the model's coding")
        return self.join(codes)

    def to_dict(self) -> dict[str, Any]:
        """For a JSON document; :meth:`from_dict` is the inverse."""
        return {
            "parts": [part.to_dict() for part in self.parts],
            "action": self.action.to_dict(),
            "over": self.over,
            "reward_range": list(self.reward_range),
            **({} if self.history is None else {"history": self.history.to_dict()}),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Coding:
        """The coding that :meth:`to_dict` wrote."""
        low, high = content["reward_range"]
        return cls(
            tuple(_part(part) for part in content["parts"]),
            _categories(content["action"]),
            bool(content["over"]),
            (float(low), float(high)),
            History.read(content["history"]) if "history" in content else None,
        )


def _joined(parts: Sequence[Part], *, alone: bool) -> tuple[str, ...]:
    """Names of the products of some parts; ``alone``: there is no other column that they could be mistaken for."""
    labels = [part.labels if alone or isinstance(part, Bins) else part.titles for part in parts]
    return tuple(", ".join(chosen) for chosen in itertools.product(*labels))


def _context_name(context: tuple[int, ...], codes: Sequence[str], depth: int) -> str:
    """What a context is called.

    >>> [_context_name(context, ("front", "news"), 2) for context in ((0,), (-1, 0), (0, 1))]
    ['front (otherwise)', 'front (first)', 'news after front']
    """
    begun = context[0] == START
    name = " after ".join(codes[code] for code in reversed(context[begun:]))
    if begun:
        return f"{name} (first)"
    return name if len(context) == depth else f"{name} (otherwise)"


def _part(content: Mapping[str, Any]) -> Part:
    if "cuts" in content:
        return Bins(content["column"], tuple(float(cut) for cut in content["cuts"]))
    return _categories(content)


def _categories(content: Mapping[str, Any]) -> Categories:
    return Categories(content["column"], tuple(content["values"]), content.get("other"))


def sorted_values(values: Sequence[str]) -> tuple[str, ...]:
    """Categories in the order in which people list them: numbers by size, then words by the alphabet."""

    def rank(value: str) -> tuple[int, float, str]:
        try:
            return (0, float(value), value)
        except ValueError:
            return (1, 0.0, value)

    return tuple(sorted(values, key=rank))
