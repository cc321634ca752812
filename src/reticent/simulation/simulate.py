# SPDX-License-Identifier: Apache-2.0
"""Run agents in one world: many seeds and settings at once, any number of episodes, in bounded memory.

The compiled program (:mod:`reticent.simulation.engine`) is run in *segments* of many blocks. Between segments the host
thins the curve, reports progress, and may stop; the carry after a segment is all that is needed to go on. So memory does
not grow with the number of episodes, but for the thinned curve.

Randomness is keyed by (seed, episode) and (seed, round), so results do not depend on how a run is cut into blocks or
segments, and ``run(a)`` followed by ``run(b)`` is ``run(a + b)``. Between blocks this holds bit for bit
(``resume``, ``from_episode``, ``until_episode``), because every part of a run uses the same compiled program. Another
number of seeds or settings is another program, whose results may differ in rounding.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.errors import InvalidInput
from reticent.learning.learner import AnyLearner
from reticent.runtime import double_precision, on_device
from reticent.short_repr import ShortRepr
from reticent.simulation import engine
from reticent.simulation.engine import Block, Carry
from reticent.simulation.seed_batches import SeedBatches
from reticent.simulation.world_batch import AnyPlace, check_world_batch

CURVE_BYTES = 2**27
"""Most memory that one segment's curve may take on the device before it is thinned."""


@dataclasses.dataclass(frozen=True)
class Curves(ShortRepr):
    """What a simulation measured, for every seed. Simulation only: it uses the hidden truth.

    Attributes:
      seeds: the seeds, ``(n,)``.
      episodes: points of the thinned grid, ``(p,)``: the curve is given after this many episodes.
      regret: cumulative regret ``(n, p)``.
      value: value of the policy in force at that point, ``(n, p)``.
      tail_regret: regret of the last 5 % of the episodes, per episode, ``(n,)``: the final gap.
      seconds: wall-clock time after compilation, and ``compile_seconds`` before it.
      finished: False if the run was stopped early; the curve then ends where it stopped.
      carry: all that is needed to go on, and ``position``, the number of episodes behind it.
    """

    seeds: np.ndarray
    episodes: np.ndarray
    regret: np.ndarray
    value: np.ndarray
    tail_regret: np.ndarray
    seconds: float
    compile_seconds: float
    finished: bool
    carry: Carry
    position: int

    def __repr__(self) -> str:
        regret = f"{self.regret[:, -1].mean():,.1f}" if self.regret.size else "none"
        return f"Curves({len(self.seeds)} seeds, {self.position:,} episodes, mean regret {regret})"

    def then(self, later: Curves) -> Curves:
        """The curves of this part and of the part that was resumed from it, as one run would have measured them."""
        points = np.concatenate([self.episodes, later.episodes])
        regret = np.concatenate([self.regret, later.regret], axis=1)
        return dataclasses.replace(
            later,
            episodes=points,
            regret=regret,
            value=np.concatenate([self.value, later.value], axis=1),
            tail_regret=_tail_regret(points, regret),
            seconds=self.seconds + later.seconds,
            compile_seconds=self.compile_seconds + later.compile_seconds,
        )


def grid_points(episodes: int, points: int = 400) -> np.ndarray:
    """Episode counts at which curves are stored: a linear and a logarithmic grid together, 1 and K included."""
    linear = np.linspace(1, episodes, points)
    logarithmic = np.geomspace(1, episodes, points)
    return np.unique(
        np.round(np.concatenate([linear, logarithmic, [0.5 * episodes, 0.95 * episodes]])).astype(np.int64).clip(1)
    )


