# SPDX-License-Identifier: Apache-2.0
"""The audit: can an adversary who is as strong as the promise allows see more than the promise allows?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from reticent.audit.actions import Rollout, play_actions
from reticent.audit.bounds import Evidence, lower_bounds
from reticent.audit.degenerate_noise import DegenerateNoiseEvidence, degenerate_noise_evidence
from reticent.audit.hooks import OwnReleases
from reticent.audit.releases import play_releases
from reticent.audit.subject import Subject
from reticent.audit.worst_pair import worst_pair
from reticent.errors import InvalidInput, UnknownName
from reticent.learning.aggregator import PyTree
from reticent.learning.capabilities import audit_hooks
from reticent.privacy.guarantee import Guarantee
from reticent.privacy.neighbouring_datasets import Pair, Scores, Tell
from reticent.runtime import double_precision

__all__ = ["DEFAULT_CONFIDENCE", "Adversary", "Attack", "Audit", "Progress", "audit"]

Adversary = Literal["releases", "actions"]

DEFAULT_CONFIDENCE = 0.999
"""A correct mechanism is called violated in at most one audit of a thousand.

Exact calibration spends the whole budget, so the truth *is* the claim and there is no slack to absorb a false alarm: at
0.95 every twentieth audit of correct code would fail.
"""

Progress = Callable[[str, int, int], None]
"""Told (what is going on, trials done, trials in all)."""


@dataclasses.dataclass(frozen=True)
class Attack:
    """One canary and the result of its trials: scores, and noise that was missing or repeated."""

    canary: str
    origin: str
    scores: Scores
    evidence: Evidence
    degenerate: tuple[DegenerateNoiseEvidence, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "canary": self.canary,
            "origin": self.origin,
            "mu_possible": self.scores.possible if np.isfinite(self.scores.possible) else None,
            "method": self.evidence.best,
            "scores_normal": self.evidence.normal,
            "mu_estimate": self.evidence.mu_estimate,
            "false_positive_rate": self.evidence.rates[0],
            "false_negative_rate": self.evidence.rates[1],
            "lower_bounds": {
                name: {"epsilon": bound.epsilon, "mu": bound.mu} for name, bound in self.evidence.bounds.items()
            },
            "degenerate_noise": [one.to_dict() for one in self.degenerate],
        }


@dataclasses.dataclass(frozen=True)
class Audit:
    """The outcome of an audit. ``trials`` counts runs of each attack on either side, without and with the canary."""

    agent: str
    world: str
    adversary: Adversary
    guarantee: Guarantee
    episodes: int
    trials: int
    confidence: float
    seed: int
    attacks: tuple[Attack, ...]

    @property
    def claimed_epsilon(self) -> float:
        return self.guarantee.epsilon

    @property
    def delta(self) -> float:
        return self.guarantee.delta

    @property
    def claimed_mu(self) -> float | None:
        """The largest μ that the promise allows; None where the promise is no Gaussian mechanism's."""
        return None if self.guarantee.pure else self.guarantee.promised_strength

    @property
    def strongest(self) -> Attack:
        return max(self.attacks, key=lambda attack: attack.evidence.lower_bound.epsilon)

    @property
    def lower_bound_epsilon(self) -> float:
        return self.strongest.evidence.lower_bound.epsilon

    @property
    def verdict(self) -> Literal["consistent", "violated"]:
        return "violated" if self.lower_bound_epsilon > self.claimed_epsilon or self.degenerate else "consistent"

    @property
    def degenerate(self) -> tuple[DegenerateNoiseEvidence, ...]:
        """The violations by noise that was missing or repeated."""
        return tuple(one for attack in self.attacks for one in attack.degenerate if one.violated)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        best = self.strongest.evidence
        return {
            "claimed_epsilon": self.claimed_epsilon,
            "lower_bound_epsilon": self.lower_bound_epsilon,
            "method": best.best,
            "confidence": self.confidence,
            "verdict": self.verdict,
            "missing_noise": [one.sentence() for one in self.degenerate],
            "tightness": self.lower_bound_epsilon / self.claimed_epsilon,
            "delta": self.delta,
            "mu_claimed": self.claimed_mu,
            "mu_lower": best.lower_bound.mu,
            "mu_estimate": best.mu_estimate,
            "adversary": self.adversary,
            "trials": self.trials,
            "agent": self.agent,
            "world": self.world,
            "trust": self.guarantee.trust.name,
            "adjacency": self.guarantee.adjacency,
            "counter": self.guarantee.ledger.counter,
            "calibration": self.guarantee.calibration,
            "episodes": self.episodes,
            "seed": self.seed,
            "attacks": [attack.to_dict() for attack in self.attacks],
        }


