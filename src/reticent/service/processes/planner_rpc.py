# SPDX-License-Identifier: Apache-2.0
"""The line between workers and the process that plans: short questions and answers in JSON over a Unix socket.

The socket is in a directory that only the service's own user can enter. Nothing of a user ever crosses it: what is
asked is whether rounds are being ended, that they be ended now, and what published numbers say.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from reticent.service.rounds.refusals import Refusal

LOG = logging.getLogger("reticent.service")
PATIENCE = 60.0
"""Seconds that an answer may take: a release, a plan and, the first time, their compilation."""

LONGEST = 1 << 24
"""Bytes of an answer, at most."""

Answers = Mapping[str, Callable[..., Any]]
"""By name of the question, what answers it; arguments and answers are what JSON can say."""


def socket_in(home: Path) -> Path:
    """Where the planner of a service with this private directory answers."""
    return home / "planner"


def ask(home: Path, question: str, *arguments: Any, patience: float = PATIENCE) -> Any:
    """The planner's answer.

    Raises:
      Refusal: there was none: it is not running, takes too long or has failed.
    """
    try:
        with Client(str(socket_in(home)), "AF_UNIX") as line:
            line.send_bytes(json.dumps([question, *arguments]).encode())
            if line.poll(patience):
                return json.loads(line.recv_bytes(LONGEST))["answer"]
    except (OSError, EOFError, ValueError, KeyError):
        pass
    raise Refusal("unavailable", "the process that ends rounds and plans does not answer; try again")


def answer_in_background(home: Path, answers: Answers) -> None:
    """Answer questions until the process ends; each on a thread of its own, since some answers take long."""
    place = socket_in(home)
    with contextlib.suppress(FileNotFoundError):  # of a planner before this one
        place.unlink()
    listener = Listener(str(place), "AF_UNIX", backlog=64)

    def accept() -> None:
        while True:
            with contextlib.suppress(OSError, EOFError):  # one who has gone already
                line = listener.accept()
                threading.Thread(target=_answer, args=(line, answers), daemon=True).start()

    threading.Thread(target=accept, name="reticent-line", daemon=True).start()


def _answer(line: Connection, answers: Answers) -> None:
    with line, contextlib.suppress(OSError, EOFError):
        question, *arguments = json.loads(line.recv_bytes(LONGEST))
        try:
            said = {"answer": answers[question](*arguments)}
        except Exception as problem:  # its text might quote data, its type does not
            LOG.error("a worker's question (%s) failed with %s", question, type(problem).__name__)
            said = {"failed": type(problem).__name__}
        line.send_bytes(json.dumps(said).encode())
