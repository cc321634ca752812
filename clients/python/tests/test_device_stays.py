# SPDX-License-Identifier: Apache-2.0
"""How a stay ends on its device: reported once, or not at all because it expired, was erased, or was reported elsewhere."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from make_vectors import example_model
from scripted_service import Answer, Sent, admitting, serving

from reticent_client import (
    Budget,
    Client,
    Episode,
    InvalidInput,
    ServiceError,
    StayExpired,
    StayFile,
    StayNotKept,
    Ticket,
)
from reticent_wire.promise import report_epsilon

VISITS = 2
KINDS = example_model("kinds")
MODEL = dataclasses.replace(KINDS, rules=dataclasses.replace(KINDS.rules, visits=VISITS))


def visit(episode: Episode) -> None:
    for step in range(episode.horizon):
        episode.act(step)
        episode.observe(step % 2, step + 1)


def client(url: str, stays: StayFile | None, trust: Any = "local", **given: Any) -> Client:
    """A process of its own, whose budget remembers nothing of the others' reports."""
    return Client(url, "key", trust=trust, budget=Budget.in_memory(), stays=stays, **given)


def one_visit(url: str, stays: StayFile, trust: str = "local") -> Episode:
    with client(url, stays, trust) as device, device.resume_stay("ann") or device.episode("ann") as episode:
        visit(episode)
    return episode


def reports(sent: list[Sent]) -> list[str]:
    return [one.kind for one in sent if one.method == "POST" and one.path != "/v1/episodes"]


@pytest.mark.parametrize("until", [-1.0, -1e300])
@pytest.mark.parametrize("trust", ["local", "joint"])
def test_a_stay_whose_ticket_has_expired_is_not_reported_and_that_is_said(
    tmp_path: Path, trust: str, until: float
) -> None:
    stays = StayFile(tmp_path / "stays.json")
    with serving(admitting(MODEL, trust=trust, expires_at=time.time() + until)) as (url, sent):
        for status in ("open", "served"):
            with pytest.warns(StayExpired, match=r"expired at (20|1970).*nothing of it is reported.*`ticket_lifetime`"):
                episode = one_visit(url, stays, trust)
            assert (episode.status, episode.reason) == (status, "ticket-expired")
        assert (stays.show(), reports(sent)) == ({}, [])


def test_a_stay_within_its_time_is_reported_and_nothing_is_said(tmp_path: Path) -> None:
    stays = StayFile(tmp_path / "stays.json")
    with serving(admitting(MODEL, expires_at=time.time() + 3600)) as (url, sent), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [one_visit(url, stays).status for _ in range(VISITS)] == ["open", "counted"]
        assert reports(sent) == ["report"]


def test_an_episode_of_one_visit_is_for_the_service_to_refuse() -> None:
    """It is over within a sitting: a device whose clock is ahead would lose its report for nothing."""
    with serving(admitting(KINDS, expires_at=time.time() - 60)) as (url, sent), client(url, None) as device:
        with device.episode("ann") as episode:
            visit(episode)
        assert (episode.status, reports(sent)) == ("counted", ["report"])


def test_a_ticket_that_expires_while_its_stay_is_open_is_not_reported_either() -> None:
    until = time.time() + 0.3
    with serving(admitting(MODEL, expires_at=until)) as (url, sent), client(url, None) as device:
        episode = device.episode("ann").open()
        for _ in range(VISITS):
            visit(episode)
        assert episode.learning
        while time.time() <= until:
            time.sleep(0.02)
        with pytest.warns(StayExpired):
            assert episode.submit() is None
        assert (episode.status, episode.reason, reports(sent)) == ("served", "ticket-expired", [])
        assert device.budget is not None
        assert device.budget.left("ann") == 1


def refusing(status: int, kind: str, **opened: Any) -> Callable[[Sent], Answer]:
    """A service that refuses every submission for this reason."""
    base = admitting(MODEL, **opened)

    def answer(sent: Sent) -> Answer:
        if sent.kind in ("trajectory", "report"):
            return status, {"type": f"urn:reticent:problem:{kind}", "title": "refused"}
        return base(sent)

    return answer


