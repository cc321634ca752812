# SPDX-License-Identifier: Apache-2.0
"""Examinations of devices whose service forgets, is restored, or lies: the real client against a scripted service."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from client_tests import PredictableEntropy, forbid  # first: it knows the way to the two below
from examinations import Examination, _named
from make_vectors import example_billboard, example_model
from scripted_service import Sent, admitting, serving

from reticent_client import Billboard, Budget, Client, Episode, ReticentError, Ticket, discrete_gaussian
from reticent_client.messages import form_messages
from reticent_wire.boundary import Clipped
from reticent_wire.history import History
from reticent_wire.promise import epsilon_of, report_epsilon, require_promise

SCORE, COUNTS = example_model("score"), example_model("counts")
STATES = (3, 1, 0, 2)
DOCUMENTED = {"episodes": {"user", "episode"}, "report": {"token", "report", "reference"}}


def _played(client: Client, user: str = "ann", reward: Any = 0.5) -> Episode:
    with client.episode(user) as episode:
        for step in range(3):
            episode.act(STATES[step])
            episode.observe(reward, STATES[step + 1])
    return episode


def _divided(explorers: float = 2.0, curious: Any = None) -> Billboard:
    """Explorers, the first two places, never act as the greedy policy does."""
    board = example_billboard(SCORE)
    policy = (np.arange(12).reshape(3, 4) % 2).astype(np.int32)
    other = 1.0 - policy if curious is None else curious
    report = {**board.report, "curious": other, "explorers": np.array(explorers), "at_random": np.array(0.0)}
    return dataclasses.replace(board, policy=policy, report=report)


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    """A place for the state of programs that is nobody's."""
    before = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory() as where:
        os.environ["XDG_STATE_HOME"] = where
        try:
            yield Path(where)
        finally:
            os.environ.pop("XDG_STATE_HOME")
            if before is not None:
                os.environ["XDG_STATE_HOME"] = before


def _device(about: str) -> Callable[[Callable[[], list[str]]], Examination]:
    return lambda examine: _named(examine, "device", {"untrusted": about})


@_device("restored")
def restored() -> list[str]:
    """The same user is admitted twice, to two processes one after the other."""
    with _home(), serving(admitting(COUNTS)) as (url, sent):
        for _ in range(2):
            with Client(url, "key", trust="local") as client:
                _played(client)
        reports = [one for one in sent if one.kind == "report"]
        return ["a restored service gets a second report"] if len(reports) != 1 else []


@_device("tickets")
def ticketed() -> list[str]:
    """A service that forgets gives a backend two tickets for one user."""
    with serving(admitting(COUNTS)) as (url, sent), Client(url, "key", budget=Budget.in_memory()) as client:
        for ticket in client.admit(["ann", "ann"]):
            assert isinstance(ticket, Ticket)
            with client.begin(ticket) as episode:
                for step in range(3):
                    episode.act(STATES[step])
                    episode.observe(0.5, STATES[step + 1])
        reports = [one for one in sent if one.kind == "report"]
        return ["a second ticket brings a second report"] if len(reports) != 1 else []


@_device("crash")
def crashed() -> list[str]:
    """The device goes down when its report arrives at the service."""
    honest, left = admitting(COUNTS), []
    with tempfile.TemporaryDirectory() as where:
        path = Path(where) / "budget.json"

        def answer(sent: Sent) -> Any:
            if sent.kind != "report":
                return honest(sent)
            left.append(Budget(path).left("ann"))
            return None

        with (
            serving(answer) as (url, _),
            Client(url, "key", budget=Budget(path), deadline=0.2) as client,
            contextlib.suppress(ReticentError),
        ):
            _played(client)
        return ["a report leaves before its charge is on the disk"] if left != [0] * max(1, len(left)) else []


