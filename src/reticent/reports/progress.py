"""How far a run is: a bar on a terminal, a few plain lines elsewhere, nothing if it is over at once."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO

PATIENCE = 2.0
"""Seconds for which a user needs no word."""


class Progress(Protocol):
    """Who is told how far a run is."""

    def start(self, label: str, episodes: int, seeds: int) -> None:
        """An agent begins: so many episodes in each of so many seeds."""
        ...

    def advance(self, done: int) -> None:
        """So many episodes of the agent are finished."""
        ...

    def finish(self) -> None:
        """The agent is done, or was stopped."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


class Silence:
    """Tells nobody."""

    def start(self, label: str, episodes: int, seeds: int) -> None: ...

    def advance(self, done: int) -> None: ...

    def finish(self) -> None: ...

    def close(self) -> None: ...


class _Pace:
    """Speed and time left of one agent, in learner-episodes: episodes times seeds.

    Before the first report time goes into compilation, so speed is measured from there where possible.
    """

    def __init__(self, episodes: int, seeds: int, now: float) -> None:
        self.episodes, self.seeds, self.started = episodes, seeds, now
        self.first: tuple[float, int] | None = None
        self.latest: float | None = None
        self.per_second = 0.0

    def advance(self, done: int, now: float) -> None:
        self.latest = now
        if self.first is None:
            self.first = (now, done)
            self.per_second = done / max(now - self.started, 1e-9)
        else:
            self.per_second = (done - self.first[1]) / max(now - self.first[0], 1e-9)

    @property
    def steady(self) -> bool:
        """Whether speed has been measured; of the first report most was compilation."""
        return self.latest is not None and self.first is not None and self.latest > self.first[0]

    def speed(self) -> str:
        return f"{self.per_second * self.seeds:,.0f} episodes/s"

    def left(self, done: int) -> str:
        return f"{duration(self.seconds_left(done))} left"

    def seconds_left(self, done: int) -> float:
        return (self.episodes - done) / max(self.per_second, 1e-9)


class Lines:
    """A few plain lines: at each quarter of an agent's episodes, and at least every half minute, while it lasts."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream or sys.stderr, clock

    def start(self, label: str, episodes: int, seeds: int) -> None:
        self._label, self._quarter, self._done, self._spoken = label, 0, 0, self._clock()
        self._pace = _Pace(episodes, seeds, self._spoken)

    def advance(self, done: int) -> None:
        now, pace, self._done = self._clock(), self._pace, done
        pace.advance(done, now)
        quarter = 4 * done // pace.episodes
        due = quarter > self._quarter or now - self._spoken >= 30
        soon = now - pace.started < PATIENCE or pace.seconds_left(done) < PATIENCE or not pace.steady
        if soon or not due:
            return
        self._quarter, self._spoken = quarter, now
        of = f"{done:,} of {pace.episodes:,} episodes ({100 * done // pace.episodes}%)"
        print(f"{self._label}: {of}, {pace.speed()}, {pace.left(done)}", file=self._stream, flush=True)

    def finish(self) -> None:
        elapsed = self._clock() - self._pace.started
        if elapsed >= PATIENCE:
            how = "done in" if self._done >= self._pace.episodes else "stopped after"
            print(f"{self._label}: {how} {duration(elapsed)}", file=self._stream, flush=True)

    def close(self) -> None: ...


class Bars:
    """One bar per agent on a terminal. They appear once the run has taken :data:`PATIENCE`, compilation included."""

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

    def start(self, label: str, episodes: int, seeds: int) -> None:
        self._pace = _Pace(episodes, seeds, time.monotonic())
        short = label if len(label) <= 24 else label[:23] + "…"
        self._task = self._bars.add_task(short.replace("[", r"\["), total=episodes, note="compiling")

    def advance(self, done: int) -> None:
        self._pace.advance(done, time.monotonic())
        note = f"{self._pace.speed()}, {self._pace.left(done)}" if self._pace.steady else "compiled"
        self._bars.update(self._task, completed=done, note=note)

    def finish(self) -> None:
        elapsed = duration(time.monotonic() - self._pace.started)
        self._bars.update(self._task, note=f"{self._pace.speed()}, took {elapsed}")

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            self._bars.stop()


def reporter() -> Progress:
    """What suits standard error: bars on a terminal, lines elsewhere."""
    return Bars() if sys.stderr.isatty() else Lines()


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