@double_precision
def audit(
    subject: Subject,
    world: Any,
    *,
    adversary: Adversary = "releases",
    trials: int = 100_000,
    seed: int = 0,
    confidence: float = DEFAULT_CONFIDENCE,
    canaries: Sequence[tuple[str, Pair[PyTree]]] | None = None,
    rollout: Rollout | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Attack an agent with all its canaries and bound its ε from below; the one entry point for every kind of release.

    The *statistics* canary is the worst pair of observations that the code lets through, at or beyond the declared
    bounds; the *trajectory* canary the worst pair of episodes that ``world`` can produce. An agent that releases something
    else than noisy sums brings its own canaries and its own adversary. The confidence covers all attacks together (each
    has its share of what may go wrong). Noise that is missing or repeated, however rarely, is a violation by itself
    (:mod:`reticent.audit.degenerate_noise`, with a false alarm in 10⁹ beside the confidence).

    ``canaries`` replaces the ones that are searched for; ``rollout`` is needed for the actions adversary
    (:func:`reticent.simulation.rollout.rollout`).

    Raises:
      InvalidInput, UnknownName: too few trials, a confidence that is none, no such adversary, or none for this agent.
    """
    _check(adversary, trials, confidence, rollout)
    hooks = audit_hooks(subject.agent)
    own = hooks if isinstance(hooks, OwnReleases) else None
    if own is not None and adversary != "releases":
        raise InvalidInput(
            "adversary", adversary, "'releases' for this agent", "releases are all that others' plans see"
        )
    if canaries is None:
        canaries = own.canaries(world, seed) if own is not None else _canaries(subject, world, seed)
    each = 1.0 - (1.0 - confidence) / len(canaries)
    attacks = []
    for number, (name, pair) in enumerate(canaries):
        own_seed, tell = 2 * seed + number, _teller(progress, f"{name} canary", 2 * trials)
        if own is not None:
            scores = own.play(pair, trials, own_seed, tell)
        elif adversary == "releases":
            scores = play_releases(subject, pair, trials, own_seed, tell=tell)
        else:
            assert rollout is not None
            scores = play_actions(subject, pair, world, rollout, trials, own_seed, tell=tell)
        evidence = lower_bounds(
            scores.without, scores.present, subject.guarantee.delta, each, gaussian=not subject.pure
        )
        degenerate = degenerate_noise_evidence(scores.degenerate, subject.guarantee)
        attacks.append(Attack(name, pair.origin, scores, evidence, degenerate))
    return Audit(
        agent=subject.agent.name,
        world=getattr(world, "name", "custom"),
        adversary=adversary,
        guarantee=subject.guarantee,
        episodes=subject.agent.schedule.episodes,
        trials=trials,
        confidence=confidence,
        seed=seed,
        attacks=tuple(attacks),
    )


def _check(adversary: str, trials: int, confidence: float, rollout: Rollout | None) -> None:
    if adversary not in ("releases", "actions"):
        raise UnknownName("adversary", adversary, ["releases", "actions"])
    if trials < 1000:
        raise InvalidInput("trials", trials, "at least 1000", "10^5 tell noise that is 10% too small")
    if not 0.5 < confidence < 1:
        raise InvalidInput("confidence", confidence, "strictly between 0.5 and 1", f"use {DEFAULT_CONFIDENCE}")
    if adversary == "actions" and rollout is None:
        raise InvalidInput("rollout", None, "given for the actions adversary", "pass simulation.rollout.rollout")


def _canaries(subject: Subject, world: Any, seed: int) -> list[tuple[str, Pair[PyTree]]]:
    return [
        ("statistics", worst_pair(subject, seed=seed)[0]),
        ("trajectory", subject.neighbours.possible_pair(world, seed)),
    ]


def _teller(progress: Progress | None, what: str, total: int) -> Tell | None:
    return None if progress is None else (lambda done: progress(what, done, total))
