# SPDX-License-Identifier: Apache-2.0
"""One of several workers: it meets users, and asks the planner for what needs the agent. It has no JAX.

Imports are what a worker weighs; ``tests/service/test_service_workers.py`` says how much that may be.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import warnings
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from reticent.service.config import DevelopmentSecrets, Settings
from reticent.service.http.app import CONFIG, application, chosen_settings, closed_if_refused, make_context
from reticent.service.processes.configuration_snapshot import read_snapshot
from reticent.service.processes.interpreter import prepare_to_serve
from reticent.service.processes.planner_rpc import ask
from reticent.service.rounds.context import AnyContext
from reticent.service.rounds.frontend import Frontend
from reticent.service.rounds.refusals import Refusal

HEALTH_PATIENCE = 1.0
"""Seconds within which a planner that is well says so."""


class RemotePlanner:
    """The planner of another process; ``home`` is where it answers."""

    def __init__(self, context: AnyContext, home: Path) -> None:
        self.context, self.home = context, home

    def advance(self) -> int:
        return int(ask(self.home, "advance"))

    def warm_up(self) -> None:
        """The planner does so by itself when it starts."""

    def diagnostics(self, version: int) -> dict[str, Any]:
        self.context.plans.billboard(version)  # a version that was never published is refused here, as it is there
        said: dict[str, Any] = ask(self.home, "diagnostics", version)
        return said

    def canary_status(self) -> dict[str, Any] | None:
        if not self.context.canaries:
            return None
        said: dict[str, Any] = ask(self.home, "canary_status")
        return said


class WorkerDeployment(Frontend):
    """A deployment whose rounds another process releases; ``home`` is where that one answers."""

    def __init__(self, context: AnyContext, home: Path) -> None:
        super().__init__(context, RemotePlanner(context, home))
        self.home = home


class PlannerNotifier:
    """Wakes the planner when this worker has sealed a round, and asks how it is. It looks by itself, only later."""

    def __init__(self, deployment: WorkerDeployment) -> None:
        self._deployment, self._stop = deployment, threading.Event()
        self._thread = threading.Thread(target=self._run, name="reticent-planner-notifier", daemon=True)

    @property
    def problem(self) -> str | None:
        """Why rounds cannot be ended now, as the planner says.

        Raises:
          Refusal: the planner does not answer.
        """
        said: str | None = ask(self._deployment.home, "problem", patience=HEALTH_PATIENCE)
        return said

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._deployment.context.sealed.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        sealed = self._deployment.context.sealed
        while True:
            sealed.wait()
            sealed.clear()
            if self._stop.is_set():
                return
            try:
                ask(self._deployment.home, "wake", patience=HEALTH_PATIENCE)
            except Refusal:
                continue  # it is being started again, and begins with a look


def create_worker() -> FastAPI:
    """The application of one of several workers, by what :func:`reticent.service.http.app.tell_workers` left."""
    _end_with_parent()
    warnings.simplefilter("ignore", DevelopmentSecrets)  # the command has said it
    told = json.loads(os.environ[CONFIG])
    home = Path(told.pop("home"))
    made = make_worker(chosen_settings(Path(told.pop("config")), **told), home)
    prepare_to_serve()
    return made


def _end_with_parent() -> None:
    """End this worker if the command that serves is gone, also if it was killed: it would keep the port, and admit users
    whose rounds no planner releases."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def wait() -> None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)  # those who wait are answered first

        threading.Thread(target=wait, name="reticent-parent", daemon=True).start()


def make_worker(settings: Settings, home: Path) -> FastAPI:
    """The application of a worker; ``home`` is where its planner wrote the public configuration, and answers."""
    deployment = WorkerDeployment(make_context(read_snapshot(home), settings), home)
    with closed_if_refused(deployment):
        deployment.set_up()
        return application(settings, deployment, PlannerNotifier(deployment))
