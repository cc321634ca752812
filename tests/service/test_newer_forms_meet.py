# SPDX-License-Identifier: Apache-2.0
"""Tastes, states with a history, stays and plans over beliefs where they meet what may go wrong: late and repeated reports,
groups, a loss of the store, an erasure in the middle of an episode. In the joint and the local model, on both databases."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from durable import open_sum
from test_backup_and_restore import begin, copied, lose, put_back, shown
from test_erasure import forget

from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.refusals import Refusal
from reticent.service.store import records
from reticent.worlds.records import fit
from reticent.worlds.registry import make_world
from reticent.worlds.tastes import random_tastes
from reticent_wire.boundary import Raw
from reticent_wire.trajectory import well_formed


class Form(NamedTuple):
    """What is deployed: a model, and the agent's name and options."""

    model: Any
    agent: str


@functools.cache
def tastes() -> Form:
    return Form(
        random_tastes(items=8, factors=2, horizon=4, shift=1.0, seed=3).model,
        "private-factors:first=0.4,growth=1,epsilon=15",
    )


@functools.cache
def history() -> Form:
    """States that a device makes of its last two observations."""
    draw, users, steps = np.random.default_rng(0), 200, 3
    table = pl.DataFrame(
        {
            "user": np.repeat(np.arange(users), steps),
            "step": np.tile(np.arange(steps), users),
            "state": draw.choice(["home", "out"], size=users * steps),
            "action": draw.choice(["rest", "walk"], size=users * steps),
            "reward": draw.integers(2, size=users * steps).astype(float),
        }
    )
    found = fit(table, horizon=steps, origin="simulated", candidates=2, history=2)
    return Form(found.model, "private-score-vi:first=0.4,growth=1,epsilon=15,residual=off")


@functools.cache
def stays() -> Form:
    """Three visits that are reported once; what may go wrong comes between two of them."""
    return Form(
        make_world("random-blend:states=4,actions=2,horizon=3,d=3").model,
        "private-kinds:first=0.4,growth=1,epsilon=15,visits=3",
    )


@functools.cache
def planned() -> Form:
    """Users who act by a plan over beliefs."""
    return Form(
        make_world("random-blend:states=4,actions=2,horizon=3,d=3").model,
        "private-kinds:first=0.4,growth=1,epsilon=15,plan=point-based,points=2",
    )


@functools.cache
def score_stays() -> Form:
    """Three visits of users who act by the policy alone, the sum of which is reported once."""
    return Form(stays().model, "private-score-vi:first=0.4,growth=1,epsilon=15,residual=off,visits=3")


FORMS = {"tastes": tastes, "history": history, "stays": stays, "planned": planned, "score stays": score_stays}
VISITS = {"stays": 3, "score stays": 3}
pytestmark = pytest.mark.parametrize(
    ("form", "trust"),
    [
        ("tastes", "joint"),
        ("tastes", "local"),
        ("history", "joint"),
        ("stays", "local"),
        pytest.param("stays", "joint", marks=pytest.mark.verify),
        pytest.param("history", "local", marks=pytest.mark.verify),
        pytest.param("score stays", "joint", marks=pytest.mark.verify),
        pytest.param("score stays", "local", marks=pytest.mark.verify),
        pytest.param("planned", "joint", marks=pytest.mark.verify),
        pytest.param("planned", "local", marks=pytest.mark.verify),
    ],
)


def life(form: str, seed: int) -> dict[str, Any]:
    """What a user does, some of it out of range."""
    draw, model, visits = np.random.default_rng(seed), FORMS[form]().model, VISITS.get(form, 1)
    return {
        "states": draw.integers(-1, model.states + 2, visits * (model.horizon + 1)).tolist(),
        "actions": draw.permutation(model.actions + 1)[: model.horizon].tolist()
        if form == "tastes"
        else draw.integers(0, model.actions + 1, visits * model.horizon).tolist(),
        "rewards": (2 * draw.random(visits * model.horizon) - 0.5).tolist(),
    }


def started(where: Path, url: str, form: str, trust: str) -> Deployment:
    return begin(where, url, f"{FORMS[form]().agent},trust={trust}", model=FORMS[form]().model)


def reference(service: Deployment) -> int:
    """The version that contributions to the open round refer to."""
    with service.store.read() as tx:
        return int(records.open_round(tx).reference)


def steps(service: Deployment, version: int, form: str, seed: int, place: int | None) -> np.ndarray:
    """A user's contribution in steps of the grid, formed as a device forms it."""
    published = service.configuration.published
    seen = well_formed(published, *life(form, seed).values())
    return published.steps(service.billboard(version), seen._replace(place=place))


