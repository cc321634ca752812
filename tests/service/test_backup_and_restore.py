# SPDX-License-Identifier: Apache-2.0
"""Backup and restore: what comes back, who is remembered, what is never released twice, and what dies on the way."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from durable import AGENT, MODEL, SECRET, deployment, episode

from reticent.errors import InvalidInput
from reticent.privacy.noise import SecureNoise
from reticent.service.durability import ledger_chain
from reticent.service.durability.backup import back_up, read_backup
from reticent.service.durability.journal import Journal
from reticent.service.durability.restore import Restored, restore
from reticent.service.durability.rollback_guard import RollbackGuard
from reticent.service.mechanism import make_mechanism
from reticent.service.rounds import public_views
from reticent.service.rounds.context import Context
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.refusals import Refusal
from reticent.service.secrets import Damaged, Secrets
from reticent.service.store import migrations, records, rows, tables, visits
from reticent.service.store.engine import Store
from reticent.worlds.registry import make_world

LOCAL = "private-linopt-vi:first=4,growth=1,trust=local"


def begin(where: Path, url: str, agent: str = AGENT, **given: Any) -> Deployment:
    return deployment(url, agent, rollback_guard=RollbackGuard(where / "witness", Secrets(SECRET)), **given)


def put_back(
    where: Path, url: str, path: Path | None, agent: str = AGENT, model: Any = MODEL, **given: Any
) -> Restored:
    context = Context(
        make_mechanism(agent, model, 12, SecureNoise()), Store(url), Secrets(SECRET),
        inline=True, rollback_guard=RollbackGuard(where / "witness", Secrets(SECRET)),
    )  # fmt: skip
    made = Deployment(context)
    try:
        return restore(made, path, **given)
    finally:
        made.store.close()


def copied(service: Deployment, path: Path) -> Path:
    assert service.rollback_guard is not None
    back_up(service.store, Secrets(SECRET), path, restores=service.rollback_guard.read().restores)
    return path


def serve(service: Deployment, users: range) -> list[Any]:
    came = []
    for user in users:
        opened = service.admit(f"user {user}")
        if opened.learning:
            service.submit_trajectory(opened.token, opened.episode, **episode(user))
        came.append(opened)
    return came


def lose(service: Deployment) -> None:
    """The database is gone."""
    tables.METADATA.drop_all(service.store.engine)
    service.store.close()


def shown(service: Deployment) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """All that outsiders have seen: the chain and every billboard."""
    newest = public_views.status(service)["served_version"]
    boards = [
        service.billboard(n).to_json(final=False, model=service.configuration.model_digest) for n in range(newest + 1)
    ]
    return public_views.transparency(service), boards


def total(service: Deployment, number: int) -> np.ndarray:
    with service.store.read() as tx:
        return service.context.total(number, records.round_of(tx, number).total)._value


def test_restored_after_later_releases_the_store_is_that_of_the_last_publication(tmp_path: Path, database: str) -> None:
    service = begin(tmp_path, database)
    serve(service, range(2))
    early = copied(service, tmp_path / "early")
    serve(service, range(2, 9))  # two releases later
    before = shown(service)
    lose(service)
    found = put_back(tmp_path, database, early)
    assert (found.releases, found.admitted, found.learning) == (2, 8, True)
    service = begin(tmp_path, database)
    assert public_views.status(service)["halted"] is None
    assert shown(service) == before
    assert [one.reason for one in serve(service, range(8))] == ["user-already-counted"] * 8
    assert not np.any(total(service, 2))
    assert serve(service, range(8, 12))[0].learning  # she was in no publication, and her report is gone
    service.finish()
    service.advance()
    told = public_views.transparency(service)
    assert len(told["entries"]) == 4
    assert ledger_chain.examine(told["entries"], told["public_key"], head=before[0]["head"]) == []


def test_users_of_a_past_that_was_given_up_do_not_come_back(tmp_path: Path, database: str) -> None:
    """A backup of before a restore has users who were admitted after the last publication: in the past that goes on, their
    admissions are other users'. Those of a backup of the same past are kept."""
    service = begin(tmp_path, database)
    serve(service, range(5))  # one publication, of the first four
    serve(service, range(5, 7))
    old = copied(service, tmp_path / "old")
    lose(service)
    assert put_back(tmp_path, database, None).admitted == 4
    service = begin(tmp_path, database)
    serve(service, range(20, 21))
    new = copied(service, tmp_path / "new")
    lose(service)
    assert put_back(tmp_path, database, old).admitted == 4
    service = begin(tmp_path, database)
    assert serve(service, range(6, 7))[0].learning
    lose(service)
    assert put_back(tmp_path, database, new).admitted == 4  # it is of before yet another restore by now


