# SPDX-License-Identifier: Apache-2.0
"""Erasure: what is gone, what stays, that nothing published moves, and that no restore brings anybody back."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import types
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from durable import MODEL, SECRET, deployment, episode
from fastapi.testclient import TestClient
from running_service import ADMIN_KEY, APP_KEY, running_service
from serving import ADMIN, APP, READER, settings
from test_backup_and_restore import begin, copied, lose, put_back, serve, shown, total

from reticent.errors import InvalidInput
from reticent.service.durability.erasure import Erased, erase
from reticent.service.durability.journal import Journal, rewrite_journal
from reticent.service.http.app import create_app
from reticent.service.processes.logs import JsonLines
from reticent.service.rounds import deployment as beginning
from reticent.service.rounds import public_views
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.refusals import Refusal
from reticent.service.secrets import Damaged, Secrets
from reticent.service.store import tables
from reticent.worlds.registry import make_world
from reticent_client import Connection

NAMES = Secrets(SECRET)


def forget(service: Deployment, user: str) -> Erased:
    return erase(service.store, service.secrets, service.rollback_guard, user)


def rows_of(service: Deployment, table: sa.Table) -> list[dict[str, Any]]:
    with service.store.read() as tx:
        found = [dict(row._mapping) for row in tx.execute(sa.select(table))]
    return sorted(found, key=lambda row: row.get("admission", 0))


def test_her_rows_are_nobodys_and_nothing_else_moves(tmp_path: Path, database: str) -> None:
    service = begin(tmp_path, database)
    came = serve(service, range(5))  # one release; user 4 has submitted to the open round
    waiting = service.admit("user 5")
    before, added, status = shown(service), total(service, 1), public_views.status(service)
    others = [row for row in rows_of(service, tables.EPISODES) if row["admission"] < 4]
    for user in ("user 4", "user 5"):
        done = forget(service, user)
        assert (done.episodes, done.before) == (1, False)
    assert shown(service) == before
    assert public_views.status(service) == status
    assert np.array_equal(total(service, 1), added)
    found = rows_of(service, tables.EPISODES)
    assert [row for row in found if row["admission"] < 4] == others
    hers = [row for row in found if row["admission"] >= 4]
    # She who came back and she who did not leave the same behind: the numbers of which rounds are made up.
    left = [(row["expires_at"] > 0, row["state"], row["version"]) for row in hers]
    assert left == [(True, "erased", 1)] * 2
    assert len({row["user"] for row in hers}) == 2
    ids = {came[4].episode, waiting.episode}
    assert not ids & {row["id"] for row in found}
    for table in tables.METADATA.sorted_tables:
        if table not in (tables.USERS, tables.ERASURES):
            assert NAMES.name("user 4") not in repr(rows_of(service, table))
    assert {"name": NAMES.name("user 5"), "admissions": 1} in rows_of(service, tables.USERS)
    # Her token proves no rollback, her id is nobody else's, and another episode of hers is not learned from.
    for late in (waiting, came[4]):
        assert service.submit_trajectory(late.token, late.episode, **episode(5)) == 1
    assert service.admit("user 5", waiting.episode) == waiting
    again = service.admit("user 5")
    assert (again.learning, again.reason) == (False, "user-already-counted")
    for other in ("user 6", "user 4", "user 0"):
        with pytest.raises(Refusal, match="another user"):
            service.admit(other, waiting.episode)
    assert np.array_equal(total(service, 1), added)
    assert public_views.status(service)["halted"] is None
    # Her place stays taken: the round ends after four admissions, hers among them.
    opened = serve(service, range(6, 9))
    assert [(one.round, one.place) for one in opened] == [(1, 2), (1, 3), (2, 0)]
    assert public_views.status(service)["served_version"] == 2


def answers_of(service: Deployment, opened: Any, user: str, seed: int) -> list[Any]:
    """All that an app can ask for an episode that it opened before: opening it again, in her name or another's, and
    submitting."""
    said: list[Any] = []
    for ask in (
        lambda: service.admit(user, opened.episode),
        lambda: service.admit("user 0", opened.episode),
        lambda: service.submit_trajectory(opened.token, opened.episode, **episode(seed)),
        lambda: service.submit_empty(opened.token, opened.episode),
    ):
        try:
            said.append(ask())
        except Refusal as refused:
            said.append((refused.kind, str(refused)))
    return said


@pytest.mark.parametrize("before", ["open", "counted"])
@pytest.mark.parametrize(
    "then",
    [
        "at once",
        "after the ticket",
        "expired by a fast clock",
        "after the last round",
        "after a restore",
        "after a restore of a backup that is newer than the journal",
    ],
)
def test_an_app_is_told_the_same_whether_she_was_erased_or_not(
    tmp_path: Path, database: str, before: str, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbours: one user is erased, the other is not. Every answer to the app is the same, byte for byte."""
    monkeypatch.setattr(
        beginning, "uuid", types.SimpleNamespace(uuid4=lambda: uuid.UUID(int=1))
    )  # of both: same tokens
    told = []
    for erased in (False, True):
        where = tmp_path / str(erased)
        where.mkdir()
        url = database if database.startswith("postgresql") else f"sqlite:///{where / 'service.db'}"
        now = [1e9]
        service = begin(where, url, now=lambda now=now: now[0], steady=lambda now=now: now[0])
        if "newer" in then:  # the journal ends before they come
            serve(service, range(20, 24))
            service.closing.seal_if_full()
            service.advance()
        opened = [service.admit(f"user {user}", f"{user:032x}") for user in range(3)]
        if before == "counted":
            service.submit_trajectory(opened[1].token, opened[1].episode, **episode(1))
        if erased:
            erase(service.store, service.secrets, service.rollback_guard, "user 1")
        if then == "after the ticket":
            now[0] += 1e6
            service.expire()
        elif then == "expired by a fast clock":  # of another worker, or of this one before it was set right
            now[0] += 86_401
            assert service.expire() > 0
            now[0] -= 600
        elif then == "after the last round":
            for user in range(3, 12):
                service.admit(f"user {user}", f"{user:032x}")
            service.finish()
        elif "restore" in then:
            file = copied(service, where / "copy")
            lose(service)
            put_back(where, url, file)
            service = begin(where, url, now=lambda now=now: now[0], steady=lambda now=now: now[0])
        told.append(answers_of(service, opened[1], "user 1", 1))
        tables.METADATA.drop_all(service.store.engine)
    assert told[0] == told[1]
    assert told[0][1][0] == "episode-taken"
    assert (told[0][2] == 0) == (then in ("at once", "expired by a fast clock"))


