# SPDX-License-Identifier: Apache-2.0
"""Many users at once on several workers: episodes per second, latencies, where the processor's time goes, memory.

    python benchmarks/service_load.py --workers 4 --clients 256 --acts device --seconds 30
    python benchmarks/service_load.py --clients 256 --acts device --against ../before --turns 2
    python benchmarks/service_load.py --clients 256 --acts device --group 32
    python benchmarks/service_load.py --clients 256 --acts device --gather 64
    python benchmarks/service_load.py --clients 256 --acts device --tickets 64 --against .
    python benchmarks/service_load.py --clients 256 --workers 2 --parts 20000
    python benchmarks/service_load.py --database sqlite --workers 1 --clients 1 --world large-blend:states=1000

Each client plays one user after another: open, one action per step unless devices act by themselves, submit. With
``--group`` so many clients are behind one backend, which opens and submits their episodes in one request each. With
``--gather`` every client is a thread of a backend that uses the Python client, which groups requests by itself. With
``--tickets`` admissions are taken so many at a time and handed to devices, which make one request each. With
``--parts`` so many users are first admitted and then report, one by one and in groups of 64, and each of the four is timed
by itself: what one request instead of two can save at most follows from these. At the end the
store is added up: every acknowledged episode is counted once. The load is made by this process on the same machine,
which therefore shares its cores with the service; ``cpu_ms_per_episode`` says what each part of it used, which does not
depend on who else is at work there. With ``--against`` another checkout is served too, turn by turn in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import sys
import tempfile
import threading
import time
import uuid
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
import uvloop

from reticent.service.store.engine import Store
from reticent.service.store.tables import DEPLOYMENT, EPISODES, ROUNDS
from reticent_client import Client, MicroBatching

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))  # helpers that tests use too
from service_process import KEY, ask_once, serving
from temporary_postgres import temporary_postgres

AGENT = "private-linopt-vi:first=200,growth=1.5"
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
TICKS = os.sysconf("SC_CLK_TCK")


class Line(asyncio.Protocol):
    """One connection, one request at a time: as little as a load generator can do, so that it measures the service."""

    def __init__(self) -> None:
        self._loop, self._seen = asyncio.get_running_loop(), b""
        self._answer: asyncio.Future[tuple[int, Any]] | None = None
        self.lost = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError())

    def data_received(self, data: bytes) -> None:
        self._seen += data
        head, found, body = self._seen.partition(b"\r\n\r\n")
        length = LENGTH.search(head) if found else None
        if length is not None and len(body) >= int(length[1]) and self._answer is not None:
            self._seen = b""
            self._answer.set_result((int(head[9:12]), json.loads(body)))

    async def ask(self, path: str, content: dict[str, Any]) -> tuple[int, Any]:
        body = json.dumps(content).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._answer = self._loop.create_future()
        self._transport.write(head.encode() + body)
        return await self._answer

    def close(self) -> None:
        self._transport.close()


class Threads:
    """Users who play through one :class:`reticent_client.Client` of a backend, a thread each, until time is up."""

    def __init__(self, port: int, count: int, most: int) -> None:
        self.client = Client(f"http://127.0.0.1:{port}", KEY, micro_batching=MicroBatching(0.02, most), trust="joint")
        self.count = count
        self.times: dict[str, list[float]] = {"open": [], "submit": []}
        self.acknowledged: set[str] = set()
        self.errors: list[str] = []
        self.busy = 0

    def run(self, seconds: float) -> float:
        """Play for so long; says how long it took until the last had finished."""
        began = time.monotonic()
        threads = [threading.Thread(target=self._play, args=(began + seconds,)) for _ in range(self.count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.client.close()
        return time.monotonic() - began

    def _play(self, until: float) -> None:
        draw = random.Random(uuid.uuid4().int)
        while time.monotonic() < until:
            episode = self.client.episode(uuid.UUID(int=draw.getrandbits(128)).hex)
            try:
                began = time.perf_counter()
                episode.open()
                self.times["open"].append(time.perf_counter() - began)
                for _ in range(episode.horizon):
                    episode.act(0)
                    episode.observe(draw.random(), 0)
                began = time.perf_counter()
                episode.submit()
                self.times["submit"].append(time.perf_counter() - began)
                self.acknowledged.add(episode.id)
            except Exception as problem:
                self.errors.append(repr(problem))


class Clients:
    """Connections on which users play until time is up, and how long each request took."""

    def __init__(
        self, port: int, count: int, acts: str, group: int = 1, host: str = "127.0.0.1", tickets: int = 0
    ) -> None:
        board = ask_once(port, "/v1/billboard", host=host)[1]
        self.host, self.tickets, self.stock = host, tickets, asyncio.Queue[dict[str, Any]](max(1, tickets))
        self.horizon, self.states, self.actions = board["horizon"], board["states"], board["actions"]
        self.port, self.count, self.acts, self.group = port, count, acts, group
        self.times: dict[str, list[float]] = {"open": [], "act": [], "submit": []}
        self.acknowledged: set[str] = set()
        self.acknowledged_at: list[float] = []
        self.busy = 0
        self.errors: list[str] = []

    def run(self, seconds: float) -> float:
        """Play for so long; says how long it took until the last had finished."""
        began = time.monotonic()

        async def crowd() -> None:
            play = self._play if self.group == 1 else self._play_together
            taking = asyncio.ensure_future(self._take_tickets()) if self.tickets else None
            await asyncio.gather(*(play(began + seconds, self.host) for _ in range(self.count // self.group)))
            if taking is not None:
                taking.cancel()

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(crowd())
        return time.monotonic() - began

    async def _play(self, until: float, host: str) -> None:
        draw = random.Random(uuid.uuid4().int)
        _, line = await asyncio.get_running_loop().create_connection(Line, host, self.port)
        while time.monotonic() < until and not line.lost:
            opened = await self._admitted(line, draw)
            if opened is None:
                continue
            identity = opened["episode"]
            states = [draw.randrange(self.states) for _ in range(self.horizon + 1)]
            actions = [draw.randrange(self.actions) for _ in range(self.horizon)]
            if self.acts == "server":
                for step in range(self.horizon):
                    body = {"token": opened["token"], "step": step, "state": states[step]}
                    answer = await self._timed(line, "act", f"/v1/episodes/{identity}/actions", body, 200)
                    actions[step] = answer["action"] if answer else 0
            body = {
                "token": opened["token"], "states": states, "actions": actions,
                "rewards": [draw.random() for _ in range(self.horizon)],
            }  # fmt: skip
            if await self._timed(line, "submit", f"/v1/episodes/{identity}/trajectory", body, 200) is not None:
                self._acknowledge(identity)
        line.close()

    def _acknowledge(self, identity: str) -> None:
        self.acknowledged.add(identity)
        self.acknowledged_at.append(time.monotonic())

    async def _admitted(self, line: Line, draw: random.Random) -> Any:
        """An admission of the client's own, or one of many that were taken before; None if there was none."""
        if self.tickets:
            return await self.stock.get()
        identity = uuid.UUID(int=draw.getrandbits(128)).hex
        return await self._timed(line, "open", "/v1/episodes", {"user": identity, "episode": identity}, 201)

    async def _take_tickets(self) -> None:
        """A backend that takes admissions ahead of its devices, so many in a request, and hands them out."""
        _, line = await asyncio.get_running_loop().create_connection(Line, self.host, self.port)
        while not line.lost:
            identities = [uuid.uuid4().hex for _ in range(self.tickets)]
            users = [{"user": identity, "episode": identity} for identity in identities]
            taken = await self._timed(line, "open", "/v1/groups/episodes", {"users": users}, 200)
            for one in (taken or {"opened": []})["opened"]:
                if "token" in one:
                    await self.stock.put(one)

    async def _play_together(self, until: float, host: str) -> None:
        draw = np.random.default_rng()
        _, line = await asyncio.get_running_loop().create_connection(Line, host, self.port)
        while time.monotonic() < until and not line.lost:
            identities = [uuid.UUID(bytes=draw.bytes(16)).hex for _ in range(self.group)]
            users = [{"user": identity, "episode": identity} for identity in identities]
            opened = await self._timed(line, "open", "/v1/groups/episodes", {"users": users}, 200)
            if opened is None or any("token" not in one for one in opened["opened"]):
                self.errors.append(f"open: {opened}")
                continue
            states = draw.integers(self.states, size=(self.group, self.horizon + 1)).tolist()
            actions = draw.integers(self.actions, size=(self.group, self.horizon)).tolist()
            rewards = draw.random((self.group, self.horizon)).tolist()
            played = [
                {"episode": one["episode"], "token": one["token"], "states": s, "actions": a, "rewards": r}
                for one, s, a, r in zip(opened["opened"], states, actions, rewards, strict=True)
            ]
            body = {"trajectories": played}
            answer = await self._timed(line, "submit", "/v1/groups/trajectories", body, 200)
            for one in (answer or {"receipts": []})["receipts"]:
                if one["status"] == "counted":
                    self._acknowledge(one["episode"])
                else:
                    self.errors.append(f"submit: {one}")
        line.close()

    async def _timed(self, line: Line, kind: str, path: str, body: dict[str, Any], wanted: int) -> Any:
        """The answer to a request that is repeated while it is told to come again, and how long that took in all."""
        began = time.perf_counter()
        try:
            while (answered := await line.ask(path, body))[0] == 503:
                self.busy += 1
                await asyncio.sleep(0.1 * random.random())
        except Exception as problem:
            self.errors.append(f"{kind}: {problem!r}")
            await asyncio.sleep(0.1)
            return None
        status, answer = answered
        self.times[kind].append(time.perf_counter() - began)
        if status != wanted:
            self.errors.append(f"{kind}: {status} {answer}")
            return None
        return answer


