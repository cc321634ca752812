"""Broken variants of what protects people who return. Importing this registers them."""

from __future__ import annotations

import dataclasses
from typing import Any

import examinations as ex
import numpy as np

from mutants import QUICK, Patch, mutant
from reticent.agents.score import calibration
from reticent.learning.schedule import Schedule
from reticent.privacy.participation import Participation
from reticent.simulation import returning

PUNCTUAL, LATE = ex.attended(0.0), ex.attended(6.0)
LOCAL = ex.attended(0.0, trust="local")
MU = r"a person who returns has mu"

QUICK |= {"root-of-g-forgotten", "late-reports-not-asked-about"}


@mutant("returning users are charged for one contribution", PUNCTUAL, MU)
def root_of_g_forgotten(patch: Patch) -> None:
    patch.setattr(calibration, "exposure_of", lambda trust, participation, rounds: np.ones_like(rounds, float))


@mutant("the same in the local model", LOCAL, MU)
def root_of_g_forgotten_locally(patch: Patch) -> None:
    root_of_g_forgotten(patch)


@mutant("several contributions of one person are counted in one round", PUNCTUAL, MU)
def several_in_one_round(patch: Patch) -> None:
    _asking(patch, per_round=4)


@mutant("people may contribute once more than their noise is for", PUNCTUAL, MU)
def once_too_often(patch: Patch) -> None:
    _asking(patch, contributions=5)


@mutant("a late report is counted in whatever round is open, beside another of the same person", LATE, MU)
def late_reports_not_asked_about(patch: Patch) -> None:
    real = returning.attend

    def attend(schedule: Schedule, persons: int, often: Participation, seed: int, *, mean_delay: float) -> Any:
        delays = np.random.default_rng(seed).geometric(1 / (1 + mean_delay), schedule.episodes) - 1
        arrival = np.searchsorted(schedule.ends, np.arange(schedule.episodes) + delays, side="right")
        counted = np.where(arrival < schedule.releases, arrival, returning.NOT_COUNTED)
        return dataclasses.replace(real(schedule, persons, often, seed), counted=counted)

    patch.setattr(returning, "attend", attend)


def _asking(patch: Patch, **other: int) -> None:
    real = returning.allowed

    def allowed(participation: Participation, counted: Any, number: int) -> bool:
        return real(dataclasses.replace(participation, **other), counted, number)

    patch.setattr(returning, "allowed", allowed)
