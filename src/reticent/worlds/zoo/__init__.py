"""The zoo: one small file per named world; importing this package registers them all."""

from reticent.worlds.zoo import (
    glucose,
    hard_instance,
    icu_sepsis,
    keyboard,
    large_blend,
    mobile_health,
    random_blend,
    riverswim,
    tutor,
)

__all__ = [
    "glucose",
    "hard_instance",
    "icu_sepsis",
    "keyboard",
    "large_blend",
    "mobile_health",
    "random_blend",
    "riverswim",
    "tutor",
]
