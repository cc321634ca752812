# SPDX-License-Identifier: Apache-2.0
"""Which agents are fast enough: speed is measured on the first users, before any agent runs to the end.

A comparison that is to end within a time takes contestants in the order of :data:`FIRST`, compiles each and plays a few of
the first of :data:`PARTS` parts of its run. All parts of a run cost the same (they are cut by blocks of users, not by
users), so that tells what the whole will take. Who would not fit into what is left of the time is left out and says so.
What is measured is the machine, not the users: nothing here looks at regret.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from reticent.experiments.compare.field import Absent, Contestant
from reticent.experiments.config import resolve_agent
from reticent.reports.progress import duration
from reticent.simulation import engine
from reticent.simulation.simulate import simulate_settings
from reticent.worlds import World

PARTS = 400
"""Parts that a run is cut into, of which the first few are a trial."""

TRIAL = 0.3
"""Seconds of playing after which a trial has seen enough."""

FIRST = ("private-score-vi", "score-vi", "private-linopt-vi", "ucrl-vtr", "private-ucb-vi", "ucbvi")
"""Who is tried first: the default agents of this library with what they are measured against, then the others."""

ALWAYS = (("private-score-vi", "joint"), ("score-vi", "none"))
"""Who is run in any case: a comparison without them would not say what privacy costs."""

Told = Callable[[str], None]


class Pace(NamedTuple):
    """What a trial measured: seconds of compilation and trial together, and seconds of the whole run."""

    trial: float
    whole: float


def in_order(contestants: Sequence[Contestant]) -> list[Contestant]:
    """The order in which contestants are tried; those of one rank stay as they are."""
    rank = {name: place for place, name in enumerate(FIRST)}
    return sorted(contestants, key=lambda one: (not _always(one), rank.get(one.name, len(FIRST))))


def _always(one: Contestant) -> bool:
    return (one.name, one.trust) in ALWAYS


def pace_of(one: Contestant, world: World, episodes: int, seeds: int) -> Pace:
    """Compile a contestant's programs and play the first parts of each."""
    made = [resolve_agent(spec, {}).make(world.model, episodes) for spec in one.specs.values()]
    programs: dict[object, list[int]] = {}
    for number, agent in enumerate(made):
        programs.setdefault(engine.program_of(agent), []).append(number)
    trial = whole = 0.0
    for numbers in programs.values():
        ends: list[float] = []
        played = simulate_settings(
            [made[number] for number in numbers],
            world,
            range(seeds),
            segments=PARTS,
            progress=lambda _, ends=ends: ends.append(time.perf_counter()),  # type: ignore[misc]
            should_stop=lambda ends=ends: len(ends) > 1 and ends[-1] - ends[0] > TRIAL,  # type: ignore[misc]
        )[0]
        trial += played.compile_seconds + played.seconds
        # The first part wakes up what all others use. A short run may be over with its trial.
        each = (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else played.seconds
        whole += each * min(PARTS, len(engine.blocks(made[numbers[0]], 256).users))
    return Pace(trial, whole)


def who_fits(
    contestants: Sequence[Contestant],
    measure: Callable[[Contestant], Pace],
    seconds: float,
    clock: Callable[[], float],
    tell: Told,
) -> tuple[list[Contestant], list[Absent]]:
    """Who can be run to the end within ``seconds`` from now, and who is left out with the reason.

    A further contestant is tried only while as much time is left as the longest trial so far took: there is no telling
    beforehand how long a program compiles.
    """
    deadline = clock() + seconds
    chosen: list[Contestant] = []
    left_out: list[Absent] = []
    promised = longest = 0.0
    for one in in_order(contestants):
        label = f"{one.label} ({one.trust})"
        spare = deadline - clock() - promised
        if spare <= longest and not _always(one):
            left_out.append(Absent(label, "not tried, as the time was used up; --all runs it"))
            continue
        pace = measure(one)
        longest = max(longest, pace.trial)
        if pace.whole > deadline - clock() - promised and not _always(one):
            tell(f"{label}: would take about {duration(pace.whole)}, and is left out")
            left_out.append(Absent(label, f"would take about {duration(pace.whole)} here; --all runs it"))
            continue
        tell(f"{label}: will take about {duration(pace.whole)}")
        promised += pace.whole
        chosen.append(one)
    return chosen, left_out
