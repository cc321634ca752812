# SPDX-License-Identifier: Apache-2.0
"""Tickets handed out before, one request per user: a user moves one sum, whenever the report comes.

docs/proofs/one-request.md has the theorem. The other schedule, admission at the report, is played beside it: there every
round moves.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from durable import deployment, episode
from running_service import APP_KEY, running_service

from reticent.privacy.accounting.gaussian import epsilon_of, mu_of
from reticent.service.rounds.deployment import Deployment
from reticent.service.store import records
from reticent_client import Budget, Client, Episode, Ticket

USERS, SIZE, CHANGED = 16, 4, 1
AGENTS = ("private-linopt-vi:first=4,growth=1", "private-score-vi:first=0.4,growth=1,epsilon=15")

Report = Callable[[Deployment, int], None]


def sums(service: Deployment) -> list[np.ndarray]:
    """The sums of all rounds so far in units of their noise; nothing is released here."""
    with service.store.read() as tx:
        rows = sorted(records.unreleased(tx), key=lambda row: row.number)
    scale, grid = service.configuration.noise_scale, service.configuration.grid
    found = [service.context.total(row.number, row.total)._value for row in rows]  # opened, as only tests may
    return [(total * grid / np.where(scale > 0, scale, 1.0))[scale > 0] for total in found]


def moves(one: list[np.ndarray], other: list[np.ndarray]) -> np.ndarray:
    """How far each round's sum moved."""
    return np.array([np.linalg.norm(a - b) for a, b in zip(one, other, strict=True)])


def with_tickets(
    where: Path, agent: str, data: dict[int, int | None], late: bool
) -> tuple[list[Any], list[np.ndarray]]:
    """Tickets a round at a time, by a list; then those report who have something, the changed user last or a round late."""
    service = deployment(where, agent, USERS, inline=False)
    told: list[Any] = []
    for first in range(0, USERS, SIZE):
        group = service.admit_all([(f"user {n}", f"{n:032x}") for n in range(first, first + SIZE)])
        told += [(one.version, one.round, one.place, one.reference) for one in group]  # type: ignore[union-attr]
        reporting = [n for n in range(first, first + SIZE) if not (late and n == CHANGED)]
        for user in reporting + ([CHANGED] if late and first == SIZE else []):
            seed = data.get(user, user)
            if seed is not None:
                token = service.admit(f"user {user}", f"{user:032x}").token
                service.submit_trajectory(token, f"{user:032x}", **episode(seed))
    return told, sums(service)


@pytest.mark.parametrize("agent", AGENTS)
def test_with_tickets_a_user_moves_no_more_than_the_noise_is_for(tmp_path: Path, agent: str) -> None:
    """Replaced by other data, by no report at all, or by a late one: all tickets are the same, one or two sums move."""
    cases: dict[str, tuple[dict[int, int | None], bool]] = {
        "as it was": ({}, False), "replaced": ({CHANGED: 1000}, False), "silent": ({CHANGED: None}, False),
        "late": ({CHANGED: 1000}, True),
    }  # fmt: skip
    found = {}
    for case, (data, late) in cases.items():
        (tmp_path / case).mkdir()
        found[case] = with_tickets(tmp_path / case, agent, data, late)
    told, before = found.pop("as it was")
    strength = deployment(tmp_path / "late", agent, USERS, inline=False).mechanism.guarantee.mu
    assert strength is not None
    for case, (others, after) in found.items():
        assert others == told
        moved = moves(before, after)
        assert np.count_nonzero(moved) == (2 if case == "late" else 1)
        assert 0 < np.linalg.norm(moved) <= strength


def test_with_admission_at_the_report_every_round_moves(tmp_path: Path) -> None:
    """The schedule that is refused: who reports is admitted then. One user who does not come moves all sums."""
    found = []
    for case in ("came", "stayed away"):
        (tmp_path / case).mkdir()
        service = deployment(tmp_path / case, AGENTS[0], USERS, inline=False)
        for user in range(USERS):
            if user == CHANGED and case == "stayed away":
                continue
            opened = service.admit(f"user {user}")
            service.submit_trajectory(opened.token, opened.episode, **episode(user))
        found.append(sums(service))
    assert np.count_nonzero(moves(*found)) == USERS // SIZE


def test_the_page_states_what_that_costs() -> None:
    page = (pathlib.Path(__file__).parents[2] / "docs" / "proofs" / "one-request.md").read_text()
    costs = [epsilon_of(mu_of(1.0, 1e-5) * rounds**0.5, 1e-5) for rounds in (1, 4, 7, 16, 64)]
    assert " | ".join(f"{cost:.2f}" for cost in costs) in page


# -- the clients --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["joint", "local"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings: dict[str, Any] = {
        "world": "random-blend:states=4,actions=2,horizon=3,d=2", "episodes": 400, "rate_limit": 0,
        "agent": f"private-linopt-vi:first=300,growth=1,trust={request.param}",
    }  # fmt: skip
    with running_service(tmp_path_factory.mktemp("tickets"), **settings) as url:
        yield url


def play(playing: Episode) -> None:
    with playing:
        for _ in range(playing.horizon):
            playing.act(0)
            playing.observe(0.5, 0)


def test_a_device_with_a_ticket_makes_one_request(service: str) -> None:
    """The backend admits in bulk; a ticket travels as JSON; published plans are fetched once and can be cached."""
    asked: list[str] = []
    with (
        Client(service, APP_KEY) as backend,
        Client(service, APP_KEY, budget=Budget.in_memory(), observer=lambda route, *_: asked.append(route)) as device,
    ):
        tickets = backend.admit([f"ann {number}" for number in range(5)])
        assert all(isinstance(one, Ticket) for one in tickets)
        for one in tickets:
            assert isinstance(one, Ticket)
            playing = device.begin(Ticket.read(one.to_json()))
            play(playing)
            assert playing.status == "counted"
    posted = [route for route in asked if route.startswith("POST")]
    assert len(posted) == 5
    assert all(route.startswith("POST /v1/episodes/{episode}/") for route in posted)


def test_tickets_of_one_user_are_one_contribution(service: str) -> None:
    """The service counts a user once; a device whose budget is spent forms nothing for a second ticket."""
    with Client(service, APP_KEY) as backend, Client(service, APP_KEY, budget=Budget.in_memory()) as device:
        first, second = backend.admit(["bob", "bob"])
        assert isinstance(first, Ticket)
        assert isinstance(second, Ticket)
        playing = device.begin(first)
        play(playing)
        assert playing.status == "counted"
        again = device.begin(second)
        assert (again.learning, again.reason) == (False, "user-already-counted")
        forged = Ticket(first.user, {**second.opened, **{key: first.opened[key] for key in ("learning", "reason")},
                                     "round": 0, "place": 1, "reference": None})  # fmt: skip
        hostile = device.begin(forged)
        assert not hostile.learning
        assert hostile.reason == "device-budget-spent"


def test_a_member_that_is_refused_gets_its_own_answer(service: str) -> None:
    with Client(service, APP_KEY) as backend:
        answers = backend.admit(["x" * 300, "cleo"])
        assert not isinstance(answers[0], Ticket)
        assert answers[0].status == 422
        assert isinstance(answers[1], Ticket)
