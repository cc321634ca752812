# SPDX-License-Identifier: Apache-2.0
"""Worst-case neighbouring data sets of the kinds learner: vectors at opposite ends of the unit ball, and hostile ones.

Vectors are clipped to the unit ball as Score-VI's are, so the same pairs are the worst
(:mod:`reticent.agents.score.audit_hooks`).
"""

from __future__ import annotations

import dataclasses

from reticent.agents.score.audit_hooks import ScoreHooks
from reticent.learning.plan import AnyPlan, without_ties


@dataclasses.dataclass(frozen=True)
class KindHooks(ScoreHooks):
    """What the audit must know of the kinds learner (:mod:`reticent.audit.hooks`); an observation is a vector ``(k,)``."""

    def comparable(self, plan: AnyPlan) -> AnyPlan:
        """The plan with choices blanked where two actions are as good: rounding may decide those either way."""
        return plan._replace(policy=without_ties(plan.policy, plan.action_values))
