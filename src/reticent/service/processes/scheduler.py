# SPDX-License-Identifier: Apache-2.0
"""Background scheduler: releases sealed rounds, publishes plans, expires episodes, ends the last round in time.

Everything it does is safe to do twice, by several workers at once, and to be killed in the middle of.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from reticent.service.rounds.frontend import Frontend
from reticent.service.rounds.refusals import Refusal

LOG = logging.getLogger("reticent.service")
EXPIRY_INTERVAL = 30.0
"""Seconds between looks for overdue episodes; a submission checks its own anyway."""


class Scheduler:
    """A thread that keeps one deployment going until it is stopped.

    ``warmed`` is called when the programs of the next round and plan are compiled, which comes first unless planning
    is inline. A deployment that has released nothing yet is not ready before that: its first users would come to a service
    that does not learn from them for a while. One that goes on after a restart serves its plan meanwhile.
    """

    def __init__(self, deployment: Frontend, interval: float = 0.5, warmed: Callable[[], None] = lambda: None) -> None:
        self._deployment, self._interval, self._warmed = deployment, interval, warmed
        self._stop = threading.Event()
        self._expired_at = float("-inf")
        self._warm = deployment.context.inline
        self._cold = not self._warm and deployment.clock()[1] == 0
        self.failing = False
        """Whether its last turn failed."""
        self._thread = threading.Thread(target=self._run, name="reticent-scheduler", daemon=True)

    @property
    def problem(self) -> str | None:
        """Why rounds are not ended now. A round that was released since the last failure shows that they are."""
        if self._cold:
            return "the first plans are being compiled"
        if self.failing and not self._deployment.context.released.is_set():
            return "rounds cannot be ended or plans not be published; see the log"
        return None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._deployment.context.sealed.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._guarded(self.once)
            self._deployment.context.sealed.wait(self._interval)

    def _guarded(self, work: object) -> None:
        try:
            work()  # type: ignore[operator]
            self.failing = False
        except Exception as problem:  # the next turn tries again; the message might quote data, its type does not
            self._deployment.context.released.clear()
            self.failing = True
            LOG.error("the scheduler failed with %s", type(problem).__name__)
            self._stop.wait(self._interval)

    def once(self) -> None:
        """One turn."""
        deployment = self._deployment
        if not self._warm:
            deployment.warm_up()
            self._warm, self._cold = True, False
            self._warmed()
        deployment.advance()
        now = time.monotonic()
        if deployment.is_due():
            try:
                deployment.finish()
            except Refusal:
                return
            deployment.advance()
        if now - self._expired_at > EXPIRY_INTERVAL:
            self._expired_at = now
            deployment.expire()
