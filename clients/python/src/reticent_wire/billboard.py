# SPDX-License-Identifier: Apache-2.0
"""One version of the public policy: what users act by, and what their contributions are made of."""

from __future__ import annotations

import dataclasses
import functools
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent_wire.arrays import from_json, to_json
from reticent_wire.errors import InvalidInput
from reticent_wire.forms import form_named
from reticent_wire.plans import require_actions, require_probabilities
from reticent_wire.trajectory import Sizes

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)  # arrays have no single truth value to compare by
class Billboard:
    """One version of the public policy.

    Attributes:
      policy: chosen actions ``(H, S)``, or probabilities ``(H, S, A)``.
      report: what contributions under this version are made of, by name; which arrays, the rules' form says.
      model: digest of the model it belongs to.
      form: of contributions; it says whether what a user is served depends on their place. None: it does not.
      actions: how many there are; 0 if that is not known.
      floor: the least probability of every action, which chosen actions are mixed with; 0 is none. It is fixed before the
        first user, so that it depends on no user's data.
    """

    version: int
    policy: Floats | NDArray[np.integer[Any]]
    report: Mapping[str, Floats] = dataclasses.field(default_factory=dict)
    model: str = ""
    form: str | None = None
    actions: int = 0
    floor: float = 0.0

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Billboard:
        """The billboard in an answer of the service.

        Every array that a user may be served by is checked here, where it is public: an action that there is not, found
        out in the middle of an episode, would say in which state a user was.

        Raises:
          InvalidInput: a shape, an action or a probability is none; no user's state was looked at.
        """
        horizon, states = int(content["horizon"]), int(content["states"])
        greedy = content["method"] == "value-iteration"
        shape = (horizon, states) if greedy else (horizon, states, int(content["actions"]))
        policy = from_json("policy", content["policy"], dtype="<i4" if greedy else "<f8", shape=shape)
        actions = int(content["actions"])
        if greedy:
            require_actions("policy", policy, actions)
        else:
            require_probabilities("policy", policy)
        report = {
            str(name): from_json(f"report.{name}", array, dtype="<f8", shape=tuple(array["shape"]))
            for name, array in content["report"].items()
        }
        form, floor = content.get("form"), float(content.get("floor", 0.0))
        if not 0 <= floor * max(actions, 1) <= 1 + 1e-9 or (floor and not greedy):
            raise InvalidInput(
                "floor", floor, f"from 0 to 1/{actions}, of chosen actions", "ask the service's operator"
            )
        board = cls(
            int(content["version"]), policy, report, str(content["model"]),
            None if form is None else str(form), actions, floor,
        )  # fmt: skip
        if board.form is not None:
            form_named(board.form).require_plan(board)
        return board

    def to_json(self) -> dict[str, Any]:
        """What :meth:`read` reads."""
        return {
            "version": self.version,
            "method": "value-iteration" if self.greedy else "policy-optimization",
            "horizon": self.horizon,
            "states": self.states,
            "actions": self.actions,
            "floor": self.floor,
            "form": self.form,
            "policy": to_json(self.policy),
            "report": {name: to_json(array) for name, array in self.report.items()},
            "model": self.model,
        }

    def require_sizes(self, sizes: Sizes) -> None:
        """Refuse it for a model of other sizes: an index out of range would say where a user was.

        Raises:
          InvalidInput: they differ.
        """
        for name in ("horizon", "states", "actions"):
            mine, theirs = getattr(self, name), getattr(sizes, name)
            if mine != theirs:
                raise InvalidInput(f"billboard.{name}", mine, f"{theirs}, the model's", "ask the service's operator")

    @property
    def horizon(self) -> int:
        return int(self.policy.shape[0])

    @property
    def states(self) -> int:
        return int(self.policy.shape[1])

    @property
    def greedy(self) -> bool:
        """Whether the policy is choices, and not probabilities."""
        return bool(np.issubdtype(self.policy.dtype, np.integer))

    @property
    def remembers(self) -> bool:
        """Whether users act on a belief about themselves, which takes the model too, and never by the policy alone."""
        return self.form is not None and form_named(self.form).remembers

    def act(self, step: int, state: int, uniform: float | None = None) -> int:
        """The action at 0-based ``step``; ``uniform`` in [0, 1), by default the operating system's, decides where the
        policy is random. For a user whose place does not matter; :meth:`choose` is for everyone."""
        if self.greedy:
            return self.floored(int(self.policy[step, state]), uniform)
        chance = _uniform() if uniform is None else uniform
        row = self._cumulative[step, state]
        # The last entry may round to below 1; an action past the end must never come out.
        return min(int((chance >= row).sum()), len(row) - 1)

    def choose(self, step: int, state: int, place: int | None, uniform: float | None = None) -> int:
        """The action of the user at ``place`` of their round, 0-based; None for one who is not learned from."""
        if self.form is None:
            return self.act(step, state, uniform)
        chance = _uniform() if uniform is None else uniform
        return form_named(self.form).act(self, step, state, place, self.actions, chance)

    def floored(self, chosen: int, uniform: float | None = None) -> int:
        """A chosen action or, with probability A·floor, one at random."""
        if not self.floor:
            return chosen
        chance = _uniform() if uniform is None else uniform
        return min(int(chance / self.floor), self.actions - 1) if chance < self.actions * self.floor else chosen

    def probability(self, step: int, state: int, place: int | None, action: int) -> float:
        """With what probability :meth:`choose` takes ``action`` there: what is logged with every decision.

        It follows from what is published and from their place, never from what they did.
        """
        if self.form is not None:
            return form_named(self.form).probability(self, step, state, place, self.actions, action)
        return self.probability_by_policy(step, state, action)

    def probability_by_policy(self, step: int, state: int, action: int) -> float:
        """The same for a user whose place does not matter."""
        if not self.greedy:
            return float(self.policy[step, state, action])
        return self.probability_of(int(self.policy[step, state]), action)

    def probability_of(self, chosen: int, action: int) -> float:
        """With what probability :meth:`floored` takes ``action``."""
        return (
            self.floor + (1 - self.actions * self.floor) * (action == chosen) if self.floor else float(action == chosen)
        )

    @functools.cached_property
    def _cumulative(self) -> Floats:
        return np.cumsum(self.policy, axis=-1)


def _uniform() -> float:
    """A uniform number in [0, 1) of the operating system's entropy."""
    return secrets.randbits(53) * 2.0**-53
