# SPDX-License-Identifier: Apache-2.0
"""Broken variants of the flagship's privacy code, one clipped vector per user. Importing this registers them.

Asked of every line of ``agents/score``: could it move with one user's raw data, and does a check fail if it did?
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import examinations as ex
import jax.numpy as jnp
import numpy as np

from mutants import MOVED, QUICK, Patch, mutant
from reticent.agents.score import calibration, options, posterior_update, unit_ball
from reticent.agents.score.learner import ScoreLearner
from reticent.agents.score.unit_ball import UnitBall
from reticent.privacy import noise
from reticent.privacy.clipping import clip_norm
from reticent.privacy.counters import SeparateRounds
from reticent.privacy.trust.local import Local
from reticent.privacy.trust.shuffle import Shuffle

NAME = "private-score-vi"
ROUNDS = {"first": 0.1, "growth": 1.0, "epsilon": 8.0, "residual": "off"}
"""Rounds of one user each in a tiny world; ``score_residual_mutants`` has those of the residual block."""

WORST, REPLAYED = ex.bounded(NAME, **ROUNDS), ex.replayed_users(NAME, **ROUNDS)
GRID = ex.bounded(NAME, random=40, deployment=True, **ROUNDS)
LOCAL, LOCAL_NOISE = ex.replayed_users(NAME, trust="local", **ROUNDS), ex.law_of(NAME, trust="local", **ROUNDS)
NOISE, COINS = ex.law_of(NAME, **ROUNDS), ex.law_of(NAME, trust="shuffle", **ROUNDS)
SHUFFLED = ex.bounded(NAME, random=40, trust="shuffle", **ROUNDS)
OUTSIDE = ex.attacked(NAME, 100_000, **ROUNDS)

MEMORIES = "memories are not a function"
MU, PLANS, RELEASES = "this pair has mu", "plans are not a function", "releases are not a function"

QUICK |= {
    "vector-not-clipped",
    "vector-clipped-by-coordinate",
    "vector-clipped-by-part",
    "vector-counted-before-its-clip",
    "one-radius-for-two-users",
    "vector-grid-unaccounted",
    "reward-part-too-quiet",
    "half-of-the-coins",
    "coarse-rounding-unaccounted",
}


# -- what is published beside the plan ------------------------------------------------------------------------------------


@mutant("flagship: what is published of the agent's memory has the raw sum of the round in it", REPLAYED, MEMORIES)
def memory_with_the_raw_sum(patch: Patch) -> None:
    close, memory, raw = ScoreLearner.close, ScoreLearner.public_memory, []

    def closing(self: ScoreLearner, state: Any, plan: Any, users: Any, drawn: Any = None) -> Any:
        raw[:] = [jnp.abs(state.aggregate.open).sum()]
        return close(self, state, plan, users, drawn)

    def remembered(self: ScoreLearner, state: Any) -> Any:
        found = memory(self, state)
        return found._replace(alarms=found.alarms + sum(raw))

    patch.setattr(ScoreLearner, "close", closing)
    patch.setattr(ScoreLearner, "public_memory", remembered)


# -- the clip -----------------------------------------------------------------------------------------------------------


@mutant("flagship: the vector is not clipped; it is short for people who behave", WORST, MOVED)
def vector_not_clipped(patch: Patch) -> None:
    patch.setattr(UnitBall, "clip", lambda self, seen: jnp.nan_to_num(seen))


@mutant("flagship: each coordinate is clipped instead of the whole vector", WORST, MOVED)
def vector_clipped_by_coordinate(patch: Patch) -> None:
    patch.setattr(UnitBall, "clip", lambda self, seen: jnp.clip(jnp.nan_to_num(seen), -1.0, 1.0))


@mutant("flagship: transitions and rewards are clipped apart, each to the whole radius", WORST, MOVED)
def vector_clipped_by_part(patch: Patch) -> None:
    def clip(self: UnitBall, seen: Any) -> Any:
        cut = self.basis.shape[1]
        return jnp.concatenate([clip_norm(seen[:cut], 1.0), clip_norm(seen[cut:], 1.0)])

    patch.setattr(UnitBall, "clip", clip)


@mutant("flagship: what is not a number is found after the length was taken, and passes the clip", WORST, MOVED)
def vector_counted_before_its_clip(patch: Patch) -> None:
    def clip(self: UnitBall, seen: Any) -> Any:
        length = jnp.sqrt((seen**2).sum())
        # NaN > 1 is false, so the other coordinates of such a vector are left as long as they are.
        return jnp.nan_to_num(jnp.where(length > 1, seen / length, seen), posinf=0.0, neginf=0.0)

    patch.setattr(UnitBall, "clip", clip)


# -- too little noise by calculation ------------------------------------------------------------------------------------


@mutant("flagship: a replaced user is taken to move the sum by one radius, not two", WORST, MU + "|" + MOVED)
def one_radius_for_two_users(patch: Patch) -> None:
    def calibrated(*given: Any, real: Any = calibration.calibrate_vectors, **named: Any) -> Any:
        found = real(*given, **named)
        return calibration.dataclasses.replace(found, scale=found.scale / 2, sensitivity=found.sensitivity / 2)

    patch.setattr(options, "calibrate_vectors", calibrated)


@mutant("flagship: vectors are rounded to a coarse grid, and the sensitivity is not raised for it", GRID, MU)
def vector_grid_unaccounted(patch: Patch) -> None:
    real = calibration.calibrate_vectors

    def calibrated(*given: Any, **named: Any) -> Any:
        found = real(*given, **{**named, "deployment": False})
        return calibration.dataclasses.replace(found, grid=noise.grid_for(found.scale, bits=3))

    patch.setattr(options, "calibrate_vectors", calibrated)


@mutant(
    "flagship, shuffled: values are rounded to a coarse grid, and the sensitivity is not raised for it", SHUFFLED, MU
)
def coarse_rounding_unaccounted(patch: Patch) -> None:
    real = Shuffle.send
    patch.setattr(Shuffle, "send", lambda self, value, drawn, grid: real(self, value, drawn, 8 * grid))


@mutant("flagship: the last round's sum is released again with the next, under fresh noise", REPLAYED, "exposure is")
def sum_carried_over(patch: Patch) -> None:
    class Carried(NamedTuple):
        t: Any
        last: Any
        exact: Any

    def init(self: SeparateRounds, shape: tuple[int, ...], dtype: Any) -> Carried:
        return Carried(jnp.int32(0), jnp.zeros(shape, dtype), jnp.zeros(shape, dtype))

    def close(self: SeparateRounds, state: Carried, item: Any, drawn: Any) -> Carried:
        return Carried(state.t + 1, state.exact + item + drawn, state.exact + item)

    patch.setattr(SeparateRounds, "init", init)
    patch.setattr(SeparateRounds, "close", close)


# -- noise that is not there, or of another law -------------------------------------------------------------------------


@mutant("flagship: the first round's users act at random, so its sum is released without noise", REPLAYED, RELEASES)
def first_round_without_noise(patch: Patch) -> None:
    real = UnitBall.close
    patch.setattr(
        UnitBall, "close", lambda self, state, drawn: real(self, state, jnp.where(state.rounds == 0, 0.0, drawn))
    )


@mutant("flagship: the noise on the reward part is in units of the other part's scale", NOISE, "has a scale")
def reward_part_too_quiet(patch: Patch) -> None:
    real = UnitBall._draw

    def draw(self: UnitBall, key: Any, prefix: tuple[int, ...]) -> Any:
        return real(self, key, prefix).at[..., self.basis.shape[1] :].multiply(0.85)

    patch.setattr(UnitBall, "_draw", draw)


@mutant("flagship, local: reports leave without noise", LOCAL, "not covered by its own noise")
def vector_sent_without_noise(patch: Patch) -> None:
    real = Local.send
    patch.setattr(Local, "send", lambda self, value, drawn, grid: real(self, value, 0 * drawn, grid))


@mutant("flagship, local: noise for a sum, spread over the users of a round", LOCAL_NOISE, "calibrated scale")
def local_noise_of_a_sum(patch: Patch) -> None:
    real = UnitBall._draw
    patch.setattr(UnitBall, "_draw", lambda self, key, prefix: real(self, key, prefix) / 2)


@mutant("flagship, shuffled: half of the coins are flipped", COINS, "calibrated scale")
def half_of_the_coins(patch: Patch) -> None:
    real = unit_ball.PrivateSums._draw
    patch.setattr(UnitBall, "_draw", lambda self, key, prefix: real(self, key, prefix) / 2**0.5)


@mutant("flagship: noise 10% too small, seen from outside at 10⁵ trials", OUTSIDE, "epsilon is at least")
def quiet_vectors_audited(patch: Patch) -> None:
    real = UnitBall._draw
    patch.setattr(UnitBall, "_draw", lambda self, key, prefix: 0.9 * real(self, key, prefix))


# -- raw numbers in what is published -----------------------------------------------------------------------------------


def _knowing_raw(change: Callable[[Any, Any], Any]) -> Callable[[Patch], None]:
    """Plans that are changed by the last round's raw sum ``(D,)``."""

    def apply(patch: Patch) -> None:
        close, plan, kept = ScoreLearner.close, ScoreLearner.plan, {}

        def closing(self: ScoreLearner, state: Any, *rest: Any) -> Any:
            kept["raw"] = state.aggregate.open[0]
            return close(self, state, *rest)

        def planning(self: ScoreLearner, state: Any, **asked: Any) -> Any:
            made = plan(self, state, **asked)
            if int(state.rounds) == 0:
                return made
            return made._replace(extension=change(made.extension, kept["raw"]))

        patch.setattr(ScoreLearner, "close", closing)
        patch.setattr(ScoreLearner, "plan", planning)

    return apply


