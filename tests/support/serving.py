# SPDX-License-Identifier: Apache-2.0
"""The application on a small world, with its keys, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from durable import AGENT, SECRET, WORLD

from reticent.service.config import Settings

KEYS = {f"{role}_key": f"the {role}'s key of the tests, long enough" for role in ("reader", "app", "shuffler", "admin")}
READER, APP, SHUFFLER, ADMIN = ({"Authorization": f"Bearer {key}"} for key in KEYS.values())


def settings(where: Path, **given: Any) -> Settings:
    """Twelve users in rounds of four, planned inline."""
    values: dict[str, Any] = {
        "world": WORLD, "agent": AGENT, "episodes": 12, "planning": "inline", "rate_limit": 0,
        "public_reads": True, "hosts": ("testserver",),
        "database": f"sqlite:///{where / 'service.db'}",
    }  # fmt: skip
    return Settings(**{**values, **given}).with_secrets(user_secret=SECRET, **KEYS)
