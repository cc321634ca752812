# SPDX-License-Identifier: Apache-2.0
"""How time grows: seconds of one learner-episode against S, A, d, H, K and the number of learners.

One size changes at a time, the others are those of the comparison. A *slope* is the exponent of a power law through the
measured points: 1 means that twice the size takes twice as long, 0 that it costs nothing. For the number of learners the
time of *one* learner-episode is drawn as well, so a slope of 0 or below says that n learners take at most n times as long
as one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from measuring import machine
from measuring.memory import Peak, measure_peaks
from measuring.work import EPOCHS, TREE, time_agent
from reticent import naming
from reticent.agents import make_agent
from reticent.worlds import make_world

AGENTS = {"tree, replanning every episode": TREE, "epochs": EPOCHS}
BASE = {"S": 20, "A": 4, "d": 4, "H": 5, "K": 20_000, "learners": 16}
SIZES: Mapping[str, tuple[int, ...]] = {
    "S": (10, 20, 40, 80, 160),
    "A": (2, 4, 8, 16, 32),
    "d": (2, 4, 8, 16),
    "H": (2, 5, 10, 20),
    "K": (1_000, 10_000, 100_000, 1_000_000),
    "learners": (1, 2, 4, 8, 16, 32, 64, 128, 256),
}
QUICK = {"S": (10, 20), "A": (2, 4), "d": (2, 4), "H": (2, 5), "K": (1_000, 4_000), "learners": (1, 2, 4)}
WORDS = {
    "S": "states S", "A": "actions A", "d": "candidate models d", "H": "horizon H", "K": "users K",
    "learners": "learners side by side",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Line:
    """One agent's times along one size: ``seconds`` of one learner-episode, the least of some measurements.

    The least, because only the growth is asked for and whatever else the machine does can only add to a time.
    """

    agent: str
    size: str
    values: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def slope(self) -> float:
        """The exponent of the power law that fits best."""
        return float(np.polyfit(np.log(self.values), np.log(self.seconds), 1)[0])

    @property
    def worst_doubling(self) -> float:
        """Most by which doubling the size multiplies the time of one learner-episode, between neighbouring points."""
        steps = zip(self.values, self.values[1:], self.seconds, self.seconds[1:], strict=False)
        factors = [(later / before) ** (1 / math.log2(larger / size)) for size, larger, before, later in steps]
        return float(max(factors))


@dataclasses.dataclass(frozen=True)
class Scaling:
    """All lines, peak memory, and the machine."""

    lines: tuple[Line, ...]
    peaks: tuple[Peak, ...]
    machine: dict[str, Any]

    def of(self, size: str) -> list[Line]:
        return [line for line in self.lines if line.size == size]

    @property
    def worst_seed_doubling(self) -> float:
        """Most by which twice the learners multiply the time of a whole run; at most 2 if nothing grows faster."""
        return 2 * max(line.worst_doubling for line in self.of("learners"))

    def table(self) -> list[tuple[str, ...]]:
        """Cells of one row per line."""
        return [
            (
                f"{WORDS[line.size]}: {line.agent}",
                " ".join(f"{value:,}" for value in line.values),
                " ".join(f"{1e6 * seconds:.3g}" for seconds in line.seconds),
                f"{line.slope:.2f}",
            )
            for line in self.lines
        ]

    def peak_table(self) -> list[tuple[str, ...]]:
        """Cells of one row per peak."""
        return [
            (
                peak.agent,
                f"{peak.episodes:,}",
                f"{peak.learners:,}",
                f"{peak.peak_bytes / 2**30:.2f}",
                f"{peak.seconds:.1f}",
            )
            for peak in self.peaks
        ]

    def notes(self) -> list[str]:
        """How to read the tables."""
        base = ", ".join(f"{name} = {value:,}" for name, value in BASE.items())
        busy = machine.busy(self.machine)
        return [
            f"sizes that do not vary: {base}; least of the measurements; slope: exponent of the power law",
            f"doubling the learners multiplies the time of a run by at most {self.worst_seed_doubling:.2f}",
            "peak memory is the whole process's: interpreter, JAX, compilation, run and curve",
            *([busy] if busy else []),
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "base": BASE,
            "machine": self.machine,
            "lines": [
                {**dataclasses.asdict(line), "slope": line.slope, "worst_doubling": line.worst_doubling}
                for line in self.lines
            ],
            "worst_doubling_of_learners": self.worst_seed_doubling,
            "peaks": [dataclasses.asdict(peak) for peak in self.peaks],
        }


TABLE_HEAD = ("size", "values", "µs of one learner-episode", "slope")
PEAK_HEAD = ("agent", "K", "learners", "peak GiB", "run s")


def measure_scaling(
    sizes: Mapping[str, Sequence[int]] = SIZES,
    *,
    repeats: int = 3,
    seconds: float = 0.5,
    peaks: Sequence[tuple[str, int, int]] | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> Scaling:
    """Measure every line and every peak. ``peaks`` are (agent, K, learners), by default those of ``memory.PEAKS``."""
    facts = machine.describe()
    lines = []
    for size, values in sizes.items():
        for label, spec in AGENTS.items():
            told(f"{WORDS[size]} {', '.join(map(str, values))}: {label}")
            times = tuple(seconds_per_episode(spec, {**BASE, size: value}, repeats, seconds) for value in values)
            lines.append(Line(label, size, tuple(values), times))
    return Scaling(tuple(lines), tuple(measure_peaks(peaks, told)), facts)


def seconds_per_episode(spec: str, sizes: Mapping[str, int], repeats: int, seconds: float) -> float:
    """The least time of one learner-episode at these sizes, of ``repeats`` measurements."""
    options = {"states": sizes["S"], "actions": sizes["A"], "d": sizes["d"], "horizon": sizes["H"]}
    world = make_world(naming.join("random-blend", {key: str(value) for key, value in options.items()}))
    agent = make_agent(spec, world.model, sizes["K"])
    timing = time_agent(agent, world, sizes["learners"], repeats, seconds)
    return min(timing.seconds) / (timing.episodes * sizes["learners"])
