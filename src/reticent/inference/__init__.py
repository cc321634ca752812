# SPDX-License-Identifier: Apache-2.0
"""After a study: what a treatment does, from users' decisions, as private releases of their own.

``contrast`` says what one user's decisions tell about an effect; ``effects`` releases the sum over users with noise,
and turns it into estimates with intervals. A study can be analysed so if every action had a chance at every decision:
the option ``floor`` of ``private-score-vi`` (docs/randomisation.md).
"""

from reticent.inference.contrast import Contrast, Decisions, contributions
from reticent.inference.effects import Effects, EffectsPlan, estimate, plan_effects, release, total_guarantee

__all__ = [
    "Contrast",
    "Decisions",
    "Effects",
    "EffectsPlan",
    "contributions",
    "estimate",
    "plan_effects",
    "release",
    "total_guarantee",
]