def test_a_journal_of_another_layout_is_refused(tmp_path: Path, database: str) -> None:
    service = begin(tmp_path, database)
    with service.store.write() as tx:
        tx.execute(sa.update(tables.DEPLOYMENT).values(format=migrations.FORMAT + 1))
    serve(service, range(5))  # written to the journal with what was published
    lose(service)
    with pytest.raises(InvalidInput, match=f"of layout {migrations.FORMAT + 1}"):
        put_back(tmp_path, database, None)


@pytest.mark.parametrize("last", [True, False])
def test_nothing_is_lost_of_a_deployment_that_has_ended(tmp_path: Path, database: str, last: bool) -> None:
    """Also where the last round's users are served and never released."""
    agent = AGENT + f",final_release={last}"
    service = begin(tmp_path, database, agent)
    serve(service, range(12))
    service.finish()
    service.advance()
    assert public_views.status(service)["served_version"] == 2 + last
    file = copied(service, tmp_path / "file")
    lose(service)
    found = put_back(tmp_path, database, file, agent)
    assert (found.releases, found.admitted, found.rounds_lost) == (2 + last, 12, 0)


@pytest.mark.parametrize("copy", ["a backup", "the journal"])
def test_restored_over_a_live_store_no_sum_that_was_not_released_is_kept(
    tmp_path: Path, database: str, copy: str
) -> None:
    """`--replace` over a store that is as it should be: the rounds of both states are there, and begin from nothing."""
    service = begin(tmp_path, database, inline=False)
    serve(service, range(4))
    service.advance()
    serve(service, range(4, 5))
    service.advance()
    serve(service, range(5, 11))  # round 1 is sealed and waits, round 2 is open
    assert total(service, 1).any()
    assert total(service, 2).any()
    file = copied(service, tmp_path / "copy") if copy == "a backup" else None
    service.store.close()
    found = put_back(tmp_path, database, file, replace=True)
    assert found.releases == 1
    service = begin(tmp_path, database, inline=False)
    with service.store.read() as tx:
        unreleased = records.unreleased(tx)
    assert sorted(row.number for row in unreleased) == ([1, 2] if copy == "a backup" else [1])
    for row in unreleased:
        assert not service.context.total(row.number, row.total)._value.any()


def test_who_came_before_the_backup_is_remembered_though_the_sum_is_lost(tmp_path: Path, database: str) -> None:
    service = begin(tmp_path, database)
    serve(service, range(6))  # one release, and two users in the open round
    assert np.any(total(service, 1))
    waiting = service.admit("user 6")
    late = copied(service, tmp_path / "late")
    lose(service)
    found = put_back(tmp_path, database, late)
    assert (found.releases, found.admitted, found.rounds_lost) == (1, 7, 1)
    service = begin(tmp_path, database)
    assert not np.any(total(service, 1))
    assert {one.reason for one in serve(service, range(7))} == {"user-already-counted"}
    with pytest.raises(Refusal) as refused:
        service.submit_trajectory(waiting.token, waiting.episode, **episode(6))
    assert refused.value.kind == "episode-expired"
    assert public_views.status(service)["halted"] is None
    assert serve(service, range(7, 9))[1].version == 2


def test_a_token_of_what_was_lost_stops_nothing_and_a_later_one_does(tmp_path: Path, database: str) -> None:
    service = begin(tmp_path, database)
    serve(service, range(5))
    file = copied(service, tmp_path / "file")
    lost = service.admit("ann")
    lose(service)
    put_back(tmp_path, database, file)
    service = begin(tmp_path, database)
    with pytest.raises(Refusal, match="lost with the store"):
        service.submit_trajectory(lost.token, lost.episode, **episode(0))
    opened = service.admit("ann")
    assert opened.learning
    with service.store.write() as tx:
        tx.execute(sa.delete(tables.EPISODES).where(tables.EPISODES.c.id == opened.episode))
    with pytest.raises(Refusal, match="rolled back"):
        service.submit_trajectory(opened.token, opened.episode, **episode(0))


def test_a_backup_of_before_the_first_user_is_one(tmp_path: Path, database: str) -> None:
    file = copied(begin(tmp_path, database), tmp_path / "copy")
    service = begin(tmp_path, database)
    service.admit("user 0")
    lose(service)
    found = put_back(tmp_path, database, file)
    assert (found.releases, found.admitted) == (0, 0)
    again = begin(tmp_path, database)
    assert [one.learning for one in serve(again, range(5))] == [True] * 5
    assert public_views.status(again)["version"] == 1


