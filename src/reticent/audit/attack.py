"""The audit: can an adversary who is as strong as the promise allows see more than the promise allows?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from reticent.audit.actions import Rollout, play_actions
from reticent.audit.bounds import Evidence, lower_bounds
from reticent.audit.neighbours import Pair, realised_mu, trajectory_pair, trajectory_plan, worst_pair
from reticent.audit.releases import play_releases
from reticent.audit.response import probe
from reticent.audit.subject import Subject
from reticent.errors import InvalidInput, UnknownName

__all__ = ["DEFAULT_CONFIDENCE", "Adversary", "Attack", "Audit", "audit"]

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
    """One canary, and what the trials with her say.

    ``realised_mu`` is what this canary can show in principle, by the agent's own report and its counter's response: μ, or
    ε where the promise has no δ.
    """

    canary: str
    origin: str
    realised_mu: float
    evidence: Evidence
    without: np.ndarray
    present: np.ndarray


@dataclasses.dataclass(frozen=True)
class Audit:
    """The outcome of an audit. ``trials`` counts runs of each attack on either side, without and with the canary."""

    agent: str
    world: str
    adversary: Adversary
    trust: str
    adjacency: str
    counter: str
    calibration: str
    episodes: int
    claimed_epsilon: float
    delta: float
    claimed_mu: float | None
    trials: int
    confidence: float
    seed: int
    attacks: tuple[Attack, ...]

    @property
    def strongest(self) -> Attack:
        return max(self.attacks, key=lambda attack: attack.evidence.lower_bound.epsilon)

    @property
    def lower_bound_epsilon(self) -> float:
        return self.strongest.evidence.lower_bound.epsilon

    @property
    def verdict(self) -> Literal["consistent", "violated"]:
        return "violated" if self.lower_bound_epsilon > self.claimed_epsilon else "consistent"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        best = self.strongest.evidence
        return {
            "claimed_epsilon": self.claimed_epsilon,
            "lower_bound_epsilon": self.lower_bound_epsilon,
            "method": best.best,
            "confidence": self.confidence,
            "verdict": self.verdict,
            "tightness": self.lower_bound_epsilon / self.claimed_epsilon,
            "delta": self.delta,
            "mu_claimed": self.claimed_mu,
            "mu_lower": best.lower_bound.mu,
            "mu_estimate": best.mu_estimate,
            "adversary": self.adversary,
            "trials": self.trials,
            "agent": self.agent,
            "world": self.world,
            "trust": self.trust,
            "adjacency": self.adjacency,
            "counter": self.counter,
            "calibration": self.calibration,
            "episodes": self.episodes,
            "seed": self.seed,
            "attacks": [
                {
                    "canary": attack.canary,
                    "origin": attack.origin,
                    "mu_possible": attack.realised_mu if np.isfinite(attack.realised_mu) else None,
                    "method": attack.evidence.best,
                    "scores_normal": attack.evidence.normal,
                    "mu_estimate": attack.evidence.mu_estimate,
                    "false_positive_rate": attack.evidence.rates[0],
                    "false_negative_rate": attack.evidence.rates[1],
                    "lower_bounds": {
                        name: {"epsilon": bound.epsilon, "mu": bound.mu}
                        for name, bound in attack.evidence.bounds.items()
                    },
                }
                for attack in self.attacks
            ],
        }


def audit(
    subject: Subject,
    world: Any,
    *,
    adversary: Adversary = "releases",
    trials: int = 100_000,
    seed: int = 0,
    confidence: float = DEFAULT_CONFIDENCE,
    rollout: Rollout | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Attack an agent with both canaries and bound its ε from below.

    The *statistics* canary is the worst pair of observations that the code lets through, at or beyond the declared
    bounds; the *trajectory* canary the worst pair of episodes that ``world`` can produce. The confidence covers both
    attacks together (each has half of what may go wrong).

    ``rollout`` is needed for the actions adversary (:func:`reticent.simulation.rollout.rollout`).

    Raises:
      InvalidInput, UnknownName: too few trials, a confidence that is none, no such adversary.
    """
    if adversary not in ("releases", "actions"):
        raise UnknownName("adversary", adversary, ["releases", "actions"])
    if trials < 1000:
        raise InvalidInput("trials", trials, "at least 1000", "10^5 tell noise that is 10% too small")
    if not 0.5 < confidence < 1:
        raise InvalidInput("confidence", confidence, "strictly between 0.5 and 1", f"use {DEFAULT_CONFIDENCE}")
    if adversary == "actions" and rollout is None:
        raise InvalidInput("rollout", None, "given for the actions adversary", "pass experiments.rollout.rollout")
    options = subject.plan.options
    canaries: list[tuple[str, Pair]] = [
        ("statistics", worst_pair(subject, seed=seed)[0]),
        ("trajectory", trajectory_pair(subject, world, trajectory_plan(subject, world), seed=seed)),
    ]
    exposure = subject.exposure(None if subject.local else probe(subject.privatizer.counter))
    each = 1.0 - (1.0 - confidence) / len(canaries)
    attacks = []
    for number, (name, pair) in enumerate(canaries):

        def told(done: int, what: str = f"{name} canary") -> None:
            if progress is not None:
                progress(what, done, 2 * trials)

        own_seed = 2 * seed + number
        if adversary == "releases":
            without, present = play_releases(subject, pair, trials, own_seed, progress=told)
        else:
            assert rollout is not None
            without, present = play_actions(subject, pair, world, rollout, trials, own_seed, progress=told)
        attacks.append(
            Attack(
                name, pair.origin, realised_mu(subject, pair) * exposure,
                lower_bounds(without, present, options.delta, each), without, present,
            )
        )  # fmt: skip
    return Audit(
        agent=subject.agent.name,
        world=getattr(world, "name", "custom"),
        adversary=adversary,
        trust=options.trust,
        adjacency=options.adjacency,
        counter="local noise" if subject.local else subject.plan.calibration.counter.name,
        calibration=options.calibration,
        episodes=subject.agent.schedule.episodes,
        claimed_epsilon=options.epsilon,
        delta=options.delta,
        claimed_mu=None if subject.pure else subject.promised_mu,
        trials=trials,
        confidence=confidence,
        seed=seed,
        attacks=tuple(attacks),
    )
