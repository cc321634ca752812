# SPDX-License-Identifier: Apache-2.0
"""A published plan as plain arrays: what users act by, and what their contributions are made of. No JAX here.

All leaves of the agent's plan are kept, whatever its family adds to it, so that the end of a round uses exactly the plan
that was published, whichever worker computes it. Only :meth:`reticent.service.mechanism.Mechanism.plan_of` knows which
leaf is which.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import reticent_wire as wire
from reticent_wire import arrays

PARTS = ("report", "plan", "memory")
"""What is stored of a billboard: arrays of each part, named ``part.name``."""

Arrays = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)  # arrays have no single truth value to compare by
class Billboard:
    """One version of the plan.

    Attributes:
      version: how many releases came before it.
      policy: choices ``(H, S)`` or probabilities ``(H, S, A)``. values: V of that policy's plan, ``(H + 1, S)``.
      report: what contributions under it are made of (:meth:`reticent.privacy.sums.PrivateSums.version_rules`).
      plan: every leaf of the agent's plan, in the order of its tree.
      memory: every leaf of what else follows from releases alone and is worth showing
        (:meth:`reticent.learning.learner.Learner.public_memory`).
      form: of contributions. actions: how many there are. floor: least probability of each.
    """

    version: int
    policy: np.ndarray
    values: np.ndarray
    report: Arrays = dataclasses.field(default_factory=dict)
    plan: Sequence[np.ndarray] = ()
    memory: Sequence[np.ndarray] = ()
    form: str | None = None
    actions: int = 0
    floor: float = 0.0

    @classmethod
    def read(
        cls, version: int, data: bytes, *, form: str | None = None, actions: int = 0, floor: float = 0.0
    ) -> Billboard:
        """The billboard that :meth:`to_bytes` wrote."""
        content = arrays.from_bytes(data)
        report, plan, memory = (
            {name.partition(".")[2]: array for name, array in content.items() if name.startswith(f"{part}.")}
            for part in PARTS
        )
        return cls(
            version,
            content["policy"],
            content["values"],
            report,
            _in_order(plan),
            _in_order(memory),
            form,
            actions,
            floor,
        )

    def to_bytes(self) -> bytes:
        """Everything but the version, and what does not change with it: form, number of actions, floor."""
        content: dict[str, Any] = {"policy": self.policy, "values": self.values}
        content |= {f"report.{name}": array for name, array in self.report.items()}
        for part, leaves in (("plan", self.plan), ("memory", self.memory)):
            content |= {f"{part}.{index}": leaf for index, leaf in enumerate(leaves)}
        return arrays.to_bytes(content)

    @functools.cached_property
    def published(self) -> wire.Billboard:
        """What devices get of it, and what contributions are made of, there as here."""
        return wire.Billboard(
            self.version, self.policy, self.report, form=self.form, actions=self.actions, floor=self.floor
        )

    def act(self, step: int, state: int, place: int | None, uniform: float) -> int:
        """The action at 0-based ``step`` of the user at ``place``; ``uniform`` decides where it is random."""
        return self.published.choose(step, state, place, uniform)

    def to_json(self, *, final: bool, model: str) -> dict[str, Any]:
        """What ``GET /v1/billboard`` answers; ``model`` is the digest of the model that it belongs to."""
        board = dataclasses.replace(self.published, model=model)
        return {**board.to_json(), "values": arrays.to_json(self.values), "final": final}


def _in_order(leaves: Arrays) -> tuple[np.ndarray, ...]:
    return tuple(leaves[str(index)] for index in range(len(leaves)))
