"""What the service publishes and a device keeps: the model with its rules for reports, and billboards to act by."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidInput
from reticent.service.arrays import from_json

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]


@dataclasses.dataclass(frozen=True, eq=False)  # arrays have no single truth value to compare by
class ShuffleRules:
    """How messages are formed in the shuffle model (:mod:`reticent.privacy.trust.shuffle_protocol`).

    Attributes:
      reach: m, the most grid steps that a value can be from 0, ``(H, D)``.
      coins: N, how many coins all users of a round flip together, ``(H, D)``.
      round_sizes: users of each round.
      honest: the share of a round's users that must have sent before anything may leave the shuffler.
    """

    reach: NDArray[np.int64]
    coins: NDArray[np.int64]
    round_sizes: tuple[int, ...]
    honest: float

    @classmethod
    def read(cls, content: Mapping[str, Any], shape: tuple[int, int]) -> ShuffleRules:
        """The rules in an answer of the service."""
        reach, coins = (
            from_json(f"report.shuffle.{name}", content[name], dtype="<i8", shape=shape) for name in ("reach", "coins")
        )
        return cls(reach, coins, tuple(int(size) for size in content["round_sizes"]), float(content["honest"]))


@dataclasses.dataclass(frozen=True, eq=False)
class Rules:
    """How reports are formed in the local model, and messages in the shuffle model.

    Attributes:
      grid: the unit of a report's integers, a power of two.
      noise_scale: standard deviation of each coordinate's noise, ``(H, D)``.
      feature_bound, target_low, target_high: what transition features and targets are clipped to, ``(H,)``.
      nonnegative_rewards: whether negative reward features are clipped to 0.
      shuffle: how the messages of the shuffle model are formed; None in the others.
    """

    grid: float
    noise_scale: Floats
    feature_bound: Floats
    target_low: Floats
    target_high: Floats
    nonnegative_rewards: bool
    shuffle: ShuffleRules | None = None

    @classmethod
    def read(cls, content: Mapping[str, Any], horizon: int, d1: int, d2: int) -> Rules:
        """The rules in an answer of the service."""
        width = d1 * (d1 + 3) // 2 + d2 * (d2 + 3) // 2

        def array(name: str, shape: tuple[int, ...]) -> Floats:
            return from_json(f"report.{name}", content[name], dtype="<f8", shape=shape)

        grid = float(content["grid"])
        if not (grid > 0 and np.isfinite(grid) and np.frexp(grid)[0] == 0.5):
            raise InvalidInput("report.grid", grid, "a power of two", "ask the service's operator")
        return cls(
            grid,
            array("noise_scale", (horizon, width)),
            array("feature_bound", (horizon,)),
            array("target_low", (horizon,)),
            array("target_high", (horizon,)),
            bool(content["nonnegative_rewards"]),
            ShuffleRules.read(content["shuffle"], (horizon, width)) if content.get("shuffle") else None,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """The public model of a deployment; see :class:`reticent.worlds.Model` for the features.

    ``successors`` says which state each entry of the last axis of ``transition_features`` is; None: entry j is state j.
    """

    digest: str
    horizon: int
    states: int
    actions: int
    transition_features: Floats
    reward_features: Floats
    successors: Integers | None
    rules: Rules

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Model:
        """The model in an answer of the service."""
        horizon, states, actions, d1, d2 = (int(content[name]) for name in ("horizon", "states", "actions", "d1", "d2"))
        listed = content["successors"]
        entries = states if listed is None else int(listed["shape"][-1])
        following = (
            None if listed is None else from_json("successors", listed, dtype="<i4", shape=(states, actions, entries))
        )
        return cls(
            str(content["digest"]), horizon, states, actions,
            from_json("transition_features", content["transition_features"], dtype="<f8",
                      shape=(d1, states, actions, entries)),
            from_json("reward_features", content["reward_features"], dtype="<f8", shape=(d2, states, actions)),
            following,
            Rules.read(content["report"], horizon, d1, d2),
        )  # fmt: skip

    @property
    def d1(self) -> int:
        return int(self.transition_features.shape[0])

    @property
    def d2(self) -> int:
        return int(self.reward_features.shape[0])

    def value_features(self, values: Floats, state: int, action: int) -> Floats:
        """φ_V(s, a), ``(d1,)``, for V given on all states."""
        following = values if self.successors is None else values[self.successors[state, action]]
        return np.asarray(self.transition_features[:, state, action, :] @ following)


@dataclasses.dataclass(frozen=True, eq=False)
class Billboard:
    """One version of the public policy.

    Attributes:
      policy: chosen actions ``(H, S)``, or probabilities ``(H, S, A)``.
      framed_values: V of the next step in its frame, ``(H, S)``: what reports under this version are made of.
      model: digest of the model it belongs to.
    """

    version: int
    policy: Floats | Integers
    framed_values: Floats
    model: str

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Billboard:
        """The billboard in an answer of the service."""
        horizon, states = int(content["horizon"]), int(content["states"])
        greedy = content["method"] == "value-iteration"
        shape = (horizon, states) if greedy else (horizon, states, int(content["actions"]))
        policy = from_json("policy", content["policy"], dtype="<i4" if greedy else "<f8", shape=shape)
        values = from_json("framed_values", content["framed_values"], dtype="<f8", shape=(horizon, states))
        return cls(int(content["version"]), policy, values, str(content["model"]))

    @property
    def horizon(self) -> int:
        return int(self.policy.shape[0])

    @property
    def states(self) -> int:
        return int(self.policy.shape[1])

    def act(self, step: int, state: int) -> int:
        """The action at 0-based ``step``; where the policy is random, the operating system's entropy decides."""
        row = self.policy[step, state]
        if self.policy.ndim == 2:
            return int(row)
        uniform = secrets.randbits(53) * 2.0**-53
        return min(int((uniform >= np.cumsum(row)).sum()), len(row) - 1)
