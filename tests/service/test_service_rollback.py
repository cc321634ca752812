# SPDX-License-Identifier: Apache-2.0
"""Stores that lie: put back, emptied, changed, damaged; clocks that jump; and the chain that outsiders check."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from durable import AGENT, SECRET, deployment, episode
from fastapi.testclient import TestClient
from running_service import running_service
from serving import APP, settings
from typer.testing import CliRunner

from reticent.cli import app
from reticent.errors import InvalidInput
from reticent.service.durability import ledger_chain
from reticent.service.durability.rollback_guard import RollbackGuard, RolledBack
from reticent.service.http.app import create_app, make_deployment
from reticent.service.processes.scheduler import Scheduler
from reticent.service.rounds import public_views
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.refusals import Refusal
from reticent.service.secrets import Damaged, Secrets
from reticent.service.store import records, tables
from reticent_client import Connection

FILES = ("service.db", "service.db-wal", "service.db-shm")


def serve(service: Deployment, users: range) -> None:
    for user in users:
        opened = service.admit(f"user {user}")
        service.submit_trajectory(opened.token, opened.episode, **episode(user))


def digests(service: Deployment) -> dict[int, str]:
    with service.store.read() as tx:
        return records.digests(tx)


def copy(here: Path, there: Path) -> None:
    """The database's files, and not the witness."""
    there.mkdir(exist_ok=True)
    for name in FILES:
        (there / name).unlink(missing_ok=True)
        if (here / name).exists():
            shutil.copy(here / name, there / name)


# -- rollback ---------------------------------------------------------------------------------------------------------


def test_a_restored_backup_releases_nothing_again(tmp_path: Path) -> None:
    """Without the witness, each copy would put other noise on the same sum."""
    service = deployment(tmp_path)
    serve(service, range(4))
    service.store.close()
    copy(tmp_path, tmp_path / "backup")
    service = deployment(tmp_path)
    serve(service, range(4, 5))
    shown = digests(service)
    assert set(shown) == {0}
    service.store.close()
    for _ in range(3):
        copy(tmp_path / "backup", tmp_path)
        service = deployment(tmp_path)
        assert "rolled back" in public_views.status(service)["halted"]
        opened = service.admit("somebody new")
        assert (opened.learning, opened.reason) == (False, "learning-stopped")
        assert service.advance() == 0
        assert digests(service) == {}
        service.store.close()


def test_a_store_with_another_past_is_noticed(tmp_path: Path) -> None:
    """A copy of the database goes its own way; the original has published, so the copy must not."""
    service = deployment(tmp_path)
    serve(service, range(4))
    copy(tmp_path, tmp_path / "fork")
    fork = deployment(tmp_path / "fork", rollback_guard=RollbackGuard(tmp_path / "service.witness", Secrets(SECRET)))
    serve(service, range(4, 5))
    assert fork.admit("user 4").learning is False
    assert digests(fork) == {}  # its round was full, and has not been released
    assert public_views.status(fork)["halted"] is not None
    assert public_views.status(service)["halted"] is None
    assert service.advance() == 0  # the witness remembers that something was wrong, and tells everybody
    assert public_views.status(service)["halted"] is not None


def test_a_store_with_another_past_is_noticed_also_if_it_went_further(tmp_path: Path) -> None:
    """It has two releases of its own where the witness saw one: the first of them was another one."""
    service = deployment(tmp_path)
    serve(service, range(4))
    copy(tmp_path, tmp_path / "fork")
    fork = deployment(tmp_path / "fork", rollback_guard=None)
    serve(fork, range(4, 9))
    assert digests(fork).keys() == {0, 1}
    fork.store.close()
    serve(service, range(4, 5))
    assert digests(service).keys() == {0}
    assert public_views.status(service)["halted"] is None
    fork = deployment(tmp_path / "fork", rollback_guard=RollbackGuard(tmp_path / "service.witness", Secrets(SECRET)))
    assert fork.advance() == 0
    assert public_views.status(fork)["halted"] is not None


