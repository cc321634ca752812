# SPDX-License-Identifier: Apache-2.0
"""What is compared: the same world and the same number of users for everyone, and how long one may take.

A measurement need not play all K users: the cost of an episode does not depend on its number where every episode is
planned for, so the *first* so many of K are timed, enough to fill a given time. Where plans are rare (epochs) the whole
run is timed, since its first epochs cost more than its last.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax

from measuring.rows import Row
from reticent.agents import make_agent
from reticent.errors import InvalidInput, UnknownName
from reticent.experiments.config import PRECISIONS
from reticent.learning.learner import AnyLearner
from reticent.simulation.simulate import Curves, simulate
from reticent.worlds import World, make_world
from reticent.worlds.models.model import cast

WORLD = "random-blend:states=20,actions=4,horizon=5,d=4"
CPU_SEEDS, GPU_SEEDS = 64, 8192
SEGMENT = 500
"""Episodes of one segment where every episode is planned for: the unit in which the timed part is measured out."""


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of one comparison.

    Attributes:
      world: the world's name.
      episodes: K, what learners are calibrated for.
      seeds: how many learners "many" are.
      repeats: measurements of each row, of which the median counts.
      seconds: about how long one measurement takes.
      precision: of this library's learners, ``float64`` or ``float32``; the loop is always in double precision.
    """

    world: str = WORLD
    episodes: int = 20_000
    seeds: int = CPU_SEEDS
    repeats: int = 3
    seconds: float = 2.0
    precision: str = "float64"

    def __post_init__(self) -> None:
        for field in ("seeds", "repeats"):
            if getattr(self, field) < 1:
                raise InvalidInput(field, getattr(self, field), "at least 1", "give a positive number")
        if self.precision not in PRECISIONS:
            raise UnknownName("precision", self.precision, list(PRECISIONS))
        if self.episodes < 2:
            raise InvalidInput("episodes", self.episodes, "at least 2", "the paper's tree has ⌈log2 K⌉ levels")

    def make(self) -> World:
        """The world.

        Raises:
          InvalidInput: its states are not a finite set, and the loop could not run in it.
        """
        world = make_world(self.world)
        if not isinstance(world, World):
            raise InvalidInput("world", self.world, "one with a finite set of states", "choose random-blend")
        return world


def default_work(quick: bool = False, **given: object) -> Work:
    """The work for the device at hand; ``given`` fields that are not None win."""
    seeds = CPU_SEEDS if jax.default_backend() == "cpu" else GPU_SEEDS
    work = Work(seeds=seeds, seconds=0.3) if quick else Work(seeds=seeds)
    chosen = {field: value for field, value in given.items() if value is not None}
    return dataclasses.replace(work, **chosen)  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
class Contestant:
    """An agent of this library, alone or as many."""

    program: str
    spec: str
    many: bool = False


PAPER = "private-linopt-vi:calibration=paper"
TREE = "private-linopt-vi:counter=tree"
EPOCHS = "private-linopt-vi:counter=epochs"
FLAGSHIP = "private-score-vi"
CONTESTANTS = (
    Contestant("reticent, the same learner as the loop", PAPER, many=True),
    Contestant("reticent, replanning every episode", TREE),
    Contestant("reticent, replanning every episode", TREE, many=True),
    Contestant("reticent, epochs", EPOCHS),
    Contestant("reticent, epochs", EPOCHS, many=True),
    Contestant("reticent, the flagship", FLAGSHIP),
    Contestant("reticent, the flagship", FLAGSHIP, many=True),
)


def with_agents(specs: Sequence[str]) -> tuple[Contestant, ...]:
    """The usual contestants, and further agents as many learners each."""
    return (*CONTESTANTS, *(Contestant("reticent", spec, many=True) for spec in specs))


@dataclasses.dataclass(frozen=True)
class Timing:
    """Repeated measurements of one program: seconds of each, and the episodes that each learner played in them."""

    episodes: int
    seconds: tuple[float, ...]
    compile_seconds: float


def measure_contestant(contestant: Contestant, work: Work, world: World) -> Row:
    """One row of this library."""
    learners = work.seeds if contestant.many else 1
    agent = cast(make_agent(contestant.spec, world.model, work.episodes), work.precision)
    timing = time_agent(agent, cast(world, work.precision), learners, work.repeats, work.seconds)
    return Row(
        contestant.program,
        contestant.spec,
        learners,
        timing.episodes,
        tuple(learners * timing.episodes / seconds for seconds in timing.seconds),
        timing.compile_seconds,
    )


def time_agent(agent: AnyLearner, world: World, learners: int, repeats: int, seconds: float) -> Timing:
    """Time ``learners`` copies of ``agent`` side by side, each measurement some ``seconds`` long if K allows.

    The first run, of one segment, warms up and says how much is to be measured; it does not count.
    """
    episodes = agent.schedule.episodes
    whole = agent.schedule.sizes is not None
    segments = 1 if whole else max(1, math.ceil(episodes / SEGMENT))

    def play(until: int) -> Curves:
        return simulate(agent, world, range(learners), segments=segments, until_episode=until)

    first = play(episodes if whole else min(SEGMENT, episodes))
    per_episode = first.seconds / first.position
    wanted = SEGMENT * max(1, math.ceil(seconds / per_episode / SEGMENT))
    until = episodes if whole else min(episodes, wanted)
    runs = [play(until) for _ in range(repeats)]
    return Timing(runs[0].position, tuple(run.seconds for run in runs), first.compile_seconds)
