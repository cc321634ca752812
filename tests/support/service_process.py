# SPDX-License-Identifier: Apache-2.0
"""A service of its own process to measure or to kill, and plain HTTP calls to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KEY = "an app key of the measurements, long enough"
ENVIRONMENT = {
    "RETICENT_APP_KEY": KEY,
    "RETICENT_ADMIN_KEY": "an admin key of the measurements, long enough",
    "RETICENT_USER_SECRET": "a user secret of the measurements, long enough",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Service:
    """``reticent serve`` in a process group of its own, which can be killed and started again.

    ``checkout`` is a source tree whose library is served instead of the one that is imported here.
    """

    def __init__(self, settings: dict[str, Any], checkout: Path | None = None) -> None:
        self._environment = {**os.environ, **ENVIRONMENT}
        if checkout is not None:
            self._environment["PYTHONPATH"] = f"{checkout / 'src'}:{checkout / 'clients' / 'python' / 'src'}"
        self._home = tempfile.TemporaryDirectory(prefix="service")
        self.port = free_port()
        self.config = Path(self._home.name) / "deployment.yaml"
        self.log = Path(self._home.name) / "log"
        if not str(settings["database"]).startswith("sqlite"):
            settings = {"rollback_guard": f"{self._home.name}/witness", **settings}
        self.config.write_text(
            json.dumps({"rate_limit": 0, "public_reads": True, **settings, "port": self.port})
        )  # JSON is YAML
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, patience: float = 120.0) -> float:
        """Start it and wait until it answers; says after how many seconds."""
        began = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "reticent", "serve", "--init", "--config", str(self.config)],
                env=self._environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        return self.await_answer(patience, began)

    def await_answer(self, patience: float = 120.0, began: float | None = None) -> float:
        """Wait until health says that users are served; says after how many seconds."""
        assert self._process is not None
        began = time.monotonic() if began is None else began
        while time.monotonic() - began < patience:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if ask_once(self.port, "/v1/health", timeout=2.0)[0] == 200:
                    return time.monotonic() - began
            if self._process.poll() is not None:
                raise RuntimeError(f"the service did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.05)
        raise RuntimeError(f"the service did not answer in {patience} s: {self.log.read_text()[-2000:]}")

    @property
    def group(self) -> int:
        """The id of its process group."""
        assert self._process is not None
        return self._process.pid

    def processes(self) -> dict[str, list[int]]:
        """The ids of its processes by what they are: ``workers``, a ``planner`` beside them, ``others`` that start them."""
        found: dict[str, list[int]] = {"workers": [], "planner": [], "others": []}
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.getpgid(int(place.name)) == self.group:
                    found[_kind(place)].append(int(place.name))
        return found

    def resident(self) -> dict[str, list[float]]:
        """MiB of memory of its :meth:`processes`."""
        sizes: dict[str, list[float]] = {}
        for kind, found in self.processes().items():
            sizes[kind] = []
            for process in found:
                with contextlib.suppress(OSError, IndexError):
                    status = (Path("/proc") / str(process) / "status").read_text()
                    sizes[kind].append(round(int(status.partition("VmRSS:")[2].split()[0]) / 1024, 1))
        return sizes

    def kill(self) -> None:
        """End it and its workers at once, as a power cut would."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)
            self._process.wait()
            self._process = None

    def kill_one(self, kind: str, patience: float = 120.0) -> float:
        """Kill one of its :meth:`processes` and wait until it is replaced and all is well; says after how many seconds."""
        began, victim = time.monotonic(), self.processes()[kind][0]
        os.kill(victim, 9)
        while time.monotonic() - began < patience:
            time.sleep(0.05)
            with contextlib.suppress(OSError, http.client.HTTPException):
                replaced = self.processes()[kind]
                if replaced and victim not in replaced and ask_once(self.port, "/v1/health", timeout=10.0)[0] == 200:
                    return time.monotonic() - began
        raise RuntimeError(f"nobody replaced it in {patience} s: {self.log.read_text()[-2000:]}")

    def close(self) -> None:
        self.kill()
        self._home.cleanup()


def _kind(process: Path) -> str:
    """What one of a service's processes is, by ``/proc``: only who answers has the service's socket, only who plans the
    planner's."""
    if b"spawn_main" not in (process / "cmdline").read_bytes():
        return "others"
    opened = {place.name: os.readlink(place) for place in (process / "fd").iterdir()}
    listening = (Path("/proc/net/unix").read_text()).splitlines()
    bound = {f"socket:[{line.split()[6]}]" for line in listening if line.endswith("/planner")}
    return "planner" if bound & set(opened.values()) else "workers"


@contextlib.contextmanager
def serving(settings: dict[str, Any], checkout: Path | None = None) -> Iterator[Service]:
    """A service that answers, gone afterwards."""
    service = Service(settings, checkout)
    try:
        service.start()
        yield service
    finally:
        service.close()


class Caller:
    """One connection to the service, kept open."""

    def __init__(self, port: int, timeout: float = 30.0, host: str = "127.0.0.1") -> None:
        self._host, self._port, self._timeout = host, port, timeout
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Status and decoded answer; a broken connection is an OSError or HTTPException, and opened anew next time."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        return answer.status, json.loads(content) if content else None

    def insist(self, method: str, path: str, body: dict[str, Any] | None, until: float) -> tuple[int, Any] | None:
        """Ask until there is an answer that is not 503, as a client does; None if time is up."""
        while time.monotonic() < until:
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, answer = self.ask(method, path, body)
                if status != 503:
                    return status, answer
            time.sleep(0.05)
        return None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def ask_once(port: int, path: str, timeout: float = 30.0, host: str = "127.0.0.1") -> tuple[int, Any]:
    """Ask for ``path`` on a connection of its own."""
    caller = Caller(port, timeout, host)
    try:
        return caller.ask("GET", path)
    finally:
        caller.close()
