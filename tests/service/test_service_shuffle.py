# SPDX-License-Identifier: Apache-2.0
"""A service behind a shuffler: batches of sealed rounds, exact sums, refusals that change nothing."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from durable import deployment
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from restored_shuffle import Restorable, lost_after_a_batch_left, lost_while_messages_wait
from scipy.stats import chi2, norm
from serving import APP, SHUFFLER
from serving import settings as served

from reticent.errors import InvalidInput
from reticent.service.http.app import create_app
from reticent.service.rounds import public_views, recorded_admissions
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.refusals import Refusal
from reticent.service.store import records
from reticent.service.store.tables import METADATA
from reticent.worlds.registry import make_world
from reticent_wire import arrays
from reticent_wire.shuffle_rules import ShuffleRules
from reticent_wire.shuffling import (
    COINS_AT_ONCE,
    Messages,
    Tally,
    analyse,
    coins_of_user,
    count,
    encode,
    mix,
    secure_heads,
)

WORLD = "random-blend:states=4,actions=2,horizon=2,d=2"
AGENT = "private-linopt-vi:trust=shuffle,first=4,growth=1,epsilon=20,honest=0.75"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(served(tmp_path, world=WORLD, agent=AGENT), begin=True)) as found:
        yield found


def service_of(client: TestClient) -> Deployment:
    return client.app.state.deployment  # type: ignore[attr-defined, no-any-return]


def admit(client: TestClient, users: range) -> list[dict[str, Any]]:
    opened = []
    for user in users:
        body = {"user": f"user {user}", "episode": f"{user:032x}"}
        opened.append(client.post("/v1/episodes", json=body, headers=APP).json())
    return opened


def sent_by(rules: ShuffleRules, number: int, within: int, draw: np.random.Generator) -> tuple[np.ndarray, Messages]:
    """One user's values, and her single bits by the library's protocol."""
    coins = coins_of_user(rules.coins, rules.round_sizes[number], within).ravel()
    values = draw.integers(-rules.reach, rules.reach + 1).ravel()
    return values, encode(values, rules.reach.ravel(), [draw.random(count) < 0.5 for count in coins])


def batch_of(rules: ShuffleRules, number: int, present: Sequence[int], seed: int) -> tuple[dict[str, Any], np.ndarray]:
    """The batch of these users of a round as a shuffler of single bits makes it, and the noisy sum in grid steps."""
    draw = np.random.default_rng(seed)
    bits = mix([sent_by(rules, number, within, draw)[1] for within in present], draw)
    reach, size = rules.reach.ravel(), rules.round_sizes[number]
    coins = sum(coins_of_user(rules.coins, size, within).ravel() for within in present)
    noisy = analyse(bits, len(present), reach, coins).reshape(rules.reach.shape)
    ones, messages = (part.reshape(rules.reach.shape) for part in count(bits, reach.size))
    body = {
        "batch": uuid.UUID(int=seed).hex, "round": number, "users": len(present),
        "ones": arrays.to_json(ones), "messages": arrays.to_json(messages),
    }  # fmt: skip
    return body, noisy


def content_hash(service: Deployment) -> str:
    """A digest of every row of every table."""
    with service.store.read() as tx:
        rows = [sorted(map(repr, tx.execute(sa.select(table)))) for table in METADATA.sorted_tables]
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def release_of(service: Deployment, number: int) -> np.ndarray:
    with service.store.read() as tx:
        row = records.round_of(tx, number)
    return np.frombuffer(row.release, "<f8").reshape(service.mechanism.noise_scale.shape)


def test_rounds_are_released_from_their_batches_with_no_further_noise(client: TestClient) -> None:
    service = service_of(client)
    rules, grid = service.mechanism.batches, service.mechanism.grid
    total = np.zeros(rules.reach.shape)
    for number in range(3):
        opened = admit(client, range(4 * number, 4 * number + 4))
        assert [(place["round"], place["place"], place["version"]) for place in opened] == [
            (number, within, number) for within in range(4)
        ]
        assert admit(client, range(4 * number, 4 * number + 1))[0] == opened[0]
        body, noisy = batch_of(rules, number, range(4), seed=number)
        answer = client.post("/v1/batches", json=body, headers=SHUFFLER)
        assert answer.json() == {
            "batch": body["batch"], "round": number, "users": body["users"], "status": "counted",
        }, answer.text  # fmt: skip
        total = total + noisy * grid
        np.testing.assert_array_equal(release_of(service, number), total)  # epochs of one size: plain sums
        assert client.get("/v1/status").json()["served_version"] == number + 1
    service.finish()
    status = client.get("/v1/status").json()
    assert status["finished"]
    assert status["epsilon_spent"] <= 20
    assert "shuffler is trusted to mix, and 75% of the users" in status["promise"]
    assert service.mechanism.guarantee.ledger.spent(3) == pytest.approx(status["epsilon_spent"], rel=1e-9)
    assert admit(client, range(50, 51))[0]["round"] is None
    described = client.get("/openapi.json").json()["paths"]["/v1/batches"]["post"]["responses"]
    assert {"200", "409", "422"} <= set(described)


def test_odd_coins_make_half_steps(client: TestClient) -> None:
    rules = service_of(client).mechanism.batches
    odd = ShuffleRules(rules.reach, rules.coins + 1, rules.round_sizes, rules.honest)
    body, noisy = batch_of(odd, 0, range(4), seed=3)
    ones, messages = (
        arrays.from_json("", body[name], dtype="<i8", shape=odd.reach.shape) for name in ("ones", "messages")
    )
    doubled = odd.doubled_sum(0, 4, Tally(ones, messages))
    assert (doubled % 2 == 1).all()
    np.testing.assert_array_equal(doubled / 2, noisy)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_whoever_sends_dummies_fill_the_rest_and_the_sum_is_exact(data: st.DataObject) -> None:
    """The number of messages is the same whoever sent, and the sum is that of those who did, with all of its coins."""
    sizes = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    reach = np.array(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)))[None]
    coins = np.array(data.draw(st.lists(st.integers(0, 40), min_size=reach.size, max_size=reach.size)))[None]
    rules = ShuffleRules(reach, coins, sizes, data.draw(st.floats(0.01, 1)))
    number = data.draw(st.integers(0, len(sizes) - 1))
    size = sizes[number]
    present = data.draw(st.permutations(range(size)))[: data.draw(st.integers(1, size))]
    body, noisy = batch_of(rules, number, present, data.draw(st.integers(0, 1000)))
    ones, messages = (arrays.from_json("", body[name], dtype="<i8", shape=reach.shape) for name in ("ones", "messages"))
    filled = rules.silent(number, set(range(size)) - set(present))
    coins = filled.messages - 2 * (size - len(present)) * reach
    heads = filled.ones - (size - len(present)) * reach
    assert ((heads >= 0) & (heads <= coins)).all()
    whole = Tally(ones + filled.ones, messages + filled.messages)
    np.testing.assert_array_equal(whole.messages, 2 * size * reach + rules.coins)
    np.testing.assert_array_equal(rules.doubled_sum(number, size, whole), 2 * noisy + 2 * heads - coins)
    with pytest.raises(InvalidInput, match="messages"):
        rules.doubled_sum(number, size, Tally(whole.ones, whole.messages + 1))
    if len(present) < size:
        with pytest.raises(InvalidInput, match="users"):
            rules.doubled_sum(number, len(present), Tally(ones, messages))


def test_places_are_those_of_the_rounds() -> None:
    nothing = np.zeros((1, 1), np.int64)
    rules = ShuffleRules(nothing, nothing, (2, 1, 3), 1.0)
    assert [rules.place(admission) for admission in range(6)] == [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2)]


def test_a_repeated_batch_has_the_same_receipt_and_another_one_is_refused(client: TestClient) -> None:
    service = service_of(client)
    rules = service.mechanism.batches
    admit(client, range(7))
    body, _ = batch_of(rules, 0, range(4), seed=1)
    first = client.post("/v1/batches", json=body, headers=SHUFFLER)
    before = content_hash(service)
    again = client.post("/v1/batches", json=body, headers=SHUFFLER)
    assert (again.status_code, again.json()) == (200, first.json())
    other, _ = batch_of(rules, 0, range(4), seed=2)
    same_id = {**batch_of(rules, 1, range(4), seed=2)[0], "batch": body["batch"]}
    for refused in (other, same_id):
        answer = client.post("/v1/batches", json=refused, headers=SHUFFLER)
        assert answer.status_code == 409
        assert answer.json()["type"].endswith("batch-taken")
    assert content_hash(service) == before


def test_a_batch_is_waited_for_until_the_next_round_is_full_and_then_refused(client: TestClient) -> None:
    service = service_of(client)
    rules = service.mechanism.batches
    assert [rules.until(number) for number in range(3)] == [8, 12, None]
    admit(client, range(7))
    assert client.get("/v1/status").json()["version"] == 0
    admit(client, range(7, 9))  # the eighth is the deadline; inline, the ninth finds it passed
    status = client.get("/v1/status").json()
    assert (status["version"], status["served_version"], status["lost_rounds"], status["open_round"]) == (1, 1, 1, 2)
    assert "reticent_lost_rounds 1.0" in client.get("/metrics").text
    before = content_hash(service)
    late, _ = batch_of(rules, 0, range(4), seed=0)
    answer = client.post("/v1/batches", json=late, headers=SHUFFLER)
    assert (answer.status_code, answer.json()["type"]) == (410, "urn:reticent:problem:batch-late")
    assert "not waited for any longer" in answer.json()["detail"]
    assert content_hash(service) == before
    body, noisy = batch_of(rules, 1, range(4), seed=1)
    assert client.post("/v1/batches", json=body, headers=SHUFFLER).status_code == 200
    np.testing.assert_array_equal(
        release_of(service, 1), release_of(service, 0) + noisy * service.mechanism.grid
    )  # learning went on; the lost round is its coins alone


def test_batches_that_never_come_do_not_stop_the_learning(database: str) -> None:
    """All rounds lost, in the background: every one is released at its deadline, as coins alone; the last at the end."""
    service = deployment(database, agent=AGENT, model=make_world(WORLD).model, inline=False)
    made = []
    for user in range(12):
        service.admit(f"user {user}")
        made.append(service.advance())
    assert made == [0] * 7 + [1] + [0] * 3 + [1]
    service.finish()
    assert service.advance() == 1
    status = public_views.status(service)
    assert (status["version"], status["lost_rounds"], status["finished"]) == (3, 3, True)
    # Coins alone: whole half-steps, not far from 0, and not 0.
    steps = release_of(service, 0) / service.mechanism.unit
    np.testing.assert_array_equal(steps, np.rint(steps))
    coins = service.mechanism.batches.coins
    assert (np.abs(steps) <= 8 * np.sqrt(coins)).all()  # false alarm 1e-14
    assert steps[coins > 0].any()
    np.testing.assert_array_equal(steps[coins == 0], 0)


def test_a_lost_round_teaches_a_flagship_nothing(tmp_path: Path) -> None:
    """Not that its users sent zeros: what is believed after it is what was believed before."""
    spec = "private-score-vi:trust=shuffle,first=0.4,growth=1,epsilon=20"
    service = deployment(tmp_path, agent=spec, model=make_world(WORLD).model)
    for user in range(12):
        service.admit(f"user {user}")
    first, second = (service.mechanism.memory_of(service.billboard(version)) for version in (0, 1))
    assert service.clock()[1] == 1
    for before, after in zip(first[:2], second[:2], strict=True):
        for one, other in zip(before, after, strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_dummies_have_the_law_of_coins() -> None:
    """Mean and variance of 4 000 dummies' heads; each false alarm has rate 1e-6."""
    rules = ShuffleRules(np.array([[3]]), np.array([[401]]), (4, 4), 1.0)
    heads = np.array([rules.silent(0, {1, 3}).ones[0, 0] - 6 for _ in range(4000)])
    flips = int(rules.silent(0, {1, 3}).messages[0, 0]) - 12
    assert flips == 200
    units = (heads - flips / 2) / np.sqrt(flips / 4)
    assert abs(units.mean()) * np.sqrt(4000) < norm.isf(5e-7)
    low, high = chi2.ppf([5e-7, 1 - 5e-7], 4000)
    assert low < float((units**2).sum()) < high
    assert 0 < secure_heads(3 * COINS_AT_ONCE + 5) - 1.5 * COINS_AT_ONCE + 8 * np.sqrt(COINS_AT_ONCE) < 17 * 1024


