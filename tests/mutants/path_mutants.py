# SPDX-License-Identifier: Apache-2.0
"""Broken variants of the deployed path, by class: refusal, silence, lateness, rollback, rare failure, wire.

A refusal, a silence or a delay that moves what others see is a release. Importing this registers them.
"""

from __future__ import annotations

from typing import Any

import examinations as ex
import numpy as np
import path_examinations as path
from rare_mutants import drawing, silence

from mutants import QUICK, Patch, mutant
from reticent.errors import InvalidInput
from reticent.service import public_configuration as service_terms
from reticent.service.embedded import DeployedAgent, Ticket
from reticent.service.mechanism import Mechanism
from reticent.service.rounds import public_views
from reticent.service.rounds.close import Closing
from reticent.service.rounds.deployment import Deployment
from reticent.service.store import records
from reticent_client import discrete_gaussian, shuffler, submission
from reticent_client import episode as device
from reticent_wire import model as wire_model
from reticent_wire.forms import score as wire_score

CLASSES: dict[str, tuple[str, ...]] = {
    "refusal": (
        "out-of-range-refused", "refused-ticket-gives-its-place-back", "refusal-quotes-values",
        "reward-out-of-range-stops-the-device",
    ),
    "silence": (
        "skipped-place-goes-to-the-next", "round-waits-for-all-reports", "reports-that-came-are-counted-in-public",
        "empty-report-without-noise", "empty-submission-without-coins", "leaving-sends-nothing",
        "batch-posted-when-all-have-sent", "batch-of-those-who-sent", "dummies-without-coins",
    ),
    "lateness": (
        "expired-place-is-given-again", "late-report-opens-its-round-again", "late-report-counted-twice",
        "late-vector-in-old-coordinates", "lost-batch-stops-the-learning", "late-batch-taken",
        "latecomer-added-to-a-fixed-batch",
    ),
    "rollback": (
        "noise-redrawn-on-retry", "retry-counted-again", "second-admission-after-a-retry", "report-noised-again-on-retry",
        "batch-made-again-after-a-refusal", "batch-made-again-after-a-restart",
    ),
    "rare failure": (
        "noise-forgotten-once-in-a-thousand", "noise-repeated-once-in-a-thousand", "one-number-forgotten-rarely",
        "secure-noise-forgotten-rarely", "secure-noise-repeated-rarely", "vector-noise-forgotten-once-in-a-thousand",
    ),
    "wire": (
        "device-does-not-clip", "device-rounds-down", "device-in-single-precision", "device-counts-one-radius",
        "device-noise-too-quiet", "place-of-another-user", "trajectory-beside-the-report",
    ),
}  # fmt: skip
"""At least three of every class that the audit of a library alone would not see."""

QUICK |= {
    "out-of-range-refused",
    "refusal-quotes-values",
    "round-waits-for-all-reports",
    "empty-report-without-noise",
    "late-report-counted-twice",
    "retry-counted-again",
    "secure-noise-forgotten-rarely",
    "device-does-not-clip",
    "device-rounds-down",
    "device-counts-one-radius",
    "device-noise-too-quiet",
}

RELEASES, PUBLIC = "number of releases depends", "what is published|was refused"


def _out_of_range(episode: Any) -> bool:
    rewards = np.asarray(episode.rewards)
    return rewards.dtype.kind == "f" and not ((rewards >= 0) & (rewards <= 1)).all()


# -- refusal ------------------------------------------------------------------------------------------------------------


@mutant("values out of range are refused, and the next user takes the place (we had this one)",
        path.replayed_path("order", "refusal"), RELEASES + "|" + PUBLIC)  # fmt: skip
def out_of_range_refused(patch: Patch) -> None:
    real = Mechanism.played

    def played(self: Mechanism, episode: Any, place: int | None) -> Any:
        if _out_of_range(episode):
            raise InvalidInput("rewards", "out of range", "in [0, 1]", "send others")
        return real(self, episode, place)

    patch.setattr(Mechanism, "played", played)


@mutant("a ticket whose episode is refused gives its place back", path.replayed_path("tickets", "malformed"), PUBLIC)
def refused_ticket_gives_its_place_back(patch: Patch) -> None:
    real = DeployedAgent._submit_late

    def submit(self: DeployedAgent, user: Any, *rest: Any) -> None:
        try:
            real(self, user, *rest)
        except InvalidInput:
            self._users.discard(user.user if isinstance(user, Ticket) else user)
            raise

    patch.setattr(DeployedAgent, "_submit_late", submit)


@mutant("the text of a refusal quotes what the user sent (we had this one)", path.quoted(), "quotes her")
def refusal_quotes_values(patch: Patch) -> None:
    real = service_terms.well_formed

    def quoting(sizes: Any, states: Any, actions: Any, rewards: Any, place: int | None = None) -> Any:
        try:
            return real(sizes, states, actions, rewards, place)
        except InvalidInput as wrong:
            raise InvalidInput(wrong.field, f"{states} {rewards}", wrong.bound, "correct it") from None

    patch.setattr(service_terms, "well_formed", quoting)


