# SPDX-License-Identifier: Apache-2.0
"""A deployment of stays says how long one may last: no default is right for it, and one of a single visit loses reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from durable import deployment
from fastapi.testclient import TestClient
from serving import APP, settings
from test_service_stays import AGENT, MODEL, stay

from reticent.errors import InvalidInput
from reticent.service.http.app import create_app
from reticent.service.rounds.refusals import Refusal
from reticent.service.waiting_times import DAY, WEEK, waiting_times

WORLD = "random-blend:states=4,actions=2,horizon=3,d=3"


@pytest.mark.parametrize(
    ("visits", "given", "wanted"),
    [
        (1, (None, None), (DAY, WEEK)),
        (1, (60.0, None), (60.0, WEEK)),
        (1, (60.0, 0.0), (60.0, 0.0)),
        (1, (WEEK, 5.0), (WEEK, 5.0)),
        (2, (60 * DAY, None), (60 * DAY, 60 * DAY)),
        (2, (DAY, None), (DAY, WEEK)),
        (2, (DAY, DAY), (DAY, DAY)),
    ],
)
def test_what_is_waited_for(visits: int, given: tuple[Any, Any], wanted: tuple[float, float]) -> None:
    assert waiting_times(visits, *given) == wanted


def test_stays_that_would_be_cut_off_are_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"ticket_lifetime is missing.*2 visits; set it to the seconds from a user's fir"
    ):
        waiting_times(2, None, None)
    with pytest.raises(InvalidInput, match=r"finish_after is 86399.0.*at least ticket_lifetime, 86400,.*leave it out"):
        waiting_times(2, DAY, DAY - 1)


def test_a_deployment_of_stays_is_begun_with_a_lifetime_or_not_at_all(tmp_path: Path) -> None:
    stays: dict[str, Any] = {"world": WORLD, "agent": AGENT}
    with pytest.raises(InvalidInput, match="ticket_lifetime is missing"):
        create_app(settings(tmp_path, **stays), begin=True)
    assert not list(tmp_path.glob("*.db*"))  # and nothing was begun
    with TestClient(create_app(settings(tmp_path, **stays, ticket_lifetime=60 * DAY), begin=True)) as client:
        context = client.app.state.deployment.context  # type: ignore[attr-defined]
        assert (context.ticket_lifetime, context.finish_after) == (60 * DAY, 60 * DAY)
        opened = client.post("/v1/episodes", json={"user": "ann"}, headers=APP).json()
        assert opened["expires_at"] - context.now() == pytest.approx(60 * DAY, abs=60)


def test_a_stay_is_waited_for_until_its_ticket_expires_and_refused_alike_after(database: str) -> None:
    """What was done in it does not matter, nor whether it was sent in time and is sent again."""
    now = [1e9]
    service = deployment(
        database, AGENT, model=MODEL, inline=False, ticket_lifetime=60 * DAY, finish_after=60 * DAY,
        now=lambda: now[0], steady=lambda: now[0],
    )  # fmt: skip
    early, late, other = (service.admit(f"user {user}") for user in range(3))
    now[0] += 59 * DAY
    assert service.submit_trajectory(early.token, early.episode, **stay(0)) == 0
    now[0] += 2 * DAY
    said = set()
    for opened, seed in ((late, 1), (other, 2), (early, 0)):
        with pytest.raises(Refusal) as refused:
            service.submit_trajectory(opened.token, opened.episode, **stay(seed))
        said.add((refused.value.kind, str(refused.value)))
    assert len(said) == 1
    assert next(iter(said))[0] == "episode-expired"