@_device("several reports")
def several() -> list[str]:
    """ε is demanded of all reports together: three cost more than one."""
    epsilon = report_epsilon(SCORE, 1e-5)
    budget = Budget.in_memory(reports=3)
    with serving(admitting(SCORE)) as (url, _), Client(url, "key", epsilon=epsilon, budget=budget) as client:
        try:
            _played(client)
        except ReticentError:
            return []
        return ["three reports leave for the epsilon of one"]


@_device("missing values")
def missing() -> list[str]:
    findings = []
    for reward in (None, float("nan"), float("inf"), "high"):
        with serving(admitting(SCORE)) as (url, _), Client(url, "key", budget=Budget.in_memory()) as client:
            try:
                if _played(client, reward=reward).status != "counted":
                    findings.append("a missing value ends the episode")
            except Exception as problem:
                findings.append(f"a missing value ends the episode ({type(problem).__name__})")
    return findings


@_device("observations that there are not")
def unlisted() -> list[str]:
    """Where states have a history, what a user sees may be missing or in no list."""
    known, findings = History(2, 2, ("front", "news"), ((0,), (1,), (0, 1))), []
    for seen in ([None], [0, 2], [-1, 0], [1, float("nan")]):
        try:
            known.state(seen)
        except Exception as problem:
            findings.append(f"what a user sees ends the episode ({type(problem).__name__})")
    return findings


@_device("planted action")
def planted() -> list[str]:
    """An action that there is not, for explorers, in one state of the second step."""
    findings = []
    for wrong in (99.0, float("nan")):
        curious = np.zeros((3, 4))
        curious[1, 1] = wrong
        board, budget = _divided(curious=curious), Budget.in_memory()
        with serving(admitting(SCORE, board)) as (url, _), Client(url, "key", budget=budget) as client:
            try:
                client.episode("ann").open()
            except ReticentError:
                continue
            findings.append("a planted action is found by those who come to its state")
    return findings


@_device("infinity")
def infinite() -> list[str]:
    """A value that is infinite, of one state at the second step, where warnings are errors."""
    framed, findings = np.zeros((3, 4)), []
    framed[1, STATES[2]] = np.inf
    board, budget = example_billboard(SCORE), Budget.in_memory()
    board = dataclasses.replace(board, report={**board.report, "framed_values": framed, "framed_hopes": framed})
    with serving(admitting(SCORE, board)) as (url, _), Client(url, "key", budget=budget) as client:
        try:
            with np.errstate(all="raise"):
                _played(client)
        except FloatingPointError:
            findings.append("an infinity stops the device of a user who comes to its state")
    return findings


@_device("place")
def placed() -> list[str]:
    """Whose plan a device acts by, and whose values its report is made of."""
    findings, board = [], _divided()
    with pytest.MonkeyPatch.context() as quiet:
        quiet.setattr(discrete_gaussian, "draw", lambda scale, _: np.zeros(scale.shape, np.int64))
        for place in (0, 3):
            budget = Budget.in_memory()
            with (
                serving(admitting(SCORE, board, place=place)) as (url, sent),
                Client(url, "key", budget=budget) as client,
            ):
                with client.episode("ann") as episode:
                    taken = []
                    for step in range(3):
                        taken.append(episode.act(STATES[step]))
                        episode.observe(0.5, STATES[step + 1])
                    seen = episode.trajectory._value._replace(place=place)
                plan = board.report["curious"] if place < 2 else board.policy
                if taken != [int(plan[step, STATES[step]]) for step in range(3)]:
                    findings.append("a device acts by another place than its own")
                if not np.array_equal(_reported(sent[-1]), SCORE.steps(board, seen).ravel()):
                    findings.append("a report is formed for another place than its own")
    return findings


