# SPDX-License-Identifier: Apache-2.0
"""How the interpreter is set in a process that serves users: threads take short turns, garbage is looked for seldom.

For processes of the service's own, never for a program that embeds it.
"""

from __future__ import annotations

import gc
import sys

TURN = 0.0005
"""Seconds after which a thread that wants the interpreter gets it."""

YOUNG = 20_000
"""Objects after whose making garbage is looked for among them; Python's 700 are those of a few requests."""


def prepare_to_serve() -> None:
    """Set the interpreter, when everything that is there to stay has been made.

    A thread that does a group's transaction wants the interpreter back after every statement, with locks in its hands for
    which other workers wait. Python's five milliseconds each would be most of the time that a transaction takes.

    Almost all of a request goes with its last reference. Looking for cycles among everything that was ever imported took a
    fifth of a worker's processor time (docs/measurements/service.md).
    """
    sys.setswitchinterval(TURN)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
