# SPDX-License-Identifier: Apache-2.0
"""Broken variants of the release of effects after a study. Importing this registers them."""

from __future__ import annotations

import dataclasses
from typing import Any

import effects_examinations as ex
import numpy as np

from mutants import QUICK, Patch, mutant
from reticent.audit import effects as audited
from reticent.errors import InvalidInput
from reticent.inference import Contrast, Decisions
from reticent.inference import contrast as question_of
from reticent.inference import effects as inference
from reticent.simulation import micro_study

MOVED = r"moved by|this pair has mu"

QUICK |= {"residuals-not-clipped", "one-radius-between-two-people", "intervals-without-the-noise"}


@mutant("effects: residuals are not clipped, since weights are bounded; a radius of the question's own is not", ex.REPLAYED,
        "the residuals moved by")  # fmt: skip
def residuals_not_clipped(patch: Patch) -> None:
    patch.setattr(question_of, "clip_norm", lambda values, bound, library: values)


@mutant("effects: nothing is clipped, and a probability may be as small as a person says", ex.REPLAYED, MOVED)
def weights_beyond_the_floor(patch: Patch) -> None:
    residuals_not_clipped(patch)
    real = question_of.contributions

    def broken(contrast: Contrast, seen: Decisions) -> np.ndarray:
        loose = dataclasses.replace(contrast, floor=1e-12)
        found, size = real(loose, seen), contrast.size
        found[..., :size] *= loose.residual_bound / contrast.residual_bound
        return found

    patch.setattr(audited, "contributions", broken)


@mutant("effects: each day of a person is clipped and counted by itself, and charged for once", ex.ZEROED, MOVED)
def days_counted_one_by_one(patch: Patch) -> None:
    real = question_of.contributions

    def broken(contrast: Contrast, seen: Decisions) -> np.ndarray:
        steps = len(contrast.groups) // ex.DAYS
        day = dataclasses.replace(contrast, groups=contrast.groups[:steps], baseline=0.5)
        parts = [slice(number * steps, (number + 1) * steps) for number in range(ex.DAYS)]
        return np.sum([real(day, Decisions(*(field[:, part] for field in seen))) for part in parts], axis=0)

    patch.setattr(audited, "contributions", broken)


@mutant("effects: squares are of residuals before their clip", ex.REPLAYED, "the squares moved by")
def squares_before_the_clip(patch: Patch) -> None:
    real = question_of.contributions

    def broken(contrast: Contrast, seen: Decisions) -> np.ndarray:
        found, size = real(contrast, seen), contrast.size
        whole = dataclasses.replace(contrast, clip=np.inf)
        found[..., 2 * size :] = (real(whole, seen)[..., :size] * whole.residual_bound / contrast.residual_bound) ** 2
        return found

    patch.setattr(audited, "contributions", broken)


@mutant("effects: what is no number passes, and spoils the sum", ex.ZEROED, MOVED)
def outcomes_that_are_none(patch: Patch) -> None:
    real = question_of.contributions

    def broken(contrast: Contrast, seen: Decisions) -> np.ndarray:
        found = real(contrast, seen)
        found[~np.isfinite(seen.outcomes).all(axis=-1)] = np.nan
        return found

    patch.setattr(audited, "contributions", broken)


@mutant(
    "effects: a probability below the floor is refused, which reveals that a person has one",
    ex.ZEROED,
    "stop the analysis",
)
def low_probability_refused(patch: Patch) -> None:
    real = question_of.contributions

    def broken(contrast: Contrast, seen: Decisions) -> np.ndarray:
        if (seen.probabilities < contrast.floor * (1 - 1e-9)).any():
            raise InvalidInput("probabilities", "one below", f"at least {contrast.floor}", "look at the log")
        return real(contrast, seen)

    patch.setattr(audited, "contributions", broken)


@mutant("effects: a replaced person is taken to move sums as far as one who is left out", ex.REPLAYED, MOVED)
def one_radius_between_two_people(patch: Patch) -> None:
    real = inference.plan_effects

    def broken(contrast: Contrast, users: int, **options: Any) -> Any:
        return real(contrast, users, **{**options, "adjacency": "zero-out"})

    patch.setattr(inference, "plan_effects", broken)


@mutant("effects: noise is drawn once, for all three tables", ex.LAW, "is dependent")
def one_draw_for_all_tables(patch: Patch) -> None:
    real = audited.release

    def broken(plan: Any, users: np.ndarray, noise: Any) -> np.ndarray:
        size = plan.contrast.size
        drawn = real(plan, np.zeros_like(users), noise)[:size] / plan.scales[:size]
        return np.asarray(users.sum(axis=0) + np.tile(drawn, 3) * plan.scales)

    patch.setattr(audited, "release", broken)


@mutant("effects: each table has the noise of the whole budget", ex.ATTACKED, "epsilon is at least")
def whole_budget_for_each_table(patch: Patch) -> None:
    real = audited.release

    def broken(plan: Any, users: np.ndarray, noise: Any) -> np.ndarray:
        louder = np.repeat(np.sqrt(inference.SHARES), plan.contrast.size)
        return real(dataclasses.replace(plan, scales=plan.scales * louder), users, noise)

    patch.setattr(audited, "release", broken)


@mutant("effects: intervals forget the noise", ex.COVERED, "at epsilon 3.0 95 % intervals cover")
def intervals_without_the_noise(patch: Patch) -> None:
    real = inference.estimate

    def broken(plan: Any, released: np.ndarray) -> Any:
        return real(dataclasses.replace(plan, scales=0 * plan.scales), released)

    patch.setattr(inference, "estimate", broken)


@mutant(
    "effects: decisions are not weighted by their probabilities", ex.COVERED, "at epsilon None 95 % intervals cover"
)
def effects_without_weights(patch: Patch) -> None:
    real = question_of.contributions

    def broken(contrast: Contrast, seen: Decisions) -> np.ndarray:
        return real(contrast, seen._replace(probabilities=np.full_like(seen.probabilities, 0.5)))

    patch.setattr(micro_study, "contributions", broken)
