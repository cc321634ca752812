# SPDX-License-Identifier: Apache-2.0
"""Diagnostics computed from releases: signal and value of a published version, as plain values for display.

Only published numbers are read: the version's billboard and the release before it, never a sum or the agent's state.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.learning.diagnostics import Diagnostics, Signal
from reticent.service.store import records

if TYPE_CHECKING:
    from reticent.service.mechanism import Mechanism
    from reticent.service.rounds.context import Context


def diagnostics(context: Context[Mechanism], version: int) -> dict[str, Any]:
    """The figures of one version; ``signal``, ``value``, ``fit`` and ``residual`` are None where its family or its past
    says nothing.

    Raises:
      Refusal: it was never published.
    """
    billboard, mechanism = context.plans.billboard(version), context.configuration
    released = _released(context, version - 1) if version else np.zeros(mechanism.noise_scale.shape)
    users = int(mechanism.schedule.ends[version - 1]) if version else 0
    said = {"version": version, "users": users, "signal": None, "value": None, "fit": None, "residual": None}
    figures = mechanism.diagnostics(billboard, released)
    return said if figures is None else {**said, **_plain(figures, float(mechanism.published.horizon))}


def _plain(figures: Diagnostics, largest: float) -> dict[str, Any]:
    return {
        "value": {
            **vars(figures.value), "confidence": figures.confidence, "bonus_scale": figures.bonus_scale,
            "largest": largest,
        },
        "fit": None if figures.fit is None else vars(figures.fit),
        "residual": None if figures.residual is None else vars(figures.residual),
        "signal": None if figures.signal is None else _signal(figures.signal, figures.pooled),
    }  # fmt: skip


def _signal(signal: Signal, pooled: bool) -> dict[str, Any]:
    return {
        "pooled": pooled,
        "transition": [_known(number) for number in signal.transition],
        "reward": [_known(number) for number in signal.reward],
        "transition_together": _known(signal.transition_together),
        "reward_together": _known(signal.reward_together),
    }


def _released(context: Context[Mechanism], number: int) -> np.ndarray:
    """The noisy sums that round ``number`` (from 0) released, ``(H, D)``."""
    with context.store.read() as tx:
        row = records.round_of(tx, number)
    return np.frombuffer(row.release, "<f8").reshape(context.configuration.noise_scale.shape)


def _known(number: Any) -> float | None:
    return None if math.isnan(number) else float(number)