@mutant("flagship: the radius follows the length of the last raw sum", REPLAYED, PLANS)
def radius_from_data(patch: Patch) -> None:
    _knowing_raw(
        lambda made, raw: made._replace(
            reference=made.reference._replace(radius=made.reference.radius * (1 + jnp.linalg.norm(raw)))
        )
    )(patch)


@mutant("flagship: vectors are whitened by the spread of the users' own", REPLAYED, PLANS)
def whitening_from_data(patch: Patch) -> None:
    _knowing_raw(
        lambda made, raw: made._replace(
            reference=made.reference._replace(whiten=made.reference.whiten / (0.1 + jnp.abs(raw[0])))
        )
    )(patch)


@mutant("flagship: the reference is moved by the raw sum of the round that was open", REPLAYED, PLANS)
def reference_from_the_open_round(patch: Patch) -> None:
    _knowing_raw(
        lambda made, raw: made._replace(
            reference=made.reference._replace(reward_theta=made.reference.reward_theta + 0.01 * raw[-1])
        )
    )(patch)


@mutant("flagship: how many explore depends on how surprising the last users were", REPLAYED, PLANS)
def explorers_follow_the_data(patch: Patch) -> None:
    _knowing_raw(lambda made, raw: made._replace(explorers=made.explorers + (jnp.abs(raw).max() > 0.1)))(patch)


