# SPDX-License-Identifier: Apache-2.0
"""The fingerprint of a model, so that a store never meets another one than its own."""

from __future__ import annotations

import hashlib

import numpy as np

from reticent.worlds import Model
from reticent.worlds.tastes.model import TasteModel

SCALARS = {
    "horizon": int,
    "transition_bound": float,
    "transition_theta_bound": float,
    "reward_theta_bound": float,
    "sums_to_one": bool,
    "stationary": bool,
    "reward_total": float,
    "initial_known": bool,
}
ARRAYS = ("transition_features", "reward_features", "initial", "successors", "known_rewards")


def fingerprint(model: Model) -> str:
    """SHA-256 over everything a model is, so that a store never meets another one than its own."""
    digest = hashlib.sha256()
    for name in ARRAYS:
        value = getattr(model, name)
        array = np.zeros(0) if value is None else np.ascontiguousarray(value)
        digest.update(f"{name} {array.dtype} {array.shape};".encode() + array.tobytes())
    digest.update(repr([(name, getattr(model, name)) for name in SCALARS]).encode())
    if model.known_rewards is not None:
        digest.update(np.ascontiguousarray(model.known_rewards).tobytes())
    if model.reward_total is not None:
        digest.update(repr(model.reward_total).encode())
    if isinstance(model, TasteModel):  # what the features above do not say
        digest.update(np.ascontiguousarray(model.noise).tobytes())
    return digest.hexdigest()
