# SPDX-License-Identifier: Apache-2.0
"""The durable agent: the library's protocol and numbers, on a store that survives, in either kind of database."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import math
import threading
import uuid
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from durable import AGENT, MODEL, SECRET, deployment, episode, open_sum
from sqlalchemy.exc import IntegrityError

from reticent.agents import make_agent
from reticent.agents.linear_mixture.frame import LinOptPlan
from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import delta_of, mu_of
from reticent.privacy.noise import GRID_BITS, SecureNoise, delta_for_gaussian, discretization_delta, touched_draws
from reticent.service import deployable
from reticent.service.billboards import Billboard
from reticent.service.mechanism import Mechanism, make_mechanism
from reticent.service.rounds import public_views
from reticent.service.rounds.context import Context
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.refusals import Refusal
from reticent.service.secrets import Secrets
from reticent.service.store import records
from reticent.worlds import Episode
from reticent.worlds.registry import make_world

H = MODEL.horizon


def serve(service: Deployment, user: int, *, submits: bool = True) -> int:
    opened = service.admit(f"user {user}")
    if submits:
        service.submit_trajectory(opened.token, opened.episode, **episode(user))
    return opened.version


def plan_of(service: Deployment, version: int) -> Any:
    return service.mechanism.plan_of(service.billboard(version))


def library_report(plan: object, seed: int) -> np.ndarray:
    """What the agent of the simulation adds, by JAX, in units of its grid."""
    agent = make_agent(AGENT + ",deployment=true", MODEL, 12)
    played = episode(seed)
    whole = Episode(*(np.asarray(played[field]) for field in ("states", "actions", "rewards")))
    return np.asarray(agent.report(plan, whole)) / float(agent.aggregator.grid)


def test_rounds_end_on_admissions_and_new_versions_are_served(database: str) -> None:
    service = deployment(database)
    assert [serve(service, user) for user in range(12)] == [0] * 4 + [1] * 4 + [2] * 4
    late = service.admit("one more")
    assert (late.learning, late.reason, late.version) == (False, "horizon-used-up", 2)
    service.finish()
    assert service.advance() == 1
    clock, releases = service.clock()
    assert (clock.served_version, releases, clock.finished) == (3, 3, True)
    assert np.isfinite(service.billboard(3).values).all()
    entries = public_views.ledger(service)["entries"]
    assert all(entry["released"] for entry in entries)
    assert entries[-1]["epsilon"] == pytest.approx(service.mechanism.guarantee.ledger.spent(3), rel=1e-12)
    assert entries[-1]["epsilon"] <= 1.0 + 1e-6


def test_what_is_added_is_what_the_library_adds(tmp_path: Path) -> None:
    service = deployment(tmp_path)
    for user in range(3):
        serve(service, user)
    wanted = sum(library_report(plan_of(service, 0), user) for user in range(3))
    np.testing.assert_array_equal(open_sum(service), wanted)


def test_a_late_report_counts_under_its_own_version_in_the_open_round(tmp_path: Path) -> None:
    service = deployment(tmp_path)
    late = service.admit("late")
    for user in range(4):
        serve(service, user)
    assert service.clock()[1] == 1
    before = open_sum(service)
    service.submit_trajectory(late.token, late.episode, **episode(99))
    wanted = library_report(plan_of(service, 0), 99)
    np.testing.assert_array_equal(open_sum(service) - before, wanted)
    other = library_report(plan_of(service, 1), 99)
    assert not np.array_equal(wanted, other)


def test_the_release_is_the_sum_plus_noise_of_the_promised_size(tmp_path: Path) -> None:
    # H·D = 8·18 numbers, nearly all noised; the mean of their squares is within 6 standard errors of 1 but for 2e-9.
    service = deployment(tmp_path, "private-linopt-vi:first=4,growth=1", 8)
    for user in range(4):
        serve(service, user)
    total = open_sum(service) * service.mechanism.grid
    serve(service, 4)
    with service.store.read() as tx:
        row = records.round_of(tx, 0)
    assert row.total is None
    release = np.frombuffer(row.release, "<f8").reshape(total.shape)
    scale = service.mechanism.noise_scale
    noised = scale > 0
    units = ((release - total)[noised] / scale[noised]) ** 2
    assert abs(units.mean() - 1) < 6 * math.sqrt(2 / units.size)
    np.testing.assert_array_equal(release[~noised], total[~noised])


def test_a_second_contribution_and_a_retry_change_nothing(database: str) -> None:
    service = deployment(database)
    opened = service.admit("ann")
    service.submit_trajectory(opened.token, opened.episode, **episode(0))
    once = open_sum(service)
    assert service.submit_trajectory(opened.token, opened.episode, **episode(1)) == 0
    again = service.admit("ann")
    assert (again.learning, again.reason) == (False, "user-already-counted")
    with pytest.raises(Refusal, match="without being learned"):
        service.submit_trajectory(again.token, again.episode, **episode(1))
    np.testing.assert_array_equal(open_sum(service), once)
    assert service.clock()[0].admitted == 1


def test_an_empty_contribution_counts_and_adds_nothing(tmp_path: Path) -> None:
    """In the joint model, where the service adds the noise; in the local one a user without noise would be seen."""
    service = deployment(tmp_path)
    serve(service, 0)
    before, opened = open_sum(service), service.admit("ann")
    assert service.submit_empty(opened.token, opened.episode) == 0
    assert service.submit_trajectory(opened.token, opened.episode, **episode(1)) == 0  # too late: she was counted
    np.testing.assert_array_equal(open_sum(service), before)
    (tmp_path / "local").mkdir()
    local = deployment(tmp_path / "local", "private-linopt-vi:first=16,growth=1,trust=local", 32)
    opened = local.admit("ann")
    with pytest.raises(Refusal, match="is noise; send that"):
        local.submit_empty(opened.token, opened.episode)


def test_nobody_gets_the_token_of_somebody_elses_episode(tmp_path: Path) -> None:
    """Neither who is new nor who was counted before, nor who comes when all places are taken."""
    service = deployment(tmp_path, episodes=4)
    ann = service.admit("ann")
    service.admit("bob")
    for thief in ("eve", "bob"):
        with pytest.raises(Refusal, match="another user"):
            service.admit(thief, ann.episode)
    for user in range(2):
        service.admit(f"user {user}")
    for thief in ("eve", "bob"):
        with pytest.raises(Refusal, match="another user"):
            service.admit(thief, ann.episode)
    assert service.admit("ann", ann.episode).token == ann.token
    assert service.clock()[0].admitted == 4


def test_expired_episodes_cost_nothing_and_are_refused(tmp_path: Path) -> None:
    now = [1000.0]
    service = deployment(tmp_path, ticket_lifetime=60.0, now=lambda: now[0], steady=lambda: now[0])
    opened, prompt = service.admit("slow"), service.admit("prompt")
    service.submit_trajectory(prompt.token, prompt.episode, **episode(1))
    before = open_sum(service)
    now[0] += 61
    with pytest.raises(Refusal, match="no longer"):
        service.submit_trajectory(opened.token, opened.episode, **episode(0))
    assert service.expire() == 1
    assert service.expire() == 0
    with pytest.raises(Refusal, match="what came in time was counted"):  # the same answer, counted or not
        service.submit_trajectory(prompt.token, prompt.episode, **episode(1))
    np.testing.assert_array_equal(open_sum(service), before)


def test_nobody_is_taken_after_the_end(tmp_path: Path) -> None:
    service = deployment(tmp_path, episodes=4)
    with pytest.raises(Refusal, match="0 of 4"):
        service.finish()
    tickets = [service.admit(f"user {user}") for user in range(4)]
    service.finish()
    service.advance()
    with pytest.raises(Refusal, match="no longer"):
        service.submit_trajectory(tickets[0].token, tickets[0].episode, **episode(0))
    assert service.admit("late").version == 1


@pytest.mark.parametrize("last", ["true", "false"])
def test_no_round_is_open_after_the_end(tmp_path: Path, last: str) -> None:
    """Nor is any sum left: not of the last round, and not of one that would come after it or is never released."""
    service = deployment(tmp_path, f"{AGENT},final_release={last}", 8)
    for user in range(8):
        serve(service, user)
    service.finish()
    service.advance()
    assert service.releases == (2 if last == "true" else 1)
    with service.store.write() as tx:
        assert records.open_round(tx) is None
        assert records.unreleased(tx) == []
    assert service.clock()[0].open_round == service.releases
    assert service.open_round() == (service.releases, None)


def small_mechanism(options: str = "") -> Mechanism:
    model = make_world("random-blend:states=3,actions=2,horizon=2,d=2").model
    return make_mechanism(f"private-score-vi:first=0.4,growth=1,epsilon=15{options}", model, 12, SecureNoise())


def test_an_agent_may_know_itself_how_often_users_come() -> None:
    assert small_mechanism(",contributions=2").guarantee.participation.contributions == 2


def test_a_round_that_refers_to_the_plan_it_acted_by_is_closed_as_without_a_reference() -> None:
    mechanism = small_mechanism()
    state = mechanism.agent.init()
    board, noise = mechanism.billboard(0, state), np.zeros_like(mechanism.round_noise())  # the same at every run
    total = np.zeros(mechanism.noise_scale.shape, np.int64)
    alone, _ = mechanism.close(0, state, board, total, noise)
    itself, _ = mechanism.close(0, state, board, total, noise, board)
    assert mechanism.to_bytes(itself) == mechanism.to_bytes(alone)
    # Under another name it is referred to: the same but for the clip's effect, which other replicas say, to a few percent.
    referred, _ = mechanism.close(0, state, board, total, noise, dataclasses.replace(board, version=7))
    assert mechanism.to_bytes(referred) != mechanism.to_bytes(alone)
    for mine, theirs in zip(jax.tree.leaves(referred), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0.25, atol=1e-9)


def test_a_round_is_learned_from_unless_it_was_lost() -> None:
    mechanism = small_mechanism()
    state = mechanism.agent.init()
    board, noise = mechanism.billboard(0, state), mechanism.round_noise()
    total = np.zeros(mechanism.noise_scale.shape, np.int64)
    after, counted, lost = (
        mechanism.to_bytes(mechanism.close(0, state, board, total, noise, **given)[0])
        for given in ({}, {"lost": False}, {"lost": True})
    )
    assert after == counted != lost


@pytest.mark.parametrize("agent", [AGENT, "private-linopt-po:epsilon=1,delta=1e-5,first=4,growth=1"])
def test_plans_that_were_stored_with_a_frame_in_every_family_are_read(agent: str) -> None:
    """Until 0.2 policy and values were followed by centres and scales: nothing but 0 and 1 unless linear mixtures'."""
    mechanism = make_mechanism(agent, MODEL, 12, SecureNoise())
    board = mechanism.billboard(0, mechanism.agent.init())
    plan, leaves = mechanism.plan_of(board), list(board.plan)
    if not isinstance(plan.extension, LinOptPlan):
        leaves[2:2] = [np.zeros(H), np.ones(H)]
    np.testing.assert_array_equal(leaves[3], plan.extension.scales if isinstance(plan.extension, LinOptPlan) else 1)
    stored = Billboard.read(0, dataclasses.replace(board, plan=leaves).to_bytes())
    read = mechanism.plan_of(stored)
    assert jax.tree.structure(read) == jax.tree.structure(plan)
    for mine, theirs in zip(jax.tree.leaves(read), jax.tree.leaves(plan), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_billboard_has_what_is_public_of_the_agents_memory() -> None:
    mechanism = small_mechanism()
    state = mechanism.agent.init()
    known, told = mechanism.agent.public_memory(state), mechanism.memory_of(mechanism.billboard(0, state))
    assert jax.tree.structure(known) == jax.tree.structure(told)
    assert jax.tree.leaves(known)
    for mine, theirs in zip(jax.tree.leaves(known), jax.tree.leaves(told), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_discrete_draws_are_counted_for_every_block_of_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user is in one block of each of the ⌊log₂ 99⌋ + 1 levels, and each has noise of its own."""
    counted: list[float] = []

    def count(numbers: int, blocks: float) -> int:
        counted.append(blocks)
        return touched_draws(numbers, blocks)

    monkeypatch.setattr(deployable, "touched_draws", count)
    make_mechanism("private-linopt-vi:counter=tree", MODEL, 100, SecureNoise(), contributions=2)
    assert counted == [pytest.approx(7.0, rel=1e-12)]


@pytest.mark.parametrize(
    ("settings", "visits", "times"),
    [({"contributions": 3}, 1, 9), ({"pan_private": True}, 1, 2), ({"contributions": 3, "pan_private": True}, 1, 18),
     ({"pan_private": True}, 3, 6)],
    ids=str,
)  # fmt: skip
def test_as_many_discrete_draws_are_paid_for_as_the_proof_says(
    settings: dict[str, Any], visits: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """g² for g contributions, twice that in two halves, and for every visit that the agent itself knows of; and all of it
    twice, because a late report touches another round than its replacement would."""
    model = make_world("random-blend:states=3,actions=2,horizon=2,d=2").model
    spec = f"private-score-vi:first=0.4,growth=1,epsilon=15,contributions={visits}"
    asked: list[float] = []

    def ask(delta: float, epsilon: float, draws: float) -> float:
        asked.append(draws)
        return delta_for_gaussian(delta, epsilon, draws)

    monkeypatch.setattr(deployable, "delta_for_gaussian", ask)
    made = make_mechanism(spec, model, 12, SecureNoise(), **settings)
    assert asked == [2 * np.size(made.noise_scale) * times]
    assert made.name == made.agent.name == spec  # and not the agent of another ε that keeps the promise


def test_a_store_meets_only_its_own_deployment(tmp_path: Path) -> None:
    service = deployment(tmp_path)
    serve(service, 0)
    service.store.close()
    with pytest.raises(InvalidInput, match="another deployment"):
        deployment(tmp_path, AGENT + ",epsilon=2")
    with pytest.raises(InvalidInput, match="another deployment"):
        deployment(tmp_path, episodes=13)
    again = deployment(tmp_path)
    assert again.clock()[0].admitted == 1
    with pytest.raises(InvalidInput, match="RETICENT_USER_SECRET"):
        Deployment(Context(again.mechanism, again.store, Secrets("another"))).set_up()


def test_several_contributions_are_paid_for(tmp_path: Path) -> None:
    service = deployment(tmp_path, contributions=3)
    assert [service.admit("ann").learning for _ in range(4)] == [True, True, True, False]
    mechanism = service.mechanism
    # The agent by itself, for one contribution: three of them add up to the promise.
    assert mechanism.agent.promise.mu * 3 == pytest.approx(mu_of(1.0, 1e-5), rel=1e-6)
    assert public_views.status(service)["epsilon"] == 1.0
    assert mechanism.spent(3)[1] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("settings", [{"contributions": 3}, {"pan_private": True}], ids=str)
@pytest.mark.parametrize("agent", ["private-score-vi", "private-linopt-vi"])
@pytest.mark.parametrize("trust", ["joint", "local"])
def test_all_discrete_draws_of_a_user_are_within_delta(agent: str, trust: str, settings: dict) -> None:
    """At ε = 12 discrete noise costs a visible part of δ. The Gaussian part must leave room for every draw she touches:
    those of g contributions, each in two halves where the store is pan-private."""
    epsilon, delta = 12.0, 1e-5
    made = make_mechanism(f"{agent}:trust={trust},epsilon={epsilon}", MODEL, 100, SecureNoise(), **settings)
    sums, halves = made.sums, 2 if settings.get("pan_private") and trust == "joint" else 1
    draws = touched_draws(int((np.asarray(sums.noise_scale) > 0).sum()), sums.trust.sensitivity(sums.counter) ** 2)
    draws *= halves * settings.get("contributions", 1)
    gaussian = delta_of(made.guarantee.mu, epsilon)
    assert gaussian + discretization_delta(draws, epsilon, GRID_BITS - 1) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("settings", [{}, {"pan_private": True}], ids=str)
def test_all_discrete_draws_of_somebody_who_returns_are_within_delta(settings: dict) -> None:
    """The same for the agent's own option: three rounds are touched, in two halves each where the store is pan-private."""
    epsilon, delta, visits = 12.0, 1e-5, 3
    made = make_mechanism(
        f"private-score-vi:contributions={visits},largest=20,epsilon={epsilon}", MODEL, 100, SecureNoise(), **settings
    )
    assert made.guarantee.participation.contributions == visits
    numbers = int((np.asarray(made.sums.noise_scale) > 0).sum())
    draws = touched_draws(numbers, made.sums.trust.sensitivity(made.sums.counter) ** 2) * visits * (1 + len(settings))
    gaussian = delta_of(made.guarantee.mu, epsilon)
    assert gaussian + discretization_delta(draws, epsilon, GRID_BITS - 1) <= delta * (1 + 1e-9)


@pytest.mark.parametrize(
    "agent",
    [
        "private-linopt-vi:first=4,growth=1",
        "private-linopt-po:first=4,growth=1",
        "private-linopt-vi:counter=tree",
        "private-linopt-vi:counter=tree-reduced",
    ],
)
def test_every_exact_counter_survives_a_restart_after_each_user(tmp_path: Path, agent: str) -> None:
    for user in range(6):
        service = deployment(tmp_path, agent, 6)
        serve(service, user)
        service.store.close()
    service = deployment(tmp_path, agent, 6)
    state = service.planner.releases._state(_learner(service))
    again = service.mechanism.from_bytes(service.mechanism.to_bytes(state))
    for before, after in zip(jax.tree.leaves(state), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(before, after)
    assert service.clock()[1] == len(service.mechanism.agent.schedule.ends) - 1


def _learner(service: Deployment) -> object:
    with service.store.read() as tx:
        return records.learner(tx)


def test_many_threads_lose_nothing(database: str) -> None:
    service = deployment(database, "private-linopt-vi:first=16,growth=1", 64, inline=False)

    def serve_user(user: int) -> int:
        opened = service.admit(f"user {user}", uuid.uuid4().hex)
        service.submit_trajectory(opened.token, opened.episode, **episode(user))
        return service.advance()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        done = sum(pool.map(serve_user, range(64)))
    clock, releases = service.clock()
    assert (clock.admitted, clock.open_round, releases, done) == (64, 3, 3, 3)
    with service.store.read() as tx:
        assert records.open_episodes(tx) == 0


def test_requests_repeated_at_the_same_time_are_one_admission(database: str) -> None:
    service = deployment(database, inline=False, contributions=2)

    def ask(_: int) -> tuple[str, int, bool]:
        opened = service.admit("ann", "0" * 32)
        return opened.token, opened.version, opened.learning

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(ask, range(16)))
    assert len(answers) == 1
    assert service.clock()[0].admitted == 1
    with service.store.read() as tx:
        assert records.admissions(tx, [service.secrets.name("ann")]) == {service.secrets.name("ann"): 1}


def test_a_submission_repeated_at_the_same_time_counts_once(database: str) -> None:
    """Twenty users, each of whose report is sent by eight threads at once. Without the row's lock most count twice."""
    service = deployment(database, "private-linopt-vi:first=64,growth=1,trust=local", 64, inline=False)
    whole = (service.mechanism.noise_scale > 0).astype(np.int64)
    gate = threading.Barrier(8)

    def insist(opened: Any, user: int) -> int:
        gate.wait()
        return service.submit_report(opened.token, opened.episode, whole * (user + 1))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for user in range(20):
            opened = service.admit(f"user {user}", uuid.uuid4().hex)
            assert set(pool.map(insist, [opened] * 8, [user] * 8)) == {0}
    np.testing.assert_array_equal(open_sum(service), whole * (20 * 21 // 2))


@pytest.mark.parametrize("agent", ["private-linopt-vi:first=4,growth=1", "private-linopt-vi:counter=tree"])
def test_without_noise_releases_are_the_counters_of_exact_reports(
    tmp_path: Path, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Mechanism, "_draw", lambda self, prefix: np.zeros(prefix + self.noise_scale.shape, np.int64), raising=True
    )
    service = deployment(tmp_path, agent, 6)
    mechanism, shape = service.mechanism, service.mechanism.noise_scale.shape
    counter, ends = mechanism.sums.counter, mechanism.agent.schedule.ends
    by_hand, total = counter.init(shape, np.dtype(np.float64)), np.zeros(shape)
    noise = np.zeros(counter.noise_shape_prefix + shape)
    for user in range(6):
        version = serve(service, user)
        played = Episode(**{name: np.asarray(values) for name, values in episode(user).items()})
        total = total + mechanism.contribution(service.billboard(version), played) * mechanism.grid
        if user + 1 in ends[: service.releases]:
            service.closing.seal_if_full()
            service.advance()
            by_hand, total = counter.close(by_hand, total, noise), np.zeros(shape)
            with service.store.read() as tx:
                row = records.round_of(tx, int(np.searchsorted(ends, user + 1)))
            np.testing.assert_array_equal(np.frombuffer(row.release, "<f8"), np.ravel(counter.release(by_hand)))


def test_nobody_is_counted_beyond_the_horizon(database: str) -> None:
    service = deployment(database, episodes=4, inline=False)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        learning = sum(pool.map(lambda user: service.admit(f"user {user}").learning, range(24)))
    assert learning == 4
    with service.store.read() as tx:
        counted = sum(records.admissions(tx, [service.secrets.name(f"user {user}") for user in range(24)]).values())
    assert counted == service.clock()[0].admitted == 4


def test_no_report_is_lost_between_rounds(database: str) -> None:
    """With the noise taken away, released sums and the open one add up to all reports, whatever the interleaving."""
    service = deployment(database, "private-linopt-vi:first=16,growth=1,trust=local", 64, inline=False)
    whole = (service.mechanism.noise_scale > 0).astype(np.int64)

    def report(user: int) -> None:
        opened = service.admit(f"user {user}", uuid.uuid4().hex)
        service.submit_report(opened.token, opened.episode, whole * (user + 1))
        service.advance()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(report, range(64)))
    service.finish()
    service.advance()
    with service.store.read() as tx:
        last = np.frombuffer(records.round_of(tx, 3).release, "<f8")
    np.testing.assert_array_equal(last, whole.ravel() * (64 * 65 // 2) * service.mechanism.grid)


def test_secrets_seal_sign_and_name() -> None:
    secrets, other = Secrets(SECRET), Secrets(SECRET + ".")
    assert secrets.name("ann") != other.name("ann") != secrets.name("bob")
    sealed = secrets.seal(b"sum", "round 1")
    assert secrets.unseal(sealed, "round 1") == b"sum"
    for keys, where, content in (
        (other, "round 1", sealed),
        (secrets, "round 2", sealed),
        (secrets, "round 1", sealed[:-1]),
    ):
        with pytest.raises(InvalidInput):
            keys.unseal(content, where)
    assert sealed != secrets.seal(b"sum", "round 1")
    coins = np.array([secrets.coin("e", step) for step in range(2000)])
    assert 0 <= coins.min() < coins.max() < 1
    assert abs(coins.mean() - 0.5) < 6 / math.sqrt(12 * 2000)  # false alarm: 2e-9, if it were random


def test_users_are_admitted_while_programs_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round of a kind is closed beforehand with nobody in it: what is slow about it waits with no lock."""
    service = deployment(tmp_path, inline=False)
    real, met = Mechanism.rehearse, []

    def slowly(self: Mechanism, number: int, *given: Any) -> None:
        comer = threading.Thread(target=lambda: met.append(service.admit(f"comes during round {number}").learning))
        comer.start()
        comer.join(20)
        real(self, number, *given)

    monkeypatch.setattr(Mechanism, "rehearse", slowly)
    for user in range(9):
        service.admit(f"user {user}")
    assert service.advance() == 2
    assert met == [True]  # once for both rounds


def test_an_admission_that_collides_again_and_again_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone as in a group: it is tried once more by itself, and then the caller is told to try again."""
    service, tries = deployment(tmp_path, inline=False), []

    def collides(group: Any) -> Any:
        tries.append(len(group))
        assert len(tries) < 10
        raise IntegrityError("insert", {}, Exception("taken"))

    monkeypatch.setattr(service.admissions, "_enter", collides)
    answers = service.admit_all([("one", None), ("another", None)])
    assert tries == [2, 1, 1]
    assert [answer.kind for answer in answers if isinstance(answer, Refusal)] == ["unavailable"] * 2
