# SPDX-License-Identifier: Apache-2.0
r"""The release of effects after a study (:mod:`reticent.inference`), held to its guarantee as agents are to theirs.

* :func:`replay_effects` carries out the proof: two studies that differ in one person, by all they ever did. With the same
  noise the movement of every block is held to its declared sensitivity and all of it to μ(ε, δ); with the noise that hides
  the movement, sums, estimates and intervals must be the same.
* :func:`check_effects_noise` tests the law of the noise that a release really has.
* :func:`play_effects` attacks: the adversary knows all others' data and scores what was released by the matched filter.

**How near an attack can come.** The blocks are charged as if one person moved each as far as it goes. No person can: if the
residuals change sign, their squares stay. With all of the first block and of the second a person has
:math:`\sqrt{0.7+0.1}=0.89` of μ, and more squares cost more residuals than they bring.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reticent.audit.distribution import noise_findings, promised_scales
from reticent.inference.contrast import Contrast, Decisions, contributions
from reticent.inference.effects import EffectsPlan, estimate, release
from reticent.privacy.guarantee import Guarantee
from reticent.privacy.neighbouring_datasets import Group, Replay, Scores
from reticent.privacy.noise import SecureNoise

__all__ = ["check_effects_noise", "extreme_pair", "extreme_person", "play_effects", "replay_effects"]


def extreme_person(
    contrast: Contrast, state: int, action: int, outcome: float, *, often: int | None = None
) -> Decisions:
    """A person who takes one action in one state, at the least possible probability, ``(1, H)``.

    From the ``often``-th decision on the person is in no group's state; by default never.
    """
    steps = len(contrast.groups)
    states = np.full((1, steps), state)
    states[:, steps if often is None else often :] = -1
    chances = np.full((1, steps, contrast.actions), contrast.floor)
    chances[..., contrast.control if action == contrast.treatment else contrast.treatment] = (
        1 - (contrast.actions - 1) * contrast.floor
    )
    return Decisions(states, np.full((1, steps), action), np.full((1, steps), outcome), chances)


def extreme_pair(contrast: Contrast, state: int, elsewhere: int) -> tuple[Decisions, Decisions]:
    """Two people ``(1, H)`` each who are as far apart as can be: residuals turned around, decisions in another group.

    The second needs as many decisions in ``state`` as fill the question's radius, which are all of them where it has none;
    at the others, ``elsewhere``, what follows is what was predicted.
    """
    steps = len(contrast.groups)
    baseline = np.broadcast_to(contrast.baseline, contrast.groups.shape)
    rich, poor = (extreme_person(contrast, state, contrast.treatment, outcome) for outcome in (1.0, 0.0))
    filled = contrast.clip / (contrast.scale / contrast.least * float(baseline[:, state].min()))
    few = steps if filled >= steps else math.ceil(filled)
    states, outcomes = poor.states.copy(), poor.outcomes.copy()
    states[:, few:], outcomes[:, few:] = elsewhere, baseline[few:, elsewhere]
    return rich, poor._replace(states=states, outcomes=outcomes)


def replay_effects(
    plan: EffectsPlan, people: Decisions, place: int, other: Decisions | None, *, seed: int = 0
) -> Replay:
    """The study of ``people`` ``(n, H)`` against the one in which ``other`` ``(1, H)`` is at ``place``; None is no person.

    Which of the two may change is the guarantee's adjacency: no person is the zero-out neighbour.
    """
    guarantee = _guarantee(plan)
    scales = promised_scales(guarantee, (1, len(plan.scales)))[0]
    try:
        users = contributions(plan.contrast, people)
        neighbours = users.copy()
        neighbours[place] = 0.0 if other is None else contributions(plan.contrast, other)[0]
    except Exception as refusal:  # whatever stops the analysis reveals something about a person
        return Replay((f"one person's data stop the analysis: {type(refusal).__name__}",), math.inf, 0.0)
    noise = np.random.default_rng(seed).normal(size=len(plan.scales))
    with np.errstate(all="ignore"):
        first, second = _Told(noise), _Told(noise)
        published = release(plan, users, first)
        moved = published - release(plan, neighbours, second)
        hidden = release(plan, neighbours, _Told(noise + moved / np.where(plan.scales > 0, plan.scales, 1.0)))
        realised = float(np.linalg.norm(moved / scales))
    groups = []
    findings = []
    for group in guarantee.groups:
        length = float(np.linalg.norm(moved[group.columns]))
        groups.append(Group(group.name, 1, length, group.sensitivity, length / scales[group.columns][0]))
        if not length <= group.sensitivity * (1 + 1e-9):
            findings.append(f"the {group.name} moved by {length:.6g}, declared {group.sensitivity:.6g}")
    if not realised <= guarantee.promised_strength * (1 + 1e-9):
        findings.append(f"this pair has mu = {realised:.6g}, but the promise allows {guarantee.promised_strength:.6g}")
    if first.requests != second.requests:
        findings.append("noise requests depend on one person's data")
    findings += [f"{what} differ although the noise hides the person" for what in _differences(plan, published, hidden)]
    return Replay(tuple(findings), realised, guarantee.promised_strength, tuple(groups))


def check_effects_noise(plan: EffectsPlan, *, draws: int = 400) -> list[str]:
    """Findings about the noise of a deployment's releases, read off releases of people who did nothing at all."""
    guarantee = _guarantee(plan)
    empty = np.zeros((plan.people, len(plan.scales)))
    drawn = np.stack([release(plan, empty, SecureNoise()) for _ in range(draws)])
    expected = promised_scales(guarantee, (1, len(plan.scales)))
    return noise_findings(drawn[:, None], expected, on_a_grid=True, whose="analysis")


