# SPDX-License-Identifier: Apache-2.0
"""How far a command is: a bar on a terminal, a few plain lines elsewhere, nothing if it is over at once.

Whatever takes longer than :data:`PATIENCE` seconds is told through a :class:`Progress` with the time left. Runs call it
themselves; work that names itself at every word (an audit, a fit, a replay) is told through :class:`Telling`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO

PATIENCE = 2.0
"""Seconds for which a user needs no word."""

LONG_SILENCE = 10.0
"""Seconds without a first report after which plain lines say that a piece of work has begun."""


class Progress(Protocol):
    """Who is told how far a run is."""

    def start(self, label: str, total: int, seeds: int, unit: str = "episodes") -> None:
        """A piece of work begins: so many episodes (or other units) in each of so many seeds."""
        ...

    def advance(self, done: int, remark: str = "") -> None:
        """So many of them are finished; ``remark`` is shown beside."""
        ...

    def finish(self) -> None:
        """The piece is done, or was stopped."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


class Silence:
    """Report nothing."""

    def start(self, label: str, total: int, seeds: int, unit: str = "episodes") -> None: ...

    def advance(self, done: int, remark: str = "") -> None: ...

    def finish(self) -> None: ...

    def close(self) -> None: ...


class _Pace:
    """Speed and time left of one piece of work, in units times seeds: for an agent, learner-episodes.

    Before the first two reports time goes into compilation (the second may be of another size, and be compiled again), so
    speed is measured from the second where possible.
    """

    def __init__(self, total: int, seeds: int, unit: str, now: float) -> None:
        self.total, self.seeds, self.unit, self.started = total, seeds, unit, now
        self.reports, self.steady = 0, False
        self.base = (now, 0)
        self.per_second = 0.0

    def advance(self, done: int, now: float) -> None:
        self.reports += 1
        self.per_second = (done - self.base[1]) / max(now - self.base[0], 1e-9)
        # Whether speed has been measured: a second report of next to nothing is compilation once more.
        self.steady = now > self.base[0] and (self.reports > 2 or (self.reports == 2 and 20 * done >= self.total))
        if self.reports <= 2 and not self.steady:
            self.base = (now, done)

    def speed(self) -> str:
        rate = self.per_second * self.seeds
        return f"{f'{rate:,.0f}' if rate >= 10 else f'{rate:.2g}'} {self.unit}/s"

    def left(self, done: int) -> str:
        return f"{duration(self.seconds_left(done))} left"

    def seconds_left(self, done: int) -> float:
        return (self.total - done) / max(self.per_second, 1e-9)


class Lines:
    """A few plain lines: at each quarter of a piece of work, and at least every half minute, while it lasts.

    Before the first quarter one line more if compilation takes long.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream or sys.stderr, clock
        self._silence = threading.Timer(LONG_SILENCE, self._begun)

    def start(self, label: str, total: int, seeds: int, unit: str = "episodes") -> None:
        self._label, self._quarter, self._done, self._spoken = label, 0, 0, self._clock()
        self._pace = _Pace(total, seeds, unit, self._spoken)
        self._silence.cancel()
        self._silence = threading.Timer(LONG_SILENCE, self._begun)
        self._silence.daemon = True
        self._silence.start()

    def _begun(self) -> None:
        print(f"{self._label}: begun, compiling", file=self._stream, flush=True)

    def advance(self, done: int, remark: str = "") -> None:
        self._silence.cancel()
        now, pace, self._done = self._clock(), self._pace, done
        pace.advance(done, now)
        quarter = 4 * done // pace.total
        due = quarter > self._quarter or now - self._spoken >= 30
        soon = now - pace.started < PATIENCE or pace.seconds_left(done) < PATIENCE
        if soon or not due or not (pace.steady or now - self._spoken >= 30):
            return
        self._quarter, self._spoken = quarter, now
        told = [f"{done:,} of {pace.total:,} {pace.unit} ({100 * done // pace.total}%)", remark]
        told += [pace.speed(), pace.left(done)] if pace.steady else []
        print(f"{self._label}: {', '.join(filter(None, told))}", file=self._stream, flush=True)

    def finish(self) -> None:
        self._silence.cancel()
        elapsed = self._clock() - self._pace.started
        if elapsed >= PATIENCE:
            how = "done in" if self._done >= self._pace.total else "stopped after"
            print(f"{self._label}: {how} {duration(elapsed)}", file=self._stream, flush=True)

    def close(self) -> None:
        self._silence.cancel()


class Bars:
    """One bar per piece of work on a terminal. They appear after :data:`PATIENCE` seconds, compilation included."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._bars = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
        )
        self._task: Any = None
        self._closed = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def _appear(self) -> None:
        with self._lock:
            if not self._closed:
                self._bars.start()

    def start(self, label: str, total: int, seeds: int, unit: str = "episodes") -> None:
        self._pace, self._remark = _Pace(total, seeds, unit, time.monotonic()), ""
        short = label if len(label) <= 24 else label[:23] + "…"
        self._task = self._bars.add_task(short.replace("[", r"\["), total=total, note="compiling")

    def advance(self, done: int, remark: str = "") -> None:
        self._pace.advance(done, time.monotonic())
        self._remark = f"{remark}, " if remark else ""
        note = f"{self._pace.speed()}, {self._pace.left(done)}" if self._pace.steady else "compiled"
        self._bars.update(self._task, completed=done, note=self._remark + note)

    def finish(self) -> None:
        elapsed = duration(time.monotonic() - self._pace.started)
        self._bars.update(self._task, note=f"{self._remark}{self._pace.speed()}, took {elapsed}")

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            self._bars.stop()


def reporter() -> Progress:
    """What suits standard error: bars on a terminal, lines elsewhere."""
    return Bars() if sys.stderr.isatty() else Lines()


class Telling:
    """For work that names itself at every word: each name is a piece of work of the reporter's.

    ``with Telling("trials") as tell: work(progress=tell)``, where the work calls ``tell(what, done, total)``, with a remark
    if it has one.
    """

    def __init__(self, unit: str, progress: Progress | None = None) -> None:
        self._unit, self._progress = unit, progress
        self._what: str | None = None

    def __enter__(self) -> Callable[..., None]:
        self._to = self._progress or reporter()
        return self._tell

    def _tell(self, what: str, done: int, total: int, remark: str = "") -> None:
        if what != self._what:
            if self._what is not None:
                self._to.finish()
            self._what = what
            self._to.start(what, max(total, 1), 1, self._unit)
        self._to.advance(done, remark)

    def __exit__(self, *_: object) -> None:
        if self._what is not None:
            self._to.finish()
        self._to.close()


def duration(seconds: float) -> str:
    """A time a person reads at a glance.

    >>> [duration(value) for value in (0.42, 12.3, 75, 4000)]
    ['0.4 s', '12 s', '1 min 15 s', '1 h 06 min']
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
