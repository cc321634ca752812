# SPDX-License-Identifier: Apache-2.0
"""Stays in the service: late, sent twice, erased, restored; one report of a person, whatever happens in between."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from durable import deployment, open_sum
from test_backup_and_restore import begin, copied, lose, put_back, shown, total
from test_erasure import forget

from reticent.errors import InvalidInput
from reticent.runtime import double_precision
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.refusals import Refusal
from reticent.worlds import Episode
from reticent.worlds.registry import make_world

VISITS = 3
MODEL = make_world("random-blend:states=4,actions=2,horizon=3,d=3").model
AGENT = f"private-kinds:first=0.4,growth=1,epsilon=15,visits={VISITS}"
SCORE = f"private-score-vi:first=0.4,growth=1,epsilon=15,residual=off,visits={VISITS}"
BOTH = pytest.mark.parametrize("agent", [AGENT, SCORE])


def stay(seed: int) -> dict[str, Any]:
    """The trajectory of a stay: its visits one after another."""
    draw, steps = np.random.default_rng(seed), VISITS * MODEL.horizon
    return {
        "states": draw.integers(0, MODEL.states, steps + VISITS).tolist(),
        "actions": draw.integers(0, MODEL.actions, steps).tolist(),
        "rewards": draw.random(steps).tolist(),
    }


def serve(service: Deployment, users: range) -> list[Any]:
    came = []
    for user in users:
        came.append(service.admit(f"user {user}"))
        service.submit_trajectory(came[-1].token, came[-1].episode, **stay(user))
    return came


@double_precision
def clipped(service: Deployment, version: int, user: int, place: int) -> np.ndarray:
    """A stay's contribution by the library's own agent, under the plan of a version."""
    mechanism = service.mechanism
    plan = mechanism.agent.served(mechanism.plan_of(service.billboard(version)), place)
    seen = Episode(*(jnp.asarray(np.asarray(values)) for values in stay(user).values()))
    vector = np.asarray(jax.jit(mechanism.agent.statistic)(plan, seen))
    return vector / max(1.0, float(np.linalg.norm(vector)))


@BOTH
def test_what_is_added_is_the_library_s_vector_of_the_whole_stay(tmp_path: Path, agent: str) -> None:
    service = deployment(tmp_path, agent, model=MODEL)
    for user in range(3):
        before = open_sum(service).astype(float)
        serve(service, range(user, user + 1))
        added = (open_sum(service) - before).ravel() * service.configuration.published.rules.grid
        np.testing.assert_allclose(added, clipped(service, 0, user, user), atol=1e-4)
        assert np.linalg.norm(added) <= 1 + 1e-4


@BOTH
def test_sent_twice_and_late_a_stay_counts_once(tmp_path: Path, agent: str) -> None:
    service = deployment(tmp_path, agent, model=MODEL)
    late = service.admit("late")
    came = serve(service, range(3))
    service.submit_trajectory(came[0].token, came[0].episode, **stay(0))
    serve(service, range(3, 4))  # the second round is open
    before = open_sum(service).copy()
    for _ in range(2):
        service.submit_trajectory(late.token, late.episode, **stay(100))
    added = (open_sum(service) - before).ravel() * service.configuration.published.rules.grid
    np.testing.assert_allclose(added, clipped(service, 1, 100, late.place), atol=1e-4)


@BOTH
def test_only_lengths_are_refused_and_alike(tmp_path: Path, agent: str) -> None:
    service = deployment(tmp_path, agent, model=MODEL)
    opened, said = service.admit("ann"), set()
    for seed in (1, 2):
        short = {name: values[: len(values) // VISITS] for name, values in stay(seed).items()}
        with pytest.raises(InvalidInput, match="rewards") as refused:
            service.submit_trajectory(opened.token, opened.episode, **short)
        said.add(str(refused.value))
    assert len(said) == 1
    strange = {"states": [10**9] * 12, "actions": [-5] * 9, "rewards": [float("nan")] * 9}
    assert service.submit_trajectory(opened.token, opened.episode, **strange) == 0


@BOTH
def test_the_service_chooses_no_actions_of_a_stay_whatever_the_state_is(tmp_path: Path, agent: str) -> None:
    """It would be asked at every visit; and would toss the same coins at each."""
    service = deployment(tmp_path, agent, model=MODEL)
    opened = service.admit("ann")
    pinned, said = service.submissions.token(opened.token, opened.episode), set()
    for state in (0, 3, 10**30):
        with pytest.raises(InvalidInput, match="act='device'") as refused:
            service.actions.act(pinned, 0, state)
        said.add(str(refused.value))
    assert len(said) == 1


def test_an_erased_stay_leaves_nothing_behind_and_nothing_published_moves(tmp_path: Path, database: str) -> None:
    service = begin(tmp_path, database, AGENT, model=MODEL)
    serve(service, range(5))
    open_stay = service.admit("user 5")
    before, added = shown(service), total(service, 1)
    for user in ("user 4", "user 5"):
        assert forget(service, user).episodes == 1
    assert shown(service) == before
    # The report of a stay that was erased in the middle is taken as any other, and adds nothing.
    assert service.submit_trajectory(open_stay.token, open_stay.episode, **stay(5)) == 1
    assert np.array_equal(total(service, 1), added)
    assert not service.admit("user 5").learning


def test_after_a_restore_a_person_is_not_counted_again(tmp_path: Path, database: str) -> None:
    service = begin(tmp_path, database, AGENT, model=MODEL)
    serve(service, range(4))
    open_stay = service.admit("user 4")
    file = copied(service, tmp_path / "copy")
    published = shown(service)
    lose(service)
    put_back(tmp_path, database, file, AGENT, MODEL)
    again = begin(tmp_path, database, AGENT, model=MODEL)
    assert shown(again)[1] == published[1]
    for user in range(5):
        assert not again.admit(f"user {user}").learning
    # A stay that was open when the store was lost is waited for no longer, whatever happened in it.
    before, said = open_sum(again).copy(), set()
    for seed in (4, 5):
        with pytest.raises(Refusal) as refused:
            again.submit_trajectory(open_stay.token, open_stay.episode, **stay(seed))
        said.add((refused.value.kind, str(refused.value)))
    assert {kind for kind, _ in said} == {"episode-expired"}
    assert len(said) == 1
    assert np.array_equal(open_sum(again), before)


def test_a_deployment_of_single_visits_is_another_one(tmp_path: Path) -> None:
    """Another number of visits is another deployment: noise is the same, but what was learned is of other reports."""
    deployment(tmp_path, AGENT, model=MODEL).store.close()
    with pytest.raises(InvalidInput):
        deployment(tmp_path, AGENT.replace(f"visits={VISITS}", "visits=2"), model=MODEL)


def test_a_stay_s_request_fits_the_limit(tmp_path: Path) -> None:
    from reticent.service.http.limits import NUMBER, largest_request

    service = deployment(tmp_path, AGENT, model=MODEL)
    once = dataclasses.replace(
        service.configuration,
        published=dataclasses.replace(
            service.configuration.published,
            rules=dataclasses.replace(service.configuration.published.rules, visits=1),
        ),
    )
    more = largest_request(service.configuration) - largest_request(once)
    assert more == NUMBER * (VISITS - 1) * (3 * MODEL.horizon + 1)
