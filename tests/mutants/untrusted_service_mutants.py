# SPDX-License-Identifier: Apache-2.0
"""Broken variants of what a device keeps to whatever its service says. Importing this registers them."""

from __future__ import annotations

import contextlib
import random
import secrets
from typing import Any

import numpy as np
import untrusted_service_examinations as examined

from mutants import QUICK, Patch, mutant
from reticent_client import client, discrete_gaussian, episode, messages
from reticent_client.budget import Budget
from reticent_wire import billboard, history, model, promise
from reticent_wire.errors import ReticentError
from reticent_wire.forms.score import ScoreVector

PREDICTABLE = "was asked by reticent_"

QUICK |= {
    "default-budget-in-memory", "charged-after-sending", "promise-of-one-report-of-three", "missing-value-stops-the-device",
    "explorers-plan-unchecked", "first-state-for-the-place", "report-under-the-served-version",
    "clipped-values-counted-aloud", "redraw-from-random", "coarse-grid-for-nothing",
    "model-of-an-ended-deployment",
}  # fmt: skip


@mutant("a device's budget is kept in memory unless the app says where", examined.restored, "second report")
def default_budget_in_memory(patch: Patch) -> None:
    patch.setattr(Budget, "default", lambda **rules: Budget.in_memory(**rules))


@mutant("the default budget is named after the process", examined.restored, "second report")
def default_budget_of_the_process(patch: Patch) -> None:
    real = Budget.default
    patch.setattr(Budget, "default", lambda **rules: real(**{**rules, "scope": secrets.token_hex(4)}))


@mutant("an episode of a ticket is charged to a budget of its own", examined.ticketed, "second report")
def ticket_with_a_budget_of_its_own(patch: Patch) -> None:
    real = client.Client.begin

    def begin(self: Any, ticket: Any) -> Any:
        self.__dict__["budget"] = Budget.in_memory()
        return real(self, ticket)

    patch.setattr(client.Client, "begin", begin)


@mutant("a report is charged to the budget after it was sent", examined.crashed, "before its charge")
def charged_after_sending(patch: Patch) -> None:
    due: list[tuple[Any, ...]] = []
    real_spend, real_send = Budget.spend, client.Client.send

    def send(self: Any, submission: Any) -> Any:
        receipt = real_send(self, submission)
        while due:
            real_spend(*due.pop())
        return receipt

    patch.setattr(Budget, "spend", lambda *charge: due.append(charge))
    patch.setattr(client.Client, "send", send)


@mutant("the charge is written when the client is closed", examined.crashed, "before its charge")
def charged_when_closed(patch: Patch) -> None:
    due: list[tuple[Any, ...]] = []
    real_spend, real_close = Budget.spend, client.Client.close

    def close(self: Any) -> None:
        while due:
            real_spend(*due.pop())
        real_close(self)

    patch.setattr(Budget, "spend", lambda *charge: due.append(charge))
    patch.setattr(client.Client, "close", close)


@mutant("a device checks the epsilon of one report where its budget allows three (TypeScript's client had this one)",
        examined.several, "three reports")  # fmt: skip
def promise_of_one_report_of_three(patch: Patch) -> None:
    real = promise.require_promise
    patch.setattr(client, "require_promise", lambda model, epsilon, delta, reports: real(model, epsilon, delta))


@mutant("a reward that is missing stops the episode (we had this one)", examined.missing, "ends the episode")
def missing_value_stops_the_device(patch: Patch) -> None:
    patch.setattr(episode, "reward_within", lambda reward: min(max(float(reward), 0.0), 1.0))


@mutant(
    "an observation that there is not is refused, and stops the episode (we had this one)",
    examined.unlisted,
    "ends the",
)
def unlisted_observation_refused(patch: Patch) -> None:
    def within(number: Any, below: int) -> int:
        if number is None or not 0 <= number < below:
            raise ReticentError("an observation that there is not")
        return int(number)

    patch.setattr(history, "index_within", within)