@_device("an ended deployment")
def outlived() -> list[str]:
    """A client that is kept while a new deployment of the same model comes to the address: more noise is asked for."""
    models = [
        dataclasses.replace(
            SCORE,
            rules=dataclasses.replace(SCORE.rules, noise_scale=times * SCORE.rules.noise_scale, digest=str(times)),
        )
        for times in (1.0, 4.0)
    ]
    now, scales = [admitting(models[0], rules=models[0].rules.digest)], []
    with pytest.MonkeyPatch.context() as quiet:
        quiet.setattr(
            discrete_gaussian, "draw", lambda scale, _: scales.append(scale.max()) or np.zeros(scale.shape, int)
        )
        with serving(lambda sent: now[0](sent)) as (url, _), Client(url, "key", budget=Budget.in_memory()) as client:
            for user, model in zip(("ann", "bob"), models, strict=True):
                now[0] = admitting(model, rules=model.rules.digest)
                with client.episode(user) as episode:
                    for step in range(3):
                        episode.act(STATES[step])
                        episode.observe(0.5, STATES[step + 1])
    ended = scales != [model.rules.noise_scale.max() for model in models]
    return ["a report has the noise of a deployment that has ended"] if ended else []


@_device("reference")
def referred() -> list[str]:
    """Another version is the open round's reference than the user was served: formed under that, or counted as nothing."""
    board, later = _divided(), dataclasses.replace(_divided(), version=6)
    changes = {"/v1/round": {"reference": 6}, "/v1/billboards/6": later.to_json()}
    with serving(admitting(SCORE, board, changes)) as (url, sent):
        with Client(url, "key", budget=Budget.in_memory()) as client:
            episode = _played(client)
        told = episode.receipt is not None and episode.receipt.reference == sent[-1].content["reference"] == 6
        return [] if told else ["a report is formed under a version that its round does not refer to"]


@_device("fields")
def fields() -> list[str]:
    findings = []
    with serving(admitting(SCORE)) as (url, sent), Client(url, "key", budget=Budget.in_memory()) as client:
        _played(client)
        for one in sent:
            if one.method == "POST" and set(one.content) != DOCUMENTED[one.kind]:
                findings.append(f"other fields than the documented ones leave with {one.kind}")
            if set(one.headers) - {
                "Accept",
                "Accept-Encoding",
                "Authorization",
                "Content-Length",
                "Content-Type",
                "Host",
            }:
                findings.append("other headers than the documented ones leave")
    return list(dict.fromkeys(findings))


@_device("entropy")
def entropy() -> list[str]:
    """Noise, coins and rounding while every predictable generator fails."""
    shuffled = example_model("regressions", shuffle=True)
    findings = []
    with pytest.MonkeyPatch.context() as guard:
        forbid(guard.setattr)
        for draw in (
            lambda: discrete_gaussian.draw(np.full(200, 7.0), 1.0),
            lambda: form_messages(shuffled, example_billboard(shuffled), None, 0, 0),
            lambda: form_messages(shuffled, example_billboard(shuffled), Clipped(_seen()), 0, 0),
            lambda: example_billboard(shuffled, greedy=False).choose(0, 0, None),
        ):
            try:
                draw()
            except PredictableEntropy as found:
                findings.append(str(found))
    return findings


@_device("coarse grid")
def coarse() -> list[str]:
    """Noise of 1 250 steps takes 8% of δ = 1e-6, or all of it: less than that ε is demanded, of Gaussian noise just met."""
    findings = []
    for known in (SCORE, COUNTS):
        model = dataclasses.replace(known, rules=dataclasses.replace(known.rules, grid=2.0**-7))
        try:
            require_promise(model, epsilon_of(model.rules.form.strength(model.sizes, model.rules), 1e-6), 1e-6)
        except ReticentError:
            continue
        findings.append("discrete noise on a coarse grid costs nothing")
    return findings


def _seen() -> Any:
    from make_vectors import example_trajectory

    return example_trajectory(example_model("regressions"), 1)


def _reported(sent: Sent) -> np.ndarray:
    return np.frombuffer(base64.b64decode(sent.content["report"]["data"]), "<i8")
