# SPDX-License-Identifier: Apache-2.0
"""Requests that share a transaction: each is answered as if it had come alone, and only after the commit."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import threading
import uuid
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from durable import deployment, episode, open_sum
from serving import APP, settings

from reticent.service.http.app import create_app
from reticent.service.processes import micro_batching
from reticent.service.processes.micro_batching import MicroBatcher
from reticent.service.rounds.admit import Opened
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.refusals import Refusal
from reticent.service.rounds.submit import Sent, Submission
from reticent.service.store import records
from reticent_wire import arrays
from reticent_wire.boundary import Raw

LOCAL = "private-linopt-vi:first=16,growth=1,trust=local"
ROUNDS_OF_FOUR = "private-linopt-vi:first=4,growth=1"


def gist(answer: Opened | Refusal) -> Any:
    """What an answer says, but for the time; who is not learned from is served what is newest, whenever that is."""
    if isinstance(answer, Refusal):
        return answer.kind
    version = answer.version if answer.learning else None
    return answer.episode, answer.learning, answer.reason, version, answer.round, answer.place


def ones(service: Deployment) -> np.ndarray:
    return (service.mechanism.noise_scale > 0).astype(np.int64)


def arrivals(seed: int, count: int) -> list[tuple[str, str]]:
    """Users and episodes of whom some come again, with the same episode or another, or with somebody else's."""
    draw = random.Random(seed)
    return [(f"user {draw.randrange(count)}", f"{draw.randrange(count):032x}") for _ in range(count)]


# -- admissions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contributions", [1, 2])
@pytest.mark.parametrize("inline", [True, False])
def test_a_group_is_answered_as_if_its_members_came_one_by_one(
    tmp_path: Path, contributions: int, inline: bool
) -> None:
    """Whoever comes with whom: the same places, rounds, versions and reasons, and the same number of admissions.

    Names and ids are few, so that users come again, ids are taken by others, and more come than there are places.
    """
    sequence = arrivals(3, 40)
    alone, together = (tmp_path / name for name in ("alone", "together"))
    for place in (alone, together):
        place.mkdir()
    one_by_one = deployment(alone, ROUNDS_OF_FOUR, 12, inline=inline, contributions=contributions)
    wanted = [gist(one_by_one.admit_all([one])[0]) for one in sequence]
    service = deployment(together, ROUNDS_OF_FOUR, 12, inline=inline, contributions=contributions)
    found = []
    for first, end in ((0, 1), (1, 7), (7, 30), (30, 40)):
        found += [gist(answer) for answer in service.admit_all(sequence[first:end])]
    assert {one if isinstance(one, str) else one[2] for one in wanted} >= {"episode-taken", "horizon-used-up", None}
    assert found == wanted
    with one_by_one.store.read() as first_store, service.store.read() as second_store:
        query = sa.text("SELECT * FROM users ORDER BY name")
        assert list(first_store.execute(query)) == list(second_store.execute(query))
    assert service.clock()[0].admitted == 12
    assert service.clock()[0].open_round == one_by_one.clock()[0].open_round == 2