@pytest.mark.parametrize("before", ["open", "counted"])
def test_while_a_round_is_prepared_an_app_is_told_the_same(tmp_path: Path, database: str, before: str) -> None:
    """Between two rounds nothing can be counted. An erased user's episode is answered as all others are, retries too."""
    agent = "private-score-vi:epsilon=12,first=0.4,growth=1,largest=4"
    model = make_world("random-blend:states=4,actions=2,horizon=2,d=2").model
    service = deployment(database, agent, model=model)
    opened = [service.admit(f"user {user}", f"{user:032x}") for user in range(4)]
    if before == "counted":
        for one in opened:
            service.submit_empty(one.token, one.episode)
    forget(service, "user 1")
    service.closing.seal_if_full()  # the next round is open, and what it refers to is still being planned
    told = []
    for one in opened:
        with pytest.raises(Refusal, match="prepared") as refused:
            service.submit_empty(one.token, one.episode)
        told.append((refused.value.kind, str(refused.value)))
    assert len(set(told)) == 1
    together = service.submissions.count_all([service.submissions.empty(one.token, one.episode) for one in opened])
    assert {(one.kind, str(one)) for one in together if isinstance(one, Refusal)} == set(told)
    assert len(together) == 4
    assert not any(isinstance(one, int) for one in together)
    service.advance()
    assert [service.submit_empty(one.token, one.episode) for one in opened] == [0] * 4