def test_a_genuine_token_of_an_unknown_episode_stops_learning(tmp_path: Path) -> None:
    service = deployment(tmp_path)
    service.store.close()
    copy(tmp_path, tmp_path / "backup")
    service = deployment(tmp_path)
    opened = service.admit("ann")
    service.store.close()
    copy(tmp_path / "backup", tmp_path)
    service = deployment(tmp_path)
    assert public_views.status(service)["halted"] is None  # nothing was released, so nobody knows yet
    with pytest.raises(Refusal, match="rolled back") as refused:
        service.submit_trajectory(opened.token, opened.episode, **episode(0))
    assert refused.value.kind == "learning-stopped"
    assert "rolled back" in public_views.status(service)["halted"]
    assert service.admit("bob").learning is False
    service.store.close()
    copy(tmp_path / "backup", tmp_path)
    assert "rolled back" in public_views.status(deployment(tmp_path))["halted"]  # the witness has not forgotten


def test_another_deployments_tokens_and_seals_mean_nothing(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = deployment(tmp_path / "one"), deployment(tmp_path / "two")
    opened = one.admit("ann")
    with pytest.raises(InvalidInput, match="not genuine"):
        two.submit_trajectory(opened.token, opened.episode, **episode(0))
    assert public_views.status(two)["halted"] is None
    with one.store.read() as tx:
        total = records.round_of(tx, 0).total
    with pytest.raises(Damaged):
        two.context.total(0, total)


def test_a_release_is_published_after_the_witness_has_seen_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = deployment(tmp_path)
    serve(service, range(4))

    def fails(*_: Any) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(RollbackGuard, "_write", fails)
        with pytest.raises(OSError, match="no space"):
            service.admit("user 4")
    assert digests(service).keys() == {0}
    assert public_views.status(service)["served_version"] == 0
    assert not any(entry["released"] for entry in public_views.ledger(service)["entries"])
    assert service.admit("user 4").version == 1
    with pytest.raises(RolledBack, match="another one"):
        service.rollback_guard.record(service.identity, 1, "0" * 64)  # type: ignore[union-attr]


# -- beginning --------------------------------------------------------------------------------------------------------


def test_serving_refuses_an_empty_store_and_beginning_refuses_a_second_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="reticent init"):
        create_app(settings(tmp_path))
    assert not (tmp_path / "service.db").exists()
    make_deployment(settings(tmp_path), begin=True).store.close()
    make_deployment(settings(tmp_path)).store.close()
    for name in FILES:
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(InvalidInput, match="never begin again"):
        make_deployment(settings(tmp_path), begin=True)
    rollback_guard = tmp_path / "service.db.witness"
    rollback_guard.unlink()
    make_deployment(settings(tmp_path), begin=True).store.close()
    rollback_guard.write_text(rollback_guard.read_text().replace('"releases": 0', '"releases": 1'))
    with pytest.raises(InvalidInput, match="rollback_guard"):
        make_deployment(settings(tmp_path))
    rollback_guard.unlink()
    with pytest.raises(InvalidInput, match="rollback_guard"):
        make_deployment(settings(tmp_path))


@pytest.mark.parametrize(
    ("agent", "changed"), [(AGENT, "bonus_scale=0.3"), ("private-score-vi:first=0.4", "explore=0.1")]
)
def test_every_option_of_the_agent_is_kept(tmp_path: Path, agent: str, changed: str) -> None:
    deployment(tmp_path, agent).store.close()
    with pytest.raises(InvalidInput, match=f"another deployment.*option {changed.partition('=')[0]}"):
        deployment(tmp_path, f"{agent},{changed}")


def test_the_clocks_settings_are_kept_too(tmp_path: Path) -> None:
    deployment(tmp_path).store.close()
    with pytest.raises(InvalidInput, match=r"another deployment \(finish_after\)"):
        deployment(tmp_path, finish_after=1.0)


# -- clocks, damage, health -------------------------------------------------------------------------------------------


