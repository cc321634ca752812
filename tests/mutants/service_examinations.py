# SPDX-License-Identifier: Apache-2.0
"""Examinations of where two features of the service meet: groups, pan-private store, erasure, restore, canaries, keys."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from durable import MODEL, SECRET, deployment, episode
from examinations import Examination, _named
from fastapi.testclient import TestClient
from serving import APP, settings

from reticent.service.durability.backup import back_up
from reticent.service.durability.erasure import erase
from reticent.service.durability.restore import restore
from reticent.service.http.app import create_app
from reticent.service.mechanism import Mechanism
from reticent.service.rounds.context import Context
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.refusals import Refusal
from reticent.service.secrets import Secrets
from reticent.service.store import records
from reticent.worlds.registry import make_world

SMALL = make_world("random-blend:states=4,actions=2,horizon=2,d=2").model
SECOND = "another app's key of the tests, long enough"


def _on_a_store(act: Callable[[Path], list[str]]) -> Examination:
    def examine() -> list[str]:
        with tempfile.TemporaryDirectory() as where:
            return act(Path(where))

    return _named(examine, "service", {"act": act.__name__})


@contextlib.contextmanager
def _closing(where: Path, **given: Any) -> Iterator[Deployment]:
    service = deployment(where, **given)
    try:
        yield service
    finally:
        service.store.close()


@contextlib.contextmanager
def _serving(where: Path, **given: Any) -> Iterator[TestClient]:
    with TestClient(create_app(settings(where, **given), begin=True), headers=APP) as client:
        yield client


def _send(service: Deployment, opened: Any, seed: int) -> None:
    service.submit_trajectory(opened.token, opened.episode, **episode(seed))


def _group(where: Path) -> list[str]:
    """Three users in one request; the second has an empty episode, or a state that JSON can say and NumPy cannot."""
    findings = []
    with _serving(where) as client:
        members = [{"user": f"user {number}", "episode": f"{number:032x}"} for number in range(3)]
        opened = client.post("/v1/groups/episodes", json={"users": members}).json()["opened"]
        sent = [
            {"episode": one["episode"], "token": one["token"], **episode(number)} for number, one in enumerate(opened)
        ]
        sent[1]["states"] = []
        answer = client.post("/v1/groups/trajectories", json={"trajectories": sent})
        if answer.status_code != 200:
            return ["the form of one member refuses the others"]
        if [one["status"] for one in answer.json()["receipts"]] != ["counted", 422, "counted"]:
            findings.append("the form of one member changes the answers of others")
        sent[1] |= {"states": [2**63, *episode(1)["states"][1:]], "rewards": [None, *episode(1)["rewards"][1:]]}
        answer = client.post("/v1/groups/trajectories", json={"trajectories": sent})
        if [one["status"] for one in answer.json().get("receipts", [])] != ["counted"] * 3:
            findings.append("a value out of range is refused")
    return findings


def _kinds_of_numbers(where: Path) -> list[str]:
    """Users of an app that does not round states, and says of rewards whether there was one or how large it was."""
    findings = []
    with _serving(where) as client:
        for user, (state, reward) in enumerate([(1.0, 0.5), (1.5, 0.5), (1.0, False)]):
            opened = client.post("/v1/episodes", json={"user": f"user {user}"}).json()
            body = {"states": [state] * (MODEL.horizon + 1), "rewards": [reward] * MODEL.horizon}
            sent = {"token": opened["token"], **episode(user), **body}
            answer = client.post(f"/v1/episodes/{opened['episode']}/trajectory", json=sent)
            if answer.status_code != 200:
                findings.append("what a user did decides whether the numbers are of a kind that is refused")
    return findings


def _two_looks(where: Path) -> list[str]:
    """Pan-private: a look before a round's last user and one after it is sealed, while no planner comes."""
    with _closing(where, pan_private=True, inline=False) as service:
        opened = [service.admit(f"user {user}") for user in range(4)]
        for user in range(3):
            _send(service, opened[user], user)
        first = _kept(service, 0)
        _send(service, opened[3], 3)
        service.admit("user 4")
        moved = (_kept(service, 0) - first) * service.mechanism.grid
        noised = service.mechanism.noise_scale > 0
        hidden = (moved[noised] / service.mechanism.noise_scale[noised]) ** 2
        # 0.5 is the mean of what hides her; a user alone is a hundredth of it.
        return [] if 0.2 < hidden.mean() < 2 else ["two looks into the store show one user"]


