# SPDX-License-Identifier: Apache-2.0
"""A service of this machine as a process of its own: started, waited for and stopped by a command that shows it."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

START_SECONDS = 120.0
"""Seconds that a service may take to start: the first time, it compiles."""

END_SECONDS = 20.0
"""Seconds that a process may take to end by itself."""


class DidNotStart(RuntimeError):
    """The service gave up, or did not answer in time."""


def stopping() -> threading.Event:
    """An event that Ctrl-C sets. An exception could come between starting a process and knowing that it was started."""
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())
    return asked


def free_port() -> int:
    """A port of this machine that no process listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(
    command: list[str],
    environment: Mapping[str, str],
    end: signal.Signals = signal.SIGTERM,
    *,
    folder: Path | None = None,
    output: IO[Any] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A command of reticent while the block lasts, then told to ``end``; its ``output`` goes to a file, if one is given.

    It has a session of its own, so that Ctrl-C reaches the caller alone, which ends things in their order.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "reticent", *command],
        env=dict(environment),
        cwd=folder,
        start_new_session=True,
        stdout=output,
        stderr=subprocess.STDOUT if output is not None and output is not sys.stdout else None,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(end)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_healthy(service: subprocess.Popen[bytes], url: str, stop: threading.Event) -> None:
    """Return when the service answers, or is no longer wanted.

    Raises:
      DidNotStart: it ended, or did not answer in time.
    """
    from reticent_client import Connection, ServiceError, Unreachable

    end = time.monotonic() + START_SECONDS
    connection = Connection(url, None, deadline=0.5)
    with contextlib.closing(connection):
        while time.monotonic() < end and not stop.is_set():
            if service.poll() is not None:
                raise DidNotStart(
                    f"the service did not start (exit code {service.returncode}); is the port of {url} taken?"
                )
            with contextlib.suppress(Unreachable, ServiceError):
                connection.get("/v1/health")
                return
    if not stop.is_set():
        raise DidNotStart(f"the service did not answer within {START_SECONDS:.0f} s")