@mutant("a reward out of range stops the episode on the device (we had this one)", path.ON_DEVICE, "stops an episode")
def reward_out_of_range_stops_the_device(patch: Patch) -> None:
    def strict(reward: float) -> float:
        if not 0 <= reward <= 1:
            raise InvalidInput("reward", "out of range", "in [0, 1]", "correct it")
        return reward

    patch.setattr(device, "reward_within", strict)


# -- silence ------------------------------------------------------------------------------------------------------------


@mutant("the place of a user who does not come goes to the next", path.replayed_path("order", "expiry"),
        RELEASES + "|" + PUBLIC)  # fmt: skip
def skipped_place_goes_to_the_next(patch: Patch) -> None:
    patch.setattr(DeployedAgent, "skip", lambda self, user: self._require_in_order(user))


@mutant("a round ends when all its reports have come, not when its users have", path.replayed_path("tickets", "silence"),
        RELEASES + "|" + PUBLIC)  # fmt: skip
def round_waits_for_all_reports(patch: Patch) -> None:
    real = DeployedAgent._end_full_round

    def end(self: DeployedAgent) -> None:
        if not any(ticket.version == self.version for ticket in self._out.values()):
            real(self)

    patch.setattr(DeployedAgent, "_end_full_round", end)


@mutant("how many reports have come is published", path.replayed_path("service", "silence"), PUBLIC)
def reports_that_came_are_counted_in_public(patch: Patch) -> None:
    real = public_views.status

    def status(deployment: Deployment, world: str | None = None) -> dict[str, Any]:
        with deployment.store.read() as tx:
            return {**real(deployment, world), "waiting": records.open_episodes(tx)}

    patch.setattr(public_views, "status", status)


@mutant("a device's empty report is empty: zeros without noise", path.device_law(), "an empty report")
def empty_report_without_noise(patch: Patch) -> None:
    real = path.device_report.noised_report

    def report(model: Any, billboard: Any, seen: Any) -> Any:
        return np.zeros(model.rules.noise_scale.shape, np.int64) if seen is None else real(model, billboard, seen)

    patch.setattr(path.device_report, "noised_report", report)


@mutant("who shows nothing flips no coins", path.empty_messages(), "has not its user's coins")
def empty_submission_without_coins(patch: Patch) -> None:
    real = submission.form_messages

    def form(model: Any, billboard: Any, seen: Any, number: int, within: int) -> Any:
        made = real(model, billboard, seen, number, within)
        return made if seen is not None else made._replace(ones=0 * made.ones + model.rules.shuffle.reach)

    patch.setattr(submission, "form_messages", form)


@mutant("a device whose user leaves early sends nothing in the local model", path.ON_DEVICE, "sees who left")
def leaving_sends_nothing(patch: Patch) -> None:
    def leave(self: device.Episode, problem: BaseException | None) -> str:
        self.abandon()
        return "nothing was submitted"

    patch.setattr(device.Episode, "_leave", leave)


# -- lateness -----------------------------------------------------------------------------------------------------------


@mutant("the place of a user whose time is over is given to another", path.replayed_path("service", "expiry"),
        PUBLIC + "|" + RELEASES)  # fmt: skip
def expired_place_is_given_again(patch: Patch) -> None:
    real = Closing.expire

    def expire(self: Closing) -> int:
        due = real(self)
        with self.context.store.write() as tx:
            clock = records.deployment(tx, lock=True)
            records.change_deployment(tx, admitted=clock.admitted - due)
        return due

    patch.setattr(Closing, "expire", expire)


@mutant("a late report opens its own round again, which is released once more", path.replayed_path("tickets", "lateness"),
        RELEASES + "|" + PUBLIC)  # fmt: skip
def late_report_opens_its_round_again(patch: Patch) -> None:
    real = DeployedAgent._submit_late

    def submit(self: DeployedAgent, user: Any, contribution: Any, reference: int | None) -> None:
        late = user.version < self.version
        before = self._open
        real(self, user, contribution, reference)
        if late:
            added = self._open - before
            self._open = before
            self._state, _ = self.mechanism.close(
                user.version, self._state, self._board, added, self.mechanism.round_noise()
            )

    patch.setattr(DeployedAgent, "_submit_late", submit)


@mutant(
    "a late report is counted in two rounds", path.replayed_path("tickets", "lateness"), "not the sum of its contrib"
)
def late_report_counted_twice(patch: Patch) -> None:
    real = DeployedAgent._submit_late

    def submit(self: DeployedAgent, user: Any, contribution: Any, reference: int | None) -> None:
        late, before = user.version < self.version, self._open
        real(self, user, contribution, reference)
        if late:
            self._open = self._open + (self._open - before)

    patch.setattr(DeployedAgent, "_submit_late", submit)


@mutant("flagship: a late vector is formed under the plan its user was served, in another round's coordinates",
        path.replayed_path("tickets", "lateness"), "coordinates of another round")  # fmt: skip
def late_vector_in_old_coordinates(patch: Patch) -> None:
    patch.setattr(
        DeployedAgent, "_formed_under", lambda self, ticket: self._board if ticket is None else ticket.billboard
    )


# -- rollback -----------------------------------------------------------------------------------------------------------


