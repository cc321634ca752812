# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C as a request: the first asks the run to stop at a good place, the second stops it on the spot."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether the user has asked to stop."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        return self.asked


@contextmanager
def listening() -> Iterator[Interrupt]:
    """Within the block, the first SIGINT only sets the flag; a second one raises KeyboardInterrupt as usual."""
    interrupt = Interrupt()

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        interrupt.asked = True
        signal.signal(signal.SIGINT, before)
        print("stopping: keeping what is finished (Ctrl-C again to stop at once)", file=sys.stderr, flush=True)

    before = signal.getsignal(signal.SIGINT)
    # A shell starts background jobs with SIGINT ignored; then it stays ignored.
    if before is signal.SIG_IGN or before is None:
        yield interrupt
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
