# SPDX-License-Identifier: Apache-2.0
"""Worst-case neighbours of elimination: vectors at opposite ends of the unit ball, as for Score-VI.

Both families send one clipped vector per user, so the proof's worst case and an attacker's are the same.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from reticent.agents.score.audit_hooks import ScoreHooks
from reticent.learning.plan import AnyPlan, without_ties
from reticent.runtime import double_precision_methods


@double_precision_methods
@dataclasses.dataclass(frozen=True)
class EliminationHooks(ScoreHooks):
    """What the audit must know of elimination (:mod:`reticent.audit.hooks`); an observation is a vector ``(D + 1,)``."""

    agent: Any

    def comparable(self, plan: AnyPlan) -> AnyPlan:
        """The plan with choices blanked where two actions are as good: rounding may decide those either way."""
        return plan._replace(policy=without_ties(plan.policy, plan.action_values))