def load(
    url: str,
    workers: int,
    clients: int,
    seconds: float,
    world: str,
    acts: str = "server",
    agent: str = AGENT,
    checkout: Path | None = None,
    group: int = 1,
    gather: int = 0,
    tickets: int = 0,
) -> dict[str, Any]:
    """Serve on ``url`` under load; the figures, and ``wrong``, which is empty if nothing was lost."""
    settings = {
        "world": world, "agent": agent, "episodes": 1_000_000, "database": url, "workers": workers,
        "connections": 10_000, "rate_limit": 0,
    }  # fmt: skip
    with serving(settings, checkout) as service:

        def crowded() -> Any:
            if gather:
                return Threads(service.port, clients, gather)
            return Clients(service.port, clients, acts, group, tickets=tickets)

        crowded().run(2.0)  # every worker has compiled and connected
        crowd = crowded()
        planner = service.processes()["planner"]
        before, logged = _used(service.group, planner, url), _logged(url)
        took = crowd.run(seconds)
        used = {part: after - before[part] for part, after in _used(service.group, planner, url).items()}
        memory = service.resident()
        logged = _logged(url) - logged
        time.sleep(1.0)
    store = Store(url)
    with store.read() as tx:
        counted = set(tx.execute(sa.select(EPISODES.c.id).where(EPISODES.c.state == "counted")).scalars())
        clock = tx.execute(sa.select(DEPLOYMENT)).one()
        admitted = tx.execute(sa.select(sa.func.count()).select_from(EPISODES)).scalar_one()
        released = tx.execute(sa.select(sa.func.count()).where(ROUNDS.c.state == "released")).scalar_one()
    store.close()
    wrong = crowd.errors[:5]
    if not crowd.acknowledged <= counted or clock.admitted != admitted:
        wrong.append("an update was lost")
    requests, episodes = sum(map(len, crowd.times.values())), len(crowd.acknowledged)
    figures = {
        kind: {f"p{at}_ms": round(float(np.percentile(found, at)) * 1e3, 2) for at in (50, 99)}
        for kind, found in crowd.times.items()
        if found
    }
    return {
        "checkout": "this" if checkout is None else "other", "database": url.partition(":")[0], "workers": workers,
        "clients": clients, "group": group, "gather": gather, "tickets": tickets, "acts": acts, "agent": agent,
        "world": world,
        "seconds": round(took, 1),
        "requests_per_s": round(requests / took, 1), "episodes_per_s": round(episodes / took, 1), "releases": released,
        **figures, "cpu_ms_per_episode": {part: round(1e3 * spent / max(1, episodes), 3) for part, spent in used.items()},
        "log_bytes_per_episode": round(logged / max(1, episodes)),
        "told_to_come_again": crowd.busy, "memory_mib": memory, "wrong": wrong,
    }  # fmt: skip