def test_somebody_who_never_came_leaves_the_same_tombstone_and_repeating_is_no_harm(tmp_path: Path) -> None:
    service = deployment(tmp_path)
    service.admit("ann")
    took_part, stranger = forget(service, "ann"), forget(service, "zoe")
    assert (took_part.deleted, took_part.kept, took_part.cannot_be_undone) == (
        stranger.deleted, stranger.kept, stranger.cannot_be_undone,
    )  # fmt: skip
    assert (stranger.episodes, stranger.before) == (0, False)
    assert {row["admissions"] for row in rows_of(service, tables.USERS)} == {1}
    held = [rows_of(service, table) for table in tables.METADATA.sorted_tables]
    assert forget(service, "ann") == Erased(episodes=0, before=True)
    assert [rows_of(service, table) for table in tables.METADATA.sorted_tables] == held
    assert service.admit("zoe").reason == service.admit("ann").reason == "user-already-counted"
    assert service.clock()[0].admitted == 1


def test_the_files_of_a_store_no_longer_have_her_episode(tmp_path: Path) -> None:
    service = deployment(tmp_path, pan_private=True)
    opened = [service.admit(f"user {user}") for user in range(3)]
    sought = (opened[1].episode.encode(), opened[2].episode.encode())

    def files() -> bytes:
        return b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.name.startswith("service.db"))

    assert all(identity in files() for identity in sought)
    forget(service, "user 1")
    assert sought[0] not in files()
    assert sought[1] in files()  # the check can see


def test_where_users_return_all_her_visits_go(tmp_path: Path) -> None:
    world = "random-blend:states=4,actions=2,horizon=2,d=2"
    agent = "private-score-vi:contributions=3,gap=2,epsilon=12,first=0.4,growth=1,largest=4"
    service = deployment(tmp_path, agent=agent, episodes=40, model=make_world(world).model, inline=False)
    for user in ("ann", *(f"user {number}" for number in range(8)), "ann"):
        assert service.admit(user).learning
    assert forget(service, "ann").episodes == 2
    assert NAMES.name("ann") not in repr(rows_of(service, tables.VISITS))
    assert len(rows_of(service, tables.VISITS)) == 8
    for user in range(10, 18):
        service.admit(f"user {user}")
    assert service.admit("ann").reason == "user-already-counted"  # one visit was left


def test_no_restore_brings_anybody_back(tmp_path: Path, database: str) -> None:
    service = begin(tmp_path, database)
    serve(service, range(6))
    early = copied(service, tmp_path / "early")
    forget(service, "user 1")  # in the release, the journal and the backup
    forget(service, "user 5")  # in the backup
    forget(service, "never came")
    serve(service, range(6, 9))  # two releases; erased users' rows are in the journal's second entry
    late = copied(service, tmp_path / "late")
    before = shown(service)
    for file in (early, late, None):
        lose(service)
        found = put_back(tmp_path, database, file)
        assert (found.releases, found.learning) == (2, True)
        service = begin(tmp_path, database)
        assert shown(service) == before
        for user in ("user 1", "user 5", "never came"):
            assert service.admit(user).reason == "user-already-counted"
        erased = [row for row in rows_of(service, tables.EPISODES) if row["state"] == "erased"]
        assert [row["admission"] for row in erased] == [1, 5]
        for user in ("user 1", "user 5"):
            assert NAMES.name(user) not in {row["user"] for row in erased}
        assert NAMES.name("user 1") not in repr(rows_of(service, tables.EPISODES))
        assert {row["admissions"] for row in rows_of(service, tables.USERS)} == {1}
        assert {row["name"] for row in rows_of(service, tables.USERS)}.isdisjoint(row["user"] for row in erased)


