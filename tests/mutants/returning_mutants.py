# SPDX-License-Identifier: Apache-2.0
"""Broken variants of what protects people who return. Importing this registers them."""

from __future__ import annotations

import dataclasses
from typing import Any

import examinations as ex
import numpy as np
import returning_examinations as served

from mutants import QUICK, Patch, mutant
from reticent.agents.score import calibration
from reticent.audit.sequential import NoiseMonitor
from reticent.learning.schedule import Schedule
from reticent.privacy.participation import Participation
from reticent.service.rounds.canaries import Canaries
from reticent.service.rounds.returning import Returning
from reticent.simulation import returning
from reticent_client import budget, episode
from reticent_wire import billboard

PUNCTUAL, LATE = ex.attended(0.0), ex.attended(6.0)
LOCAL = ex.attended(0.0, trust="local")
MU = r"a person who returns has mu"

QUICK |= {
    "root-of-g-forgotten", "late-reports-not-asked-about", "service-counts-whatever-arrives",
    "device-acts-without-the-floor",
}  # fmt: skip


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


# -- in the service and on the device ---------------------------------------------------------------------------------


@mutant("a service counts whatever arrives: two late reports of one person are in one round", served.ARRIVALS,
        "counts two reports of one person")  # fmt: skip
def service_counts_whatever_arrives(patch: Patch) -> None:
    patch.setattr(Returning, "counts", lambda self, tx, name, identity, number: True)


@mutant("a service asks about the round that a person was admitted to, not about the one that counts the report",
        served.ARRIVALS,
        "counts two reports of one person")  # fmt: skip
def service_asks_about_another_round(patch: Patch) -> None:
    from reticent.service.store import visits

    patch.setattr(visits, "rounds_counted", lambda tx, name: [])


@mutant("a service gives one person two places in a round", served.ARRIVALS, "two places in one round")
def service_asks_nothing_at_the_door(patch: Patch) -> None:
    patch.setattr(Returning, "admits", lambda self, tx, name, number: True)


@mutant("a service that turns a returning person away leaves a place empty: whether they tried shows", served.ARRIVALS,
        "takes a place")  # fmt: skip
def turning_away_takes_a_place(patch: Patch) -> None:
    from reticent.service.rounds.admit import Admissions
    from reticent.service.store import records

    real = Admissions._not_learned_from

    def told(self: Admissions, identity: str, version: int, reason: str) -> Any:
        if reason == "too-soon":
            with self.context.store.write() as tx:
                records.count_admissions(tx, 1)
        return real(self, identity, version, reason)

    patch.setattr(Admissions, "_not_learned_from", told)


@mutant("a device's budget forgets in which rounds it was spent", served.DEVICE, "two reports of one round leave")
def budget_forgets_rounds(patch: Patch) -> None:
    patch.setattr(budget, "may_contribute", lambda *given: True)


@mutant("a device acts by the plan and leaves the floor out", served.FLOOR, "are not those of the agent|never taken")
def device_acts_without_the_floor(patch: Patch) -> None:
    patch.setattr(billboard.Billboard, "floored", lambda self, chosen, uniform=None: chosen)


@mutant("a device logs the probability of the plan's action, whichever it took", served.FLOOR, "logged probabilities")
def device_logs_the_plans_probability(patch: Patch) -> None:
    real = billboard.Billboard.probability_of
    patch.setattr(billboard.Billboard, "probability_of", lambda self, chosen, action: real(self, chosen, chosen))


@mutant("a device sends its log of decisions with the report", served.DEVICE, "the log of decisions leaves")
def decisions_sent_with_the_report(patch: Patch) -> None:
    real = episode.SUBMISSIONS["local"]

    def sent(model: Any, played: Any) -> Any:
        kind, content = real(model, played)
        return kind, {**content, "probabilities": [0.5]}

    patch.setitem(episode.SUBMISSIONS, "local", sent)


# -- canaries of a service ----------------------------------------------------------------------------------------------


@mutant("a service measures its canaries in the units of the code that draws their noise", served.WATCHING,
        "do not find a tenth")  # fmt: skip
def canaries_in_units_of_the_code(patch: Patch) -> None:
    patch.setattr(Canaries, "_promised", property(lambda self: self._mechanism.noise_scale))


@mutant("the evidence of canaries begins anew with every release", served.WATCHING, "do not find a tenth")
def canaries_forget_their_evidence(patch: Patch) -> None:
    real = Canaries.monitor

    def fresh(self: Canaries, tx: Any) -> Any:
        found = real(self, tx)
        return NoiseMonitor(found.alpha, found.law, found.resolution)

    patch.setattr(Canaries, "monitor", fresh)


@mutant("canaries get noise of their own, not that of users' rounds", served.WATCHING, "do not find a tenth")
def canaries_of_other_noise(patch: Patch) -> None:
    good = np.random.default_rng(3)
    patch.setattr(Canaries, "release", lambda self: good.normal(size=(self.count, int((self._promised > 0).sum()))))
