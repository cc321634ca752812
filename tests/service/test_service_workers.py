# SPDX-License-Identifier: Apache-2.0
"""Several workers and their planner: who weighs what, and what happens when the planner is killed."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from durable import AGENT, WORLD, deployment, episode
from service_process import Caller, Service, serving

from reticent.learning.control import Control
from reticent.learning.schedule import Schedule
from reticent.service.mechanism import Mechanism
from reticent.service.processes import logs
from reticent.service.processes.configuration_snapshot import from_json, to_json
from reticent.service.processes.planner_rpc import answer_in_background, ask
from reticent.service.public_configuration import PublicConfiguration
from reticent.service.rounds.refusals import Refusal

LARGEST = 150.0
"""MiB that a worker may weigh."""

AGENTS = (
    "private-linopt-vi:first=4,growth=1",
    "private-score-vi:first=4,growth=1",
    "private-score-vi:first=4,growth=1,trust=local",
    "private-linopt-vi:first=4,growth=1,trust=shuffle",
    "private-ucb-vi:counter=epochs,first=4,growth=1",
)


def test_a_worker_imports_no_jax() -> None:
    """Nor SciPy's 50 MiB, nor OpenDP: what it does needs NumPy."""
    program = (
        "import sys, reticent.service.processes.worker, reticent.service.http.dashboard.routes; print(*sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = {name.partition(".")[0] for name in found.stdout.split()}
    assert "reticent" in modules
    assert modules.isdisjoint({"jax", "jaxlib", "scipy", "opendp"})


def test_what_is_there_to_stay_is_not_looked_at_for_garbage_again() -> None:
    program = (
        "import gc, sys; from reticent.service.processes.interpreter import prepare_to_serve; prepare_to_serve(); "
        "print(gc.isenabled(), gc.get_freeze_count() > 1000, gc.get_threshold()[0] > 700, sys.getswitchinterval() < 0.005)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True"] * 4  # garbage is still collected, but seldom


@pytest.mark.parametrize("agent", AGENTS)
def test_terms_say_what_the_mechanism_says(tmp_path: Path, agent: str) -> None:
    """Handed over as bytes; contributions, bounds and facts are the same to the last bit, the account to twelve digits."""
    service = deployment(tmp_path, agent)
    mechanism: Mechanism = service.mechanism
    configuration: PublicConfiguration = from_json(
        json.loads(json.dumps(to_json(mechanism.configuration), allow_nan=False))
    )
    assert type(configuration) is PublicConfiguration
    assert (configuration.wire, configuration.grid, configuration.unit) == (
        mechanism.wire,
        mechanism.grid,
        mechanism.unit,
    )
    np.testing.assert_array_equal(configuration.noise_scale, mechanism.noise_scale)
    np.testing.assert_array_equal(configuration.report_limit, mechanism.report_limit)
    releases = range(service.releases + 1)
    np.testing.assert_allclose(
        np.array([configuration.spent(number) for number in releases], float),
        np.array([mechanism.spent(number) for number in releases], float),
        rtol=1e-12,
    )
    assert configuration.public_guarantee.sentence == mechanism.guarantee.sentence()
    board = service.billboard(0)
    for seed in range(5):
        played = configuration.played(type("Sent", (), episode(seed)), seed)
        np.testing.assert_array_equal(
            configuration.exact_contribution(board, played), mechanism.exact_contribution(board, played)
        )


def test_who_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="does not answer"):
        ask(tmp_path, "failing")
    answer_in_background(tmp_path, {"twice": lambda number: 2 * number, "failing": lambda: 1 / 0})
    assert ask(tmp_path, "twice", 21) == 42
    for question in ("failing", "another"):
        with pytest.raises(Refusal, match="does not answer"):
            ask(tmp_path, question)


# -- the whole service --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def two_workers(url: str, **settings: Any) -> Iterator[tuple[Service, Caller]]:
    given = {
        "world": "mobile-health", "agent": "private-linopt-vi:first=20,growth=1", "episodes": 400, "workers": 2,
        "database": url, **settings,
    }  # fmt: skip
    with serving(given) as service:
        line = Caller(service.port)
        try:
            yield service, line
        finally:
            line.close()


def play(line: Caller, users: int) -> int:
    """Serve so many users; says the version of the last."""
    version = 0
    for _ in range(users):
        identity = uuid.uuid4().hex
        status, opened = line.ask("POST", "/v1/episodes", {"user": identity, "episode": identity})
        assert status == 201, opened
        version = opened["version"]
        steps = opened["horizon"]
        played = {"states": [0] * (steps + 1), "actions": [0] * steps, "rewards": [0.5] * steps}
        status, receipt = line.ask("POST", f"/v1/episodes/{identity}/trajectory", {"token": opened["token"], **played})
        assert status == 200, receipt
    return version