def _kept(service: Deployment, number: int) -> np.ndarray:
    """What is in the store for a round, whoever sealed it."""
    with service.store.read() as tx:
        content = records.round_of(tx, number).total
    for where in (f"closed round {number}", f"round {number}"):
        with contextlib.suppress(Exception):
            return service.context._array(service.secrets.unseal(content, where))
    raise AssertionError("a sum does not open")


def _states(where: Path) -> list[str]:
    """An app that asks for the action of a user who is nowhere."""
    with _serving(where) as client:
        opened = client.post("/v1/episodes", json={"user": "ann"}).json()
        path, told = f"/v1/episodes/{opened['episode']}/actions", []
        for state in (-1, 0, MODEL.states - 1, MODEL.states, 2**64, None):
            body = {"token": opened["token"], "step": 0, "state": state}
            told.append(client.post(path, json=body).status_code)
        return [] if set(told) == {200} else ["a state out of range is refused"]


def _erasure(where: Path) -> list[str]:
    """An app that opens and submits old episodes of two users, one of whom was erased."""
    with _closing(where) as service:
        opened = [service.admit(f"user {user}", f"{user:032x}") for user in range(2)]
        erase(service.store, service.secrets, service.rollback_guard, "user 1")
        told: list[list[Any]] = []
        for user, one in enumerate(opened):
            said: list[Any] = []
            for ask in (lambda one=one, user=user: service.admit(f"user {user}", one.episode) == one,
                        lambda one=one: service.submit_empty(one.token, one.episode)):  # fmt: skip
                try:
                    said.append(ask())
                except Refusal as refused:
                    said.append(refused.kind)
            told.append(said)
        return [] if told[0] == told[1] else ["an app is told who was erased"]


def _told(service: Deployment, opened: list[Any]) -> list[Any]:
    """What an app is told that submits nothing for each of these episodes."""
    told: list[Any] = []
    for one in opened:
        try:
            told.append(service.submit_empty(one.token, one.episode))
        except Refusal as refused:
            told.append(refused.kind)
    return told


def _marked(where: Path) -> list[str]:
    """An app that submits for two users, one of whom was erased, after a clock that is ahead has expired both."""
    now = [1e9]
    with _closing(where, now=lambda: now[0], steady=lambda: now[0]) as service:
        opened = [service.admit(f"user {user}", f"{user:032x}") for user in range(2)]
        erase(service.store, service.secrets, service.rollback_guard, "user 1")
        now[0] += 86_401
        service.expire()
        now[0] -= 600
        return [] if len(set(_told(service, opened))) == 1 else ["an app is told who was erased"]


def _prepared(where: Path) -> list[str]:
    """An app that submits for two users, one of whom was erased, while the plan of the next round is being made."""
    agent = "private-score-vi:epsilon=12,first=0.4,growth=1,largest=4"
    with _closing(where, agent=agent, model=SMALL) as service:
        opened = [service.admit(f"user {user}") for user in range(4)]
        erase(service.store, service.secrets, service.rollback_guard, "user 1")
        service.closing.seal_if_full()
        return [] if len(set(_told(service, opened))) == 1 else ["an app is told who was erased"]


def _late_and_restored(where: Path) -> list[str]:
    """A user's late report is in a release; the store is lost, restored, and they come again, a gap after their place."""
    agent = "private-score-vi:contributions=2,gap=2,epsilon=12,first=0.4,growth=1,largest=4"
    with _closing(where, agent=agent, model=SMALL) as service:
        late = service.admit("ann")
        for user in range(4):
            service.admit(f"user {user}")
        service.submit_trajectory(late.token, late.episode, **episode(0, SMALL))
        for user in range(4, 8):
            service.admit(f"user {user}")
        back_up(service.store, Secrets(SECRET), where / "copy")
        again = Deployment(
            Context(service.mechanism, service.store, Secrets(SECRET), rollback_guard=service.rollback_guard)
        )
        restore(again, where / "copy", replace=True)
        again.set_up()
        second = again.admit("ann")
        again.submit_trajectory(second.token, second.episode, **episode(1, SMALL))
        near = second.round == 2 and _kept(again, 2).any()
        return ["two reports of one user are in rounds less than the gap apart"] if near else []


