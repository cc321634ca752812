# SPDX-License-Identifier: Apache-2.0
"""One line of the comparison, and the table that lines make."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

HEAD = ("program", "learners", "learner-episodes/s", "× the first row", "compile s")


@dataclasses.dataclass(frozen=True)
class Row:
    """What was measured of one program.

    Attributes:
      program: what ran.
      spec: the agent's name with its options; empty for what is not of this library.
      learners: how many learners ran side by side.
      episodes: how many episodes of each were timed.
      rates: learner-episodes per second of every repetition; empty if the program could not run.
      compile_seconds: what came before the first episode; None where nothing is compiled.
      remark: why there is no rate, or how this row differs from the others.
    """

    program: str
    spec: str = ""
    learners: int = 1
    episodes: int = 0
    rates: tuple[float, ...] = ()
    compile_seconds: float | None = None
    remark: str = ""

    @property
    def rate(self) -> float | None:
        """The median of the repetitions."""
        return statistics.median(self.rates) if self.rates else None

    def ratio(self, base: Row) -> float | None:
        """How many times as many learner-episodes per second as the first row."""
        return None if self.rate is None or base.rate is None else self.rate / base.rate

    def to_dict(self, base: Row) -> dict[str, Any]:
        return {
            **dataclasses.asdict(self),
            "rates": list(self.rates),
            "learner_episodes_per_second": self.rate,
            "ratio_to_first_row": self.ratio(base),
        }


def cells(row: Row, base: Row) -> tuple[str, str, str, str, str]:
    """The row in words, one for each column of :data:`HEAD`."""
    name = f"{row.program} ({row.spec})" if row.spec else row.program
    if row.rate is None:
        return f"{name}: {row.remark}", "–", "–", "–", "–"
    ratio = row.ratio(base)
    return (
        name,
        f"{row.learners:,}",
        f"{row.rate:,.0f}",
        "–" if ratio is None else f"{ratio:,.3g}" if ratio < 100 else f"{ratio:,.0f}",
        "–" if row.compile_seconds is None else f"{row.compile_seconds:.1f}",
    )


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]], left: int = 1) -> str:
    """A Markdown table; the first ``left`` columns hold words, the others numbers.

    >>> print(markdown(("program", "rate"), [("loop", "3")]))
    | program | rate |
    |---|--:|
    | loop | 3 |
    """
    rule = ["---" if column < left else "--:" for column in range(len(head))]
    return "\n".join([f"| {' | '.join(head)} |", f"|{'|'.join(rule)}|", *(f"| {' | '.join(line)} |" for line in lines)])
