# SPDX-License-Identifier: Apache-2.0
"""Examinations of the release of effects after a study: replay, the law of its noise, an attack, and coverage."""

from __future__ import annotations

import dataclasses

import numpy as np
from examinations import Examination, _named

from reticent.audit import effects as audited
from reticent.audit import lower_bounds
from reticent.inference import Decisions
from reticent.inference import effects as inference
from reticent.simulation import micro_study

DAYS, PEOPLE = 4, 3


def _question(clip: float = np.inf) -> audited.Contrast:
    return dataclasses.replace(micro_study.contrast(0.1).over_days(DAYS), clip=clip)


def _persons(question: audited.Contrast) -> list[Decisions]:
    """The corners of the proof, and people who do what cannot be."""
    extreme = audited.extreme_person
    shape = (1, len(question.groups))
    impossible = Decisions(
        np.zeros(shape, int), np.ones(shape, int), np.full(shape, np.nan), np.full((*shape, 2), 1e-9)
    )
    rare = extreme(question, 0, 1, 1.0)
    return [
        rare, extreme(question, 0, 1, 0.0), extreme(question, 0, 0, 1.0), extreme(question, 2, 1, 1.0),
        extreme(question, 4, 0, 0.0), extreme(question, 0, 1, 1.0, often=3), impossible,
        rare._replace(outcomes=np.full(shape, 1e9)), rare._replace(outcomes=np.full(shape, np.nan)),
        rare._replace(probabilities=rare.probabilities * np.array([1.0, 1e-6])),
    ]  # fmt: skip


def replayed(adjacency: str) -> Examination:
    """Every two of them against each other, or each against nobody, with and without a radius of the question's own."""

    def examine() -> list[str]:
        findings: list[str] = []
        for clip in (np.inf, 0.5):
            question = _question(clip)
            plan = inference.plan_effects(question, PEOPLE, epsilon=1.0, adjacency=adjacency)  # type: ignore[arg-type]
            persons = _persons(question)
            for hers in persons:
                people = Decisions(*(np.repeat(field, PEOPLE, axis=0) for field in hers))
                for other in persons if adjacency == "replace" else [None]:
                    findings += audited.replay_effects(plan, people, 1, other).findings
        return list(dict.fromkeys(findings))

    return _named(examine, "replay", {"effects": adjacency})


def law(draws: int = 300) -> Examination:
    """The noise that a deployment's analysis really has."""

    def examine() -> list[str]:
        plan = inference.plan_effects(_question(), PEOPLE, epsilon=1.0, deployment=True)
        return audited.check_effects_noise(plan, draws=draws)

    return _named(examine, "distribution", {"effects": draws})


def attacked(trials: int = 20_000) -> Examination:
    """The matched filter against two who are as far apart as can be; a right release is called wrong once in a thousand
    seeds, and the seed is fixed."""

    def examine() -> list[str]:
        question = _question(0.5)
        plan = inference.plan_effects(question, PEOPLE, epsilon=4.0)
        canary, other = audited.extreme_pair(question, 0, 2)
        scores = audited.play_effects(plan, canary, other, trials, np.random.default_rng(3))
        bound = lower_bounds(scores.without, scores.present, 1e-5, 0.999).lower_bound.epsilon
        return [f"epsilon is at least {bound:.3f}, claimed 4"] if bound > 4.0 else []

    return _named(examine, "audit", {"effects": trials})


def covered(studies: int = 200) -> Examination:
    """95 % intervals of so many studies of 400 people, without privacy and at ε = 3; below 92 % of 600 comes by chance once
    in a thousand."""

    def examine() -> list[str]:
        question = micro_study.contrast(0.1)
        sums = micro_study.play(0.1, studies, 100, 4, 901)
        findings = []
        for epsilon in (None, 3.0):
            plan = inference.plan_effects(question, 400, epsilon=epsilon)
            noisy = sums + np.random.default_rng(5).normal(size=sums.shape) * plan.scales
            found = inference.estimate(plan, noisy)
            share = ((found.low <= micro_study.EFFECTS) & (found.high >= micro_study.EFFECTS)).mean()
            if share < 0.92:
                findings.append(f"at epsilon {epsilon} 95 % intervals cover {100 * share:.0f} %")
        return findings

    return _named(examine, "coverage", {"effects": studies})


REPLAYED, ZEROED, LAW, ATTACKED, COVERED = replayed("replace"), replayed("zero-out"), law(), attacked(), covered()
