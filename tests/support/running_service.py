# SPDX-License-Identifier: Apache-2.0
"""The real service on a real port, for tests: uvicorn in a thread, SQLite in a temporary directory."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn

from reticent.service.config import Settings
from reticent.service.http.app import create_app
from reticent.service.http.sockets import PromptProtocol

APP_KEY, ADMIN_KEY, SHUFFLER_KEY = (
    f"the {role}'s key of the tests, long enough" for role in ("app", "admin", "shuffler")
)
SECRETS = {
    "app_key": APP_KEY, "admin_key": ADMIN_KEY, "shuffler_key": SHUFFLER_KEY,
    "user_secret": "the secret of the tests, which is long enough",
}  # fmt: skip


@contextlib.contextmanager
def running_service(directory: Path, **settings: Any) -> Iterator[str]:
    """Start a service and give its address; it is stopped at the end of the block."""
    given = {"planning": "inline", "public_reads": True, **settings}
    chosen = Settings(database=f"sqlite:///{directory}/service.db", **given)
    with listening(chosen.with_secrets(**SECRETS)) as address:
        yield address


@contextlib.contextmanager
def listening(settings: Settings) -> Iterator[str]:
    """The address of a service with these settings, in a thread of its own until the block ends."""
    config = uvicorn.Config(
        create_app(settings, begin=True), host="127.0.0.1", port=0, log_level="error", lifespan="on",
        http=PromptProtocol, ws="none", proxy_headers=False, timeout_graceful_shutdown=2,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive(), "the service did not start"
            assert time.monotonic() < deadline, "the service takes too long to start"
            time.sleep(0.02)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
