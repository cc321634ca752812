# SPDX-License-Identifier: Apache-2.0
"""Planning in a process of its own: it has the agent and JAX, releases sealed rounds and publishes plans.

Workers only meet users (:mod:`reticent.service.processes.worker`). They share the store with the planner and nothing else
that matters: which rounds are sealed, released and published is in its rows, and every step is made under their locks
(:mod:`reticent.service.rounds.release`). So the planner may be killed at any time, and so may be two of them at once; a
round that it had not released is released, with fresh noise, by the next one. Without one, users are served and learned
from as before, rounds wait, and readiness says so.

`reticent serve` starts it, waits until it has the deployment, hands its public configuration to the workers in a file of a
private directory, and starts it again whenever it ends.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import tempfile
import threading
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from reticent.errors import ReticentError
from reticent.service.config import DevelopmentSecrets, Settings
from reticent.service.processes.configuration_snapshot import write_snapshot
from reticent.service.processes.planner_rpc import answer_in_background

LOG = logging.getLogger("reticent.service")
PAUSE = 1.0
"""Seconds before a planner that has ended is started again."""


class Planner:
    """The planner of one service, as the command that serves sees it; used as a context.

    Attributes:
      home: the private directory that workers are told of.
      sentence: what the deployment promises, once it has started.
    """

    def __init__(self, settings: Settings, *, begin: bool) -> None:
        self._settings, self._begin = settings, begin
        self._directory = tempfile.TemporaryDirectory(prefix="reticent", dir=_short_place())
        self.home = Path(self._directory.name)
        self.sentence = ""
        self._ending = threading.Event()
        self._process: Any = None
        self._watch = threading.Thread(target=self._keep_alive, name="reticent-planner", daemon=True)

    def __enter__(self) -> Planner:
        """Start it, and wait until the deployment is there.

        Raises:
          ReticentError: a setting is outside its domain, or the store is another deployment's; nothing was changed.
        """
        told, telling = multiprocessing.Pipe(duplex=False)
        try:
            self._start(telling, begin=self._begin)
            said = json.loads(told.recv_bytes())
        except EOFError:
            said = {"refused": "the process that plans ended before it had begun; see the log"}
        if "refused" in said:
            self.__exit__()
            raise ReticentError(said["refused"])
        self.sentence = said["sentence"]
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        if self._process is not None:
            self._process.terminate()  # at any time
            self._process.join()
        self._directory.cleanup()

    def _start(self, telling: Connection | None, *, begin: bool) -> None:
        arguments = (self._settings, str(self.home), begin, telling)
        self._process = multiprocessing.get_context("spawn").Process(target=plan, args=arguments, daemon=True)
        self._process.start()
        if telling is not None:
            telling.close()  # so that its end is the end of the line

    def _keep_alive(self) -> None:
        while True:
            self._process.join()
            if self._ending.wait(PAUSE):
                return
            LOG.error("the process that plans has ended (%s); it is started again", self._process.exitcode)
            self._start(None, begin=False)


def plan(settings: Settings, home: str, begin: bool, telling: Connection | None) -> None:
    """The planner's process: release rounds and publish plans until the parent process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is for all of a group; the command says when to end
    warnings.simplefilter("ignore", DevelopmentSecrets)  # the command has said it
    from logging.config import dictConfig

    from reticent.runtime import enable_compilation_cache
    from reticent.service.http.app import make_deployment, require_shuffler
    from reticent.service.processes.logs import configuration
    from reticent.service.processes.scheduler import Scheduler

    dictConfig(configuration(settings.logs))
    enable_compilation_cache()
    try:
        deployment = make_deployment(settings, begin=begin)
        require_shuffler(settings, deployment.configuration)
    except ReticentError as problem:
        _tell(telling, {"refused": str(problem)})
        raise SystemExit(1) from None
    scheduler = Scheduler(deployment)
    write_snapshot(Path(home), deployment.mechanism.configuration)
    answer_in_background(
        Path(home),
        {
            "problem": lambda: scheduler.problem,
            "wake": deployment.context.sealed.set,
            "advance": deployment.advance,
            "diagnostics": deployment.diagnostics,
            "canary_status": deployment.canary_status,
        },
    )
    scheduler.start()
    _tell(telling, {"sentence": deployment.configuration.public_guarantee.sentence})
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()  # returns too if the parent is killed
    os._exit(0)


def _short_place() -> str | None:
    """Where temporary directories are, or a shorter place where a socket's path would be too long: about 100 bytes."""
    return "/tmp" if len(os.fsencode(tempfile.gettempdir())) > 70 else None


def _tell(telling: Connection | None, said: dict[str, str]) -> None:
    if telling is not None:
        telling.send_bytes(json.dumps(said).encode())
        telling.close()