def test_a_clock_nine_days_ahead_does_not_finish(database: str) -> None:
    wall, steady = [1e9], [0.0]
    service = deployment(
        database, episodes=4, finish_after=604_800.0, now=lambda: wall[0], steady=lambda: steady[0], inline=False
    )
    for user in range(4):
        service.admit(f"user {user}")
    scheduler = Scheduler(service)
    scheduler.once()
    for jump in (9 * 86_400.0, -20 * 86_400.0, 30 * 86_400.0):
        wall[0], steady[0] = wall[0] + jump, steady[0] + 11.0
        scheduler.once()
        assert not service.clock()[0].finished
    while steady[0] < 604_800.0 + 60.0:
        wall[0], steady[0] = wall[0] + 86_400.0, steady[0] + 86_400.0
        scheduler.once()
    assert service.clock()[0].finished


def test_a_damaged_sum_is_the_operators_problem(tmp_path: Path) -> None:
    with TestClient(create_app(settings(tmp_path), begin=True)) as client:
        service = client.app.state.deployment  # type: ignore[attr-defined]
        opened = client.post("/v1/episodes", json={"user": "ann"}, headers=APP).json()
        with service.store.write() as tx:
            before = records.round_of(tx, 0).total
            records.set_total(tx, 0, before[:-1] + bytes([before[-1] ^ 1]))
        path = f"/v1/episodes/{opened['episode']}/trajectory"
        body = {"token": opened["token"], **episode(0)}
        assert client.post(path, json=body, headers=APP).status_code == 503
        assert client.get("/v1/health/ready").status_code == 503
        assert client.get("/v1/health/live").status_code == 200
        with service.store.write() as tx:
            records.set_total(tx, 0, before)
        assert client.post(path, json=body, headers=APP).status_code == 200
        assert client.get("/v1/health/ready").status_code == 200
        service.halt("a test")
        assert client.get("/v1/health/ready").json() == {"status": "degraded", "version": 0, "problems": ["a test"]}
        client.app.state.scheduler.stop()  # type: ignore[attr-defined]  # its next turn would say that all is well
        client.app.state.scheduler.failing = True  # type: ignore[attr-defined]
        assert client.get("/v1/health/ready").status_code == 503


def test_a_damaged_state_is_found_before_it_is_needed(tmp_path: Path) -> None:
    service = deployment(tmp_path)
    service.examine()
    with service.store.write() as tx:
        state = records.learner(tx).state
        tx.execute(sa.update(tables.LEARNER).values(state=state[:-1] + bytes([state[-1] ^ 1])))
    with pytest.raises(Damaged):
        service.examine()


# -- the chain --------------------------------------------------------------------------------------------------------


@pytest.fixture
def told(tmp_path: Path) -> tuple[dict[str, Any], dict[int, Any]]:
    """What a service with two releases tells outsiders: its chain and its billboards."""
    with TestClient(create_app(settings(tmp_path), begin=True)) as client:
        serve(client.app.state.deployment, range(9))  # type: ignore[attr-defined]
        answer = client.get("/v1/transparency").json()
        boards = {version: client.get(f"/v1/billboards/{version}").json() for version in range(3)}
    return answer, boards


def test_outsiders_find_an_honest_chain_in_order(told: tuple[dict[str, Any], dict[int, Any]]) -> None:
    answer, boards = told
    assert len(answer["entries"]) == 3
    assert answer["head"] == answer["entries"][-1]["hash"]
    for head in (None, *(row["hash"] for row in answer["entries"])):
        assert ledger_chain.examine(answer["entries"], answer["public_key"], billboards=boards, head=head) == []


def test_outsiders_notice_what_was_changed(told: tuple[dict[str, Any], dict[int, Any]]) -> None:
    answer, boards = told
    rows, key = answer["entries"], answer["public_key"]
    forged = Secrets("another secret")

    def changed(version: int, **values: Any) -> list[dict[str, str]]:
        """The entry rewritten, and everything after it signed anew by somebody else."""
        made, before = list(rows[:version]), rows[version - 1]["hash"] if version else None
        for number in range(version, len(rows)):
            entry = {**json.loads(rows[number]["entry"]), "previous": before}
            entry |= values if number == version else {}
            made.append(ledger_chain.signed(entry, forged.sign_entry))
            before = made[-1]["hash"]
        return made

    def found(chained: Any, **given: Any) -> str:
        return " ".join(one.what for one in ledger_chain.examine(chained, key, **given))

    assert "signature" in found(changed(1, users=5))
    assert "hash" in found([{**rows[0], "entry": rows[0]["entry"].replace("joint", "local")}, *rows[1:]])
    assert "follow" in found([rows[0], rows[2]])
    assert "seen before" in found(rows[:2], head=rows[2]["hash"])
    assert "seen before" in found(changed(1, users=5), head=rows[1]["hash"])
    assert "billboard" in found(rows, billboards={1: boards[2]})
    assert "promised" in found(changed(2, epsilon=1.5))
    assert "noise costs" in found(changed(2, epsilon=0.5))
    assert "another key" in " ".join(one.what for one in ledger_chain.examine(changed(0), forged.public_key))