@double_precision
def simulate(
    agent: AnyLearner,
    world: AnyPlace,
    seeds: Sequence[int],
    *,
    progress: Callable[[int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    width: int = 256,
    segments: int = 40,
    resume: Carry | None = None,
    from_episode: int = 0,
    until_episode: int | None = None,
) -> Curves:
    """Run ``agent`` for its schedule's episodes in ``world``, all ``seeds`` side by side.

    ``world`` may be :class:`~reticent.simulation.world_batch.WorldBatch`, one for each seed.

    ``progress`` is called with the number of episodes finished after each segment; ``should_stop`` is asked there.

    A part of the run: ``resume`` and ``from_episode`` are the ``carry`` and ``position`` of an earlier part with the
    same seeds and ``width``, and ``until_episode`` ends this one at the first end of a block that is not before it.

    Raises:
      InvalidInput: the episodes do not name a part that there is.
    """
    return simulate_settings(
        [agent], world, seeds, progress=progress, should_stop=should_stop, width=width, segments=segments,
        resume=None if resume is None else [resume], from_episode=from_episode, until_episode=until_episode,
    )[0]  # fmt: skip


@double_precision
def simulate_settings(
    agents: Sequence[AnyLearner],
    world: AnyPlace,
    seeds: Sequence[int],
    *,
    progress: Callable[[int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    width: int = 256,
    segments: int = 40,
    resume: Sequence[Carry] | None = None,
    from_episode: int = 0,
    until_episode: int | None = None,
) -> list[Curves]:
    """:func:`simulate` for agents that differ in numbers only (ε, bonus scale, …): one program, one result for each.

    ``resume`` has one carry for each agent. ``seconds`` of every result are those of the whole program.

    Raises:
      InvalidInput: the agents differ in more than numbers, or the episodes do not name a part that there is.
    """
    check_world_batch(world, len(seeds))
    together = engine.stack_settings(agents)
    schedule = together.schedule
    single = schedule.sizes is None
    width = 1 if single else min(width, max(schedule.sizes or (1,)))
    table = engine.blocks(together, width)
    done_users = np.cumsum(table.users)
    begin, count = _part(done_users, resume, from_episode, until_episode)
    batch = len(agents) * len(seeds)
    length = -(-len(done_users) // min(segments, len(done_users)))
    length = max(1, min(length, CURVE_BYTES // (16 * batch)))
    # Padding keeps one compiled program for all segments of all parts; it is not run.
    padded = Block(*(np.concatenate([column[:count], np.zeros(length, column.dtype)]) for column in table))

    started = time.perf_counter()
    given = None if resume is None else jax.tree.map(lambda *leaves: jnp.stack(leaves), *resume)
    shape = engine.Shape(width, always_closes=single)
    all_seeds = SeedBatches(together, world, seeds, shape, given)
    # Where every user is a round, a last round that is never released is played but not learned from: nothing of it is
    # simulated but its regret, and the program need not ask at every user whether the round ends.
    learned = count - int(single and count == len(done_users) and not schedule.final_release)
    first = Block(*(on_device(column[begin : begin + length]) for column in padded))
    all_seeds.compile(first)
    compiled = time.perf_counter()

    grid = grid_points(schedule.episodes)
    kept_episodes: list[np.ndarray] = []
    kept_regret: list[np.ndarray] = []
    kept_value: list[np.ndarray] = []
    previous_end, previous_regret = from_episode, np.asarray(all_seeds.carry.regret)
    finished = count == len(done_users)
    for start in range(begin, count, length):
        segment = Block(*(jnp.asarray(column[start : start + length]) for column in padded))
        stop = min(start + length, count)
        regret, value = (curve[: stop - start] for curve in all_seeds.advance(segment, min(stop, learned) - start))
        if stop > learned:
            value[-1] = np.asarray(all_seeds.carry.value)
            all_seeds.play_unlearned()
            regret[-1] = np.asarray(all_seeds.carry.regret)
        ends = np.concatenate([[previous_end], done_users[start:stop]])
        curve = np.concatenate([previous_regret[None], regret])
        inside = grid[(grid > ends[0]) & (grid <= ends[-1])]
        # Inside a block the policy does not change, so cumulative regret is linear there and interpolation is exact.
        upper = np.searchsorted(ends, inside, side="left")
        share = (inside - ends[upper - 1]) / (ends[upper] - ends[upper - 1])
        kept_episodes.append(inside)
        kept_regret.append(curve[upper - 1] + share[:, None, None] * (curve[upper] - curve[upper - 1]))
        kept_value.append(value[upper - 1])
        previous_end, previous_regret = int(ends[-1]), curve[-1]
        if progress is not None:
            progress(previous_end)
        if should_stop is not None and stop < count and should_stop():
            finished = False
            break
    ended = time.perf_counter()
    carry = all_seeds.carry

    points = np.concatenate(kept_episodes)
    regrets, values = (np.moveaxis(np.concatenate(kept), 0, -1) for kept in (kept_regret, kept_value))
    return [
        Curves(
            seeds=np.asarray(seeds),
            episodes=points,
            regret=regrets[setting],
            value=values[setting],
            tail_regret=_tail_regret(points, regrets[setting]),
            seconds=ended - compiled,
            compile_seconds=compiled - started,
            finished=finished,
            carry=_of_setting(carry, setting),
            position=previous_end,
        )
        for setting in range(len(agents))
    ]


def _of_setting(carry: Carry, setting: int) -> Carry:
    """One setting's carry, every leaf with a leading seed axis."""
    part: Carry = jax.tree.map(lambda leaf: leaf[setting], carry)
    return part


def _part(ends: np.ndarray, resume: Any | None, from_episode: int, until_episode: int | None) -> tuple[int, int]:
    """The blocks of the part from ``from_episode`` to ``until_episode``: the first one, and the one after the last."""
    episodes = int(ends[-1])
    if (resume is None) != (from_episode == 0):
        given = "given" if resume is not None else "missing"
        raise InvalidInput(
            "resume", given, "given exactly if from_episode is above 0", "pass the earlier part's carry and position"
        )
    begin = int(np.searchsorted(ends, from_episode)) + 1 if from_episode else 0
    if from_episode and (not 0 < from_episode < episodes or ends[begin - 1] != from_episode):
        raise InvalidInput(
            "from_episode", from_episode, f"the end of a block before episode {episodes}", "use the part's position"
        )
    until = episodes if until_episode is None else until_episode
    if not from_episode < until <= episodes:
        raise InvalidInput(
            "until_episode", until, f"above {from_episode} and at most {episodes}", "end the part within the schedule"
        )
    return begin, int(np.searchsorted(ends, until)) + 1


def _tail_regret(points: np.ndarray, regret: np.ndarray) -> np.ndarray:
    """Regret per episode over the last 5 % of the episodes, from curves ``(n, p)`` at ``points``; NaN without any."""
    if not len(points):
        return np.full(len(regret), np.nan)
    last = np.searchsorted(points, round(0.95 * points[-1]), side="right") - 1
    cut = int(points[max(0, last)]) if len(points) > 1 else 0
    at_cut = regret[:, np.searchsorted(points, cut)] if cut else np.zeros(len(regret))
    return np.asarray((regret[:, -1] - at_cut) / max(points[-1] - cut, 1))