def until(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if condition():
                return
        time.sleep(0.1)
    raise AssertionError("it did not come to be")


@pytest.mark.verify
def test_workers_are_light_and_a_planner_that_is_killed_is_replaced(postgres: str) -> None:
    """Rounds are released by the planner alone. While it is dead users are served and counted, readiness says 503, and
    nothing is released; the next one releases what has waited."""
    with two_workers(postgres) as (service, line):
        play(line, 30)
        until(lambda: line.ask("GET", "/v1/status")[1]["served_version"] == 1)
        found = service.processes()
        assert len(found["workers"]) == 2
        assert len(found["planner"]) == 1
        for worker in found["workers"]:
            mapped = (Path("/proc") / str(worker) / "maps").read_text()
            assert "numpy" in mapped
            assert "jaxlib" not in mapped
        assert max(service.resident()["workers"]) <= LARGEST
        assert line.ask("GET", "/v1/diagnostics/1")[1]["users"] == 20
        os.kill(found["planner"][0], 9)
        assert line.ask("GET", "/v1/health")[0] == 503
        assert line.ask("GET", "/v1/health/live")[0] == 200
        play(line, 30)
        until(lambda: line.ask("GET", "/v1/health")[0] == 200)
        until(lambda: line.ask("GET", "/v1/status")[1]["served_version"] == 2)
        assert service.processes()["planner"] != found["planner"]
        entries = line.ask("GET", "/v1/ledger")[1]["entries"]
        assert [entry["released"] for entry in entries[:3]] == [True, True, False]  # the next user seals the third


@pytest.mark.verify
def test_two_workers_serve_an_ab_share_without_being_told_who(postgres: str) -> None:
    """Whichever of them answers, controls are at the places that follow from the public identity."""
    control = Control(0.25)
    with two_workers(postgres, control={"share": 0.25}) as (_, line):
        play(line, 21)
        until(lambda: line.ask("GET", "/v1/status")[1]["served_version"] == 1)
        status, chain = line.ask("GET", "/v1/status")[1], line.ask("GET", "/v1/transparency")[1]
        assert status["control_share"] == 0.25
        ends = np.diff([0, *status["round_ends"], status["episodes"]])
        schedule = Schedule(status["episodes"], tuple(int(size) for size in ends if size))
        versions = []
        for user in range(15):
            opened = line.ask("POST", "/v1/episodes", {"user": f"user {user}"})[1]
            places = control.places(schedule, opened["round"], chain["deployment"])
            assert opened["version"] == (0 if places.has(opened["place"]) else 1)
            versions.append(opened["version"])
        assert set(versions) == {0, 1}


@pytest.mark.verify
def test_a_pan_private_worker_draws_its_half_of_the_noise_without_jax(postgres: str) -> None:
    with two_workers(postgres, pan_private=True) as (service, line):
        play(line, 45)
        until(lambda: line.ask("GET", "/v1/status")[1]["served_version"] == 2)
        for worker in service.processes()["workers"]:
            assert "jaxlib" not in (Path("/proc") / str(worker) / "maps").read_text()


def test_workers_and_planner_end_with_the_command_that_started_them(database: str) -> None:
    """Killed as by the out-of-memory killer: its workers kept the port, and admitted users whom no planner learned from.

    On SQLite one process does everything, and nothing is left of it. Before, a stranger's nonsense fills no disk.
    """
    workers = 1 if database.startswith("sqlite") else 2
    service = Service({"database": database, "world": WORLD, "agent": AGENT, "episodes": 400, "workers": workers})
    try:
        service.start()
        before = service.processes()
        assert len(before["workers"]) == (2 if workers == 2 else 0)
        quiet = len(service.log.read_text().splitlines())
        for number in range(300):
            with socket.create_connection(("127.0.0.1", service.port), timeout=10) as stranger:
                stranger.sendall(
                    b"nonsense %d\r\n\r\n" % number if number % 2 else b"POST /v1/episodes HTTP/1.1\r\n\r\n"
                )
                assert stranger.recv(12).startswith(b"HTTP/1.1 4")
        assert len(service.log.read_text().splitlines()) - quiet <= workers * logs.MOST_LINES
        os.kill(service.group, signal.SIGKILL)
        until = time.monotonic() + 60
        while (_alive(service) or not _free(service.port)) and time.monotonic() < until:
            time.sleep(0.1)
        assert not _alive(service)
        assert _free(service.port)  # for the next one
    finally:
        service.close()


def _alive(service: Service) -> list[int]:
    """Its processes that answer or plan, and the command itself, unless it waits for its parent to take notice."""
    found = service.processes()
    return [
        process
        for process in [*found["workers"], *found["planner"], *found["others"]]
        if (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    ]


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
