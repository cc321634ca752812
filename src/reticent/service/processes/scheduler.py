# SPDX-License-Identifier: Apache-2.0
"""Background scheduler: releases sealed rounds, publishes plans, expires episodes, ends the last round in time.

Everything it does is safe to do twice, by several workers at once, and to be killed in the middle of.
"""

from __future__ import annotations

import logging
import threading
import time

from reticent.service.rounds.frontend import Frontend
from reticent.service.rounds.refusals import Refusal

LOG = logging.getLogger("reticent.service")
EXPIRY_INTERVAL = 30.0
"""Seconds between looks for overdue episodes; a submission checks its own anyway."""


class Scheduler:
    """A thread that keeps one deployment going until it is stopped."""

    def __init__(self, deployment: Frontend, interval: float = 0.5) -> None:
        self._deployment, self._interval = deployment, interval
        self._stop = threading.Event()
        self._expired_at = float("-inf")
        self.failing = False
        """Whether its last turn failed."""
        self._thread = threading.Thread(target=self._run, name="reticent-scheduler", daemon=True)

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
            self.failing = True
            LOG.error("the scheduler failed with %s", type(problem).__name__)
            self._stop.wait(self._interval)

    def once(self) -> None:
        """One turn."""
        deployment = self._deployment
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