@mutant("a submission that is repeated counts again", path.replayed_path("service", "retries"),
        "how often or in which order|not the sum of its contrib")  # fmt: skip
def retry_counted_again(patch: Patch) -> None:
    patch.setattr(records, "mark_counted", lambda tx, identities: None)


@mutant("a user who asks again after a lost answer is admitted again", path.replayed_path("service", "retries"), PUBLIC)
def second_admission_after_a_retry(patch: Patch) -> None:
    patch.setattr(records, "admissions", lambda tx, names: {})
    patch.setattr(records, "count_users", lambda tx, names, limit: set(names))


@mutant("a device draws its noise again when it repeats a submission", path.ON_DEVICE, "noise is drawn again")
def report_noised_again_on_retry(patch: Patch) -> None:
    real = device.Episode.submission.fget

    def fresh(self: device.Episode) -> Any:
        self._submission = None
        return real(self)

    patch.setattr(device.Episode, "submission", property(fresh))


@mutant("a shuffler whose batch was refused makes another one", path.TWO_BATCHES, "two different batches")
def batch_made_again_after_a_refusal(patch: Patch) -> None:
    real = shuffler.Shuffler.finish

    def finish(self: shuffler.Shuffler, number: int) -> None:
        try:
            real(self, number)
        except Exception:
            self._round(number).batch = None
            raise

    patch.setattr(shuffler.Shuffler, "finish", finish)


# -- rare failure -------------------------------------------------------------------------------------------------------


def _rarely(patch: Patch, bad: Any) -> None:
    real, chance = Mechanism._draw, np.random.default_rng(9)

    def draw(self: Mechanism, prefix: tuple[int, ...]) -> np.ndarray:
        drawn = real(self, prefix)
        return bad(drawn) if chance.random() < 5e-3 else drawn

    patch.setattr(Mechanism, "_draw", draw)


@mutant("a deployment forgets its noise in one round of two hundred", path.deployed_law(), "has no noise")
def secure_noise_forgotten_rarely(patch: Patch) -> None:
    _rarely(patch, np.zeros_like)


@mutant("a deployment falls back to stored noise in one round of two hundred", path.deployed_law(),
        "two draws of noise are the same|depends on another's")  # fmt: skip
def secure_noise_repeated_rarely(patch: Patch) -> None:
    stored: dict[Any, np.ndarray] = {}
    _rarely(patch, lambda drawn: stored.setdefault(drawn.shape, drawn))


@mutant("flagship: noise is forgotten once in a thousand rounds", ex.searched("private-score-vi", first=0.1, growth=1.0),
        "no noise on a whole release")  # fmt: skip
def vector_noise_forgotten_once_in_a_thousand(patch: Patch) -> None:
    drawing(silence, 1e-3, patch)


# -- wire ---------------------------------------------------------------------------------------------------------------


@mutant("a device does not clip its vector", path.same_on_the_wire(), "longer than the radius")
def device_does_not_clip(patch: Patch) -> None:
    patch.setattr(wire_score, "clipped", lambda vector, xp=np: vector)


@mutant(
    "a device rounds down where the rest of the world rounds to the nearest", path.same_on_the_wire(), "other numbers"
)
def device_rounds_down(patch: Patch) -> None:
    patch.setattr(wire_model, "quantize", lambda values, grid: np.floor(np.asarray(values) / grid).astype(np.int64))


@mutant("a device computes in single precision", path.same_on_the_wire(), "other numbers")
def device_in_single_precision(patch: Patch) -> None:
    real = wire_score.weigh

    def weigh(seen: Any, weights: Any, pooled: bool) -> np.ndarray:
        return np.asarray(real(type(seen)(*(np.asarray(part, np.float32) for part in seen)), weights, pooled))

    patch.setattr(wire_score, "weigh", weigh)


@mutant("a device works out its promise as if two users were one radius apart", path.demanding(), "0.5 of the noise")
def device_counts_one_radius(patch: Patch) -> None:
    real = wire_score.ScoreVector.strength
    patch.setattr(wire_score.ScoreVector, "strength", lambda self, sizes, rules: real(self, sizes, rules) / 2)


@mutant("a device's noise is 0.85 of what the rules say", path.device_law(), "calibrated scale")
def device_noise_too_quiet(patch: Patch) -> None:
    real = discrete_gaussian.draw
    patch.setattr(discrete_gaussian, "draw", lambda scale, grid: real(0.85 * scale, grid))


@mutant("a device forms its vector as if it had another's place", path.same_on_the_wire(), "other numbers")
def place_of_another_user(patch: Patch) -> None:
    patch.setattr(wire_score, "serves_explorer", lambda billboard, place: False)


@mutant("the trajectory travels beside the report, for debugging", path.ON_DEVICE, "more leaves the device")
def trajectory_beside_the_report(patch: Patch) -> None:
    real = submission.SUBMISSIONS["local"]

    def sent(model: Any, played: Any) -> Any:
        kind, content = real(model, played)
        return kind, {**content, "rewards": None if played.seen is None else played.seen.rewards.tolist()}

    patch.setitem(submission.SUBMISSIONS, "local", sent)