def altered(body: dict[str, Any], name: str, change: int, shape: tuple[int, ...]) -> dict[str, Any]:
    array = arrays.from_json(name, body[name], dtype="<i8", shape=shape).copy()
    array[0, 0] += change
    return {**body, name: arrays.to_json(array)}


def test_a_refused_batch_changes_nothing(client: TestClient) -> None:
    service = service_of(client)
    rules = service.mechanism.batches
    shape = rules.reach.shape
    opened = admit(client, range(6))
    whole, _ = batch_of(rules, 0, range(4), seed=1)
    three, _ = batch_of(rules, 0, range(3), seed=1)
    early, _ = batch_of(rules, 1, range(4), seed=1)
    later, _ = batch_of(rules, 2, range(4), seed=1)
    before = content_hash(service)
    for body, status, field in (
        (three, 422, "users"),
        ({**whole, "users": 5}, 422, "users"),
        ({**three, "users": 4}, 422, "messages"),
        ({**whole, "round": 3}, 422, "round"),
        (altered(whole, "messages", 1, shape), 422, "messages"),
        (altered(whole, "messages", -1, shape), 422, "messages"),
        (altered(whole, "ones", -(10**9), shape), 422, "ones"),
        (altered(whole, "ones", 10**9, shape), 422, "ones"),
        (altered(altered(whole, "ones", 2**62, shape), "messages", 2**62, shape), 422, "messages"),
        ({**whole, "ones": arrays.to_json(np.zeros((1, 1), np.int64))}, 422, "ones"),
        ({**whole, "batch": "short"}, 422, "batch"),
        (early, 409, None),
        (later, 409, None),
    ):
        answer = client.post("/v1/batches", json=body, headers=SHUFFLER)
        assert (answer.status_code, answer.json().get("field")) == (status, field), answer.text
    path, token = f"/v1/episodes/{opened[0]['episode']}", opened[0]["token"]
    trajectory = {"token": token, "states": [0, 1, 2], "actions": [0, 1], "rewards": [0.5, 0.5]}
    report = {"token": token, "report": arrays.to_json(np.zeros(shape, np.int64))}
    for name, content in (("trajectory", trajectory), ("report", report)):
        assert client.post(f"{path}/{name}", json=content, headers=APP).status_code == 409
    assert client.post("/v1/batches", json=whole).status_code == 401
    assert content_hash(service) == before
    assert client.post("/v1/batches", json=whole, headers=SHUFFLER).status_code == 200


