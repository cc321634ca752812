# SPDX-License-Identifier: Apache-2.0
"""Broken variants of kinds: the clip and the noise of the vector, raw numbers in what is published, and beliefs or
histories that reach the server. Importing this registers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import examinations as ex
import jax
import jax.numpy as jnp
import kinds_examinations as examined
import numpy as np

from mutants import MOVED, QUICK, Patch, mutant
from reticent.agents.kinds import options, vectors
from reticent.agents.kinds.learner import KindsLearner
from reticent.agents.kinds.vectors import KindVectors
from reticent.agents.score.learner import ScoreLearner
from reticent.worlds.episode import by_visit
from reticent_client import submission
from reticent_client.episode import Episode
from reticent_client.stays import StayFile
from reticent_wire.forms import kinds as wire_kinds
from reticent_wire.forms.form import Form
from reticent_wire.forms.kinds import KindVector

NAME = "private-kinds"
ROUNDS = {"first": 0.05, "growth": 1.0, "epsilon": 8.0}
"""Rounds of one user each in a tiny world."""

WORST, REPLAYED = ex.bounded(NAME, **ROUNDS), ex.replayed_users(NAME, **ROUNDS)
PLANNED = ex.replayed_users(NAME, plan="point-based", points=1, **ROUNDS)
LOCAL, NOISE = ex.replayed_users(NAME, trust="local", **ROUNDS), ex.law_of(NAME, **ROUNDS)

MU, PLANS, RELEASES = "this pair has mu", "plans are not a function", "releases are not a function"
FIELDS, REQUESTS = "other fields than the documented", "depend on what happened"

QUICK |= {"kind-vector-not-clipped", "belief-sent-with-the-report", "report-only-of-the-certain"}


# -- the vector ---------------------------------------------------------------------------------------------------------


@mutant("kinds: the vector is not clipped; likelihood ratios are bounded for most users", WORST, MOVED)
def kind_vector_not_clipped(patch: Patch) -> None:
    patch.setattr(vectors, "clip_norm", lambda seen, *_: jnp.nan_to_num(seen))


@mutant("kinds: one client sends the vector of the wire without its clip", examined.clipped, "unclipped")
def kind_vector_unclipped_on_the_device(patch: Patch) -> None:
    patch.setattr(wire_kinds, "clip_norm", lambda vector, *_: vector)


@mutant("kinds: a replaced user is taken to move the sum by one radius, not two", WORST, MU + "|" + MOVED)
def one_radius_for_two_kinds(patch: Patch) -> None:
    real = options.calibrate_vectors

    def calibrated(*given: Any, **named: Any) -> Any:
        found = real(*given, **named)
        return options.dataclasses.replace(found, scale=found.scale / 2, sensitivity=found.sensitivity / 2)

    patch.setattr(options, "calibrate_vectors", calibrated)


@mutant("kinds: the coordinate that tells the blend from the kinds has half the noise", NOISE, "has a scale")
def blend_told_too_loudly(patch: Patch) -> None:
    real = KindVectors._draw
    patch.setattr(KindVectors, "_draw", lambda self, key, prefix: real(self, key, prefix).at[..., -1].multiply(0.5))


@mutant("kinds, local: the device leaves its own noise out", LOCAL, RELEASES)
def kinds_report_without_noise(patch: Patch) -> None:
    real = KindVectors.report
    patch.setattr(KindVectors, "report", lambda self, seen, noise: real(self, seen, jnp.zeros_like(noise)))


# -- stays --------------------------------------------------------------------------------------------------------------


def _visit_by_visit(patch: Patch, family: Any) -> None:
    """Reports of stays that are clipped visit by visit, and added up."""

    def report(self: Any, plan: Any, stay: Any, noise: Any = None) -> Any:
        alone = options.dataclasses.replace(self, visits=1)
        each = jax.vmap(lambda visit: self.aggregator.report(alone.statistic(plan, visit), noise))
        return each(by_visit(stay, self.visits)).sum(axis=0)

    patch.setattr(family, "report", report)


@mutant("kinds: every visit of a stay is clipped, and not the stay as a whole", examined.stays, "more than two")
def stay_clipped_visit_by_visit(patch: Patch) -> None:
    _visit_by_visit(patch, KindsLearner)


@mutant("score: every visit of a stay is clipped, and not the stay as a whole", examined.stays, "more than two")
def score_stay_clipped_visit_by_visit(patch: Patch) -> None:
    _visit_by_visit(patch, ScoreLearner)


@mutant(
    "kinds: a stay is kept until its report was sent, so that a report that was lost is formed again",
    examined.kept_stays,
    "second report",
)
def second_report_of_a_stay(patch: Patch) -> None:
    patch.setattr(StayFile, "take", StayFile.holds)


@mutant(
    "kinds: after every visit of a stay the device asks whether the deployment goes on",
    examined.kept_stays,
    "between visits",
)
def status_after_every_visit(patch: Patch) -> None:
    real = Episode._keep_visits

    def keeping(self: Episode) -> None:
        real(self)
        if self.step:
            self._client.status()

    patch.setattr(Episode, "_keep_visits", keeping)


# -- raw numbers in what is published -------------------------------------------------------------------------------------


def _knowing_raw(change: Callable[[Any, Any], Any]) -> Callable[[Patch], None]:
    """Plans whose extensions are changed by the last round's raw sum ``(k,)``."""

    def apply(patch: Patch) -> None:
        close, plan, kept = KindsLearner.close, KindsLearner.plan, {}

        def closing(self: KindsLearner, state: Any, *rest: Any) -> Any:
            kept["raw"] = state.aggregate.open[0]
            return close(self, state, *rest)

        def planning(self: KindsLearner, state: Any, **asked: Any) -> Any:
            made = plan(self, state, **asked)
            return made if int(state.rounds) == 0 else made._replace(extension=change(made.extension, kept["raw"]))

        patch.setattr(KindsLearner, "close", closing)
        patch.setattr(KindsLearner, "plan", planning)

    return apply


