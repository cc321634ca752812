# SPDX-License-Identifier: Apache-2.0
"""The checks that mutants are put to. Each builds its subject afresh, from whatever code is in force, and lists findings.

An examination of the unbroken code finds nothing; ``test_mutants.py`` asserts that first, for every examination in use.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from reticent.agents import make_agent
from reticent.agents.linear_mixture import private_linopt as private
from reticent.agents.linear_mixture.privacy_plan import PrivateOptions
from reticent.audit import (
    OwnReleases,
    Subject,
    check_noise,
    check_refusals,
    check_source,
    lower_bounds,
    noise_findings,
    play_releases,
    promised_scales,
    realised_mu,
    replay,
    seen_as,
    worst_pair,
)
from reticent.audit.degenerate_noise import degenerate_noise_evidence
from reticent.audit.returning import pattern_strength
from reticent.learning.capabilities import audit_hooks
from reticent.privacy.neighbouring_datasets import Pair, length_of, report_of
from reticent.privacy.noise import SecureNoise
from reticent.service import embedded as deployed
from reticent.service import mechanism
from reticent.simulation import returning
from reticent.worlds import Episode, World, make_world
from reticent.worlds.tastes import TasteWorld, random_tastes

Examination = Callable[[], list[str]]


@functools.cache
def tiny_world() -> World:
    return make_world("random-blend:states=3,actions=2,horizon=2,d1=2,d2=3,per_step=true")


@functools.cache
def tiny_kinds() -> World:
    """As tiny, with candidates that are laws of kinds."""
    return make_world("random-blend:states=3,actions=2,horizon=2,d=2")


@functools.cache
def tiny_tastes() -> TasteWorld:
    """As tiny: four items, two of which are shown to a user of two hidden numbers."""
    return random_tastes(items=4, factors=2, horizon=2, strength=0.3)


def agent_of(name: str, users: int, **options: Any) -> Any:
    """An agent by name in the tiny world that suits it."""
    made = {"private-kinds": tiny_kinds, "private-factors": tiny_tastes}.get(name, tiny_world)()
    return make_agent(name, made.model, users, **options)


def subject(episodes: int = 4, **options: Any) -> Subject:
    return Subject(private.make_private(tiny_world().model, episodes, "value-iteration", PrivateOptions(**options)))


def replayed(random: int = 0, users: int = 4, **options: Any) -> Examination:
    """Replay with the worst pair that a search without gradients finds; the second user is the one who changes."""

    def examine() -> list[str]:
        one = subject(users, **options)
        pair, _ = worst_pair(one, random=random or 4, gradient=False)
        return list(replay(one, [seen_as(pair.canary)] * users, 1, seen_as(pair.replacement)).findings)

    return _named(examine, "replay", options)


def bounded(name: str, users: int = 4, random: int = 4, **options: Any) -> Examination:
    """The worst pair that can be found, held to the promise and to the declared sensitivities. No run, so it is quick."""

    def examine() -> list[str]:
        one = Subject(agent_of(name, users, **options))
        # A broken clip lets anything through; that is a finding and no reason to stop.
        with np.errstate(all="ignore"):
            pairs = [*one.neighbours.worst_cases(random, 0), *one.neighbours.random_pairs(random, 0)]
            return [finding for pair in pairs for finding in _over_the_promise(one, pair)]

    return _named(examine, "worst pair", {"agent": name, **options})


def _over_the_promise(one: Subject, pair: Pair[Any]) -> list[str]:
    findings = []
    strength = realised_mu(one, pair) * one.exposure
    if not strength <= one.promised * (1 + 1e-9):
        findings.append(f"{pair.origin}: this pair has mu = {strength:.6g}, promised {one.promised:.6g}")
    moved = np.asarray(report_of(one.sums, pair.canary) - report_of(one.sums, pair.replacement))
    for group in one.guarantee.groups:
        length = length_of(one.sums, moved[group.step - 1, group.columns])
        if not length <= group.sensitivity * (1 + 1e-9):
            findings.append(f"the {group.name} moved by {length:.6g}, declared {group.sensitivity:.6g}")
    return findings


def replayed_users(name: str, users: int = 2, **options: Any) -> Examination:
    """Replay of any agent; the first user changes, from one end of what the code lets through to nothing at all."""

    def examine() -> list[str]:
        one = Subject(agent_of(name, users, **options))
        hooks = one.neighbours
        far = next(pair.canary for pair in hooks.worst_cases(1, 0) if pair.origin == "hostile: length 1000")
        same = 0.3 * hooks.worst_cases(1, 0)[1].canary
        runs = replay(one, [seen_as(far), *[seen_as(same)] * (users - 1)], 0, seen_as(hooks.nothing()))
        return list(runs.findings)

    return _named(examine, "replay", {"agent": name, **options})


def law_of(name: str, users: int = 4, **options: Any) -> Examination:
    """The law of the simulated noise of any agent."""

    def examine() -> list[str]:
        return check_noise(Subject(agent_of(name, users, **options)))

    return _named(examine, "distribution", {"agent": name, **options})


def distributed(**options: Any) -> Examination:
    """The law of the privatizer's noise."""
    return _named(lambda: check_noise(subject(**options)), "distribution", options)


