# SPDX-License-Identifier: Apache-2.0
"""Whether users can be served and learned from: asked of the store itself, and answered in time whatever the store does.

A store that can be read may be full, read-only or locked by a forgotten transaction. So a look waits for the locks of
admissions and submissions and writes a little (:func:`reticent.service.store.records.probe`), unless it did so
within :data:`FRESH` seconds. One thread looks, for all who ask at a time. Who has waited for :data:`PATIENCE` seconds is
told that the store does not answer, which is so.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from typing import NamedTuple, Protocol

from reticent.service.keys import Keys
from reticent.service.rounds.frontend import Frontend
from reticent.service.rounds.refusals import Refusal
from reticent.service.store import records
from reticent.service.store.engine import PROBE

FRESH, PATIENCE = 1.0, 1.5
"""Seconds for which a probe of the store is good; seconds within which health is told."""


class Background(Protocol):
    """What goes on beside the answering of requests."""

    @property
    def problem(self) -> str | None:
        """Why rounds cannot be ended or plans not be published now; None if they can.

        Raises:
          Refusal: who would know does not answer.
        """
        ...

    def start(self) -> None: ...
    def stop(self) -> None: ...


class Finding(NamedTuple):
    """The newest published version, and what is wrong though users are served."""

    version: int
    problems: list[str]


class Readiness:
    """Finds out how one worker is; see the module docstring."""

    def __init__(self, deployment: Frontend, background: Background, keys: Keys) -> None:
        self._deployment, self._background, self._keys = deployment, background, keys
        self._lock = threading.Lock()
        self._probed = self._began = float("-inf")
        self._look: concurrent.futures.Future[Finding] | None = None

    async def ask(self) -> Finding:
        """How it is.

        Raises:
          Exception: users cannot be served.
        """
        look, left = self._going()
        awaited = asyncio.wrap_future(look)
        awaited.add_done_callback(lambda one: one.cancelled() or one.exception())  # who gave up has been told
        done, _ = await asyncio.wait({awaited}, timeout=max(0.0, left))
        if not done:
            raise Refusal("unavailable", "the store does not answer in time; see the log, and its server")
        return awaited.result()

    def _going(self) -> tuple[concurrent.futures.Future[Finding], float]:
        """The look that is going on, or a new one, and how long to wait for it."""
        with self._lock:
            if self._look is None or self._look.done():
                self._look, self._began = concurrent.futures.Future(), time.monotonic()
                threading.Thread(target=self._run, args=(self._look,), name="reticent-readiness", daemon=True).start()
            return self._look, self._began + PATIENCE - time.monotonic()

    def _run(self, look: concurrent.futures.Future[Finding]) -> None:
        try:
            look.set_result(self._found())
        except Exception as problem:
            look.set_exception(problem)

    def _found(self) -> Finding:
        deployment = self._deployment
        if time.monotonic() - self._probed > FRESH:
            with deployment.store.write(lock_seconds=FRESH) as tx:
                records.probe(tx, PROBE)
            self._probed = time.monotonic()
        clock = deployment.clock()[0]
        deployment.examine()
        if (problem := self._background.problem) is not None:
            raise Refusal("unavailable", problem)
        problems = [clock.halted] if clock.halted is not None else []
        watched = deployment.canary_status()
        if watched is not None and watched["alarm"]:
            problems.append("canaries show that the noise is smaller than promised")
        if not self._keys.current:
            problems.append("the keys file cannot be read; the keys before it are in use")
        return Finding(int(clock.served_version), problems)