def test_restored_twice_from_the_same_file_nothing_is_shown_twice(tmp_path: Path, database: str) -> None:
    """The attack of averaging: one backup, many restores. Each goes on from the last publication."""
    service = begin(tmp_path, database)
    serve(service, range(3))
    file = copied(service, tmp_path / "file")
    seen: dict[int, str] = {}
    for restored in range(3):
        serve(service, range(12))
        with service.store.read() as tx:
            digests = records.digests(tx)
        served = public_views.status(service)["served_version"]
        for number in range(served):
            assert seen.setdefault(number, digests[number]) == digests[number]
        lose(service)
        put_back(tmp_path, database, file)
        service = begin(tmp_path, database)
        assert public_views.status(service)["halted"] is None, restored
    with service.store.read() as tx:
        names = [row.user for row in tx.execute(sa.select(tables.EPISODES.c.user))]
        counted = {row.name: row.admissions for row in tx.execute(sa.select(tables.USERS))}
    assert len(names) == len(set(names)) == len(counted)
    assert set(counted.values()) == {1}


def test_the_journal_alone_is_enough_once_something_was_published(tmp_path: Path, database: str) -> None:
    service = begin(tmp_path, database)
    serve(service, range(3))
    lose(service)
    with pytest.raises(InvalidInput, match="journal is empty"):
        put_back(tmp_path, database, None)
    (tmp_path / "witness").unlink()
    service = begin(tmp_path, database)
    serve(service, range(5))
    before = shown(service)
    lose(service)
    assert put_back(tmp_path, database, None).admitted == 4
    assert shown(begin(tmp_path, database)) == before


def test_what_the_witness_saw_is_needed(tmp_path: Path, database: str) -> None:
    service = begin(tmp_path, database)
    serve(service, range(2))
    file = copied(service, tmp_path / "file")
    with pytest.raises(InvalidInput, match="--replace"):
        put_back(tmp_path, database, file)
    serve(service, range(2, 6))
    policy = service.billboard(0).policy
    journal = Journal(tmp_path / "witness", Secrets(SECRET)).path
    kept = journal.read_bytes()
    journal.write_bytes(kept[:-1])
    guard = RollbackGuard(tmp_path / "witness", Secrets(SECRET))
    before = guard.read()
    with pytest.raises(InvalidInput, match="cut off"):
        put_back(tmp_path, database, file, replace=True)
    assert guard.read() == before
    journal.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(Damaged):
        put_back(tmp_path, database, file, replace=True)
    assert public_views.status(service)["halted"] is None
    assert service.advance() == 0  # nothing was changed, and it goes on
    assert public_views.status(service)["halted"] is None
    for rollback_guard in ("kept", "lost"):
        if rollback_guard == "lost":
            (tmp_path / "witness").unlink()
            with pytest.raises(InvalidInput, match="rollback_guard"):
                put_back(tmp_path, database, file, replace=True)
        found = put_back(tmp_path, database, file, replace=True, policy_only=True)
        assert (found.learning, found.releases) == (False, 0)
        serving = begin(tmp_path, database)
        opened = serving.admit("somebody new")
        assert (opened.learning, opened.reason, opened.version) == (False, "learning-stopped", 0)
        assert np.array_equal(serving.billboard(0).policy, policy)
        assert serving.advance() == 0
        serving.store.close()
    with pytest.raises(InvalidInput, match="--policy-only"):
        put_back(tmp_path, database, file, replace=True)


def test_another_secret_or_another_deployment_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'service.db'}"
    service = begin(tmp_path, url)
    file = copied(service, tmp_path / "file")
    with pytest.raises(InvalidInput, match="nothing is overwritten"):
        copied(service, file)
    with pytest.raises(Damaged):
        list(read_backup(file, Secrets("another secret of the tests").of(service.identity)))
    content = file.read_bytes()
    (tmp_path / "short").write_bytes(content[:-40])
    with pytest.raises(InvalidInput, match="cut off"):
        put_back(tmp_path, url, tmp_path / "short", replace=True)
    (tmp_path / "changed").write_bytes(content.replace(b'"releases": 0', b'"releases": 7'))
    with pytest.raises(Damaged):
        put_back(tmp_path, url, tmp_path / "changed", replace=True)
    (tmp_path / "other").mkdir()
    other = begin(tmp_path / "other", f"sqlite:///{tmp_path / 'other.db'}")
    theirs = copied(other, tmp_path / "theirs")
    with pytest.raises(InvalidInput, match="as its rollback guard"):
        put_back(tmp_path, url, theirs, replace=True)
    serve(service, range(5))
    assert public_views.status(service)["served_version"] == 1