def send(service: Deployment, opened: Any, form: str, seed: int, version: int | None = None) -> int:
    """Submit what the trust model allows; reports without noise, so that they can be told apart in a sum."""
    if service.configuration.wire == "trajectory":
        return service.submit_trajectory(opened.token, opened.episode, **life(form, seed))
    under = reference(service) if version is None else version
    return service.submit_report(opened.token, opened.episode, steps(service, under, form, seed, opened.place), under)


def serve(service: Deployment, form: str, users: range) -> list[Any]:
    came = []
    for user in users:
        came.append(service.admit(f"user {user}"))
        send(service, came[-1], form, user)
    return came


def added(service: Deployment, before: np.ndarray) -> np.ndarray:
    """What the open round's sum has got since then."""
    return open_sum(service) - before


def test_a_late_report_counts_once_under_the_round_that_counts_it(
    tmp_path: Path, database: str, form: str, trust: str
) -> None:
    service = started(tmp_path, database, form, trust)
    late = service.admit("late")
    serve(service, form, range(4))
    assert reference(service) == 1
    before = open_sum(service).copy()
    assert send(service, late, form, 100) == late.version == 0
    wanted = steps(service, 1, form, 100, late.place)
    np.testing.assert_array_equal(added(service, before), wanted)
    assert not np.array_equal(wanted, steps(service, 0, form, 100, late.place))
    assert send(service, late, form, 101) == 0  # again, and with something else: the first one counts
    np.testing.assert_array_equal(added(service, before), wanted)


def test_a_report_under_another_round_s_version_counts_and_adds_nothing(
    tmp_path: Path, database: str, form: str, trust: str
) -> None:
    """The service does not ask for a second one; the joint service forms all of them itself."""
    service = started(tmp_path, database, form, trust)
    late = service.admit("late")
    serve(service, form, range(4))
    before = open_sum(service).copy()
    assert send(service, late, form, 100, version=0) == 0
    assert added(service, before).any() == (trust == "joint")
    assert not service.admit("late").learning


def test_erased_in_the_middle_of_an_episode_nothing_is_added_and_nothing_published_moves(
    tmp_path: Path, database: str, form: str, trust: str
) -> None:
    service = started(tmp_path, database, form, trust)
    serve(service, form, range(5))
    opened = service.admit("ann")
    published, before = shown(service), open_sum(service).copy()
    assert forget(service, "ann").episodes == 1
    for seed in (5, 6):  # answered as any other, also when it is sent again
        assert send(service, opened, form, seed) == 1
    assert shown(service) == published
    assert not added(service, before).any()
    assert not service.admit("ann").learning


def test_after_a_loss_of_the_store_no_user_is_learned_from_again(
    tmp_path: Path, database: str, form: str, trust: str
) -> None:
    service = started(tmp_path, database, form, trust)
    serve(service, form, range(4))
    counted = service.admit("user 4")
    send(service, counted, form, 4)
    opened = service.admit("user 5")
    file = copied(service, tmp_path / "copy")
    published = shown(service)
    lose(service)
    put_back(tmp_path, database, file, f"{FORMS[form]().agent},trust={trust}", FORMS[form]().model)
    again = started(tmp_path, database, form, trust)
    assert shown(again)[1] == published[1]
    assert not any(again.admit(f"user {user}").learning for user in range(6))
    assert not open_sum(again).any()  # what the open round held is lost, and not counted twice
    said = set()
    for old, seed in ((opened, 5), (opened, 50), (counted, 4)):
        with pytest.raises(Refusal) as refused:
            send(again, old, form, seed, version=1)
        said.add((refused.value.kind, str(refused.value)))
    assert [kind for kind, _ in said] == ["episode-expired"]
    assert not open_sum(again).any()


def test_in_a_group_each_member_counts_as_if_alone(tmp_path: Path, database: str, form: str, trust: str) -> None:
    """One was erased, one is late, one comes twice and one has sent before: the others are counted as ever."""
    service = started(tmp_path, database, form, trust)
    late = service.admit("late")
    serve(service, form, range(4))
    opened = service.admit_all([(name, None) for name in ("ann", "bob", "late")])
    forget(service, "ann")
    ann, bob = opened[:2]
    before, submissions = open_sum(service).copy(), service.submissions
    members: list[Any] = []
    for one, seed in ((ann, 10), (bob, 11), (late, 12), (bob, 13)):
        if trust == "joint":
            members += submissions.trajectories([(one.token, one.episode, Raw(tuple(life(form, seed).values())))])
        else:
            report = steps(service, 1, form, seed, one.place)
            members.append(submissions.report(one.token, one.episode, report, 1))
    assert submissions.count_all(members) == [1, 1, 0, 1]
    wanted = steps(service, 1, form, 11, bob.place) + steps(service, 1, form, 12, late.place)
    np.testing.assert_array_equal(added(service, before), wanted)