def test_before_the_first_publication_the_journal_begins_with_the_erasure(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'service.db'}"
    service = begin(tmp_path, url)
    serve(service, range(2))
    forget(service, "user 0")
    assert service.rollback_guard is not None
    assert service.rollback_guard.read().length > 0
    serve(service, range(2, 5))
    lose(service)
    assert put_back(tmp_path, url, None).releases == 1
    service = begin(tmp_path, url)
    assert service.admit("user 0").reason == "user-already-counted"


def test_a_rewritten_journal_has_her_tombstone_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'service.db'}"
    service = begin(tmp_path, url)
    came = serve(service, range(5))
    forget(service, "user 2")
    assert service.rollback_guard is not None

    def journal() -> str:
        assert service.rollback_guard is not None
        parts = Journal(service.rollback_guard.path, service.secrets).read(service.rollback_guard.read().length)
        return json.dumps([part for part in parts if part["table"] != "erasures"])

    assert came[2].episode in journal()
    rewrite_journal(service.rollback_guard, service.store, Secrets(SECRET))
    assert came[2].episode not in journal()
    assert NAMES.name("user 2") not in journal()
    before = shown(service)
    lose(service)
    put_back(tmp_path, url, None)
    service = begin(tmp_path, url)
    assert shown(service) == before
    assert service.admit("user 2").reason == "user-already-counted"


def test_another_secret_or_no_store_changes_nothing(tmp_path: Path) -> None:
    service = deployment(tmp_path)
    service.admit("ann")
    held = [rows_of(service, table) for table in tables.METADATA.sorted_tables]
    with pytest.raises(Damaged):
        erase(service.store, Secrets("another secret of the tests, long enough"), None, "ann")
    assert [rows_of(service, table) for table in tables.METADATA.sorted_tables] == held
    tables.METADATA.drop_all(service.store.engine)
    with pytest.raises(InvalidInput, match="reticent init"):
        erase(service.store, NAMES, None, "ann")


@pytest.mark.parametrize("pan_private", [False, True])
def test_only_the_admin_erases_and_the_log_names_nobody(tmp_path: Path, pan_private: bool) -> None:
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(JsonLines())
    log = logging.getLogger("reticent.service")
    log.addHandler(handler)
    public = ("/v1/status", "/v1/billboard", "/v1/transparency", "/v1/ledger", "/v1/round", "/v1/health")
    try:
        with TestClient(create_app(settings(tmp_path, pan_private=pan_private), begin=True)) as client:
            opened = client.post("/v1/episodes", json={"user": "ann of the secret name"}, headers=APP).json()
            before = [client.get(path).content for path in public]
            for headers in (APP, READER, {}):
                told = [
                    client.post("/v1/admin/erase", json={"user": user}, headers={**headers, "X-Request-ID": "x"})
                    for user in ("ann of the secret name", "nobody at all")
                ]
                assert told[0].status_code == (403 if headers else 401)
                assert told[0].content == told[1].content
            erased, stranger = (
                client.post("/v1/admin/erase", json={"user": user}, headers={**ADMIN, "X-Request-ID": "erase-1"})
                for user in ("ann of the secret name", "nobody at all")
            )
            assert erased.status_code == stranger.status_code == 200
            assert erased.headers["cache-control"] == "no-store"
            assert {**erased.json(), "episodes": 0} == stranger.json()
            assert [client.get(path).content for path in public] == before
            assert client.get("/v1/admin/status", headers=ADMIN).json()["open_episodes"] == 0
            body = {"token": opened["token"], **episode(0)}
            late = client.post(f"/v1/episodes/{opened['episode']}/trajectory", json=body, headers=APP)
            assert late.json() == {"episode": opened["episode"], "status": "counted", "version": 0}
            for wrong in ({}, {"user": ""}, {"user": "x" * 257}, {"user": "ann", "more": 1}, {"user": 5}):
                assert client.post("/v1/admin/erase", json=wrong, headers=ADMIN).status_code == 422
    finally:
        log.removeHandler(handler)
    said = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [(one["request"], one["message"]) for one in said] == [
        ("erase-1", "a user was erased at the operator's request")
    ] * 2
    for secret in ("ann", "nobody", opened["episode"], NAMES.name("ann of the secret name")):
        assert secret not in lines.getvalue()


