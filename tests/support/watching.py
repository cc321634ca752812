# SPDX-License-Identifier: Apache-2.0
"""What it takes to watch a deployment in a browser: the service on a real port, users who come, a page that is checked."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
from headless_browser import browser, why_not
from running_service import listening as running
from serving import APP

__all__ = ["Watched", "browser", "come", "running", "watch", "why_not"]


def come(client: httpx.Client, names: range, model: Any) -> None:
    """Users ``names`` come one after another and do something random."""
    for name in names:
        draw = np.random.default_rng(name)
        opened = client.post("/v1/episodes", json={"user": f"user {name}"}, headers=APP)
        assert opened.status_code == 201, opened.text
        body = {
            "token": opened.json()["token"],
            "states": draw.integers(0, model.states, model.horizon + 1).tolist(),
            "actions": draw.integers(0, model.actions, model.horizon).tolist(),
            "rewards": draw.random(model.horizon).tolist(),
        }
        path = f"/v1/episodes/{opened.json()['episode']}/trajectory"
        assert client.post(path, json=body, headers=APP).status_code == 200


class Watched:
    """A page, and what it did that a page must not do."""

    def __init__(self, page: Any, origin: str) -> None:
        self.page, self.origin = page, origin
        self.errors: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda said: self.errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def until(self, condition: str) -> None:
        """Wait until a JavaScript condition holds; patient, since machines that test are busy."""
        deadline = time.monotonic() + 60
        # Asked from outside, again and again: the page's policy lets no condition be put into it.
        while not self.page.evaluate(condition):
            assert time.monotonic() < deadline, f"{condition} did not come true; errors: {self.errors}"
            self.page.wait_for_timeout(50)

    def strangers(self) -> list[str]:
        """Requests that left the origin."""
        return [url for url in self.asked if not url.startswith(f"{self.origin}/")]


@contextlib.contextmanager
def watch(window: Any, origin: str, *, width: int = 1280, scheme: str = "light") -> Iterator[Watched]:
    """The dashboard in a tab of its own."""
    page = window.new_page()
    try:
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        watched = Watched(page, origin)
        page.goto(f"{origin}/dashboard")
        yield watched
    finally:
        page.close()