@mutant("kinds: the shares w follow the raw sum instead of its release", REPLAYED, PLANS)
def shares_from_raw_data(patch: Patch) -> None:
    def shares(made: Any, raw: Any) -> Any:
        moved = made.shares * jnp.exp(jnp.append(raw, 0.0))
        return made._replace(shares=moved / moved.sum())

    _knowing_raw(shares)(patch)


@mutant("kinds: the radius follows the length of the last raw sum", REPLAYED, PLANS)
def kinds_radius_from_data(patch: Patch) -> None:
    _knowing_raw(
        lambda made, raw: made._replace(rule=made.rule._replace(radius=made.rule.radius * (1 + jnp.linalg.norm(raw))))
    )(patch)


@mutant("kinds: the blend is remade from what users sent, not from w", REPLAYED, PLANS)
def blend_from_raw_data(patch: Patch) -> None:
    _knowing_raw(lambda made, raw: made._replace(blend=made.blend + 0.01 * raw))(patch)


@mutant("kinds: the plan over beliefs follows from what users sent, not from w", PLANNED, PLANS)
def belief_plan_from_raw_data(patch: Patch) -> None:
    def course(made: Any, raw: Any) -> Any:
        vectors = made.course.vectors.at[..., :-1].add(0.01 * raw)
        return made._replace(course=made.course._replace(vectors=vectors))

    _knowing_raw(course)(patch)


# -- beliefs and histories that leave the device ------------------------------------------------------------------------


def _with_report(patch: Patch, extra: Callable[[Any], dict[str, Any]]) -> None:
    real = submission.SUBMISSIONS["local"]

    def formed(model: Any, played: Any) -> Any:
        kind, content = real(model, played)
        return kind, {**content, **extra(played)}

    patch.setitem(submission.SUBMISSIONS, "local", formed)


@mutant("kinds: the device sends its belief with the report, so that the service can show it", examined.fields, FIELDS)
def belief_sent_with_the_report(patch: Patch) -> None:
    def belief(played: Any) -> dict[str, Any]:
        likelihoods = wire_kinds.Belief(examined.KINDS, played.billboard).probabilities
        return {"belief": np.asarray(likelihoods).tolist()}

    _with_report(patch, belief)


@mutant("kinds: the states of the episode are sent with the report, for the next visit", examined.fields, FIELDS)
def history_sent_with_the_report(patch: Patch) -> None:
    _with_report(patch, lambda played: {"states": played.seen.states.tolist()})


@mutant("kinds: only users whose belief has become certain send a report", examined.requests, REQUESTS)
def report_only_of_the_certain(patch: Patch) -> None:
    real = Episode.submit

    def submit(self: Episode) -> Any:
        known = self.belief
        if known is not None and known.max() < 0.7:
            self.abandon()
            return None
        return real(self)

    patch.setattr(Episode, "submit", submit)


@mutant("kinds: the device asks for the billboard again when its belief is certain", examined.requests, REQUESTS)
def billboard_by_belief(patch: Patch) -> None:
    real = Episode.observe

    def observe(self: Episode, reward: Any, following: Any) -> None:
        real(self, reward, following)
        known = self.belief
        if known is not None and known.max() > 0.7:
            self._client.connection.get(f"/v1/billboards/{self.version}")

    patch.setattr(Episode, "observe", observe)


@mutant(
    "kinds: the server acts by the plan of a new user, whatever the episode was",
    examined.acting,
    "server acts",
)
def server_acts_without_the_episode(patch: Patch) -> None:
    patch.setattr(KindVector, "act", Form.act)