def test_against_the_running_service(tmp_path: Path) -> None:
    """Over the wire: she asks in the middle of a round, and all the others are served and learned from as ever."""
    world = "random-blend:states=6,actions=3,horizon=8,d=3"
    agent = "private-linopt-vi:first=4,growth=1"
    with (
        running_service(tmp_path, world=world, agent=agent, episodes=12, rate_limit=0) as url,
        contextlib.closing(Connection(url, APP_KEY)) as app,
        contextlib.closing(Connection(url, ADMIN_KEY)) as operator,
    ):
        opened = [app.post("/v1/episodes", {"user": f"user {user}"}) for user in range(3)]
        for seed, one in enumerate(opened[:2]):
            sent = {"token": one["token"], **episode(seed, MODEL)}
            app.post(f"/v1/episodes/{one['episode']}/trajectory", sent)
        assert operator.post("/v1/admin/erase", {"user": "user 2"})["episodes"] == 1
        late = app.post(f"/v1/episodes/{opened[2]['episode']}/empty", {"token": opened[2]["token"]})
        assert late["status"] == "counted"
        assert app.post("/v1/episodes", {"user": "user 2"})["learning"] is False
        for user in range(3, 12):
            assert app.post("/v1/episodes", {"user": f"user {user}"})["learning"]
        operator.post("/v1/admin/finish", {})
        status = app.get("/v1/status")
        assert (status["admitted"], status["served_version"], status["halted"]) == (12, 3, None)


def test_erasures_and_submissions_at_once_count_each_episode_once_or_never(tmp_path: Path, database: str) -> None:
    """Eight users submit while they are erased, in threads: no deadlock, and nothing is taken for a rollback."""
    service = begin(tmp_path, database, agent="private-linopt-vi:first=12,growth=1,trust=local")
    opened = [service.admit(f"user {user}") for user in range(8)]
    one = np.zeros(service.mechanism.noise_scale.shape, np.int64)
    one[0, 0] = 1

    def submit(user: int) -> str:
        try:
            service.submit_report(opened[user].token, opened[user].episode, one)
        except Refusal as refused:
            return refused.kind
        return "counted"

    with ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(submit, user) for user in range(8)]
        gone = [pool.submit(forget, service, f"user {user}") for user in reversed(range(8))]
        told = [one.result(60) for one in sent]
        assert [one.result(60).episodes for one in gone] == [1] * 8
    assert told == ["counted"] * 8  # to whoever asks; who was erased first added nothing
    assert 0 <= total(service, 0)[0, 0] <= 8
    assert public_views.status(service)["halted"] is None
    assert {row["state"] for row in rows_of(service, tables.EPISODES)} == {"erased"}


def test_without_a_rollback_guard_there_is_no_journal_to_write_to(tmp_path: Path) -> None:
    service = deployment(f"sqlite:///{tmp_path / 'service.db'}")
    serve(service, range(2))
    assert [forget(service, "user 1") for _ in range(2)] == [Erased(1, False), Erased(0, True)]
    assert not service.admit("user 1").learning


@pytest.mark.parametrize("journal", ["not begun", "lost"])
def test_a_journal_that_is_begun_by_an_erasure_has_all_of_the_store(
    tmp_path: Path, database: str, journal: str
) -> None:
    """Nothing was published yet, or the file is gone: the journal alone must bring the deployment back."""
    service = begin(tmp_path, database)
    serve(service, range(3 if journal == "not begun" else 5))
    if journal == "lost":
        Journal(tmp_path / "witness", NAMES).path.unlink()
    forget(service, "user 1")
    before = shown(service)
    lose(service)
    assert put_back(tmp_path, database, None).admitted == (3 if journal == "not begun" else 5)
    service = begin(tmp_path, database)
    assert shown(service) == before
    assert [one.reason for one in serve(service, range(3))] == ["user-already-counted"] * 3
