# SPDX-License-Identifier: Apache-2.0
"""The way to the script that writes the test vectors, whose small deployments tests use too."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

import pytest
from only_secure_entropy import forbid

sys.path.insert(0, str(Path(__file__).parents[1]))


@pytest.fixture(autouse=True)
def only_secure_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that asks a predictable generator fails, in every test."""
    forbid(monkeypatch.setattr)


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices keep their budgets in a place of the test's own, not in that of whoever runs it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / f"state-{uuid.uuid4().hex}"))
