"""One version of the public policy: what users act by, and what their contributions are made of."""

from __future__ import annotations

import dataclasses
import functools
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent_client.wire.arrays import from_json, to_json
from reticent_client.wire.errors import InvalidInput
from reticent_client.wire.forms import form_named

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)  # arrays have no single truth value to compare by
class Billboard:
    """One version of the public policy.

    Attributes:
      policy: chosen actions ``(H, S)``, or probabilities ``(H, S, A)``.
      report: what contributions under this version are made of, by name; which arrays, the rules' form says.
      model: digest of the model it belongs to.
      form: of contributions; it says whether what a user is served depends on her place. None: it does not.
      actions: how many there are; 0 if that is not known.
    """

    version: int
    policy: Floats | NDArray[np.integer[Any]]
    report: Mapping[str, Floats] = dataclasses.field(default_factory=dict)
    model: str = ""
    form: str | None = None
    actions: int = 0

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Billboard:
        """The billboard in an answer of the service."""
        horizon, states = int(content["horizon"]), int(content["states"])
        greedy = content["method"] == "value-iteration"
        shape = (horizon, states) if greedy else (horizon, states, int(content["actions"]))
        policy = from_json("policy", content["policy"], dtype="<i4" if greedy else "<f8", shape=shape)
        actions = int(content["actions"])
        # Refused when it is read: an action that there is not would stop those users only who come to its state.
        if greedy and actions and not (policy.min() >= 0 and policy.max() < actions):
            raise InvalidInput("policy", "an action that there is not", f"0 to {actions - 1}", "ask the operator")
        report = {
            str(name): from_json(f"report.{name}", array, dtype="<f8", shape=tuple(array["shape"]))
            for name, array in content["report"].items()
        }
        form = content.get("form")
        return cls(
            int(content["version"]), policy, report, str(content["model"]),
            None if form is None else str(form), actions,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """What :meth:`read` reads."""
        return {
            "version": self.version,
            "method": "value-iteration" if self.greedy else "policy-optimization",
            "horizon": self.horizon,
            "states": self.states,
            "actions": self.actions,
            "form": self.form,
            "policy": to_json(self.policy),
            "report": {name: to_json(array) for name, array in self.report.items()},
            "model": self.model,
        }

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

    def act(self, step: int, state: int, uniform: float | None = None) -> int:
        """The action at 0-based ``step``; ``uniform`` in [0, 1), by default the operating system's, decides where the
        policy is random. For a user whose place does not matter; :meth:`choose` is for everyone."""
        if self.greedy:
            return int(self.policy[step, state])
        chance = _uniform() if uniform is None else uniform
        row = self._cumulative[step, state]
        # The last entry may round to below 1; an action past the end must never come out.
        return min(int((chance >= row).sum()), len(row) - 1)

    def choose(self, step: int, state: int, place: int | None, uniform: float | None = None) -> int:
        """The action of the user at ``place`` of her round, 0-based; None for one who is not learned from."""
        if self.form is None:
            return self.act(step, state, uniform)
        chance = _uniform() if uniform is None else uniform
        return form_named(self.form).act(self, step, state, place, self.actions, chance)

    @functools.cached_property
    def _cumulative(self) -> Floats:
        return np.cumsum(self.policy, axis=-1)


def _uniform() -> float:
    """A uniform number in [0, 1) of the operating system's entropy."""
    return secrets.randbits(53) * 2.0**-53