# -- what is in the files ---------------------------------------------------------------------------------------------


def test_every_table_is_kept_or_left_out_for_a_reason() -> None:
    assert {*rows.KEPT, *rows.LEFT_OUT} == set(tables.METADATA.tables)
    assert not {*rows.KEPT} & {*rows.LEFT_OUT}
    assert "total" not in rows.KEPT["rounds"]


def test_no_sum_that_was_not_released_is_in_a_copy_nor_in_what_is_published_from_it(tmp_path: Path) -> None:
    """Local model: reports are known integers, and releases are exact sums of them, so that a lost one would be seen."""
    url = f"sqlite:///{tmp_path / 'service.db'}"
    service = begin(tmp_path, url, LOCAL)
    whole = (service.mechanism.noise_scale > 0).astype(np.int64)

    def send(service: Deployment, users: range, size: int) -> None:
        for user in users:
            opened = service.admit(f"user {user}")
            service.submit_report(opened.token, opened.episode, size * whole)

    send(service, range(4), 1)
    send(service, range(4, 7), 1000)  # in the open round, never released
    with service.store.read() as tx:
        sealed = records.round_of(tx, 1).total
    file = copied(service, tmp_path / "file")
    parts = [*read_backup(file, Secrets(SECRET).of(service.identity))]
    assert service.rollback_guard is not None
    journal = Journal(tmp_path / "witness", Secrets(SECRET).of(service.identity))
    parts += [*journal.read(service.rollback_guard.read().length)]
    none = {"batches", "canaries", "erasures"}  # of which it has none
    assert {part["table"] for part in parts} == {*rows.KEPT} - none
    assert not any("total" in part["columns"] for part in parts)
    assert base64.b64encode(sealed).decode() not in json.dumps(parts)
    lose(service)
    put_back(tmp_path, url, file, LOCAL)
    service = begin(tmp_path, url, LOCAL)
    send(service, range(20, 21), 1)
    send(service, range(21, 22), 1)  # the next round's first: the round of the lost ones is released with one report
    with service.store.read() as tx:
        releases = [
            np.frombuffer(records.round_of(tx, number).release, "<f8").reshape(-1)[whole.reshape(-1) > 0]
            for number in (0, 1)
        ]
    unit = releases[0] / 4
    assert np.allclose(releases[1], unit) or np.allclose(releases[1], 5 * unit)  # one more report, or running sums


KILLED = """
import os, sys, signal
from pathlib import Path
sys.path[:0] = {paths!r}
import test_backup_and_restore as here
from reticent.service.durability import restore
where, url, file, step = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
if step == "rows":
    restore._require_whole = die
elif step == "commit":
    restore.RollbackGuard.end_restore = die
here.put_back(where, url, file, replace=True)
"""