def parts(url: str, workers: int, clients: int, users: int, world: str, agent: str = AGENT) -> dict[str, Any]:
    """Processor time of admissions and of reports, one by one and in groups of 64, in ms of service and database each.

    A user of two requests needs ``open`` and ``submit``, one with a ticket ``open_64`` and ``submit``.
    """
    settings = {
        "world": world, "agent": agent, "episodes": 1_000_000, "database": url, "workers": workers,
        "connections": 10_000, "rate_limit": 0,
    }  # fmt: skip
    spent: dict[str, float] = {}
    took: dict[str, float] = {}
    with serving(settings) as service:
        Clients(service.port, clients, "device").run(2.0)
        shape, planner = Clients(service.port, clients, "device"), service.processes()["planner"]
        draw = np.random.default_rng()
        wrong: list[str] = []

        async def crowd(requests: list[tuple[str, dict[str, Any]]], most: int) -> list[Any]:
            waiting, answers = iter(requests), []

            async def ask() -> None:
                _, line = await asyncio.get_running_loop().create_connection(Line, "127.0.0.1", service.port)
                for path, body in waiting:
                    while (answer := await line.ask(path, body))[0] == 503:
                        await asyncio.sleep(0.1 * random.random())
                    answers.append(answer)
                line.close()

            await asyncio.gather(*(ask() for _ in range(most)))
            return answers

        def timed(name: str, requests: list[tuple[str, dict[str, Any]]], most: int) -> list[Any]:
            before, began = _used(service.group, planner, url), time.monotonic()
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                answers = runner.run(crowd(requests, most))
            took[name] = time.monotonic() - began
            after = _used(service.group, planner, url)
            spent[name] = sum(after[part] - before[part] for part in ("service", "database"))
            wrong.extend(f"{name}: {answer}" for answer in answers if answer[0] not in (200, 201))
            return [answer[1] for answer in answers if answer[0] in (200, 201)]

        def reports(opened: list[Any]) -> list[dict[str, Any]]:
            size, steps = len(opened), shape.horizon
            states = draw.integers(shape.states, size=(size, steps + 1)).tolist()
            actions = draw.integers(shape.actions, size=(size, steps)).tolist()
            rewards = draw.random((size, steps)).tolist()
            return [
                {"episode": one["episode"], "token": one["token"], "states": s, "actions": a, "rewards": r}
                for one, s, a, r in zip(opened, states, actions, rewards, strict=True)
            ]

        def alone(report: dict[str, Any]) -> tuple[str, dict[str, Any]]:
            body = {name: value for name, value in report.items() if name != "episode"}
            return f"/v1/episodes/{report['episode']}/trajectory", body

        def grouped(path: str, name: str, members: list[Any]) -> list[tuple[str, dict[str, Any]]]:
            return [(path, {name: members[at : at + 64]}) for at in range(0, len(members), 64)]

        names = [[uuid.uuid4().hex for _ in range(users)] for _ in range(2)]
        comers = [[{"user": name, "episode": name} for name in some] for some in names]
        opened = timed("open", [("/v1/episodes", body) for body in comers[0]], clients)
        timed("submit", [alone(report) for report in reports(opened)], clients)
        few = max(1, clients // 64)
        answers = timed("open_64", grouped("/v1/groups/episodes", "users", comers[1]), few)
        tickets = [one for answer in answers for one in answer["opened"]]
        receipts = timed("submit_64", grouped("/v1/groups/trajectories", "trajectories", reports(tickets)), few)
        counted = sum(one["status"] == "counted" for answer in receipts for one in answer["receipts"])
        wrong += [] if counted == users else [f"{counted} of {users} counted in groups"]
    cost = {name: 1e3 * seconds / users for name, seconds in spent.items()}
    two = cost["open"] + cost["submit"]
    return {
        "parts": users, "workers": workers, "clients": clients,
        "cpu_ms": {name: round(value, 4) for name, value in cost.items()},
        "users_per_s": {name: round(users / seconds) for name, seconds in took.items()},
        "gain_of_one_request": round(two / (cost["open_64"] + cost["submit"]), 3),
        "gain_if_tickets_were_free": round(two / cost["submit"], 3), "wrong": wrong[:5],
    }  # fmt: skip


def _logged(url: str) -> float:
    """Bytes of PostgreSQL's write-ahead log so far; 0 for SQLite."""
    if url.startswith("sqlite"):
        return 0.0
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        found = float(connection.execute(sa.text("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")).scalar_one())
    engine.dispose()
    return found


def _used(service: int, planner: list[int], url: str) -> dict[str, float]:
    """Seconds of processor time so far: of the service's processes, of the database's, and of this one.

    The planner's are counted apart: they are for releases, of which there are as many however users come.
    """
    used = {"service": 0.0, "planner": 0.0, "database": 0.0, "clients": sum(os.times()[:2])}
    home = Path(sa.make_url(url).query.get("host", "") or "/nowhere")  # type: ignore[arg-type]
    master = (home / "data" / "postmaster.pid").read_text().split()[0] if home.exists() else "none"
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            parent, group, *rest = (place / "stat").read_text().rpartition(")")[2].split()[1:]
            part = "service" if int(group) == service else "database" if parent == master else None
            part = "planner" if int(place.name) in planner else part
            if part is not None:
                used[part] += (int(rest[8]) + int(rest[9])) / TICKS
    return used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="postgresql")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--world", default="mobile-health")
    parser.add_argument("--agent", default=AGENT)
    parser.add_argument("--acts", choices=["server", "device"], default="server", help="who chooses actions")
    parser.add_argument("--group", type=int, default=1, help="clients behind one backend, in one request")
    parser.add_argument("--gather", type=int, default=0, help="threads of the Python client, in groups up to this")
    parser.add_argument("--tickets", type=int, default=0, help="admissions taken at a time; one request per user")
    parser.add_argument("--parts", type=int, default=0, help="time admissions and reports apart, of so many users")
    parser.add_argument("--against", type=Path, help="another checkout to serve in the same run")
    parser.add_argument("--turns", type=int, default=1, help="how often each is served")
    chosen = parser.parse_args()
    wrong = False
    for checkout in ([None] if chosen.against is None else [chosen.against.resolve(), None]) * chosen.turns:
        with tempfile.TemporaryDirectory() as home:
            embedded = chosen.database == "sqlite"
            place: Any = nullcontext(f"sqlite:///{home}/load.db") if embedded else temporary_postgres()
            with place as url:
                found = parts(
                    url, chosen.workers, chosen.clients, chosen.parts, chosen.world, chosen.agent
                ) if chosen.parts else load(
                    url, chosen.workers, chosen.clients, chosen.seconds, chosen.world, chosen.acts, chosen.agent, checkout,
                    chosen.group if checkout is None else 1, chosen.gather if checkout is None else 0,
                    chosen.tickets if checkout is None else 0,
                )  # fmt: skip
        print(json.dumps(found), flush=True)
        wrong |= bool(found["wrong"])
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
