# SPDX-License-Identifier: Apache-2.0
"""App users while strangers hold streams and connections open and the database hangs: how soon each request is answered.

    python benchmarks/service_under_attack.py --seconds 300

Two workers on PostgreSQL. One reader's key opens event streams as fast as they are closed, up to more than the workers have
connections; as many clients send half a request and wait; all processes of the database are frozen for ``--frozen``
seconds of every minute. Users arrive at a fixed rate, however long answers take, each on connections of their own: two
requests, each repeated while the answer is 503 or none. Every acknowledged episode must be counted once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from reticent.service.store.engine import Store
from reticent.service.store.tables import EPISODES
from service_load import AGENT, KEY, Line, ask_once, serving, temporary_postgres

CONNECTIONS = 200
"""Of each worker."""


class Siege:
    """Users, and those who are in their way."""

    def __init__(self, port: int, master: int, until: float) -> None:
        board = ask_once(port, "/v1/billboard")[1]
        self.horizon, self.states = board["horizon"], board["states"]
        self.port, self.master, self.until = port, master, until
        self.answers: list[float] = []
        self.health: list[float] = []
        self.whole: list[float] = []
        self.acknowledged: set[str] = set()
        self.busy = self.refused = self.streams = self.freezes = 0

    async def run(self, rate: float, frozen: float) -> None:
        users: set[asyncio.Task[None]] = set()
        others = [asyncio.create_task(self._stream()) for _ in range(3 * CONNECTIONS)]
        others += [asyncio.create_task(self._half()) for _ in range(3 * CONNECTIONS)]
        others += [asyncio.create_task(self._freeze(frozen)), asyncio.create_task(self._watch())]
        while time.monotonic() < self.until:
            users.add(asyncio.create_task(self._user()))
            await asyncio.sleep(random.expovariate(rate))
        await asyncio.gather(*users)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _user(self) -> None:
        identity = uuid.uuid4().hex
        began = time.monotonic()
        opened = await self._insist("/v1/episodes", {"user": identity, "episode": identity})
        body = {
            "token": opened["token"], "states": [random.randrange(self.states) for _ in range(self.horizon + 1)],
            "actions": [0] * self.horizon, "rewards": [0.5] * self.horizon,
        }  # fmt: skip
        await self._insist(f"/v1/episodes/{identity}/trajectory", body)
        self.acknowledged.add(identity)
        self.whole.append(time.monotonic() - began)

    async def _insist(self, path: str, body: dict[str, Any]) -> Any:
        while True:
            began = time.monotonic()
            try:
                _, line = await asyncio.get_running_loop().create_connection(Line, "127.0.0.1", self.port)
                status, answer = await asyncio.wait_for(line.ask(path, body), 30)
                line.close()
            except OSError:
                status, answer = 0, None
            self.answers.append(time.monotonic() - began)
            if status in (200, 201):
                return answer
            self.busy += status == 503
            self.refused += status != 503
            await asyncio.sleep(random.uniform(0.1, 1.0))

    async def _stream(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                asked = f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\r\n"
                writer.write(asked.encode())
                self.streams += 1
                while await reader.read(65536):
                    pass
                writer.close()
            await asyncio.sleep(random.uniform(0.5, 1.5))

    async def _half(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(b"POST /v1/episodes HTTP/1.1\r\nHost: localhost\r\n")
                await reader.read()
                writer.close()
            await asyncio.sleep(random.uniform(0.5, 1.5))

    async def _freeze(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(60 - seconds)
            place = Path("/proc") / str(self.master) / "task" / str(self.master) / "children"
            processes = [self.master, *map(int, place.read_text().split())]
            self.freezes += 1
            try:
                for process in processes:
                    os.kill(process, signal.SIGSTOP)
                await asyncio.sleep(seconds)
            finally:
                for process in processes:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGCONT)

    async def _watch(self) -> None:
        while True:
            began = time.monotonic()
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(b"GET /v1/health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if await reader.read():
                    self.health.append(time.monotonic() - began)
                writer.close()
            await asyncio.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--rate", type=float, default=20.0, help="users a second")
    parser.add_argument("--frozen", type=float, default=5.0, help="seconds of every minute")
    chosen = parser.parse_args()
    with temporary_postgres() as url:
        home = Path(str(sa.make_url(url).query["host"]))
        master = int((home / "data" / "postmaster.pid").read_text().split()[0])
        settings = {
            "world": "mobile-health", "agent": AGENT, "episodes": 1_000_000, "database": url, "workers": 2,
            "connections": CONNECTIONS, "rate_limit": 0,
        }  # fmt: skip
        with serving(settings) as service:
            siege = Siege(service.port, master, time.monotonic() + chosen.seconds)
            asyncio.run(siege.run(chosen.rate, chosen.frozen))
            log = service.log.read_text().splitlines()
        store = Store(url)
        with store.read() as tx:
            counted = set(tx.execute(sa.select(EPISODES.c.id).where(EPISODES.c.state == "counted")).scalars())
        store.close()

    def at(found: list[float], *percents: float) -> dict[str, float]:
        return {f"p{percent:g}_s": round(float(np.percentile(found, percent)), 3) for percent in percents}

    lost = len(siege.acknowledged - counted)
    print(json.dumps({
        "seconds": chosen.seconds, "users": len(siege.acknowledged), "freezes": siege.freezes, "frozen_s": chosen.frozen,
        "streams_opened": siege.streams, "answers": len(siege.answers), "answer": at(siege.answers, 50, 99, 99.9, 100),
        "told_503": siege.busy, "without_answer": siege.refused, "both_requests": at(siege.whole, 50, 99, 100),
        "health": at(siege.health, 50, 100), "log_lines": len(log), "lost": lost,
    }))  # fmt: skip
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
