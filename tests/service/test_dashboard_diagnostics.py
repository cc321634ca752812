# SPDX-License-Identifier: Apache-2.0
"""The dashboard's diagnostics over HTTP: the billboard's own numbers, from nothing but what was released."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from durable import MODEL
from fastapi.testclient import TestClient
from serving import APP
from serving import settings as service_settings
from watching import come

from reticent.service.http.app import create_app
from reticent.service.http.dashboard import routes
from reticent.service.store.tables import LEARNER, ROUNDS
from reticent_wire import arrays


def learned(client: TestClient, users: int = 5) -> None:
    """Enough users for a release."""
    come(client, range(users), MODEL)


@pytest.mark.verify
@pytest.mark.parametrize("agent", ["private-linopt-vi:first=4,growth=1", "private-linopt-po:first=4,growth=1"])
def test_the_upper_end_is_what_the_billboard_says(tmp_path: Path, agent: str) -> None:
    """The service planned from its own state; diagnostics from the release alone. They must be the same numbers."""
    with TestClient(create_app(service_settings(tmp_path, agent=agent), begin=True)) as client:
        learned(client)
        for version in (0, 1):
            board = client.get(f"/v1/billboards/{version}").json()
            shape = (MODEL.horizon + 1, MODEL.states)
            values = arrays.from_json("values", board["values"], dtype="<f8", shape=shape)
            answer = client.get(f"/v1/diagnostics/{version}").json()
            assert answer["value"]["optimistic"] == pytest.approx(
                float(np.asarray(MODEL.initial) @ values[0]), rel=1e-9
            )
        assert client.get("/v1/diagnostics").json() == answer
        assert (answer["version"], answer["users"]) == (1, 4)
        assert answer["value"]["largest"] == MODEL.horizon


# -- privacy ---------------------------------------------------------------------------------------------------------------


def test_insights_read_nothing_but_releases(tmp_path: Path) -> None:
    """With the agent's state and the open sum destroyed, the answer is the same: neither was looked at."""
    app = create_app(service_settings(tmp_path), begin=True)
    with TestClient(app) as client:
        learned(client)
        before = client.get("/v1/diagnostics/1").json()
        routes._diagnostics.cache_clear()
        with app.state.deployment.store.write() as tx:
            tx.execute(sa.update(LEARNER).values(state=b"gone"))
            tx.execute(sa.update(ROUNDS).where(ROUNDS.c.state != "released").values(total=b"gone"))
        assert client.get("/v1/diagnostics/1").json() == before


def test_insights_do_not_move_with_reports_that_are_not_released(tmp_path: Path) -> None:
    with TestClient(create_app(service_settings(tmp_path), begin=True)) as client:
        learned(client, 5)
        before = client.get("/v1/diagnostics").content
        routes._diagnostics.cache_clear()
        come(client, range(99, 100), MODEL)
        assert client.get("/v1/diagnostics").content == before


# -- routes ----------------------------------------------------------------------------------------------------------------


def test_insights_are_for_readers_and_of_published_versions(tmp_path: Path) -> None:
    with TestClient(create_app(service_settings(tmp_path, public_reads=False), begin=True)) as client:
        assert client.get("/v1/diagnostics").status_code == 401
        assert client.get("/v1/diagnostics/0").status_code == 401
        answer = client.get("/v1/diagnostics/0", headers=APP)
        assert answer.status_code == 200
        assert answer.headers["cache-control"].startswith("private")  # an answer to a key is for its holder
        assert answer.json()["signal"] is None
        assert client.get("/v1/diagnostics/1", headers=APP).status_code == 404
        assert client.get("/v1/diagnostics/-1", headers=APP).status_code == 422


def test_figures_of_a_version_are_computed_once(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They took 102 ms for every request."""
    chosen = service_settings(tmp_path, database=database, witness=tmp_path / "witness")
    with TestClient(create_app(chosen, begin=True)) as client:
        deployment = client.app.state.deployment  # type: ignore[attr-defined]
        computed, compute = [], deployment.diagnostics
        monkeypatch.setattr(deployment, "diagnostics", lambda version: computed.append(version) or compute(version))
        answers = [client.get(path).content for path in ("/v1/diagnostics", "/v1/diagnostics/0") for _ in range(3)]
        assert computed == [0]
        assert len(set(answers)) == 1


def test_the_page_holds_no_numbers_and_lets_nobody_else_in(tmp_path: Path) -> None:
    with TestClient(create_app(service_settings(tmp_path, public_reads=False), begin=True)) as client:
        for path, kind in (
            ("/dashboard", "text/html"), ("/dashboard/dashboard.css", "text/css"),
            ("/dashboard/dashboard.js", "text/javascript"), ("/dashboard/icon.svg", "image/svg+xml"),
        ):  # fmt: skip
            answer = client.get(path)
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith(kind)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'self'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert client.get(path, headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
        for path in ("/dashboard/routes.py", "/dashboard/..%2Froutes.py", "/dashboard/..%2F..%2Fapp.py"):
            assert client.get(path).status_code == 404
