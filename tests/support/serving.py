"""The application on a small world, with its keys, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from durable import AGENT, SECRET, WORLD

from reticent.service.config import Settings

KEYS = {"app_key": "the app's key of the tests, long enough", "admin_key": "the admin's key of the tests, long enough"}
APP = {"Authorization": f"Bearer {KEYS['app_key']}"}
ADMIN = {"Authorization": f"Bearer {KEYS['admin_key']}"}


def settings(where: Path, **given: Any) -> Settings:
    """Twelve users in rounds of four, planned inline."""
    values: dict[str, Any] = {
        "world": WORLD, "agent": AGENT, "episodes": 12, "planning": "inline", "rate_limit": 0,
        "database": f"sqlite:///{where / 'service.db'}",
    }  # fmt: skip
    return Settings(**{**values, **given}).with_secrets(user_secret=SECRET, **KEYS)
