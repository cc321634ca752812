# SPDX-License-Identifier: Apache-2.0
"""Kill the service with ``kill -9`` at random moments under load, and count what is left.

    python benchmarks/service_crashes.py --kills 100 --database sqlite
    python benchmarks/service_crashes.py --kills 100 --database postgresql
    python benchmarks/service_crashes.py --kills 40 --database postgresql --victim planner
    python benchmarks/service_crashes.py --kills 20 --database postgresql --victim database

Users come and submit all the time, by themselves or several in one request, each repeating it until it is answered. In
the local model a report is made of known integers, so what the store holds can be added up exactly: every acknowledged
episode is in it once. In the joint model the digests of releases and the plans are looked at all the time: none may ever
change, else noise was drawn twice. Deployments alternate between the two. With ``--victim`` one process of a service of
two workers is killed, and the others go on: a worker, or the planner, which alone ends rounds. Or it is all processes of
the database's server, as a power cut would end them; SQLite has none of its own, so there the service's kills are its.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
import threading
import time
import uuid
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from reticent.service.config import make_settings
from reticent.service.http.app import make_deployment
from reticent.service.rounds import public_views
from reticent.service.store import records
from reticent.service.store.tables import EPISODES, METADATA, USERS
from reticent_wire import arrays

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))  # helpers that tests use too
from service_process import ENVIRONMENT, Caller, Service, ask_once
from temporary_postgres import kill_server, start_server, temporary_postgres

WORLD = "random-blend:states=6,actions=3,horizon=6,d=3"
USERS_AT_ONCE = 6
"""Of whom every third is a backend with several users."""

BEHIND_A_BACKEND = 3


class Crowd:
    """Users who come one after another in some threads, and what they were told."""

    def __init__(self, port: int, trust: str, model: dict[str, Any]) -> None:
        self.port, self.trust, self.model = port, trust, model
        wide = model["report"]["limit"]
        self._limit = arrays.from_json("limit", wide, dtype="<i8", shape=tuple(wide["shape"]))
        self.acknowledged: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self.digests: dict[int, set[str]] = {}
        self.plans: dict[int, set[str]] = {}
        self.problems: list[str] = []
        self.stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._backend if seed % 3 == 0 else self._users, args=(seed,))
            for seed in range(USERS_AT_ONCE)
        ]
        self._threads.append(threading.Thread(target=self._watch))

    def __enter__(self) -> Crowd:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()

    def await_load(self, patience: float = 60.0) -> None:
        """Wait until the crowd is at work again, so that the kill comes under load."""
        wanted, until = len(self.acknowledged) + 3, time.monotonic() + patience
        while len(self.acknowledged) < wanted and time.monotonic() < until:
            time.sleep(0.01)

    def await_release(self, patience: float = 60.0) -> None:
        """Wait until one more round is released, so that the last kill is seen to have been survived."""
        wanted, until = len(self.digests) + 1, time.monotonic() + patience
        while len(self.digests) < wanted:
            if time.monotonic() > until:
                self.problems.append(f"no round was released in {patience} s after the last kill")
                return
            time.sleep(0.05)

    def _insist(self, caller: Caller, method: str, path: str, body: dict[str, Any] | None) -> Any:
        while not self.stop.is_set():
            answered = caller.insist(method, path, body, time.monotonic() + 1.0)
            if answered is not None:
                if answered[0] >= 400:
                    self.problems.append(f"{method} {path}: {answered[0]} {answered[1]}")
                return answered
        return None

    def _users(self, seed: int) -> None:
        draw, caller = random.Random(seed), Caller(self.port)
        while not self.stop.is_set():
            identity, amount = uuid.uuid4().hex, draw.randrange(1, 1_000_000)
            opened = self._insist(caller, "POST", "/v1/episodes", {"user": identity, "episode": identity})
            if opened is None or opened[0] >= 400 or not opened[1]["learning"]:
                continue
            with self._lock:
                self.sent[identity] = amount
            kind, body = self._contribution(draw, amount)
            receipt = self._insist(
                caller, "POST", f"/v1/episodes/{identity}/{kind}", {"token": opened[1]["token"], **body}
            )
            if receipt is not None and receipt[0] == 200:
                with self._lock:
                    self.acknowledged[identity] = amount
        caller.close()

    def _backend(self, seed: int) -> None:
        """Users who come and submit in one request, a few at a time."""
        draw, caller = random.Random(seed), Caller(self.port)
        kind = {"local": "reports", "joint": "trajectories"}[self.trust]
        while not self.stop.is_set():
            amounts = {uuid.uuid4().hex: draw.randrange(1, 1_000_000) for _ in range(BEHIND_A_BACKEND)}
            users = [{"user": identity, "episode": identity} for identity in amounts]
            opened = self._insist(caller, "POST", "/v1/groups/episodes", {"users": users})
            if opened is None or opened[0] >= 400:
                continue
            admitted = [one for one in opened[1]["opened"] if one.get("learning", False)]
            with self._lock:
                self.sent.update({one["episode"]: amounts[one["episode"]] for one in admitted})
            members = [
                {
                    "episode": one["episode"],
                    "token": one["token"],
                    **self._contribution(draw, amounts[one["episode"]])[1],
                }
                for one in admitted
            ]
            waiting = {member["episode"]: member for member in members}
            while waiting and not self.stop.is_set():
                answer = self._insist(caller, "POST", f"/v1/groups/{kind}", {kind: list(waiting.values())})
                for identity, receipt in zip(list(waiting), answer[1]["receipts"] if answer else (), strict=False):
                    if receipt["status"] == 503:  # the next round is being prepared
                        continue
                    del waiting[identity]
                    if receipt["status"] != "counted":
                        self.problems.append(f"{identity} in a group: {receipt}")
                        continue
                    with self._lock:
                        self.acknowledged[identity] = amounts[identity]
        caller.close()

    def _contribution(self, draw: random.Random, amount: int) -> tuple[str, dict[str, Any]]:
        horizon, states = self.model["horizon"], self.model["states"]
        if self.trust == "local":
            return "report", {"report": arrays.to_json(np.minimum(amount, self._limit))}
        return "trajectory", {
            "states": [draw.randrange(states) for _ in range(horizon + 1)],
            "actions": [draw.randrange(self.model["actions"]) for _ in range(horizon)],
            "rewards": [draw.random() for _ in range(horizon)],
        }

    def _watch(self) -> None:
        caller = Caller(self.port)
        while not self.stop.is_set():
            ledger = self._insist(caller, "GET", "/v1/ledger", None)
            board = self._insist(caller, "GET", "/v1/billboard", None)
            for entry in ledger[1]["entries"] if ledger else ():
                if entry["released"]:
                    self.digests.setdefault(entry["round"], set()).add(entry["digest"])
            if board:
                content = hashlib.sha256(json.dumps(board[1], sort_keys=True).encode()).hexdigest()
                self.plans.setdefault(board[1]["version"], set()).add(content)
            time.sleep(0.02)
        caller.close()


def crash(
    url: str, trust: str, kills: int, seed: int = 0, *, lull: float = 1.0, victim: str = "service"
) -> dict[str, Any]:
    """Serve on ``url`` and kill the ``victim`` so many times: the service, one of its ``workers``, its ``planner``, or
    the ``database``.

    Says what was found, with an empty ``wrong`` if all is well.
    """
    settings = {
        "world": WORLD, "agent": f"private-linopt-vi:trust={trust},first=10,growth=1", "episodes": 20_000,
        "database": url, "ticket_lifetime": 1e6, "workers": 1 if victim == "service" else 2,
    }  # fmt: skip
    draw, service, restarts = random.Random(seed), Service(settings), []
    try:
        service.start()
        model = ask_once(service.port, "/v1/model")[1]
        with Crowd(service.port, trust, model) as crowd:
            for _ in range(kills):
                crowd.await_load()
                time.sleep(draw.uniform(0.0, 2 * lull))
                if victim == "service":
                    service.kill()
                    restarts.append(service.start())
                elif victim == "database":
                    kill_server(url)
                    time.sleep(draw.uniform(0.0, lull))  # users are refused meanwhile
                    start_server(url)
                    restarts.append(service.await_answer())
                else:
                    restarts.append(service.kill_one(victim))
            time.sleep(lull)
            if victim == "planner":
                crowd.await_release()
        wrong = [*crowd.problems[:5], *examine(json.loads(service.config.read_text()), crowd)]
    finally:
        service.close()
    return {
        "database": url.partition(":")[0], "trust": trust, "victim": victim, "kills": kills,
        "acknowledged": len(crowd.acknowledged), "releases": len(crowd.digests),
        "slowest_restart_s": round(max(restarts), 2), "mean_restart_s": round(sum(restarts) / len(restarts), 2),
        "wrong": wrong,
    }  # fmt: skip


def examine(settings: dict[str, Any], crowd: Crowd) -> list[str]:
    """Everything that is not as it must be in the store that the service left behind."""
    wrong = []
    secrets = {name: ENVIRONMENT[f"RETICENT_{name.upper()}"] for name in ("app_key", "admin_key", "user_secret")}
    deployment = make_deployment(make_settings(settings).with_secrets(**secrets))
    deployment.advance()
    with deployment.store.write() as tx:
        rows = {row.id: row.state for row in tx.execute(sa.select(EPISODES))}
        twice = tx.execute(sa.select(sa.func.count()).where(USERS.c.admissions != 1)).scalar_one()
        open_round = records.open_round(tx)
        digests = {number + 1: digest for number, digest in records.digests(tx).items()}
        releases = [records.round_of(tx, number).release for number in range(len(digests))]
    clock, version = deployment.clock()
    counted = {identity for identity, state in rows.items() if state == "counted"}
    lost = set(crowd.acknowledged) - counted
    if lost:
        wrong.append(f"{len(lost)} acknowledged episodes are not counted")
    if counted - set(crowd.sent):
        wrong.append("episodes are counted that nobody sent")
    if twice:
        wrong.append(f"{twice} users were admitted more than once")
    if clock.admitted != len(rows):
        wrong.append(f"{clock.admitted} admissions, but {len(rows)} episodes")
    if any(len(seen) > 1 for seen in (*crowd.digests.values(), *crowd.plans.values())):
        wrong.append("a release or a plan changed after it was seen")
    if any(digests.get(number) not in seen for number, seen in crowd.digests.items()):
        wrong.append("a release that was seen is not the one in the store")
    if crowd.trust == "local":
        # The local counter's release is the running sum, so the last one holds every closed round.
        last = np.frombuffer(releases[-1], "<f8")[0] / deployment.mechanism.grid if releases else 0
        held = int(last) + int(deployment.context.total(open_round.number, open_round.total)._value.flat[0])
        wanted = sum(crowd.sent[identity] for identity in counted)
        if held != wanted:
            wrong.append(f"the store holds {held}, the counted episodes add up to {wanted}")
    spent = public_views.status(deployment)["epsilon_spent"]
    if abs(spent - deployment.mechanism.guarantee.ledger.spent(version)) > 1e-9:
        wrong.append(f"the ledger says {spent}, the accountant {deployment.mechanism.guarantee.ledger.spent(version)}")
    deployment.store.close()
    return wrong


def drop_tables(url: str) -> None:
    engine = sa.create_engine(url)
    METADATA.drop_all(engine)
    engine.dispose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--victim", choices=["service", "workers", "planner", "database"], default="service")
    parser.add_argument("--trust", choices=["joint", "local"], help="one of the two instead of half of the kills each")
    chosen = parser.parse_args()
    if chosen.victim == "database" and chosen.database == "sqlite":
        parser.error("--victim database needs --database postgresql: SQLite is part of the service's process")
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as home:
        place: Any = (
            temporary_postgres() if chosen.database == "postgresql" else nullcontext(f"sqlite:///{home}/crash.db")
        )
        with place as url:
            halves = {"joint": chosen.kills - chosen.kills // 2, "local": chosen.kills // 2}
            for trust, share in ({chosen.trust: chosen.kills} if chosen.trust else halves).items():
                if share:
                    found = crash(url, trust, share, chosen.seed, victim=chosen.victim)
                    print(json.dumps(found), flush=True)
                    wrong += found["wrong"]
                    for leftover in Path(home).iterdir():
                        leftover.unlink()
                    if chosen.database == "postgresql":
                        drop_tables(url)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