@pytest.mark.parametrize("trust", ["joint", "local"])
@pytest.mark.parametrize(
    ("status", "kind", "gone"), [(410, "episode-expired", True), (409, "round-over", True), (404, "unknown", False)]
)
def test_a_stay_that_the_service_waits_for_no_longer_is_not_sent_again(
    tmp_path: Path, trust: str, status: int, kind: str, gone: bool
) -> None:
    """A service whose clock is ahead of the device's: it is told once, and its answer says what to do."""
    stays = StayFile(tmp_path / "stays.json")
    with serving(refusing(status, kind, trust=trust)) as (url, sent):
        one_visit(url, stays, trust)
        with pytest.raises(ServiceError, match="refused") as refused:
            one_visit(url, stays, trust)
        assert bool([note for note in getattr(refused.value, "__notes__", []) if "ticket_lifetime" in note]) == gone
        assert len(reports(sent)) == 1
        assert bool(stays.show()) == (not gone and trust == "joint")


def test_members_of_a_group_whose_stays_are_over_are_kept_no_longer(tmp_path: Path) -> None:
    """Each is told by itself: what the service may still take is kept."""
    stays, base = StayFile(tmp_path / "stays.json"), admitting(MODEL, trust="joint")
    kinds = {"ann": "episode-expired", "bob": "unknown-episode"}

    def answer(sent: Sent) -> Answer:
        if sent.path != "/v1/groups/trajectories":
            return base(sent)
        refused = [{"type": f"urn:reticent:problem:{kind}", "title": kind, "status": 410} for kind in kinds.values()]
        return 200, {"receipts": refused}

    with serving(answer) as (url, _), client(url, stays, "joint") as device:
        with device.group(list(kinds)) as group:
            for episode in group:
                for _ in range(VISITS):
                    visit(episode)
        assert set(group.refused) == set(kinds)
        assert "ticket_lifetime" in "".join(group.refused["ann"].__notes__)
        assert set(stays.show()) == {"bob"}


@pytest.mark.parametrize("trust", ["joint", "local"])
def test_an_erased_stay_is_not_reported_by_a_process_that_has_it_open(tmp_path: Path, trust: str) -> None:
    stays = StayFile(tmp_path / "stays.json")
    with serving(admitting(MODEL, trust=trust)) as (url, sent), client(url, stays, trust) as device:
        episode = device.episode("ann").open()
        visit(episode)
        assert stays.show()
        stays.erase("ann")
        visit(episode)
        assert stays.show() == {}  # what was erased does not come back with the next visit
        with pytest.raises(StayNotKept, match="another process has reported it"):
            _ = episode.submission
        assert episode.submit() is None
        assert (episode.status, episode.reason, reports(sent)) == ("served", "stay-not-kept", [])
        assert device.budget is not None
        assert device.budget.left("ann") == 1


@pytest.mark.parametrize("sending", ["submission", "empty submission"])
def test_of_several_processes_that_have_one_stay_open_one_reports_it(tmp_path: Path, sending: str) -> None:
    """Whatever their budgets say: two reports of one stay with noise of their own could be averaged."""
    path = tmp_path / "stays.json"
    with serving(admitting(MODEL)) as (url, sent), contextlib.ExitStack() as stack:
        one_visit(url, StayFile(path))
        devices = [stack.enter_context(client(url, StayFile(path))) for _ in range(3)]
        episodes = [device.resume_stay("ann") for device in devices]
        for episode in episodes:
            assert episode is not None
            if sending == "submission":
                visit(episode)
        ends = [one.submit if sending == "submission" else one.submit_empty for one in episodes if one is not None]
        threads = [threading.Thread(target=end) for end in ends]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert reports(sent) == ["report"]
        assert StayFile(path).show() == {}
        assert sorted(one.learning for one in episodes if one is not None) == [False, False, True]


def take_all(path: Path, users: int, taken: Any) -> None:
    """Takes every stay that is still there."""
    stays = StayFile(path)
    for user in range(users):
        taken.put((user, stays.take(f"user {user}", "an episode")))