def _long_numbers(where: Path) -> list[str]:
    """A reward of more digits than Python reads, of a user by themselves and of one of a group."""
    with _serving(where) as client:
        opened = [client.post("/v1/episodes", json={"user": f"user {user}"}).json() for user in range(2)]
        headers, told = {"Content-Type": "application/json"}, []
        for one in opened:
            body = {"token": one["token"], **episode(0), "rewards": [0.5] * (MODEL.horizon - 1) + ["long"]}
            whole = json.dumps(body if one is opened[0] else {"trajectories": [{"episode": one["episode"], **body}]})
            path = f"/v1/episodes/{one['episode']}/trajectory" if one is opened[0] else "/v1/groups/trajectories"
            answer = client.post(path, content=whole.replace('"long"', "9" * 5000), headers=headers).json()
            told.append(answer.get("receipts", [answer])[0]["status"])
        return [] if told == ["counted"] * 2 else ["a number of many digits is refused"]


def _another_model(where: Path) -> list[str]:
    """A new deployment at the address of an old one: is the old one's model, which a device may have, still the same?"""
    known, kept = "", []
    for epsilon in (8, 1):
        (place := where / str(epsilon)).mkdir()
        agent = f"private-linopt-vi:trust=local,first=4,growth=1,epsilon={epsilon}"
        with _serving(place, agent=agent, public_reads=True) as client:
            answer = client.get("/v1/model", headers={"Authorization": "", "If-None-Match": known})
            known = answer.headers["etag"]
            kept.append((answer.status_code, "immutable" in answer.headers["cache-control"]))
    return [] if kept == [(200, False)] * 2 else ["a device keeps the model of another deployment"]


def _replaced(where: Path) -> list[str]:
    """A restore over a live store whose open round has had users."""
    with _closing(where) as service:
        for user in range(2):
            _send(service, service.admit(f"user {user}"), user)
        back_up(service.store, Secrets(SECRET), where / "copy")
        again = Deployment(
            Context(service.mechanism, service.store, Secrets(SECRET), rollback_guard=service.rollback_guard)
        )
        restore(again, where / "copy", replace=True)
        again.set_up()
        return ["a sum that was not released outlives a restore"] if _kept(again, 0).any() else []


def _two_keys(where: Path) -> list[str]:
    """One user through two apps."""
    second = hashlib.sha256(SECOND.encode()).hexdigest()
    with _serving(where, app_key_sha256=[second], rate_limit=1000) as client:
        learned = [
            client.post("/v1/episodes", json={"user": "ann"}, headers=headers).json()["learning"]
            for headers in (APP, {"Authorization": f"Bearer {SECOND}"})
        ]
        return [] if learned == [True, False] else ["one user counts once for each app"]


def _canaries(where: Path) -> list[str]:
    """What canary rounds and users' rounds are closed with, over several rounds with users in them."""
    closed: list[tuple[np.ndarray, np.ndarray]] = []
    close = Mechanism.close

    def noted(self: Mechanism, number: int, state: Any, served: Any, total: Any, noise: Any, *rest: Any) -> Any:
        closed.append((np.array(total), np.array(noise)))
        return close(self, number, state, served, total, noise, *rest)

    Mechanism.close = noted  # type: ignore[method-assign]
    try:
        with _closing(where, canaries=1) as service:
            for user in range(9):
                _send(service, service.admit(f"user {user}"), user)
    finally:
        Mechanism.close = close  # type: ignore[method-assign]
    findings = []
    if any(total.any() for total, _ in closed[::2]):
        findings.append("a canary round has users in it")
    if len({noise.tobytes() for _, noise in closed}) < len(closed):
        findings.append("a canary has the noise of a users' round")
    return findings if len(closed) == 4 else [*findings, "no canaries were released"]


GROUP, NUMBERS, LONG_NUMBERS, ANOTHER_MODEL = (
    _on_a_store(act) for act in (_group, _kinds_of_numbers, _long_numbers, _another_model)
)
TWO_LOOKS, STATES, ERASURE, MARKED, PREPARED = (
    _on_a_store(act) for act in (_two_looks, _states, _erasure, _marked, _prepared)
)
LATE_AND_RESTORED, REPLACED, TWO_KEYS, CANARIES = (
    _on_a_store(act) for act in (_late_and_restored, _replaced, _two_keys, _canaries)
)