def play_effects(
    plan: EffectsPlan, canary: Decisions, other: Decisions | None, trials: int, noise: SecureNoise | np.random.Generator
) -> Scores:
    """Scores of ``trials`` releases without and with the canary ``(1, H)``, among people who did nothing."""
    scales = promised_scales(_guarantee(plan), (1, len(plan.scales)))[0]
    studies = np.zeros((2, plan.people, len(plan.scales)))
    studies[1, 0] = contributions(plan.contrast, canary)[0]
    if other is not None:
        studies[0, 0] = contributions(plan.contrast, other)[0]
    moved = studies[1, 0] - studies[0, 0]
    strength = float(np.linalg.norm(moved / scales))
    filters = moved / scales**2 / strength
    without, present = (np.array([filters @ release(plan, users, noise) for _ in range(trials)]) for users in studies)
    return Scores(without, present, strength)


class _Told(np.random.Generator):
    """A generator whose normal numbers are given, and that keeps how many it was asked for."""

    def __init__(self, values: np.ndarray) -> None:
        super().__init__(np.random.PCG64(0))
        self.values, self.requests = values, []  # type: ignore[var-annotated]

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        self.requests.append(size)
        number = int(np.prod(size)) if size is not None else 1
        return loc + scale * np.resize(self.values, number).reshape(size)


def _differences(plan: EffectsPlan, published: np.ndarray, hidden: np.ndarray) -> list[str]:
    if not np.allclose(published, hidden, rtol=1e-9, atol=1e-9, equal_nan=True):
        return ["released sums"]
    one, two = (estimate(plan, released) for released in (published, hidden))
    fields = ("estimate", "low", "high", "decisions")
    return [
        field
        for field in fields
        if not np.allclose(getattr(one, field), getattr(two, field), rtol=1e-6, atol=1e-6, equal_nan=True)
    ]


def _guarantee(plan: EffectsPlan) -> Guarantee:
    assert plan.guarantee is not None, "a plan without privacy promises nothing that could be held to"
    return plan.guarantee
