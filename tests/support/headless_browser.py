# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium of the system's, with an empty profile, for tests and pictures of the dashboard."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def why_not() -> str | None:
    """What is missing for a browser; None if nothing is."""
    try:
        import playwright  # noqa: F401
    except ModuleNotFoundError:
        return "the Python package playwright is not installed (pip install playwright)"
    return None if _program() else "no Chromium is installed (on Debian: apt-get install chromium)"


@contextlib.contextmanager
def browser(**options: Any) -> Iterator[Any]:
    """A browser window in a profile of its own; ``options`` are those of a playwright browser context."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="chromium") as profile, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=_program(), headless=True, args=list(FLAGS), **options
        )
        try:
            yield context
        finally:
            context.close()


def _program() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)
