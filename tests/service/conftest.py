# SPDX-License-Identifier: Apache-2.0
"""Databases of the tests' own, and the way to the measurements that tests repeat in small."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    from temporary_postgres import temporary_postgres

    with temporary_postgres() as url:
        yield url


@pytest.fixture
def postgres(cluster: str) -> Iterator[str]:
    """The URL of an empty database on a real server."""
    from reticent.service.store.tables import METADATA

    yield cluster
    engine = sa.create_engine(cluster)
    METADATA.drop_all(engine)
    engine.dispose()


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test leaves a connection open, and neither does what it calls: Python 3.13 warns of those that nobody closed."""
    from durable import OPENED

    from reticent.service.store.engine import Store

    made: list[Store] = []
    init = Store.__init__

    def noted(self: Store, *given: object, **named: object) -> None:
        init(self, *given, **named)  # type: ignore[arg-type]
        made.append(self)

    monkeypatch.setattr(Store, "__init__", noted)
    yield
    while OPENED:
        OPENED.pop().store.close()
    left = [store for store in made if store.engine.pool.checkedin() + store.engine.pool.checkedout()]
    for store in left:
        store.close()
    assert not left, f"{len(left)} of {len(made)} stores were left open"


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise taken away."""
    from reticent.service.mechanism import Mechanism

    monkeypatch.setattr(Mechanism, "_draw", lambda self, prefix: np.zeros(prefix + self.noise_scale.shape, np.int64))


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'service.db'}"
    return str(request.getfixturevalue("postgres"))