def test_a_stay_is_taken_by_one_process(tmp_path: Path) -> None:
    users, path = 20, tmp_path / "stays.json"
    for user in range(users):
        StayFile(path).keep(f"user {user}", {"opened": {"episode": "an episode"}})
    spawn = multiprocessing.get_context("spawn")
    taken = spawn.Queue()
    processes = [spawn.Process(target=take_all, args=(path, users, taken)) for _ in range(2)]
    for process in processes:
        process.start()
    answers = [taken.get(timeout=60) for _ in range(2 * users)]
    for process in processes:
        process.join()
    assert sorted(user for user, mine in answers if mine) == list(range(users))


def test_the_end_of_one_stay_leaves_the_next_one_alone(tmp_path: Path) -> None:
    stays = StayFile(tmp_path / "stays.json")
    with serving(admitting(MODEL)) as (url, _), client(url, stays) as device:
        old = device.episode("ann").open()
        new = device.episode("ann").open()  # begun anew, such as after a new ticket
        old.abandon()
        assert stays.show()["ann"]["opened"]["episode"] == new.id
        assert stays.holds("ann", new.id)
        assert not stays.holds("ann", old.id)


@pytest.mark.parametrize("way", ["resume", "begin"])
def test_at_every_visit_the_service_is_checked_before_a_stay_goes_on(tmp_path: Path, way: str) -> None:
    """A service may say something else by then: less noise than was demanded, or another trust model."""
    stays = StayFile(tmp_path / "stays.json")
    weak = dataclasses.replace(MODEL, rules=dataclasses.replace(MODEL.rules, noise_scale=MODEL.rules.noise_scale / 2))
    epsilon = report_epsilon(MODEL, 1e-5) * 1.001
    with serving(admitting(MODEL)) as (url, _):
        one_visit(url, stays)
    ticket = Ticket("ann", stays.show()["ann"]["opened"])
    for service, expected in ((admitting(weak), "less noise"), (admitting(MODEL, trust="joint"), "trust")):
        with serving(service) as (url, sent), client(url, stays, epsilon=epsilon) as device:
            with pytest.raises(InvalidInput, match=expected):
                device.resume_stay("ann") if way == "resume" else device.begin(ticket)
            assert reports(sent) == []
    assert stays.show()["ann"]["actions"]


def test_a_ticket_of_another_stay_begins_a_stay_of_its_own(tmp_path: Path) -> None:
    stays = StayFile(tmp_path / "stays.json")
    with serving(admitting(MODEL)) as (url, _):
        one_visit(url, stays)
        opened = {**stays.show()["ann"]["opened"], "episode": "f" * 32}
        with client(url, stays) as device:
            episode = device.begin(Ticket("ann", opened))
            assert (episode.id, episode.step) == ("f" * 32, 0)


def test_what_a_file_says_of_visits_is_clipped_like_what_an_app_says(tmp_path: Path) -> None:
    """Else what was kept by another version, or was edited, would be outside the bounds that the noise is for."""
    stays = StayFile(tmp_path / "stays.json")
    with serving(admitting(MODEL)) as (url, _):
        one_visit(url, stays)
        kept = stays.show()["ann"]
        stays.keep("ann", {**kept, "rewards": [99.0, None, -1.0], "states": [99, -5, None, 1.5]})
        with client(url, stays) as device:
            episode = device.resume_stay("ann")
            assert episode is not None
            seen = episode.trajectory._value
            assert seen.rewards.tolist() == [1.0, 0.0, 0.0]
            assert seen.states.tolist() == [MODEL.states - 1, 0, 0, 1]


def test_an_outage_at_the_end_of_a_stay_loses_nothing_of_it(tmp_path: Path) -> None:
    """The app is closed when the service does not say what a report is formed under."""
    stays, base, away = StayFile(tmp_path / "stays.json"), admitting(MODEL), [True]
    with serving(lambda sent: (400, {}) if away[0] and sent.path == "/v1/round" else base(sent)) as (url, sent):
        one_visit(url, stays)
        with pytest.raises(ServiceError):
            one_visit(url, stays)
        away[0] = False
        with client(url, stays) as device:
            episode = device.resume_stay("ann")
            assert episode is not None
            assert episode.complete
            episode.submit()
        assert (episode.status, reports(sent)) == ("counted", ["report"])
