# SPDX-License-Identifier: Apache-2.0
"""The comparison: every program in turn, on one machine, in one run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from measuring import machine
from measuring.rows import Row, cells
from measuring.work import CONTESTANTS, Contestant, Work, measure_contestant

Telling = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Bench:
    """What was measured. All rows are compared to the first."""

    work: Work
    machine: dict[str, Any]
    rows: tuple[Row, ...]

    @property
    def base(self) -> Row:
        return self.rows[0]

    def lines(self) -> list[tuple[str, str, str, str, str]]:
        """The table's cells."""
        return [cells(row, self.base) for row in self.rows]

    def notes(self) -> list[str]:
        """How to read the table."""
        remarks = [f"{row.program}: {row.remark}" for row in self.rows if row.rates and row.remark]
        busy = machine.busy(self.machine)
        return [
            f"{self.work.world}, K = {self.work.episodes:,}, learners in {self.work.precision}; "
            f"median of {self.work.repeats} measurements after compilation",
            "timed are the first episodes of a run, enough for a measurement, and with epochs the whole run",
            *remarks,
            *([busy] if busy else []),
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "work": dataclasses.asdict(self.work),
            "machine": self.machine,
            "rows": [row.to_dict(self.base) for row in self.rows],
            "statistic": "median",
        }


def bench(
    work: Work,
    *,
    contestants: Sequence[Contestant] = CONTESTANTS,
    before: Sequence[Row] = (),
    after: Sequence[Row] = (),
    tell: Telling = lambda _: None,
) -> Bench:
    """Measure this library; ``before`` and ``after`` are rows of others that were measured in the same run.

    ``tell`` hears what is being measured.
    """
    facts = machine.describe()
    world = work.make()
    rows = list(before)
    for contestant in contestants:
        tell(f"{contestant.spec}, {work.seeds if contestant.many else 1} learners")
        rows.append(measure_contestant(contestant, work, world))
    return Bench(work, facts, (*rows, *after))
