# SPDX-License-Identifier: Apache-2.0
"""Broken variants of factors: the clip and the noise of the vector, raw numbers in what is published, and devices that know
more than their own user. Importing this registers them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import examinations as ex
import factors_examinations as examined
import jax.numpy as jnp

from mutants import MOVED, QUICK, Patch, mutant
from reticent.agents.factors import learner, options, vectors
from reticent.agents.factors.learner import FactorsLearner
from reticent.agents.factors.vectors import TasteVectors

NAME = "private-factors"
ROUNDS = {"first": 0.05, "growth": 1.0, "epsilon": 8.0}
"""Rounds of one user each in a tiny world."""

WORST, REPLAYED = ex.bounded(NAME, **ROUNDS), ex.replayed_users(NAME, **ROUNDS)
OFTEN = ex.bounded(NAME, contributions=4, **ROUNDS)
LOCAL, NOISE = ex.replayed_users(NAME, trust="local", **ROUNDS), ex.law_of(NAME, **ROUNDS)

MU, PLANS, RELEASES = "this pair has mu", "plans are not a function", "releases are not a function"

QUICK |= {"taste-vector-not-clipped", "taste-of-the-user-before"}


# -- the vector ---------------------------------------------------------------------------------------------------------


@mutant("factors: the vector is not clipped; posterior means are bounded for most users", WORST, MOVED)
def taste_vector_not_clipped(patch: Patch) -> None:
    patch.setattr(vectors, "clip_norm", lambda seen, *_: jnp.nan_to_num(seen))


@mutant("factors: every coordinate is clipped to 1, not the whole vector", WORST, MOVED + "|" + MU)
def tastes_clipped_one_by_one(patch: Patch) -> None:
    patch.setattr(vectors, "clip_norm", lambda seen, *_: jnp.clip(jnp.nan_to_num(seen), -1, 1))


@mutant("factors: the device sends the posterior mean itself, without radius and clip", examined.clipped, "unclipped")
def posterior_sent(patch: Patch) -> None:
    patch.setattr(TasteVectors, "report", lambda self, seen, noise: self.send(seen[None], noise))


@mutant("factors: a replaced user is taken to move the sum by one radius, not two", WORST, MU + "|" + MOVED)
def one_radius_for_two_tastes(patch: Patch) -> None:
    real = options.calibrate_vectors

    def halved(*given: Any, **named: Any) -> Any:
        found = real(*given, **named)
        return dataclasses.replace(found, scale=found.scale / 2, sensitivity=found.sensitivity / 2)

    patch.setattr(options, "calibrate_vectors", halved)


@mutant("factors: a returning user's later visits are not charged for", OFTEN, MU)
def later_visits_not_charged(patch: Patch) -> None:
    # The ledger is right, but the sums are noised for one visit.
    real = options.TasteVectors
    patch.setattr(options, "TasteVectors", lambda *, noise_scale, **rest: real(noise_scale=noise_scale / 2, **rest))


@mutant("factors: the first factor, which moves most, has half the noise", NOISE, "has a scale")
def first_factor_told_too_loudly(patch: Patch) -> None:
    real = TasteVectors._draw
    patch.setattr(TasteVectors, "_draw", lambda self, key, prefix: real(self, key, prefix).at[..., 0].multiply(0.5))


@mutant("factors, local: the device leaves its own noise out", LOCAL, RELEASES)
def tastes_reported_without_noise(patch: Patch) -> None:
    real = TasteVectors.report
    patch.setattr(TasteVectors, "report", lambda self, seen, noise: real(self, seen, jnp.zeros_like(noise)))


# -- raw numbers in what is published -------------------------------------------------------------------------------------


def _knowing_raw(change: Callable[[Any, Any], Any]) -> Callable[[Patch], None]:
    """Posteriors of the mean that are changed by the raw sum ``(m,)`` of the round."""

    def apply(patch: Patch) -> None:
        close = FactorsLearner.close

        def closing(self: FactorsLearner, state: Any, *rest: Any) -> Any:
            after = close(self, state, *rest)
            return after._replace(past=change(after.past, state.aggregate.open[0]))

        patch.setattr(FactorsLearner, "close", closing)

    return apply


@mutant("factors: the mean follows the raw sum instead of its release", REPLAYED, PLANS)
def mean_from_raw_data(patch: Patch) -> None:
    _knowing_raw(lambda past, raw: past._replace(mean=past.mean + 0.1 * raw))(patch)


@mutant("factors: the mean is shrunk where the raw sum is long, so that few users cannot move it", REPLAYED, PLANS)
def mean_shrunk_by_raw_data(patch: Patch) -> None:
    _knowing_raw(lambda past, raw: past._replace(mean=past.mean / (1 + jnp.linalg.norm(raw))))(patch)


# -- devices that know more than their own user -------------------------------------------------------------------------


@mutant("factors: a device begins with the taste of the user before", examined.own, "items depend|vectors depend")
def taste_of_the_user_before(patch: Patch) -> None:
    remember, begin, kept = FactorsLearner.remember, FactorsLearner.empty_memory, {}

    def remembering(self: FactorsLearner, *given: Any) -> Any:
        kept["taste"] = remember(self, *given)
        return kept["taste"]

    def beginning(self: FactorsLearner, plan: Any) -> Any:
        new = begin(self, plan)
        return new._replace(mean=kept["taste"].mean) if kept else new

    patch.setattr(FactorsLearner, "remember", remembering)
    patch.setattr(FactorsLearner, "empty_memory", beginning)


@mutant("factors: a vector is formed from the taste that earlier users left behind", examined.own, "vectors depend")
def vector_from_all_users(patch: Patch) -> None:
    real, total = learner.after_episode, []

    def after(items: Any, mean: Any, actions: Any, rewards: Any) -> Any:
        known = real(items, mean, actions, rewards)
        total.append(known.mean)
        return known._replace(mean=jnp.stack(total).mean(axis=0))

    patch.setattr(learner, "after_episode", after)


@mutant(
    "factors: vectors are formed with the pilot's mean and not that of their round", examined.served, "not the score"
)
def prior_of_another_round(patch: Patch) -> None:
    real = learner.after_episode
    patch.setattr(learner, "after_episode", lambda items, mean, *rest: real(items, jnp.zeros_like(mean), *rest))
