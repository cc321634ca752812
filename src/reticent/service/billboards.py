"""A published plan as plain arrays: what users act by, and what their contributions are made of. No JAX per request."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from reticent.learning.plan import Plan
from reticent.runtime import double_precision_methods
from reticent_client import wire
from reticent_client.wire import arrays

FIELDS = ("policy", "values", "centres", "scales", "action_values")
REPORT = "report."
"""How arrays that contributions are made of are told from the plan's own, in the store."""


@double_precision_methods
@dataclasses.dataclass(frozen=True, eq=False)  # arrays have no single truth value to compare by
class Billboard:
    """One version of the plan; see :class:`reticent.learning.plan.Plan` for the fields.

    ``report`` is what contributions under it are made of (:meth:`reticent.privacy.sums.PrivateSums.version_rules`).
    """

    version: int
    policy: np.ndarray
    values: np.ndarray
    centres: np.ndarray
    scales: np.ndarray
    action_values: np.ndarray | None = None
    report: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, version: int, plan: Plan, report: Mapping[str, Any]) -> Billboard:
        """The billboard of a plan made by an agent."""
        fields: dict[str, Any] = {name: getattr(plan, name) for name in FIELDS if getattr(plan, name) is not None}
        return cls(
            version,
            **{name: np.asarray(value) for name, value in fields.items()},
            report={name: np.asarray(value) for name, value in report.items()},
        )

    @classmethod
    def read(cls, version: int, data: bytes) -> Billboard:
        """The billboard that :meth:`to_bytes` wrote."""
        content = arrays.from_bytes(data)
        report = {name.removeprefix(REPORT): array for name, array in content.items() if name.startswith(REPORT)}
        return cls(version, **{name: content[name] for name in FIELDS if name in content}, report=report)

    def to_bytes(self) -> bytes:
        content = {name: getattr(self, name) for name in FIELDS if getattr(self, name) is not None}
        return arrays.to_bytes(content | {REPORT + name: array for name, array in self.report.items()})

    @functools.cached_property
    def plan(self) -> Plan:
        """The plan on the device, for the agent's own functions."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in FIELDS if getattr(self, name) is not None}
        return Plan(**{name: jnp.asarray(value) for name, value in fields.items()})

    @functools.cached_property
    def published(self) -> wire.Billboard:
        """What devices get of it, and what contributions are made of, there as here."""
        return wire.Billboard(self.version, self.policy, self.report)

    def act(self, step: int, state: int, uniform: float) -> int:
        """The action at 0-based ``step``; ``uniform`` decides where the policy is random."""
        return self.published.act(step, state, uniform)

    def to_json(self, *, final: bool, model: str) -> dict[str, Any]:
        """What ``GET /v1/billboard`` answers; ``model`` is the digest of the model that it belongs to."""
        board = dataclasses.replace(self.published, model=model)
        return {**board.to_json(), "values": arrays.to_json(self.values), "final": final}