@mutant("the explorers' plan is not checked when it is read (we had this one)", examined.planted, "planted action")
def explorers_plan_unchecked(patch: Patch) -> None:
    patch.setattr(ScoreVector, "require_plan", lambda self, board: None)


@mutant("a check of plans lets NaN pass, which is neither too small nor too large", examined.planted, "planted action")
def nan_passes_for_an_action(patch: Patch) -> None:
    from reticent_wire.forms import score

    def require(field: str, plan: np.ndarray, actions: int) -> None:
        if (plan < 0).any() or (plan >= actions).any():
            raise billboard.InvalidInput(field, "an action that there is not", "another", "ask the operator")

    patch.setattr(score, "require_actions", require)


@mutant("NumPy warns the users who meet an infinity of a hostile service, and no others (we had this one)",
        examined.infinite, "stops the device")  # fmt: skip
def infinity_warns_those_who_meet_it(patch: Patch) -> None:
    patch.setattr(model, "_quietly", contextlib.nullcontext)


@mutant("a device takes its user's first state for the place", examined.placed, "acts by another place")
def first_state_for_the_place(patch: Patch) -> None:
    def choose(self: Any, state: int) -> tuple[int, float]:
        return self._billboard.choose(self.step, state, self._states[0]._value), 1.0  # past the typed boundary

    patch.setattr(episode.Episode, "_choose", choose)


@mutant("a report is made as if its user did not explore", examined.placed, "formed for another place")
def report_without_the_place(patch: Patch) -> None:
    real = episode.Episode.trajectory
    patch.setattr(episode.Episode, "trajectory", property(lambda self: real.fget(self).within(_placeless)))


def _placeless(seen: Any) -> Any:
    return seen._replace(place=None)


@mutant("a report is formed under the version that its user was served, which its round does not refer to",
        examined.referred, "does not refer to")  # fmt: skip
def report_under_the_served_version(patch: Patch) -> None:
    patch.setattr(client.Client, "reference", lambda self, served, own: self.billboard(served))


@mutant("a device keeps the model of a deployment that has ended, and its noise (we had this one)", examined.outlived,
        "a deployment that has ended")  # fmt: skip
def model_of_an_ended_deployment(patch: Patch) -> None:
    patch.setattr(client.Client, "require_rules", lambda self, opened: None)


@mutant("a device says how many of its user's values were clipped", examined.fields, "leave with report")
def clipped_values_counted_aloud(patch: Patch) -> None:
    real = episode.Submission
    patch.setattr(episode, "Submission", lambda id_, kind, content: real(id_, kind, {**content, "clipped": 0}))


@mutant("a device names its software when it opens an episode", examined.fields, "leave with episodes")
def version_named_at_the_door(patch: Patch) -> None:
    real = episode.Episode.named
    patch.setattr(episode.Episode, "named", property(lambda self: {**real.fget(self), "client": "0.1"}))


@mutant("a device's noise is redrawn from Python's `random`, one draw in some", examined.entropy, PREDICTABLE)
def redraw_from_random(patch: Patch) -> None:
    real, asked = secrets.randbelow, []

    def below(n: int) -> int:
        asked.append(n)
        return random.randrange(n) if len(asked) % 97 == 0 else real(n)

    patch.setattr(discrete_gaussian.secrets, "randbelow", below)


@mutant("values for a shuffler are rounded by NumPy's generator", examined.entropy, PREDICTABLE)
def rounded_by_a_seeded_generator(patch: Patch) -> None:
    patch.setattr(messages, "_uniforms", lambda shape: np.random.default_rng(0).random(shape))


@mutant("coins for a shuffler are NumPy's", examined.entropy, PREDICTABLE)
def coins_of_a_seeded_generator(patch: Patch) -> None:
    patch.setattr(messages, "secure_coins", lambda count: np.random.default_rng(0).random(count) < 0.5)


@mutant(
    "a device accounts noise on a coarse grid as if it were Gaussian (we had this one)",
    examined.coarse,
    "costs nothing",
)
def coarse_grid_for_nothing(patch: Patch) -> None:
    patch.setattr(promise, "discrete_distance", lambda model, reports=1: 0.0)
