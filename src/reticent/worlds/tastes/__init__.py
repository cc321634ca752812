# SPDX-License-Identifier: Apache-2.0
"""Tastes: items whose rewards are linear in a hidden vector of each user, fitted from a pilot, simulated or recorded."""

from reticent.worlds.tastes.fitting import TasteFit, fit_tastes
from reticent.worlds.tastes.model import TasteModel, make_taste_model
from reticent.worlds.tastes.recorded import RecordedTastes, recorded_tastes
from reticent.worlds.tastes.world import TasteWorld, random_tastes, taste_world

__all__ = [
    "RecordedTastes",
    "TasteFit",
    "TasteModel",
    "TasteWorld",
    "fit_tastes",
    "make_taste_model",
    "random_tastes",
    "recorded_tastes",
    "taste_world",
]
