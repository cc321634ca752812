"""A published plan as plain arrays: what users act by, and what their statistics are made of. No JAX per request."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from reticent.learning.plan import Plan
from reticent.runtime import double_precision_methods
from reticent.service import arrays

FIELDS = ("policy", "values", "centres", "scales", "action_values")


@double_precision_methods
@dataclasses.dataclass(frozen=True, eq=False)  # arrays have no single truth value to compare by
class Billboard:
    """One version of the plan; see :class:`reticent.learning.Plan` for the fields."""

    version: int
    policy: np.ndarray
    values: np.ndarray
    centres: np.ndarray
    scales: np.ndarray
    action_values: np.ndarray | None = None

    @classmethod
    def of(cls, version: int, plan: Plan) -> Billboard:
        """The billboard of a plan made by an agent."""
        given: dict[str, Any] = {name: getattr(plan, name) for name in FIELDS if getattr(plan, name) is not None}
        return cls(version, **{name: np.asarray(value) for name, value in given.items()})

    @classmethod
    def read(cls, version: int, data: bytes) -> Billboard:
        """The billboard that :meth:`to_bytes` wrote."""
        return cls(version, **arrays.from_bytes(data))

    def to_bytes(self) -> bytes:
        given = {name: getattr(self, name) for name in FIELDS}
        return arrays.to_bytes({name: value for name, value in given.items() if value is not None})

    @functools.cached_property
    def plan(self) -> Plan:
        """The plan on the device, for the agent's own functions."""
        given: dict[str, Any] = {name: getattr(self, name) for name in FIELDS if getattr(self, name) is not None}
        return Plan(**{name: jnp.asarray(value) for name, value in given.items()})

    @functools.cached_property
    def framed_values(self) -> np.ndarray:
        """V_{h+1} in its frame, ``(H, S)``."""
        return np.asarray(self.plan.framed_values())

    @functools.cached_property
    def _cumulative(self) -> np.ndarray:
        return np.cumsum(self.policy, axis=-1)

    @property
    def greedy(self) -> bool:
        return bool(np.issubdtype(self.policy.dtype, np.integer))

    def act(self, step: int, state: int, uniform: float) -> int:
        """The action at 0-based ``step``; ``uniform`` decides where the policy is random (as ``planner.act`` does)."""
        if self.greedy:
            return int(self.policy[step, state])
        row = self._cumulative[step, state]
        return min(int((uniform >= row).sum()), len(row) - 1)

    def to_json(self, *, final: bool, model: str) -> dict[str, Any]:
        """What ``GET /v1/billboard`` answers."""
        return {
            "version": self.version,
            "method": "value-iteration" if self.greedy else "policy-optimization",
            "horizon": int(self.policy.shape[0]),
            "states": int(self.policy.shape[1]),
            "policy": arrays.to_json(self.policy),
            "framed_values": arrays.to_json(self.framed_values),
            "values": arrays.to_json(self.values),
            "final": final,
            "model": model,
        }
