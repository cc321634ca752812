# SPDX-License-Identifier: Apache-2.0
"""Progress: bars, lines, silence."""

from __future__ import annotations

import io
import sys

from reticent.reports import progress
from reticent.reports.progress import Bars, Lines, Silence, Telling, duration, reporter


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def tell(seconds_per_segment, segments=40, compile_seconds=1.0):
    """The lines that a run of 4000 episodes in 16 seeds gives."""
    clock, stream = Clock(), io.StringIO()
    lines = Lines(stream, clock)
    lines.start("oppo", 4000, 16)
    clock.now += compile_seconds
    for done in range(1, segments + 1):
        clock.now += seconds_per_segment
        lines.advance(4000 * done // segments)
    lines.finish()
    lines.close()
    return stream.getvalue().splitlines()


def test_a_quick_run_is_silent():
    assert tell(0.01, compile_seconds=0.5) == []


def test_a_run_of_a_minute_gives_a_line_each_quarter():
    lines = tell(1.5)
    assert len(lines) == 4
    assert lines[0] == "oppo: 1,000 of 4,000 episodes (25%), 1,067 episodes/s, 45 s left"
    assert lines[-1] == "oppo: done in 1 min 01 s"


def test_a_long_compilation_is_named_once_and_a_short_one_is_not(monkeypatch):
    monkeypatch.setattr(progress, "LONG_SILENCE", 0.01)
    lines = Lines(stream := io.StringIO())
    lines.start("oppo", 4000, 16)
    lines._silence.join()
    lines.finish()
    assert stream.getvalue() == "oppo: begun, compiling\n"
    monkeypatch.setattr(progress, "LONG_SILENCE", 60.0)
    for end in (lambda: lines.advance(10), lines.finish, lines.close):
        lines.start("oppo", 4000, 16)
        end()
        lines._silence.join()
    assert stream.getvalue() == "oppo: begun, compiling\n"


def test_no_time_left_is_told_from_a_piece_that_was_compiled() -> None:
    """Two sizes of pieces, each compiled for a minute: from those, 20 000 records would take days."""
    clock, stream = Clock(), io.StringIO()
    lines = Lines(stream, clock)
    lines.start("the same learner", 20_000, 1, "records")
    for done, seconds in ((1, 60.0), (50, 60.0), (5_000, 10.0), (20_000, 30.0)):
        clock.now += seconds
        lines.advance(done)
    lines.finish()
    assert stream.getvalue().splitlines() == [
        "the same learner: 1 of 20,000 records (0%)",
        "the same learner: 50 of 20,000 records (0%)",
        "the same learner: 5,000 of 20,000 records (25%), 495 records/s, 30 s left",
        "the same learner: done in 2 min 40 s",
    ]


def test_a_long_run_gives_a_line_every_half_minute():
    lines = tell(20.0)
    assert 20 <= len(lines) <= 30


def test_bars_appear_only_after_a_while(monkeypatch, capsys):
    bars = Bars()
    bars.start("oppo", 100, 2)
    bars.advance(50)
    bars.finish()
    bars.close()
    assert capsys.readouterr().err.strip() == ""


def test_bars_show_speed_and_label_as_written(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    bars = Bars()
    bars._timer.join()
    bars._bars.console.file = stream = io.StringIO()
    bars.start("oppo[x]", 100, 2)
    bars.advance(50)
    bars.advance(100)
    bars.finish()
    bars.close()
    assert "oppo[x]" in stream.getvalue()
    assert "episodes/s" in stream.getvalue()


def test_the_reporter_suits_the_stream(monkeypatch):
    assert isinstance(reporter(), Lines)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    chosen = reporter()
    chosen.close()
    assert isinstance(chosen, Bars)


def test_work_that_names_itself_is_told_piece_by_piece():
    clock, stream = Clock(), io.StringIO()
    with Telling("trials", Lines(stream, clock)) as tell:
        for what in ("weak canary", "strong canary"):
            for done in range(1, 5):
                clock.now += 4
                tell(what, 5 * done, 20, "of two" if what.startswith("s") else "")
    lines = stream.getvalue().splitlines()
    assert "weak canary: 10 of 20 trials (50%), 1.2 trials/s, 8.0 s left" in lines
    assert "strong canary: 10 of 20 trials (50%), of two, 1.2 trials/s, 8.0 s left" in lines
    assert [line for line in lines if "done in" in line] == ["weak canary: done in 16 s", "strong canary: done in 12 s"]


def test_work_that_says_nothing_gets_no_line():
    stream = io.StringIO()
    with Telling("trials", Lines(stream, Clock())):
        pass
    assert stream.getvalue() == ""


def test_silence_takes_everything():
    quiet = Silence()
    quiet.start("a", 1, 1)
    quiet.advance(1)
    quiet.finish()
    quiet.close()


def test_durations_are_read_at_a_glance():
    assert [duration(value) for value in (0.42, 12.3, 75, 4000)] == ["0.4 s", "12 s", "1 min 15 s", "1 h 06 min"]
