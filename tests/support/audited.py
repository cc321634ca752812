# SPDX-License-Identifier: Apache-2.0
"""The audit as the families' tests use it: what each of them asks, in one place that follows the audit's interface."""

from __future__ import annotations

from typing import Any

from reticent.audit import Audit, Subject, check_noise, replay, seen_as, worst_pair
from reticent.audit import audit as attack


def realised_strength(agent: Any) -> float:
    """How far apart the agent's own reports of two users can be, in units of its noise."""
    return worst_pair(Subject(agent), gradient=False)[1]


def replay_findings(agent: Any, users: int, changed: int) -> tuple[str, ...]:
    """What a replay of so many users finds, the ``changed``-th being replaced by the user farthest from her."""
    pair, _ = worst_pair(Subject(agent), gradient=False)
    return replay(Subject(agent), [seen_as(pair.canary)] * users, changed, seen_as(pair.replacement)).findings


def noise_findings(agent: Any, draws: int = 4000) -> list[str]:
    """What is wrong with the noise that the agent draws."""
    return check_noise(Subject(agent), draws=draws)


def attacked(agent: Any, world: Any, trials: int) -> Audit:
    """The outcome of an attack with a canary."""
    return attack(Subject(agent), world, trials=trials)
