"""The comparison: every program in turn, on one machine, in one run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from reticent.experiments.bench import machine
from reticent.experiments.bench.opponents import measure_loop, measure_peers
from reticent.experiments.bench.rows import Row, cells
from reticent.experiments.bench.work import CONTESTANTS, Contestant, Work, measure_contestant

Telling = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Bench:
    """What a comparison found. The first row is the loop, to which all others are compared."""

    work: Work
    machine: dict[str, Any]
    rows: tuple[Row, ...]

    @property
    def loop(self) -> Row:
        return self.rows[0]

    def lines(self) -> list[tuple[str, str, str, str, str]]:
        """The table's cells."""
        return [cells(row, self.loop) for row in self.rows]

    def notes(self) -> list[str]:
        """How to read the table."""
        remarks = [f"{row.program}: {row.remark}" for row in self.rows if row.rates and row.remark]
        busy = machine.busy(self.machine)
        return [
            f"{self.work.world}, K = {self.work.episodes:,}, learners in {self.work.precision}; "
            f"median of {self.work.repeats} measurements after compilation",
            "timed are the first episodes of a run, enough for a measurement, and with epochs the whole run",
            "the loop is one process on one core; it could be run once for each core",
            *remarks,
            *([busy] if busy else []),
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "work": dataclasses.asdict(self.work),
            "machine": self.machine,
            "rows": [row.to_dict(self.loop) for row in self.rows],
            "statistic": "median",
        }


def bench(
    work: Work,
    *,
    contestants: Sequence[Contestant] = CONTESTANTS,
    rlberry: str | None = None,
    told: Telling = lambda _: None,
) -> Bench:
    """Measure the loop, this library and its peers. ``rlberry`` is a Python interpreter that has rlberry-scool.

    ``told`` hears what is being measured.
    """
    facts = machine.describe()
    world = work.make()
    told("the NumPy loop")
    rows = [measure_loop(work, world)]
    for contestant in contestants:
        told(f"{contestant.spec}, {work.seeds if contestant.many else 1} learners")
        rows.append(measure_contestant(contestant, work, world))
    told("rlberry")
    rows += measure_peers(work, world, rlberry)
    return Bench(work, facts, tuple(rows))
