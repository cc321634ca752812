"""Many users at once on several workers: requests per second, latencies, and that no update is lost.

    python benchmarks/service_load.py --workers 4 --clients 32 --seconds 60
    python benchmarks/service_load.py --database sqlite --workers 1 --clients 1 --world large-blend:states=1000

Each client plays one user after another: open, one action per step, submit. At the end the store is added up: every
acknowledged episode is counted once. The load is made by this process on the same machine, which therefore shares its
cores with the service; the figures are what one small machine does with both.
"""

from __future__ import annotations

import argparse
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

from reticent.service.storage.engine import Store
from reticent.service.storage.tables import DEPLOYMENT, EPISODES, ROUNDS

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))  # helpers that tests use too
from service_process import Caller, ask_once, serving
from temporary_postgres import temporary_postgres


class Clients:
    """Threads that play users until time is up, and how long each request took."""

    def __init__(self, port: int, count: int, seconds: float) -> None:
        board = ask_once(port, "/v1/billboard")[1]
        self.horizon, self.states = board["horizon"], board["states"]
        self.port, self.until = port, time.monotonic() + seconds
        self.times: dict[str, list[float]] = {"open": [], "act": [], "submit": []}
        self.acknowledged: set[str] = set()
        self.errors: list[str] = []
        self._threads = [threading.Thread(target=self._play, args=(seed,)) for seed in range(count)]

    def run(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()

    def _play(self, seed: int) -> None:
        draw, caller = random.Random(seed), Caller(self.port)

        def timed(kind: str, path: str, body: dict[str, Any], wanted: int) -> Any:
            began = time.perf_counter()
            try:
                status, answer = caller.ask("POST", path, body)
            except Exception as problem:
                self.errors.append(f"{kind}: {problem!r}")
                return None
            self.times[kind].append(time.perf_counter() - began)
            if status != wanted:
                self.errors.append(f"{kind}: {status} {answer}")
                return None
            return answer

        while time.monotonic() < self.until:
            identity = uuid.UUID(int=draw.getrandbits(128)).hex
            opened = timed("open", "/v1/episodes", {"user": identity, "episode": identity}, 201)
            if opened is None:
                continue
            states, actions = [draw.randrange(self.states)], []
            for step in range(self.horizon):
                body = {"token": opened["token"], "step": step, "state": states[-1]}
                answer = timed("act", f"/v1/episodes/{identity}/actions", body, 200)
                actions.append(answer["action"] if answer else 0)
                states.append(draw.randrange(self.states))
            body = {
                "token": opened["token"], "states": states, "actions": actions,
                "rewards": [draw.random() for _ in range(self.horizon)],
            }  # fmt: skip
            if timed("submit", f"/v1/episodes/{identity}/trajectory", body, 200) is not None:
                self.acknowledged.add(identity)
        caller.close()


def load(url: str, workers: int, clients: int, seconds: float, world: str) -> dict[str, Any]:
    """Serve on ``url`` under load; the figures, and ``wrong``, which is empty if nothing was lost."""
    settings = {
        "world": world, "agent": "private-linopt-vi:first=200,growth=1.5", "episodes": 1_000_000, "database": url,
        "workers": workers,
    }  # fmt: skip
    with serving(settings) as service:
        Clients(service.port, clients, 2.0).run()  # every worker has compiled and connected
        crowd = Clients(service.port, clients, seconds)
        began = time.monotonic()
        crowd.run()
        took = time.monotonic() - began
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
    requests = sum(map(len, crowd.times.values()))
    figures = {
        kind: {f"p{at}_ms": round(float(np.percentile(found, at)) * 1e3, 2) for at in (50, 99)}
        for kind, found in crowd.times.items()
        if found
    }
    return {
        "database": url.partition(":")[0], "workers": workers, "clients": clients, "world": world,
        "seconds": round(took, 1), "requests_per_s": round(requests / took, 1),
        "episodes_per_s": round(len(crowd.acknowledged) / took, 1), "releases": released, **figures, "wrong": wrong,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="postgresql")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--world", default="mobile-health")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        embedded = chosen.database == "sqlite"
        place: Any = nullcontext(f"sqlite:///{home}/load.db") if embedded else temporary_postgres()
        with place as url:
            found = load(url, chosen.workers, chosen.clients, chosen.seconds, chosen.world)
    print(json.dumps(found))
    sys.exit(1 if found["wrong"] else 0)


if __name__ == "__main__":
    main()