@pytest.mark.verify
@pytest.mark.parametrize("step", ["rows", "commit"])
def test_killed_in_the_middle_it_can_be_repeated(tmp_path: Path, step: str) -> None:
    """Killed with all rows written and not committed, and committed before the witness heard of it."""
    url = f"sqlite:///{tmp_path / 'service.db'}"
    service = begin(tmp_path, url)
    serve(service, range(6))
    before = shown(service)
    file = copied(service, tmp_path / "file")
    service.store.close()
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
    program = KILLED.format(paths=paths)
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), url, str(file), step],
        env=dict(os.environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    service = begin(tmp_path, url)
    assert "not finished" in public_views.status(service)["halted"]
    assert service.admit("user 20").learning is False
    service.store.close()
    put_back(tmp_path, url, file, replace=True)
    service = begin(tmp_path, url)
    assert public_views.status(service)["halted"] is None
    assert shown(service) == before
    assert serve(service, range(20, 21))[0].learning


def test_with_a_shuffler_lost_rounds_count_as_nothing(tmp_path: Path) -> None:
    agent = "private-linopt-vi:trust=shuffle,first=4,growth=1,epsilon=20,honest=0.75"
    model = make_world("random-blend:states=4,actions=2,horizon=2,d=2").model
    url = f"sqlite:///{tmp_path / 'service.db'}"
    service = begin(tmp_path, url, agent, model=model)
    for user in range(5):
        service.admit(f"user {user}")
    file = copied(service, tmp_path / "file")
    lose(service)
    found = put_back(tmp_path, url, file, agent, model)
    assert (found.releases, found.rounds_lost) == (0, 2)
    service = begin(tmp_path, url, agent, model=model)
    assert service.advance() == 1
    assert public_views.status(service)["served_version"] == 1
    assert service.admit("user 4").learning is False
    assert service.admit("user 5").learning


@pytest.mark.verify
def test_who_returns_after_a_restore_is_kept_to_her_pattern(tmp_path: Path, database: str) -> None:
    """Which round counted her is forgotten; the last that was released forbids at least as much of what is to come."""
    agent = "private-score-vi:contributions=3,gap=2,epsilon=12,first=0.4,growth=1,largest=4"
    service = begin(tmp_path, database, agent)
    assert service.mechanism.agent.schedule.ends.tolist() == [4, 8, 12]
    serve(service, range(6))  # one release, and two users of the second round
    before = service.admit("user 0").reason
    file = copied(service, tmp_path / "copy")
    lose(service)
    assert put_back(tmp_path, database, file, agent).releases == 1
    service = begin(tmp_path, database, agent)
    with service.store.read() as tx:
        rounds = [(visits.rounds_admitted(tx, name), visits.rounds_counted(tx, name)) for name in stored_names(service)]
    assert rounds == [([0], [0])] * 4 + [([1], [])] * 2
    assert before == service.admit("user 0").reason == "too-soon"
    assert serve(service, range(6, 9))[-1].round == 2
    assert service.admit("user 0").round == 2


def test_a_report_that_came_after_the_copy_was_made_keeps_its_user_to_the_pattern(
    tmp_path: Path, database: str
) -> None:
    """Their place is in the journal's first entry, and their late report in the second release. What a copy says of them is
    of its own time, so that a second report would be in the next round, whatever the gap."""
    agent = "private-score-vi:contributions=2,gap=2,epsilon=1,first=0.4,growth=1,largest=4"
    model = make_world("random-blend:states=4,actions=2,horizon=2,d=2").model
    service = begin(tmp_path, database, agent, model=model)
    assert service.mechanism.agent.schedule.ends.tolist() == [4, 8, 12]
    late = service.admit("ann")

    def fill(until: int) -> None:
        for user in range(int(service.clock()[0].admitted), until):
            service.admit(f"user {user}")

    fill(5)  # the first release: the journal lists them as one who has not come back
    file = copied(service, tmp_path / "copy")
    service.submit_trajectory(late.token, late.episode, **episode(0, model))
    assert total(service, 1).any()
    fill(9)
    for path in (file, None):
        lose(service)
        assert put_back(tmp_path, database, path, agent, model).releases == 2
        service = begin(tmp_path, database, agent, model=model)
        again = service.admit("ann", "a" * 32)
        assert again.round == 2
        service.submit_trajectory(again.token, again.episode, **episode(1, model))
        assert not total(service, 2).any(), "two reports of one user are in rounds less than the gap apart"
        for name in ("ann", "user 1"):  # one who never came back is taken to have, too
            with service.store.read() as tx:
                assert visits.rounds_counted(tx, service.secrets.name(name)) == [1]


def stored_names(service: Deployment) -> list[str]:
    """Of the first six users, in their order."""
    return [service.secrets.name(f"user {user}") for user in range(6)]


def test_a_round_whose_batch_was_lost_with_the_store_is_released_as_coins_alone(tmp_path: Path) -> None:
    """Without that, a sum of nothing would be released without noise, and learned from as if users had sent zeros."""
    url, agent = (
        f"sqlite:///{tmp_path / 'service.db'}",
        "private-linopt-vi:trust=shuffle,first=4,growth=1,epsilon=20,honest=0.75",
    )
    model = make_world("random-blend:states=4,actions=2,horizon=2,d=2").model
    service = begin(tmp_path, url, agent, model=model)
    for user in range(5):
        assert service.admit(f"user {user}").learning
    file = copied(service, tmp_path / "copy")
    lose(service)
    assert put_back(tmp_path, url, file, agent, model).rounds_lost >= 1
    service = begin(tmp_path, url, agent, model=model)
    service.advance()
    assert public_views.status(service)["lost_rounds"] == 1
    with service.store.read() as tx:
        release = np.frombuffer(records.round_of(tx, 0).release, "<f8")
    assert np.count_nonzero(release) > 0.8 * np.count_nonzero(service.mechanism.noise_scale)
    rules = service.mechanism.batches
    with pytest.raises(Refusal, match="one batch"):
        service.submit_batch("f" * 32, 0, 4, *rules.silent(0, range(4)), restores=1)
