# SPDX-License-Identifier: Apache-2.0
"""Several worker machines and one PostgreSQL: throughput against machines, and the end of a machine under load.

    sudo python benchmarks/service_machines.py --machines 1 2 3 --share 0.3 --seconds 12
    sudo python benchmarks/service_machines.py --machines 2 --share 0.3 --seconds 30 --kill 10

Each machine is a network namespace of this one, with an address of its own on a bridge and a ``share`` of one core (a
control group's quota), so that machines can be added on few cores. The database is reached over TCP. All machines serve one
deployment; the rollback guard's file is on a disk that they share. With ``--kill`` the first machine ends at that second,
workers, planner and all, and its clients go to another one, as behind a balancer; every acknowledged episode must be
counted once. Needs root, ``ip`` and control groups.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import uvloop

from reticent.service.store.engine import Store
from reticent.service.store.tables import DEPLOYMENT, EPISODES
from service_load import AGENT, TICKS, Clients, temporary_postgres

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))  # helpers that tests use too
from service_process import ENVIRONMENT

BRIDGE, NETWORK, PORT, PERIOD = "reticentbr", "10.77.0", 8400, 100_000
DATABASE = f"{NETWORK}.1"


def run(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


class Machine:
    """A network namespace with an address, a share of a core, and a service in it."""

    def __init__(self, number: int, share: float) -> None:
        self.name, self.address = f"reticent{number}", f"{NETWORK}.{10 + number}"
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", f"{self.name}o", "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "link", "set", f"{self.name}o", "master", BRIDGE, "up")
        for command in ("addr add {0}/24 dev eth0", "link set eth0 up", "link set lo up"):
            run("ip", "-n", self.name, *command.format(self.address).split())
        old = Path("/sys/fs/cgroup/cpu")
        self.group = (old if old.exists() else Path("/sys/fs/cgroup")) / self.name
        self.group.mkdir()
        quota = round(share * PERIOD)
        if old.exists():
            (self.group / "cpu.cfs_period_us").write_text(str(PERIOD))
            (self.group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self.group / "cpu.max").write_text(f"{quota} {PERIOD}")
        self.process: subprocess.Popen[bytes] | None = None

    def serve(self, config: Path, log: Any) -> None:
        # Into its control group first: within the namespace /sys is another one.
        begin = f"echo $$ > {self.group}/cgroup.procs && exec ip netns exec {self.name} "
        begin += f"{sys.executable} -m reticent serve --init --config {config}"
        self.process = subprocess.Popen(
            ["sh", "-c", begin], env={**os.environ, **ENVIRONMENT}, stdout=log,
            stderr=log, start_new_session=True,
        )  # fmt: skip

    def ready(self) -> bool:
        line = http.client.HTTPConnection(self.address, PORT, timeout=3)
        try:
            line.request("GET", "/v1/health/ready")
            return line.getresponse().status == 200
        except OSError:
            return False
        finally:
            line.close()

    def used(self) -> float:
        """Seconds of processor time of its service."""
        total = 0.0
        for place in (self.group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                found = Path(f"/proc/{place}/stat").read_text().rpartition(")")[2].split()
                total += (int(found[11]) + int(found[12])) / TICKS
        return total

    def end(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, 9)
            self.process.wait()
            self.process = None

    def remove(self) -> None:
        self.end()
        run("ip", "netns", "del", self.name)
        until = time.monotonic() + 30
        while self.group.exists():  # its processes have been killed, and take their time
            with contextlib.suppress(OSError):
                self.group.rmdir()
            assert time.monotonic() < until
            time.sleep(0.1)


@contextlib.contextmanager
def network(machines: int, share: float) -> Iterator[list[Machine]]:
    """So many machines on a bridge, gone afterwards."""
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    made: list[Machine] = []
    try:
        run("ip", "addr", "add", f"{DATABASE}/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        for number in range(machines):
            made.append(Machine(number, share))
        yield made
    finally:
        for machine in made:
            machine.remove()
        run("ip", "link", "del", BRIDGE)


class Balanced(Clients):
    """Clients that begin at one machine each and go to the next when theirs does not answer."""

    def __init__(self, addresses: list[str], count: int, group: int) -> None:
        super().__init__(PORT, count, "device", group, addresses[-1])
        self.addresses, self.acknowledged_at = addresses, list[float]()

    def run(self, seconds: float) -> float:
        began = time.monotonic()

        async def crowd() -> None:
            play = self._play if self.group == 1 else self._play_together
            await asyncio.gather(
                *(self._insist(play, number, began + seconds) for number in range(self.count // self.group))
            )

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(crowd())
        return time.monotonic() - began

    async def _insist(self, play: Any, number: int, until: float) -> None:
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                await play(until, self.addresses[number % len(self.addresses)])
            number += 1


def measure(
    machines: int, share: float, clients: int, group: int, seconds: float, kill: float | None
) -> dict[str, Any]:
    """Figures of one run."""
    with (
        tempfile.TemporaryDirectory() as home, network(machines, share) as made,
        temporary_postgres(f"{NETWORK}.1", f"{NETWORK}.0/24") as local,
    ):  # fmt: skip
        settings = {
            "world": "mobile-health", "agent": AGENT, "episodes": 1_000_000, "rate_limit": 0, "public_reads": True,
            "database": f"postgresql+psycopg://reticent@{DATABASE}/postgres", "workers": 2, "host": "0.0.0.0",
            "port": PORT, "rollback_guard": f"{home}/witness",
        }  # fmt: skip
        config = Path(home) / "deployment.yaml"
        config.write_text(json.dumps(settings))
        with (Path(home) / "log").open("wb") as log:
            for machine in made:
                machine.serve(config, log)
                while not machine.ready():
                    assert machine.process is not None
                    assert machine.process.poll() is None, (Path(home) / "log").read_text()[-2000:]
                    time.sleep(0.2)
            crowd = Balanced([machine.address for machine in made], clients, group)
            before = sum(machine.used() for machine in made)
            if kill is not None:
                threading.Timer(kill, made[0].end).start()
            took = crowd.run(seconds)
            used = sum(machine.used() for machine in made) - before
        store = Store(local)
        with store.read() as tx:
            counted = set(tx.execute(sa.select(EPISODES.c.id).where(EPISODES.c.state == "counted")).scalars())
            admitted = tx.execute(sa.select(sa.func.count()).select_from(EPISODES)).scalar_one()
            clock = tx.execute(sa.select(DEPLOYMENT)).one()
        store.close()
    times = sorted(crowd.acknowledged_at)
    return {
        "machines": machines, "share": share, "clients": clients, "group": group, "seconds": round(took, 1),
        "episodes_per_s": round(len(crowd.acknowledged) / took, 1),
        "service_cpu_ms_per_episode": None if kill else round(1e3 * used / max(1, len(crowd.acknowledged)), 3),
        "longest_pause_s": round(max((b - a for a, b in itertools.pairwise(times)), default=0.0), 2),
        "failed_requests": len(crowd.errors), "versions": int(clock.served_version),
        "lost": len(crowd.acknowledged - counted) + int(clock.admitted != admitted),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--share", type=float, default=0.3, help="of one core, for each machine")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--group", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--kill", type=float, help="end the first machine at this second")
    chosen = parser.parse_args()
    lost = 0
    for machines in chosen.machines:
        found = measure(machines, chosen.share, chosen.clients, chosen.group, chosen.seconds, chosen.kill)
        print(json.dumps(found), flush=True)
        lost += found["lost"]
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