def test_the_command_audits_a_service_and_a_file(tmp_path: Path) -> None:
    world, where = "random-blend:states=4,actions=2,horizon=2,d=2", tmp_path / "chain.json"
    run = CliRunner()
    with running_service(tmp_path, world=world, episodes=12, rate_limit=0) as url:
        connection = Connection(url, None)
        told = connection.get("/v1/transparency")
        connection.close()
        done = run.invoke(app, ["audit", "--deployment", url, "--public-key", told["public_key"], "--json"])
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        assert (found["verdict"], found["versions"], found["billboards_compared"]) == ("consistent", 1, 1)
    where.write_text(json.dumps(told))
    assert run.invoke(app, ["audit", "--deployment", str(where), "--head", str(where)]).exit_code == 0
    assert run.invoke(app, ["audit", "--deployment", str(where), "--head", "0" * 64]).exit_code == 1
    told["entries"][0]["entry"] = told["entries"][0]["entry"].replace("joint", "local")
    where.write_text(json.dumps(told))
    assert run.invoke(app, ["audit", "--deployment", str(where)]).exit_code == 1


def test_the_chain_survives_a_restart_and_comes_in_pages(tmp_path: Path) -> None:
    service = deployment(tmp_path)
    serve(service, range(9))
    head = public_views.transparency(service)["head"]
    service.store.close()
    service = deployment(tmp_path)
    first = public_views.transparency(service, 0, 2)
    rest = public_views.transparency(service, first["next"], 2)
    assert (len(first["entries"]), len(rest["entries"]), rest["next"]) == (2, 1, None)
    assert first["head"] == rest["head"] == head == rest["entries"][-1]["hash"]
    with service.store.read() as tx:
        assert tx.execute(sa.text("SELECT count(*) FROM chain")).scalar_one() == 3


def test_a_plan_is_served_as_the_version_that_the_chain_names(database: str) -> None:
    """Version 0's bytes in the place of version 1's, and an entry that another key signed: neither is served."""
    service = deployment(database)
    serve(service, range(9))
    assert service.clock()[0].served_version == 2
    boards, chain = tables.BILLBOARDS, tables.CHAIN
    with service.store.write() as tx:
        content = {row.version: row.content for row in tx.execute(sa.select(boards))}
        link = tx.execute(sa.select(chain).where(chain.c.version == 2)).one()
        tx.execute(sa.update(boards).where(boards.c.version == 1).values(content=content[0]))
        entry = {**json.loads(link.entry), "users": 1}
        forged = ledger_chain.signed(entry, Secrets("another secret of the tests").sign_entry)
        tx.execute(sa.update(chain).where(chain.c.version == 2).values(**forged))
    again = deployment(database)
    assert again.billboard(0).version == 0
    for version in (1, 2):
        with pytest.raises(Damaged, match=f"another plan as version {version}"):
            again.billboard(version)
    with service.store.write() as tx:
        tx.execute(sa.update(boards).where(boards.c.version == 1).values(content=content[1]))
    assert again.billboard(1).version == 1


def test_a_stopped_deployment_admits_nobody_into_a_round(tmp_path: Path) -> None:
    """With a planner of its own nobody is asked before the admission itself."""
    service = deployment(tmp_path, inline=False)
    service.admit("before")
    with service.store.write() as tx:
        records.change_deployment(tx, halted="a rollback was found")
    opened = service.admit("after")
    assert (opened.learning, opened.reason) == (False, "learning-stopped")
    assert [one.learning for one in service.admit_all([("one more", None), ("and another", None)])] == [False, False]
    assert int(service.clock()[0].admitted) == 1
