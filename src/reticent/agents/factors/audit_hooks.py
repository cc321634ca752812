# SPDX-License-Identifier: Apache-2.0
"""Worst-case neighbouring data sets of the learner of tastes: vectors at opposite ends of the unit ball, and hostile ones.

Vectors are clipped to the unit ball as those of kinds are, so the same pairs are the worst
(:mod:`reticent.agents.kinds.audit_hooks`).
"""

from __future__ import annotations

import dataclasses

from reticent.agents.kinds.audit_hooks import KindHooks


@dataclasses.dataclass(frozen=True)
class TasteHooks(KindHooks):
    """What the audit must know of it (:mod:`reticent.audit.hooks`); an observation is a vector ``(m,)``."""
