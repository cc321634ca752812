# SPDX-License-Identifier: Apache-2.0
"""The zoo: one small file per named world; importing this package registers them all."""

from reticent.worlds.zoo import (
    contextual_bandit,
    glucose,
    hard_instance,
    icu_sepsis,
    keyboard,
    large_blend,
    linear_mdp,
    mobile_health,
    random_blend,
    riverswim,
    tutor,
)

__all__ = [
    "contextual_bandit",
    "glucose",
    "hard_instance",
    "icu_sepsis",
    "keyboard",
    "large_blend",
    "linear_mdp",
    "mobile_health",
    "random_blend",
    "riverswim",
    "tutor",
]
