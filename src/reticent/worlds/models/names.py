# SPDX-License-Identifier: Apache-2.0
"""What states and actions are called, so that a person reads ``nudge`` and not ``action 2``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from reticent.errors import InvalidInput
from reticent_wire.history import History


@dataclasses.dataclass(frozen=True)
class Names:
    """Labels of a model's states and actions, in the order of their indices.

    Names are public, like the model: they travel in its file and are shown wherever a person looks. With them goes
    ``history``, how a device makes states of what it observes, where these are more than one observation.

    >>> Names(("tired", "fresh"), ("rest", "walk")).actions[1]
    'walk'
    """

    states: tuple[str, ...]
    actions: tuple[str, ...]
    history: History | None = None

    def __post_init__(self) -> None:
        for field, labels in (("state names", self.states), ("action names", self.actions)):
            if not labels:
                raise InvalidInput(field, "empty", "at least one label", "name them all")
            if any(not isinstance(label, str) or not label.strip() for label in labels):
                raise InvalidInput(field, "with an empty label", "non-empty strings", "name them all")
            if len(set(labels)) != len(labels):
                twice = next(label for label in labels if labels.count(label) > 1)
                raise InvalidInput(field, f"{twice!r} twice", "all different", "a person could not tell them apart")

    def check_sizes(self, states: int, actions: int) -> None:
        """There is a label for each of so many states and actions.

        Raises:
          InvalidInput: there is not.
        """
        for field, labels, size in (("state names", self.states, states), ("action names", self.actions, actions)):
            if len(labels) != size:
                raise InvalidInput(field, f"{len(labels)} labels", f"{size}, one for each", "name them all")
        if self.history is not None and self.history.states not in (states, states - 1):
            raise InvalidInput(
                "history", f"of {self.history.states} states", f"of {states}, or one less", "use the model's own"
            )

    def to_dict(self) -> dict[str, Any]:
        """For a JSON document; :meth:`from_dict` is the inverse."""
        told = {} if self.history is None else {"history": self.history.to_dict()}
        return {"states": list(self.states), "actions": list(self.actions), **told}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Names:
        """The names that :meth:`to_dict` wrote."""
        history = content.get("history")
        return cls(
            tuple(content["states"]), tuple(content["actions"]), None if history is None else History.read(history)
        )

    @classmethod
    def numbered(cls, states: int, actions: int) -> Names:
        """``state 0``, ``action 0`` and so on, where no names are given."""
        return cls(tuple(f"state {index}" for index in range(states)), tuple(f"action {a}" for a in range(actions)))
