# SPDX-License-Identifier: Apache-2.0
"""What the model's states and actions are called, so that an app's code says ``nudge`` and not 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from reticent_wire.errors import InvalidInput
from reticent_wire.history import History


class Names(NamedTuple):
    """Labels in the order of indices; None where they have none. Public, and the same for the whole deployment.

    ``history``: how states are made of what is observed, where they are more than one observation; None elsewhere.

    >>> names = Names(("tired", "fresh"), ("rest", "nudge"))
    >>> names.state_of("fresh"), names.action(1), names.state(0)
    (1, 'nudge', 'tired')
    >>> Names(None, None).action(1)
    'action 1'
    """

    states: tuple[str, ...] | None
    actions: tuple[str, ...] | None
    history: History | None = None

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Names:
        """What a service published.

        Raises:
          InvalidInput: that are no labels.
        """
        history = content.get("history")
        return cls(
            _read(content, "states"), _read(content, "actions"), None if history is None else History.read(history)
        )

    def state(self, index: int) -> str:
        """What a state is called; its number where it has no name."""
        return _label("state", self.states, index)

    def action(self, index: int) -> str:
        """What an action is called; its number where it has no name."""
        return _label("action", self.actions, index)

    def state_of(self, label: str) -> int:
        """The state that is called so.

        Raises:
          InvalidInput: none is. The label itself is not repeated: where a user is, is theirs.
        """
        if self.states is None or label not in self.states:
            known = "none, since the model has no names" if self.states is None else f"one of {', '.join(self.states)}"
            raise InvalidInput("state", "a label that no state has", known, "see client.names.states")
        return self.states.index(label)


def _read(content: Mapping[str, Any], field: str) -> tuple[str, ...] | None:
    labels = content.get(field)
    if labels is None:
        return None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise InvalidInput(f"names.{field}", "something else", "a list of strings, or null", "ask the operator")
    return tuple(labels)


def _label(what: str, labels: tuple[str, ...] | None, index: int) -> str:
    if labels is None:
        return f"{what} {index}"
    if not 0 <= index < len(labels):
        raise InvalidInput(what, "a number that there is not", f"from 0 to {len(labels) - 1}", "ask the policy for one")
    return labels[index]