def test_more_admissions_than_places_in_one_group(database: str) -> None:
    service = deployment(database, episodes=8, inline=False)
    answers = service.admit_all([(f"user {user}", None) for user in range(20)])
    assert [gist(answer)[1:3] for answer in answers] == [(True, None)] * 8 + [(False, "horizon-used-up")] * 12
    assert [gist(answer)[4:] for answer in answers[:8]] == [(user // 4, user % 4) for user in range(8)]
    with service.store.read() as tx:
        assert len(records.admissions(tx, [service.secrets.name(f"user {user}") for user in range(20)])) == 8
        assert records.open_round(tx).number == 1  # the last round waits for its reports, whoever came too late
    assert service.clock()[0].admitted == 8


def test_a_bad_member_does_not_spoil_its_group(database: str) -> None:
    service = deployment(database, inline=False)
    first = service.admit("ann", "a" * 32)
    answers = service.admit_all(
        [("bob", "b" * 32), ("carl", "a" * 32), ("ann", "d" * 32), ("ann", "a" * 32), ("eve", "e" * 32)]
    )
    assert [gist(answer) for answer in answers] == [
        ("b" * 32, True, None, 0, 0, 1),
        "episode-taken",
        ("d" * 32, False, "user-already-counted", None, None, None),
        gist(first),
        ("e" * 32, True, None, 0, 0, 2),
    ]
    assert answers[3].token == first.token  # type: ignore[union-attr]


def test_the_same_user_twice_in_one_group(database: str) -> None:
    service = deployment(database, inline=False)
    again, other, same = service.admit_all([("ann", "a" * 32), ("ann", "b" * 32), ("ann", "a" * 32)])
    assert gist(again) == gist(same) == ("a" * 32, True, None, 0, 0, 0)
    assert gist(other) == ("b" * 32, False, "user-already-counted", None, None, None)
    assert service.clock()[0].admitted == 1


def test_groups_of_two_workers_with_the_same_users_cannot_cross(postgres: str) -> None:
    """The same forty users come to both at once, in opposite orders. Unsorted locks would deadlock."""
    workers = [deployment(postgres, "private-linopt-vi:first=200,growth=1", 200, inline=False) for _ in range(2)]
    answers: dict[int, list[Any]] = {}
    for turn in range(4):
        names = [f"user {turn} {user}" for user in range(40)]
        gate = threading.Barrier(2)

        def come(which: int, names: list[str] = names, gate: threading.Barrier = gate) -> None:
            gate.wait()
            answers[which] = workers[which].admit_all([(name, None) for name in (names, names[::-1])[which]])

        crowd = [threading.Thread(target=come, args=(which,)) for which in range(2)]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join(30)
            assert not thread.is_alive()
        assert sum(answer.learning for found in answers.values() for answer in found) == 40
    assert workers[0].clock()[0].admitted == 160


def test_an_id_that_another_worker_takes_meanwhile_is_found_out(postgres: str) -> None:
    """Both check the id before either has inserted it; of the two groups only that one member is refused."""
    workers = [deployment(postgres, inline=False) for _ in range(2)]
    real, gate = records.episodes, threading.Barrier(2)
    looked: set[int] = set()

    def wait_for_the_other(tx: Any, identities: Any, **given: Any) -> Any:
        found = real(tx, identities, **given)
        if threading.get_ident() not in looked:
            looked.add(threading.get_ident())
            gate.wait(10)
        return found

    answers: dict[int, list[Any]] = {}

    def come(which: int) -> None:
        answers[which] = workers[which].admit_all([(f"good {which}", None), (f"thief {which}", "f" * 32)])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "episodes", wait_for_the_other)
        crowd = [threading.Thread(target=come, args=(which,)) for which in range(2)]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join(30)
    assert all(answers[which][0].learning for which in range(2))
    thieves = [answers[which][1] for which in range(2)]
    assert sorted(isinstance(one, Refusal) and one.kind == "episode-taken" for one in thieves) == [False, True]
    assert workers[0].clock()[0].admitted == 3


# -- submissions ----------------------------------------------------------------------------------------------------------


def test_a_group_of_submissions_counts_each_once_and_refuses_by_member(database: str) -> None:
    now = [1000.0]
    service = deployment(
        database, LOCAL, 32, inline=False, ticket_lifetime=60.0, now=lambda: now[0], steady=lambda: now[0]
    )
    late = service.admit("late")
    now[0] += 40
    opened = [service.admit(f"user {user}") for user in range(4)]
    service.submit_report(opened[0].token, opened[0].episode, ones(service))
    now[0] += 30
    amounts = (5, 7, 11, 13)
    group = [
        service.submissions.report(one.token, one.episode, ones(service) * amount)
        for one, amount in zip(opened, amounts, strict=True)
    ]
    answers = service.submissions.count_all(
        [service.submissions.report(late.token, late.episode, ones(service)), *group[:2], *group[1:]]  # the third twice
    )
    assert isinstance(answers[0], Refusal)
    assert answers[0].kind == "episode-expired"
    assert answers[1:] == [0] * 5
    np.testing.assert_array_equal(open_sum(service), ones(service) * (1 + 7 + 11 + 13))


def formed(service: Deployment, user: int, opened: Opened) -> Submission:
    return service.submissions.trajectory(opened.token, opened.episode, Raw(Sent(**episode(user))))


def test_a_contribution_that_cannot_be_formed_does_not_spoil_its_group(tmp_path: Path) -> None:
    service = deployment(tmp_path, inline=False)
    opened = [service.admit(f"user {user}") for user in range(3)]
    group = [formed(service, user, one) for user, one in enumerate(opened)]
    broken = group[1]._replace(token=dataclasses.replace(group[1].token, version=7))
    answers = service.submissions.count_all([group[0], broken, group[2]])
    assert isinstance(answers[1], Refusal)
    assert (answers[0], answers[1].kind, answers[2]) == (0, "not-found", 0)
    before = open_sum(service)
    assert service.submissions.count_all(group) == [0] * 3  # what was refused may be sent again; the others are retries
    added = service.mechanism.exact_contribution(service.billboard(0), group[1].played._value)
    np.testing.assert_array_equal(open_sum(service) - before, added)


@pytest.mark.parametrize("agent", [ROUNDS_OF_FOUR, "private-score-vi:first=0.4,growth=1,epsilon=15"])
def test_a_group_adds_what_its_members_add_one_by_one(tmp_path: Path, agent: str) -> None:
    sums = []
    for together in (False, True):
        place = tmp_path / str(together)
        place.mkdir()
        service = deployment(place, agent, 12)
        opened = [service.admit(f"user {user}") for user in range(4)]
        group = [formed(service, user, one) for user, one in enumerate(opened)]
        if together:
            assert service.submissions.count_all(group) == [0] * 4
        else:
            assert [service.submissions.count_all([one])[0] for one in group] == [0] * 4
        sums.append(open_sum(service))
    np.testing.assert_array_equal(*sums)
    assert sums[0].any()


def test_a_contribution_is_formed_under_the_reference_of_the_round_that_counts_it(tmp_path: Path) -> None:
    service = deployment(tmp_path, "private-score-vi:first=0.4,growth=1,epsilon=15", 12)
    first = [service.admit(f"user {user}") for user in range(4)]
    service.submit_trajectory(first[0].token, first[0].episode, **episode(0))
    service.admit("the next round's first")
    before = open_sum(service)
    played = service.mechanism.played(type("Seen", (), episode(1)), first[1].place)
    service.submit_trajectory(first[1].token, first[1].episode, **episode(1))
    added = [service.mechanism.exact_contribution(service.billboard(version), played) for version in (0, 1)]
    np.testing.assert_array_equal(open_sum(service) - before, added[1])
    assert not np.array_equal(*added)


def test_a_group_that_is_cut_off_before_its_commit_counts_once_when_it_is_sent_again(database: str) -> None:
    """What a kill between the last statement and the commit leaves: nothing, and nobody was told otherwise."""
    service = deployment(database, LOCAL, 32, inline=False)
    comers: list[tuple[str, str | None]] = [(f"user {user}", f"{user:032x}") for user in range(8)]

    def cut_off(_: Any) -> None:
        raise ConnectionError("cut off")

    def interrupted(work: Any, group: Any) -> None:
        sa.event.listen(service.store.engine, "commit", cut_off)
        try:
            with pytest.raises(ConnectionError):
                work(group)
        finally:
            sa.event.remove(service.store.engine, "commit", cut_off)

    interrupted(service.admit_all, comers)
    assert service.clock()[0].admitted == 0
    opened = service.admit_all(comers)
    group = [
        service.submissions.report(one.token, one.episode, ones(service)) for one in opened if isinstance(one, Opened)
    ]
    interrupted(service.submissions.count_all, group)
    assert not open_sum(service).any()
    for _ in range(2):  # and if only the answer was lost
        assert [gist(answer) for answer in service.admit_all(comers)] == [gist(one) for one in opened]
        assert service.submissions.count_all(group) == [0] * 8
    np.testing.assert_array_equal(open_sum(service), ones(service) * 8)
    assert service.clock()[0].admitted == 8


# -- micro-batching -------------------------------------------------------------------------------------------------------


def test_whatever_comes_during_a_call_is_the_next_group() -> None:
    going, groups = threading.Event(), []

    def work(items: Any) -> list[int | Exception]:
        groups.append(list(items))
        if len(groups) == 1:
            going.wait(10)
        return [ValueError(str(item)) if item == 3 else item * 10 for item in items]

    async def crowd() -> list[Any]:
        batcher = MicroBatcher(work, linger=0.0, most=4)
        first = asyncio.ensure_future(batcher.join(0))
        while not groups:
            await asyncio.sleep(0.001)
        others = [asyncio.ensure_future(batcher.join(item)) for item in range(1, 8)]
        await asyncio.sleep(0)
        assert not first.done()
        going.set()
        answers = await asyncio.gather(first, *others, return_exceptions=True)
        batcher.close()
        return answers

    answers = asyncio.run(crowd())
    assert groups == [[0], [1, 2, 3, 4], [5, 6, 7]]
    assert [str(answer) for answer in answers] == ["0", "10", "20", "3", "40", "50", "60", "70"]
    assert isinstance(answers[3], ValueError)


def test_those_who_join_together_are_answered_in_their_order_refusals_and_all() -> None:
    def work(items: Any) -> list[int | Exception]:
        return [ValueError(str(item)) if item == 3 else item * 10 for item in items]

    async def crowd() -> None:
        batcher = MicroBatcher(work, linger=0.0, most=2)
        answers = await asyncio.wait_for(batcher.join_all([1, 2, 3, 4, 5]), 10)
        assert [str(answer) for answer in answers] == ["10", "20", "3", "40", "50"]
        assert isinstance(answers[2], ValueError)
        await asyncio.sleep(0.1)  # its thread has nothing to do and waits to be called
        assert await asyncio.wait_for(batcher.join(6), 10) == 60
        batcher.close()

    asyncio.run(crowd())


def test_a_call_that_fails_is_everyones_failure_and_the_next_goes_on() -> None:
    failing = [True]

    def work(items: Any) -> list[int | Exception]:
        if failing.pop() if failing else False:
            raise OSError("the disk is full")
        return list(items)

    async def ask() -> None:
        batcher = MicroBatcher(work, linger=0.0)
        with pytest.raises(OSError, match="full"):
            await batcher.join(1)
        assert await batcher.join(2) == 2
        batcher.close()

    asyncio.run(ask())


def test_who_comes_alone_during_a_call_is_kept_by_nobody_and_a_crowd_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread lingers after a group of several and at no other time; it ends when it is told to."""
    lingered: list[float] = []
    monkeypatch.setattr(micro_batching.time, "sleep", lingered.append)
    going, groups = threading.Event(), []

    def work(items: Any) -> list[int | Exception]:
        groups.append(list(items))
        if items == [2]:
            going.wait(10)
        return list(items)

    async def crowd() -> threading.Thread:
        batcher = MicroBatcher(work, linger=0.25)
        assert [await batcher.join(item) for item in (0, 1)] == [0, 1]
        (thread,) = (one for one in threading.enumerate() if one.name == "reticent-micro-batching")
        several = [asyncio.ensure_future(batcher.join(2))]
        while len(groups) < 3:
            await asyncio.sleep(0.001)
        several += [asyncio.ensure_future(batcher.join(item)) for item in (3, 4)]
        await asyncio.sleep(0)
        going.set()
        assert await asyncio.gather(*several) == [2, 3, 4]
        assert lingered == []
        assert [await batcher.join(item) for item in (5, 6)] == [5, 6]
        batcher.close()
        return thread

    thread = asyncio.run(crowd())
    assert groups == [[0], [1], [2], [3, 4], [5], [6]]
    assert lingered == [0.25]
    assert not thread.is_alive()
    assert thread.daemon  # a process that forgets to close ends all the same


def test_requests_at_once_share_transactions_and_get_their_own_answers(tmp_path: Path) -> None:
    chosen = settings(tmp_path, agent=LOCAL, episodes=64, planning="background")
    app = create_app(chosen, begin=True)
    service: Deployment = app.state.deployment
    commits: list[int] = []
    sa.event.listen(service.store.engine, "commit", lambda _: commits.append(1))
    report = arrays.to_json(ones(service))

    async def crowd() -> None:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=APP) as client:

            async def play(user: int) -> None:
                identity = uuid.uuid4().hex
                opened = await client.post("/v1/episodes", json={"user": f"user {user}", "episode": identity})
                assert opened.status_code == 201
                wrong = await client.post(
                    f"/v1/episodes/{identity}/report", json={"token": opened.json()["token"], "report": report, "x": 1}
                )
                assert (wrong.status_code, wrong.json()["field"]) == (422, "body")
                genuine = opened.json()["token"]
                forged = genuine[:5] + ("B" if genuine[5] == "A" else "A") + genuine[6:]
                for token, status in ((forged, 422), (genuine, 200)):
                    body = {"token": token, "report": report}
                    answer = await client.post(f"/v1/episodes/{identity}/report", json=body)
                    assert answer.status_code == status, answer.text

            await asyncio.gather(*(play(user) for user in range(40)))

    asyncio.run(crowd())
    app.state.handlers.close()
    np.testing.assert_array_equal(open_sum(service), ones(service) * service_counts(service))
    assert service.clock()[0].admitted == 40
    assert len(commits) < 60  # 80 one by one
    service.store.close()


def service_counts(service: Deployment) -> int:
    """How many of forty single reports the open round has: those that came after the rounds before it were sealed."""
    with service.store.read() as tx:
        sealed = [row for row in records.unreleased(tx) if row.state == "sealed"]
    return 40 - sum(int(service.context.total(row.number, row.total)._value.max()) for row in sealed)


def test_the_short_way_and_the_frameworks_say_the_same(tmp_path: Path) -> None:
    """A content type that the short way does not take goes the long one: same status and same body."""
    app = create_app(settings(tmp_path, episodes=12), begin=True)

    async def both() -> None:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=APP) as client:

            async def ask(path: str, body: str, kind: str) -> tuple[int, Any]:
                answer = await client.post(path, content=body, headers={"Content-Type": kind})
                return answer.status_code, answer.json()

            identity, token = "a" * 32, app.state.deployment.admit("ann", "a" * 32).token
            played = str(episode(0)).replace("'", '"')
            requests = [
                ("/v1/episodes", f'{{"user": "ann", "episode": "{identity}"}}'),
                ("/v1/episodes", f'{{"user": "bob", "episode": "{identity}"}}'),
                (f"/v1/episodes/{identity}/actions", f'{{"token": "{token}", "step": 0, "state": 1}}'),
                (f"/v1/episodes/{identity}/actions", f'{{"token": "{token}", "step": 99, "state": 1}}'),
                (f"/v1/episodes/{'b' * 32}/actions", f'{{"token": "{token}", "step": 0, "state": 1}}'),
                (f"/v1/episodes/{identity}/report", f'{{"token": "{token}"}}'),
                (f"/v1/episodes/{identity}/trajectory", f'{{"token": "{token}", {played[1:]}'),
                (f"/v1/episodes/{identity}/empty", f'{{"token": "{token}"}}'),
                ("/v1/episodes", '{"user": 1}'),
                ("/v1/episodes", "not JSON"),
            ]
            for path, body in requests:
                quick, ordinary = [await ask(path, body, f"application/json{more}") for more in ("", "; charset=utf-8")]
                assert quick == ordinary, path

    asyncio.run(both())
    app.state.handlers.close()
    app.state.deployment.store.close()
