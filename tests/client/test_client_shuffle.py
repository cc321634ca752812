# SPDX-License-Identifier: Apache-2.0
"""Devices behind a shuffler, against the real service: what leaves, to whom, and with which law."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import played_episodes
import pytest
import sqlalchemy as sa
from faulty_proxy import LOSE_ANSWER, proxied
from running_service import APP_KEY, SHUFFLER_KEY, running_service
from scipy.stats import chi2, norm

from reticent.errors import InvalidInput
from reticent.privacy.noise import SecureNoise
from reticent.service.mechanism import make_mechanism
from reticent.worlds.registry import make_world
from reticent_client import Client, Connection, ServiceError, Shuffler, messages
from reticent_wire import Billboard, Model, Trajectory
from reticent_wire.arrays import from_json
from reticent_wire.boundary import Clipped
from reticent_wire.shuffling import coins_of_user

WORLD = "random-blend:states=4,actions=2,horizon=2,d=2"
AGENT = "private-linopt-vi:trust=shuffle,first=4,growth=1,epsilon=20,honest=0.75"
FALSE_ALARM = 1e-6

play = functools.partial(played_episodes.play, horizon=2)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with running_service(tmp_path, world=WORLD, agent=AGENT, episodes=12, rate_limit=0) as found:
        yield found


@pytest.fixture
def shuffler(url: str) -> Iterator[Shuffler]:
    with Shuffler(Connection(url, SHUFFLER_KEY), patience=0) as found:
        yield found


class Recorder:
    """Keeps what devices hand over, and passes it on."""

    def __init__(self, onward: Any = None) -> None:
        self.taken: list[tuple[int, int, np.ndarray, np.ndarray]] = []
        self.onward = onward

    def __call__(self, number: int, within: int, ones: np.ndarray, sent: np.ndarray, restores: int) -> None:
        self.taken.append((number, within, ones, sent))
        if self.onward is not None:
            self.onward(number, within, ones, sent, restores)


def releases(directory: Path) -> list[np.ndarray]:
    engine = sa.create_engine(f"sqlite:///{directory}/service.db")
    with engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT release FROM rounds WHERE state = 'released' ORDER BY number")).all()
    engine.dispose()
    return [np.frombuffer(row.release, "<f8") for row in rows]


def test_with_known_coins_the_releases_are_the_exact_sums(
    url: str, shuffler: Shuffler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every coin shows a one and every number is rounded down: the rest is arithmetic.
    monkeypatch.setattr(messages, "secure_coins", lambda count: np.ones(count, bool))
    monkeypatch.setattr(messages, "_uniforms", np.zeros)
    client = Client(url, APP_KEY, trust="shuffle", shuffler=shuffler)
    rules, total = client.model.rules, 0.0
    for number in range(3):
        for within in range(4):
            episode, seen = play(client, 4 * number + within)
            assert (episode.status, episode.version) == ("sent", number)
            products = client.model.contribution(client.billboard(number), seen)
            total = total + rules.grid * np.floor(products / rules.grid)
        assert shuffler.post_due() == [number]
        total = total + rules.grid * rules.shuffle.coins / 2  # N ones, where N/2 are expected
        assert client.status()["served_version"] == number + 1
    np.testing.assert_array_equal(releases(tmp_path)[-1].reshape(total.shape), total)
    late, _ = play(client, 99)
    assert (late.status, late.reason) == ("served", "horizon-used-up")
    client.close()


def test_only_the_opening_and_the_batch_reach_the_service(url: str, tmp_path: Path) -> None:
    asked: list[str] = []

    def observer(route: str, seconds: float, status: int) -> None:
        asked.append(route)

    with Shuffler(Connection(url, SHUFFLER_KEY, observer=observer), patience=0) as shuffler:
        recorder = Recorder(shuffler)
        with Client(url, APP_KEY, shuffler=recorder, observer=observer) as client:
            for user in range(5):
                play(client, user)
                shuffler.post_due()
    assert {route for route in asked if route.startswith("POST")} == {"POST /v1/episodes", "POST /v1/batches"}
    assert asked.count("POST /v1/batches") == 1
    assert sorted(taken[:2] for taken in recorder.taken) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    files = b"".join(path.read_bytes() for path in sorted(tmp_path.glob("service.db*")))
    for _, _, ones, _ in recorder.taken:
        assert not any(ones.astype(kind).tobytes() in files for kind in ("<i8", "<i4", "<f8"))
    assert len(releases(tmp_path)) == 1
    assert b"user 1" not in files


def test_a_device_hands_over_the_same_messages_again(url: str) -> None:
    failing = Recorder()

    def refuse(*_: Any) -> None:
        raise OSError("the shuffler is away")

    failing.onward = refuse
    with Client(url, APP_KEY, shuffler=failing) as client:
        episode, _ = play(client, 0, submits=False)
        for _ in range(2):
            with pytest.raises(OSError, match="away"):
                episode.submit()
        failing.onward = None
        receipt = episode.submit()
        assert receipt is not None
        assert (receipt.status, episode.submit()) == ("sent", receipt)
        assert len(failing.taken) == 3
        for _, _, ones, _ in failing.taken[1:]:
            np.testing.assert_array_equal(ones, failing.taken[0][2])
        assert "token" not in episode.submission.content


class Posts(Connection):
    """Keeps what was posted, and when: after how many admissions and seconds."""

    def __init__(self, url: str, now: list[float]) -> None:
        super().__init__(url, SHUFFLER_KEY)
        self.now, self.posted = now, []  # type: ignore[var-annotated]

    def post(self, path: str, content: Any, **named: Any) -> Any:
        messages = from_json("", content["messages"], dtype="<i8", shape=(-1, -1))
        admitted = self.get("/v1/status")["admitted"]
        self.posted.append((admitted, self.now[0], content["round"], content["users"], messages.tolist()))
        return super().post(path, content, **named)


def story(directory: Path, silent: set[int]) -> tuple[list[Any], list[Any]]:
    """Twelve users in rounds of four, of whom some are silent: what the shuffler posted and when, and what was public."""
    now, public = [0.0], []
    directory.mkdir()
    with running_service(directory, world=WORLD, agent=AGENT, episodes=12, rate_limit=0) as url:
        connection = Posts(url, now)
        with (
            Shuffler(connection, patience=5.0, clock=lambda: now[0]) as shuffler,
            Client(url, APP_KEY, shuffler=shuffler) as client,
        ):
            shuffler.post_due()
            for user in range(12):
                play(client, user, submits=user not in silent)
                for _ in range(2):
                    now[0] += 2.0 if user == 3 else 0.5  # it takes a while until the second round's users come
                    shuffler.post_due()
                    status = client.status()
                    public.append((status["admitted"], status["version"], status["lost_rounds"]))
            now[0] += 10
            shuffler.post_due()
            public.append(client.status()["version"])
    return connection.posted, public


def test_silence_of_one_user_moves_neither_the_time_nor_the_messages_of_a_release(tmp_path: Path) -> None:
    """Nor that of all users of a round; the deadline is the clock in the first round, admissions in the second."""
    everybody = story(tmp_path / "everybody", set())
    posted, public = everybody
    assert [(admitted, number, users) for admitted, _, number, users, _ in posted] == [
        (6, 0, 4),
        (10, 1, 4),
        (12, 2, 4),
    ]
    assert public[-1] == 3
    assert len({str(messages) for *_, messages in posted}) == 1
    assert story(tmp_path / "one", {1}) == everybody
    assert story(tmp_path / "last", {3, 11}) == everybody
    assert story(tmp_path / "round", {4, 5, 6, 7}) == everybody


def test_whoever_comes_after_the_deadline_is_turned_away(url: str, shuffler: Shuffler) -> None:
    with Client(url, APP_KEY, shuffler=shuffler) as client:
        for user in (0, 1):
            play(client, user)
        late, _ = play(client, 2, submits=False)
        play(client, 3)
        assert client.status()["version"] == 0  # all but her have sent, and nothing is posted by that
        assert shuffler.post_due() == [0]
        shuffler.finish(0)
        assert client.status()["version"] == 1
        with pytest.raises(InvalidInput, match="fixed"):
            late.submit()
        assert client.status()["version"] == 1


def test_a_shuffler_that_was_away_lets_full_rounds_pass_and_goes_on(url: str) -> None:
    with (
        Shuffler(Connection(url, SHUFFLER_KEY), patience=0) as before,
        Client(url, APP_KEY, shuffler=before) as client,
        contextlib.ExitStack() as opened,
    ):
        for user in range(4):
            play(client, user)
        before.post_due()
        for user in range(4, 8):
            play(client, user)
        after = opened.enter_context(Shuffler(Connection(url, SHUFFLER_KEY), patience=0))
        later = opened.enter_context(Client(url, APP_KEY, shuffler=after))
        assert after.post_due() == []  # what the second round's users handed over is lost, or it was posted
        after.finish(1)
        for user in range(8, 12):
            play(later, user)
        with pytest.raises(ServiceError) as refused:
            before.finish(1)
        assert (refused.value.status, refused.value.name) == (410, "batch-late")
        before.finish(1)  # given up: nothing is posted again
        assert after.post_due() == [2]
        status = later.status()
        assert (status["version"], status["lost_rounds"]) == (3, 1)


def test_batches_are_posted_in_the_background(url: str) -> None:
    with (
        Shuffler(Connection(url, SHUFFLER_KEY), patience=0.1) as shuffler,
        Client(url, APP_KEY, shuffler=shuffler.start(interval=0.02)) as client,
    ):
        play(client, 0)
        for user in range(1, 4):
            play(client, user, submits=user != 2)
        until = time.monotonic() + 30
        while client.status()["version"] == 0 and time.monotonic() < until:
            time.sleep(0.02)
        assert client.status()["version"] == 1
    with pytest.raises(InvalidInput, match="patience"):
        Shuffler(Connection(url, SHUFFLER_KEY), patience=-1)


def test_a_batch_is_fixed_before_it_is_sent_and_a_lost_answer_changes_nothing(url: str) -> None:
    with proxied(url) as proxy, Shuffler(Connection(proxy.url, SHUFFLER_KEY), patience=0) as shuffler:
        recorder = Recorder(shuffler)
        with Client(url, APP_KEY, shuffler=recorder) as client:
            for user in range(3):
                play(client, user)
            with pytest.raises(InvalidInput, match="admitted and recorded"):
                shuffler.finish(0)  # the fourth user has not come yet; nothing leaves, and nothing is fixed
            episode, _ = play(client, 3, submits=False)
            proxy.faults.extend([None, LOSE_ANSWER])  # it looks first, and then it posts
            shuffler.finish(0)
            with pytest.raises(InvalidInput, match="fixed"):
                episode.submit()
            assert client.status()["version"] == 1
            shuffler(*recorder.taken[0])  # a device that repeats itself
            assert client.status()["version"] == 1
        lost, again = (post.content for post in proxy.posts("/batches"))
        assert lost == again


def test_the_shuffler_adds_up_from_many_threads(url: str, shuffler: Shuffler) -> None:
    assert shuffler.post_due() == []  # a first look before the first user comes, as start() does
    with Client(url, APP_KEY, shuffler=shuffler) as client:
        threads = [threading.Thread(target=play, args=(client, user)) for user in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert shuffler.post_due() == [0]
        assert client.status()["version"] == 1


def test_what_a_device_must_not_do_is_refused_before_a_user_is_named(url: str) -> None:
    recorder = Recorder()
    for given, field in (
        ({}, "shuffler"),
        ({"trust": "local"}, "trust"),
        ({"shuffler": recorder, "epsilon": 20.0}, "epsilon"),
        ({"shuffler": recorder, "act": "server"}, "act"),
    ):
        with Client(url, APP_KEY, **given) as client:  # type: ignore[arg-type]
            with pytest.raises(InvalidInput) as refused:
                client.episode("ann").open()
            assert refused.value.field == field
            assert client.status()["admitted"] == 0
    with pytest.raises(InvalidInput, match="shuffler"):
        Client(url, APP_KEY, trust="joint", shuffler=recorder)


def test_a_shuffler_is_not_given_to_a_service_of_another_model(tmp_path: Path) -> None:
    with running_service(tmp_path, world=WORLD, agent="private-linopt-vi", episodes=12) as joint:
        with Client(joint, APP_KEY, shuffler=Recorder()) as client, pytest.raises(InvalidInput, match="shuffle"):
            client.episode("ann").open()
        with pytest.raises(InvalidInput, match="shuffle"), Shuffler(Connection(joint, SHUFFLER_KEY)):
            pass
        unstarted = contextlib.closing(Shuffler(Connection(joint, SHUFFLER_KEY)))
        with unstarted as shuffler, pytest.raises(InvalidInput, match="shuffle"):
            shuffler.start()


def test_a_shuffler_that_has_not_looked_takes_nothing_and_no_user_is_named(url: str) -> None:
    """Nor if a user has come already: their messages could be of a round that is then left alone, and they would
    believe that they were sent."""
    with contextlib.closing(Shuffler(Connection(url, SHUFFLER_KEY), patience=0)) as shuffler:
        with Client(url, APP_KEY, shuffler=shuffler) as client:
            with pytest.raises(InvalidInput, match=r"shuffler is not started.*call start\(\)"):
                client.episode("ann").open()
            assert client.status()["admitted"] == 0
        with Client(url, APP_KEY, shuffler=lambda *sent: shuffler(*sent)) as client:  # a way to it of the app's own
            episode, _ = play(client, 0, submits=False)
            with pytest.raises(InvalidInput, match="nothing was taken"):
                episode.submit()
            assert episode.status == "open"
            formed = episode.submission
            shuffler.start(interval=1000)
            assert episode.submit() is not None
            assert (episode.status, episode.submission) == ("sent", formed)  # the same messages, and they count
            gathered = shuffler._round(0)
            assert gathered.places == {0}


def test_a_shuffler_whose_service_is_away_says_so_until_it_answers(url: str) -> None:
    with proxied(url) as proxy:
        proxy.faults.extend([LOSE_ANSWER] * 4)
        connection = Connection(proxy.url, SHUFFLER_KEY, deadline=0.2, timeout=0.2)
        with Shuffler(connection, patience=0) as shuffler:
            with pytest.raises(InvalidInput, match=r"shuffler is not ready \(no answer from .*call start"):
                shuffler.require_started()
            proxy.faults.clear()
            assert shuffler.post_due() == []
            shuffler.require_started()


def test_a_shuffler_of_stays_is_told_how_long_one_may_last(tmp_path: Path) -> None:
    stays = "private-kinds:trust=shuffle,first=0.4,growth=1,epsilon=15,visits=3"
    with running_service(tmp_path, world=WORLD, agent=stays, episodes=12, ticket_lifetime=3600) as there:
        with pytest.raises(InvalidInput, match=r"patience is missing.*3 visits; set it to the seconds"):
            Shuffler(Connection(there, SHUFFLER_KEY)).__enter__()
        with Shuffler(Connection(there, SHUFFLER_KEY), patience=3600) as shuffler:
            shuffler.require_started()


def test_a_rounds_noise_has_the_law_that_the_library_simulates(url: str) -> None:
    """Mean and variance of 1500 errors of summed messages against σ² of the agent; each false alarm has rate 1e-6."""
    mechanism = make_mechanism(AGENT, make_world(WORLD).model, 12, SecureNoise())
    with Client(url, APP_KEY, shuffler=Recorder()) as client:
        model, board = client.model, client.billboard(0)
    errors = standard_errors(model, board, mechanism.noise_scale, repeats=170)
    assert errors.size >= 1500
    assert abs(errors.mean()) * np.sqrt(errors.size) < norm.isf(FALSE_ALARM / 2)
    low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], errors.size)
    square = float((errors**2).sum())
    assert low < square < high
    assert not low < 1.5 * square < high  # the test has the power to see a wrong scale


def standard_errors(model: Model, board: Billboard, scale: np.ndarray, repeats: int) -> np.ndarray:
    """(decoded sum of a round − true sum)/σ where there is noise; rounding adds below a thousandth of the variance."""
    seen = Trajectory(np.array([0, 1, 2]), np.array([0, 1]), np.array([0.3, 0.9]))
    truth = 4 * model.contribution(board, seen)
    found = []
    for _ in range(repeats):
        sent = [messages.form_messages(model, board, Clipped(seen), 1, within) for within in range(4)]
        ones, count = sum(tally.ones for tally in sent), sum(tally.messages for tally in sent)
        np.testing.assert_array_equal(count, 8 * model.rules.shuffle.reach + model.rules.shuffle.coins)
        error = model.rules.grid * (ones - count / 2) - truth
        found.append(error[scale > 0] / scale[scale > 0])
    return np.concatenate(found)


def test_a_users_messages_are_as_many_as_her_number_says(url: str) -> None:
    with Client(url, APP_KEY, shuffler=Recorder()) as client:
        model, board = client.model, client.billboard(0)
    rules = model.rules.shuffle
    seen = Trajectory(np.array([3, 2, 1]), np.array([1, 0]), np.array([1.0, 0.0]))
    for within in range(4):
        sent = messages.form_messages(model, board, Clipped(seen), 2, within)
        np.testing.assert_array_equal(sent.messages, 2 * rules.reach + coins_of_user(rules.coins, 4, within))
        assert ((sent.ones >= 0) & (sent.ones <= sent.messages)).all()
    for place in ((3, 0), (-1, 0), (0, 4), (0, -1)):
        with pytest.raises(InvalidInput, match="place"):
            messages.form_messages(model, board, Clipped(seen), *place)


def test_an_empty_submission_is_value_zero_with_her_coins(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many messages as ever; with every coin a one, the ones say that the value is 0."""
    monkeypatch.setattr(messages, "secure_coins", lambda count: np.ones(count, bool))
    recorder = Recorder()
    with Client(url, APP_KEY, shuffler=recorder) as client:
        rules = client.model.rules.shuffle
        episode = client.episode("ann").open()
        episode.act(0)
        receipt = episode.submit_empty()
        assert receipt is not None
        assert (episode.status, receipt.status) == ("empty", "sent")
    ((number, within, ones, sent),) = recorder.taken
    np.testing.assert_array_equal(sent, 2 * rules.reach + rules.coins_at(number, within))
    np.testing.assert_array_equal(ones, rules.reach + rules.coins_at(number, within))


def test_messages_that_no_user_sends_do_not_spoil_a_batch(url: str, shuffler: Shuffler) -> None:
    recorder = Recorder()
    with Client(url, APP_KEY, shuffler=recorder) as client:
        play(client, 0)
        number, within, ones, sent = recorder.taken[0]
        for wrong in ((ones, sent + 1), (sent + 1, sent), (-1 - ones, sent), (ones[:1], sent[:1])):
            with pytest.raises(InvalidInput):
                shuffler(number, within, *wrong)
        with pytest.raises(InvalidInput, match="place"):
            shuffler(number, 4, ones, sent)
        shuffler(number, within, ones, sent)