def test_batches_outside_the_shuffle_model_are_refused(tmp_path: Path, client: TestClient) -> None:
    body, _ = batch_of(service_of(client).mechanism.batches, 0, range(4), seed=1)
    joint = served(tmp_path, world=WORLD, agent="private-linopt-vi", database=f"sqlite:///{tmp_path / 'joint.db'}")
    with TestClient(create_app(joint, begin=True)) as other:
        answer = other.post("/v1/batches", json=body, headers=SHUFFLER)
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:reticent:problem:wrong-trust")
        assert admit(other, range(1))[0]["reference"] is None


@pytest.mark.parametrize(
    "chosen", [{"contributions": 2}, {"pan_private": True}, {"agent": AGENT + ",final_release=false"}]
)
def test_what_the_account_does_not_cover_is_refused(tmp_path: Path, chosen: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="trust=shuffle"):
        deployment(tmp_path, **{"agent": AGENT, "model": make_world(WORLD).model, **chosen})


def test_a_repeated_batch_waits_for_the_plan_as_the_first_one_does(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planned inline: a shuffler whose first request timed out finds the round released when the second one is answered."""
    service = service_of(client)
    admit(client, range(4))
    body, _ = batch_of(service.mechanism.batches, 0, range(4), seed=1)
    with monkeypatch.context() as away:
        away.setattr(service, "advance", lambda: 0)  # whoever planned was cut off
        assert client.post("/v1/batches", json=body, headers=SHUFFLER).status_code == 200
    assert client.post("/v1/batches", json=body, headers=SHUFFLER).status_code == 200
    assert client.get("/v1/status").json()["version"] == 1


def test_the_batch_survives_a_restart_and_is_planned_in_the_background(database: str) -> None:
    model = make_world(WORLD).model
    first = deployment(database, agent=AGENT, model=model, inline=False)
    for user in range(4):
        first.admit(f"user {user}")
    rules = first.mechanism.batches
    body, noisy = batch_of(rules, 0, range(4), seed=1)
    counts = [arrays.from_json("", body[name], dtype="<i8", shape=rules.reach.shape) for name in ("ones", "messages")]
    assert first.submit_batch(body["batch"], 0, 4, *counts) == 4
    second = deployment(database, agent=AGENT, model=model, inline=False)
    assert second.clock()[1] == 0
    assert second.advance() == 1
    np.testing.assert_array_equal(release_of(second, 0), noisy * second.mechanism.grid)
    assert second.submit_batch(body["batch"], 0, 4, *counts) == 4
    assert second.advance() == 0


@pytest.mark.parametrize("lose", [lost_while_messages_wait, lost_after_a_batch_left])
def test_after_a_restore_every_user_is_in_one_batch_at_most(tmp_path: Path, database: str, lose: Any) -> None:
    assert lose(tmp_path, database) == []


def test_a_round_is_posted_when_a_restore_would_bring_its_users_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody is killed between the admission that fills a round and the journal: the batch waits until it is written."""
    played = Restorable(tmp_path, f"sqlite:///{tmp_path / 'service.db'}", inline=False)
    with monkeypatch.context() as killed:
        killed.setattr(recorded_admissions, "record_admissions", lambda context: None)
        for user in range(5):
            played.come(f"user {user}")
        assert public_views.status(played.service)["recorded"] == 0
        assert played.shuffler.post_due() == []
        with pytest.raises(InvalidInput, match="recorded"):
            played.shuffler.finish(0)
        batch = played.mechanism.batches.silent(0, range(4))
        with pytest.raises(Refusal, match="post its batch later"):
            played.service.submit_batch("f" * 32, 0, 4, batch.ones, batch.messages)
    played.service.advance()
    assert public_views.status(played.service)["recorded"] == 5
    assert played.shuffler.post_due() == [0]
    played.close()
