# SPDX-License-Identifier: Apache-2.0
"""Small deployments for the service's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reticent.privacy.noise import SecureNoise
from reticent.service.durability.rollback_guard import RollbackGuard
from reticent.service.mechanism import make_mechanism
from reticent.service.rounds.context import Context
from reticent.service.rounds.deployment import Deployment
from reticent.service.secrets import Secrets
from reticent.service.store import records
from reticent.service.store.engine import Store
from reticent.worlds import Episode
from reticent.worlds.registry import make_world

SECRET = "a secret of the tests, long enough"
WORLD = "random-blend:states=6,actions=3,horizon=8,d=3"
MODEL = make_world(WORLD).model
OPENED: list[Deployment] = []
"""Deployments made by the running test, to be closed after it."""

AGENT = "private-linopt-vi:first=4,growth=1"


def deployment(
    where: Path | str, agent: str = AGENT, episodes: int = 12, model: Any = MODEL, **given: Any
) -> Deployment:
    """A deployment of ``episodes`` users in rounds of four, on a file or a database URL."""
    settings = {key: given.pop(key) for key in ("contributions", "pan_private") if key in given}
    mechanism = make_mechanism(agent, model, episodes, SecureNoise(), **settings)
    url = where if isinstance(where, str) else f"sqlite:///{where / 'service.db'}"
    given.setdefault("inline", True)
    secrets = Secrets(SECRET)
    if isinstance(where, Path):
        given.setdefault("rollback_guard", RollbackGuard(where / "service.witness", secrets))
    made = Deployment(Context(mechanism, Store(url), secrets, **given))
    OPENED.append(made)
    made.set_up()
    return made


def episode(seed: int, model: Any = MODEL) -> dict[str, Any]:
    """A random trajectory."""
    draw = np.random.default_rng(seed)
    return {
        "states": draw.integers(0, model.states, model.horizon + 1).tolist(),
        "actions": draw.integers(0, model.actions, model.horizon).tolist(),
        "rewards": draw.random(model.horizon).tolist(),
    }


def played(seed: int) -> Episode:
    """The same as the library sees it."""
    return Episode(**{name: np.asarray(values) for name, values in episode(seed).items()})


def open_sum(service: Any) -> np.ndarray:
    """What the round that takes reports has been sent so far, opened."""
    with service.store.write() as tx:
        row = records.open_round(tx)
    found: np.ndarray = service.context.total(row.number, row.total)._value
    return found