def sourced(calls: int = 200) -> Examination:
    """The law and the freshness of the deployment's noise source."""
    return _named(lambda: check_source(SecureNoise(), calls=calls), "distribution", {"calls": calls})


def audited(trials: int, learn: bool = False, **options: Any) -> Examination:
    """The releases adversary with the statistics canary, at the audit's default confidence."""

    def examine() -> list[str]:
        one = subject(**options)
        pair, _ = worst_pair(one, random=4, gradient=False)
        scores = play_releases(one, pair, trials, seed=3, learn=learn)
        bound = lower_bounds(scores.without, scores.present, one.guarantee.delta, 0.999).lower_bound
        claimed = one.guarantee.epsilon
        return [f"epsilon is at least {bound.epsilon:.3f}, claimed {claimed}"] if bound.epsilon > claimed else []

    return _named(examine, "audit", options)


def attacked(name: str, trials: int, users: int = 4, **options: Any) -> Examination:
    """The releases adversary against any agent, with the worst pair, at the audit's default confidence."""

    def examine() -> list[str]:
        one = Subject(agent_of(name, users, **options))
        pair, _ = worst_pair(one, random=4, gradient=False)
        scores = play_releases(one, pair, trials, seed=3)
        bound = lower_bounds(scores.without, scores.present, one.guarantee.delta, 0.999).lower_bound
        claimed = one.guarantee.epsilon
        return [f"epsilon is at least {bound.epsilon:.3f}, claimed {claimed}"] if bound.epsilon > claimed else []

    return _named(examine, "audit", {"agent": name, "trials": trials, **options})


def searched(name: str = "private-linopt-vi", trials: int = 100_000, users: int = 4, **options: Any) -> Examination:
    """Noise that is missing or repeated, however rarely, in what the audit's adversary sees of so many runs."""

    def examine() -> list[str]:
        audited = Subject(agent_of(name, users, **options))
        hooks = audit_hooks(audited.agent)
        if isinstance(hooks, OwnReleases):
            scores = hooks.play(hooks.canaries(tiny_world(), 0)[0][1], trials, 3)
        else:
            scores = play_releases(audited, worst_pair(audited, random=1, gradient=False)[0], trials, seed=3)
        return [
            one.sentence() for one in degenerate_noise_evidence(scores.degenerate, audited.guarantee) if one.violated
        ]

    return _named(examine, "degenerate noise", {"agent": name, "trials": trials, **options})


def deployed_noise(wire: str) -> Examination:
    """The law of the noise that a deployment really adds, in the units of its guarantee: rounds', or local reports'."""
    spec = f"private-linopt-vi:trust={wire}" + (",counter=tree" if wire == "joint" else "")

    def examine() -> list[str]:
        made = mechanism.make_mechanism(spec, tiny_world().model, 3, SecureNoise())
        sums, board = made.sums, made.billboard(0, made.agent.init())
        expected = promised_scales(Subject(made.agent).guarantee, sums.noise_scale.shape)
        if wire == "joint":
            drawn = np.stack([made.round_noise() for _ in range(300)])
        else:
            episode = Episode(np.array([0, 1, 2]), np.array([0, 1]), np.array([1.0, 0.0]))
            reports = np.stack([made.contribution(board, episode) for _ in range(300)])
            silent = made.agent.report(made.plan_of(board), episode, jnp.zeros_like(sums.noise_scale))
            drawn = reports - np.rint(np.asarray(silent) / made.grid)
        return noise_findings(drawn * made.grid, expected, on_a_grid=True)

    return _named(examine, "distribution", {"deployed": wire})


def attended(mean_delay: float, **options: Any) -> Examination:
    """What the person who is counted most costs, of people who return and whose reports are late."""

    def examine() -> list[str]:
        spec = {"contributions": 4, "first": 1.0, "growth": 1.0, "largest": 6, "epsilon": 4.0, **options}
        one = Subject(make_agent("private-score-vi", tiny_world().model, 60, **spec))
        agent, often = one.agent, one.guarantee.participation
        persons = 17
        came = returning.attend(agent.schedule, persons, often, 1, mean_delay=mean_delay)
        pair, _ = worst_pair(one, random=1, gradient=False)
        costs = [
            pattern_strength(one, pair, times)
            for times in (came.times(person, agent.schedule.releases) for person in range(persons))
            if times.any()
        ]
        if max(costs) <= one.promised * (1 + 1e-9):
            return []
        return [f"a person who returns has mu = {max(costs):.6g}, but the promise allows {one.promised:.6g}"]

    return _named(examine, "patterns", {"delay": mean_delay, **options})


def refused() -> Examination:
    """What a deployment must refuse."""
    model = tiny_world().model

    def make(source: Any) -> Any:
        return deployed.DeployedAgent("private-linopt-vi:counter=tree", model, 3, source)

    episode = Episode(np.array([0, 1, 2]), np.array([0, 1]), np.array([1.0, 0.0]))
    return _named(lambda: check_refusals(make, episode), "refusals", {})


def _named(examine: Examination, kind: str, options: dict[str, Any]) -> Examination:
    examine.kind = kind  # type: ignore[attr-defined]
    examine.key = (kind, *sorted(options.items()))  # type: ignore[attr-defined]
    return examine
