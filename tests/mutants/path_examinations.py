# SPDX-License-Identifier: Apache-2.0
"""Examinations of the deployed path: embedded agent, service, device and shuffler, each with the real components."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from examinations import Examination, _named
from real_path import AGENTS, MODEL, Embedded, InOrder, Served, played, replay_path
from running_service import APP_KEY, running_service

from reticent.audit import Subject, noise_findings, promised_scales
from reticent.errors import ReticentError
from reticent.privacy.noise import SecureNoise
from reticent.service.mechanism import Mechanism, make_mechanism
from reticent_client import Budget, Client, Connection, ServiceError, Shuffler
from reticent_client import report as device_report
from reticent_client import submission as device_submission
from reticent_wire.boundary import Clipped
from reticent_wire.promise import require_promise
from reticent_wire.trajectory import well_formed

WORLD = "random-blend:states=3,actions=2,horizon=2,d=2"
FLAGSHIP = AGENTS["flagship"]


def replayed_path(entry: str, kind: str, agent: str = "flagship") -> Examination:
    """The two stories of a kind at an entry: ``tickets``, ``order`` (one after another) or ``service``."""

    def examine() -> list[str]:
        if entry != "service":
            made = Embedded if entry == "tickets" else InOrder
            return replay_path(lambda: made(AGENTS[agent]), kind)
        with tempfile.TemporaryDirectory() as where:
            fresh = iter(range(10))
            return replay_path(lambda: Served(AGENTS[agent], f"sqlite:///{where}/{next(fresh)}.db"), kind)

    return _named(examine, "replay", {"entry": entry, "neighbours": kind, "agent": agent})


def quoted() -> Examination:
    """Whether a refusal says what a user sent."""

    def examine() -> list[str]:
        agent, good = Embedded(FLAGSHIP).agent, played(0)
        findings = []
        for name, bad in (
            ("rewards", good._replace(rewards=np.full(MODEL.horizon + 1, 0.777))),
            ("states", good._replace(states=np.full(MODEL.horizon + 2, 777))),
            ("states", good._replace(states=np.full(MODEL.horizon + 1, 0.777))),
        ):
            try:
                agent.submit("ann", bad)
            except ReticentError as refused:
                if "777" in str(refused):
                    findings.append(f"a refusal quotes her {name}")
            else:
                findings.append(f"malformed {name} are accepted")
        return findings

    return _named(examine, "refusals", {"texts": True})


@functools.cache
def _mechanism(trust: str) -> Mechanism:
    return make_mechanism(f"{FLAGSHIP},trust={trust}", MODEL, 400, SecureNoise())


def same_on_the_wire() -> Examination:
    """What a device forms against what the simulation forms, for ordinary and hostile users: the same integers."""

    def examine() -> list[str]:
        mechanism = _mechanism("local")
        known, agent = mechanism.published, mechanism.agent
        nothing = np.zeros(mechanism.noise_scale.shape, np.int64)
        first = mechanism.billboard(0, agent.init())
        later, _ = mechanism.close(0, agent.init(), first, nothing + round(3 / mechanism.grid), None)
        board = mechanism.billboard(1, later)  # in the first round explorers and others are served the same values
        findings = []
        for seed in (*range(12), 10**6, 10**6 + 1):  # the last ones do not explore
            seen = well_formed(known, *played(seed), seed)
            plan = agent.served(mechanism.plan_of(board), seed)
            report = np.asarray(agent.report(plan, seen, np.zeros(mechanism.noise_scale.shape))) / mechanism.grid
            if not np.array_equal(known.steps(board.published, seen), np.rint(report)):
                findings.append("device and simulation form other numbers")
        # A billboard whose radius is tiny makes every vector long.
        tiny = {**board.published.report, "radius": np.asarray(1e-6)}
        hostile = type(board.published)(0, board.published.policy, tiny, form="score", actions=MODEL.actions)
        steps = known.contribution(hostile, well_formed(known, *played(3), 3))
        if np.linalg.norm(steps) > 1:
            findings.append("a device's vector is longer than the radius")
        return findings

    return _named(examine, "wire", {"vectors": True})


def demanding() -> Examination:
    """Whether a device refuses rules with less noise than its user was promised."""

    def examine() -> list[str]:
        known, promised = _mechanism("local").published, _mechanism("local").guarantee.epsilon
        require_promise(known, promised, 1e-5)
        findings = []
        for factor in (0.5, 0.9):
            quiet = _with_noise(known, factor)
            try:
                require_promise(quiet, promised, 1e-5)
            except ReticentError:
                continue
            findings.append(f"a device sends with {factor:g} of the noise")
        return findings

    return _named(examine, "wire", {"promise": True})


def _with_noise(known: Any, factor: float) -> Any:
    import dataclasses

    rules = dataclasses.replace(known.rules, noise_scale=factor * known.rules.noise_scale)
    return dataclasses.replace(known, rules=rules)


def device_law(draws: int = 2000) -> Examination:
    """The law of what a device adds to its vector, in the units of the guarantee."""

    def examine() -> list[str]:
        mechanism = _mechanism("local")
        known, board = mechanism.published, mechanism.billboard(0, mechanism.agent.init()).published
        seen = well_formed(known, *played(0), 0)
        sent = np.stack([device_report.noised_report(known, board, Clipped(seen)) for _ in range(draws)])
        empty = np.stack([device_report.noised_report(known, board, None) for _ in range(draws)])
        expected = promised_scales(Subject(mechanism.agent).guarantee, mechanism.noise_scale.shape)
        findings = noise_findings((sent - known.steps(board, seen)) * mechanism.grid, expected, on_a_grid=True)
        silent = noise_findings(empty * mechanism.grid, expected, on_a_grid=True)
        return [*findings, *[f"an empty report: {finding}" for finding in silent]]

    return _named(examine, "distribution", {"device": "report"})


def empty_messages() -> Examination:
    """Whether a user who shows nothing flips her coins all the same."""

    def examine() -> list[str]:
        mechanism = _mechanism("shuffle")
        known, board = mechanism.published, mechanism.billboard(0, mechanism.agent.init()).published
        sent = [device_submission.form_messages(known, board, None, 0, 1) for _ in range(20)]
        coins = mechanism.batches.coins_at(0, 1)
        ones = np.stack([tally.ones - mechanism.batches.reach for tally in sent])
        findings = []
        if not all(np.array_equal(tally.messages, sent[0].messages) for tally in sent):
            findings.append("how many messages she sends depends on what she did")
        # Of so many fair coins twenty times as many heads are within 8 standard deviations of half, but for 1e-15.
        if (np.abs(ones.sum(axis=0) - 10 * coins) > 8 * np.sqrt(5 * coins)).any():
            findings.append("an empty submission has not its user's coins")
        return findings

    return _named(examine, "distribution", {"device": "messages"})


def deployed_law(draws: int = 1000) -> Examination:
    """The law of a deployment's secure noise on the flagship's sums, rare failures included."""

    def examine() -> list[str]:
        mechanism = make_mechanism(FLAGSHIP, MODEL, 8, SecureNoise())
        expected = promised_scales(Subject(mechanism.agent).guarantee, mechanism.noise_scale.shape)
        drawn = np.stack([mechanism.round_noise() for _ in range(draws)])
        findings = noise_findings(drawn * mechanism.grid, expected, on_a_grid=True)
        # Two numbers of 2^24 steps per standard deviation each: of a thousand honest draws two are alike but for 1e-9.
        if len(np.unique(drawn.reshape(draws, -1), axis=0)) < draws:
            findings.append("two draws of noise are the same")
        return findings

    return _named(examine, "distribution", {"deployed": "flagship", "draws": draws})


def _on_a_service(trust: str, act: Callable[[str, Path], list[str]]) -> Examination:
    def examine() -> list[str]:
        with tempfile.TemporaryDirectory() as where:
            agent = f"{FLAGSHIP},trust={trust}"
            with running_service(Path(where), world=WORLD, agent=agent, episodes=400, rate_limit=0) as url:
                return act(url, Path(where))

    return _named(examine, "device", {"trust": trust, "act": act.__name__})


def _behave(url: str, _: Path) -> list[str]:
    """A user whose values are none, one who leaves, one who sends twice: all look alike to the service."""
    findings: list[str] = []
    # A budget for more reports than there are: it would stop a second one by itself.
    with Client(url, APP_KEY, trust="local", budget=Budget.in_memory(reports=9)) as client:
        wild, left, twice = (client.episode(user) for user in ("wild", "left", "twice"))
        try:
            with wild:
                for _step in range(MODEL.horizon):
                    wild.act(10**6)
                    wild.observe(float("nan"), 10**6)
        except (ReticentError, ValueError):
            findings.append("a value out of range stops an episode: nothing comes")
        try:
            with left:
                left.act(0)
                raise KeyError("the app")
        except KeyError:
            pass
        twice.open()
        for _step in range(MODEL.horizon):
            twice.act(1)
            twice.observe(0.5, 1)
        first = twice.submission.content
        if twice.submission.content != first:
            findings.append("noise is drawn again when a submission is repeated")
        if set(first) != {"token", "report", "reference"}:
            findings.append("more leaves the device than its report")
        try:
            twice.submit()
        except ReticentError:
            findings.append("an ordinary submission is refused")
        statuses = [episode.receipt is not None for episode in (wild, left, twice)]
        if statuses != [True, True, True]:
            findings.append(f"the service sees who left: {statuses}")
    return findings


class Recording(Connection):
    """Keeps what is posted; the service is away when the first batch comes."""

    posted: list[Any]

    def post(self, path: str, content: Any, **named: Any) -> Any:
        posted = self.__dict__.setdefault("posted", [])
        posted.append((path, content))
        if path == "/v1/batches" and len(posted) == 1:
            raise ServiceError(503, name="unavailable")
        return super().post(path, content, **named)


def _two_batches(url: str, _: Path) -> list[str]:
    """A shuffler whose first post is refused, since the service is away: there is no other batch ever."""
    connection = Recording(url, APP_KEY)
    with Shuffler(connection) as shuffler, Client(url, APP_KEY, shuffler=shuffler) as client:
        size = int(client.status()["round_ends"][0])
        for user in range(size - 1):
            _play(client, user)
        client.episode(
            "silent"
        ).open()  # a place for the shuffler to flip coins for: fresh ones in every batch it makes
        for _ in range(2):
            with contextlib.suppress(ReticentError):
                shuffler.finish(0)
    batches = [content for path, content in connection.posted if path == "/v1/batches"]
    different = {str(content["ones"]["data"]) for content in batches}
    return ["a round has two different batches"] if len(different) > 1 else ([] if batches else ["no batch was sent"])


def _play(client: Client, user: int) -> None:
    with client.episode(f"user {user}") as episode:
        for step in range(MODEL.horizon):
            episode.act(step % 2)
            episode.observe(0.5, (step + 1) % 2)


ON_DEVICE, TWO_BATCHES = _on_a_service("local", _behave), _on_a_service("shuffle", _two_batches)