@mutant("flagship: the posterior is updated before the noise is added", REPLAYED, PLANS)
def posterior_of_the_exact_sum(patch: Patch) -> None:
    real = ScoreLearner.close

    def close(self: ScoreLearner, state: Any, plan: Any, users: Any, drawn: Any = None) -> Any:
        exact = real(self, state, plan, users, 0 * drawn)
        return real(self, state, plan, users, drawn)._replace(past=exact.past)

    patch.setattr(ScoreLearner, "close", close)


@mutant("flagship: the clip's offset is measured on the round's users, not on replicas", REPLAYED, PLANS)
def replicas_of_real_users(patch: Patch) -> None:
    real = posterior_update.clip_effect_of

    def effect(self: ScoreLearner, state: Any, plan: Any) -> Any:
        return real(self, state, plan)._replace(offset=plan.extension.reference.radius * state.aggregate.open[0])

    patch.setattr(posterior_update, "clip_effect_of", effect)


@mutant("flagship: the replicas' random numbers are seeded by the raw sum", REPLAYED, PLANS)
def replicas_seeded_by_data(patch: Patch) -> None:
    real = posterior_update.clip_effect_of

    def effect(self: ScoreLearner, state: Any, plan: Any) -> Any:
        moved = int(np.abs(np.asarray(state.aggregate.open)).sum() * 1e6) % 1000
        return real(self, state._replace(rounds=state.rounds + moved), plan)

    patch.setattr(posterior_update, "clip_effect_of", effect)


@mutant("flagship: how many vectors were clipped is logged, to tune the radius", REPLAYED, "log line depends")
def clipped_users_logged(patch: Patch) -> None:
    real = UnitBall.clip

    def clip(self: UnitBall, seen: Any) -> Any:
        if float(jnp.linalg.norm(seen)) > 1:
            print("a vector was clipped")
        return real(self, seen)

    patch.setattr(UnitBall, "clip", clip)
