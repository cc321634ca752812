# SPDX-License-Identifier: Apache-2.0
"""One command's worth of work: some agents in one world, many seeds, with files if asked for."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from reticent.errors import UnknownName
from reticent.experiments import checkpoint, metadata, storage
from reticent.experiments.config import DEFAULT_SEEDS, DEFAULT_WORLD, PRECISIONS, Agent, resolve
from reticent.experiments.result import AgentRun, RunResult
from reticent.learning.learner import AnyLearner
from reticent.reports.progress import Progress, Silence
from reticent.simulation import engine
from reticent.worlds import World
from reticent.worlds.models.model import cast


def run(
    world: str | World = DEFAULT_WORLD,
    agents: Sequence[Agent] | None = None,
    episodes: int | None = None,
    seeds: int | Sequence[int] = DEFAULT_SEEDS,
    *,
    out: str | Path | None = None,
    trust: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    counter: str | None = None,
    calibration: str | None = None,
    theory: bool = False,
    companions: bool | None = None,
    precision: str = "float64",
    progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
    checkpoint_seconds: float = checkpoint.EVERY,
    parts: int = 40,
) -> RunResult:
    """Run agents in a world and measure their regret.

    Agents that differ in numbers only (ε, bonus scale, learning rate…) are simulated side by side, in one program. With
    ``out``, a run that takes longer leaves checkpoints there, and the same call goes on from them; they are removed when
    it is complete.

    Args:
      world: a name such as ``"riverswim:states=4"``, or a :class:`~reticent.worlds.World`.
      agents: each a name such as ``"ucrl-vtr:bonus_scale=0.3"``, typed options such as
        :class:`reticent.agents.PrivateScoreVI`, an agent made for ``world.model``, or a function ``(model, episodes)``
        that makes one. Runs with agents that have no name leave no checkpoints.
      episodes: the number of users, by default as many as an agent was made for, else the world's.
      seeds: how many independent repetitions (0, 1, …), or which.
      out: a directory for configuration, results, metadata, picture and report; None writes nothing.
      trust, epsilon, delta, counter, calibration: options for those agents that have them and do not name them.
      companions: also run the non-private learner of every private agent; by default only if no agent is named.
      theory: draw the theorems' bounds too, and say in the report what they are worth.
      precision: ``float32`` simulates in single precision, which an accelerator does twice as fast; what is promised
        and calibrated stays in double precision.
      progress: is told how far the run is.
      should_stop: asked now and then; on True the run ends and keeps what is finished.
      checkpoint_seconds: how often a checkpoint is written: what a killed run loses at most.
      parts: into how many parts each agent's run is cut, between which it can be stopped.

    Raises:
      ReticentError: a name or a number is wrong; nothing has been computed or written then.

    >>> result = run("riverswim:states=3", ["ucrl-vtr"], episodes=20, seeds=2)
    >>> [row["agent"] for row in result.summary()]
    ['ucrl-vtr']

    Objects are taken as well as names:

    >>> import reticent
    >>> world = reticent.make_world("riverswim:states=3")
    >>> agent = reticent.make_agent("ucbvi", world.model, episodes=20)
    >>> run(world, [agent, reticent.agents.ScoreVI(bonus=0.5)], seeds=2).config.agents[1].label
    'score-vi:bonus=0.5'
    """
    started = time.perf_counter()
    flags = {"trust": trust, "epsilon": epsilon, "delta": delta, "counter": counter, "calibration": calibration}
    config, built = resolve(
        world, agents, episodes, seeds, flags, companions=agents is None if companions is None else companions
    )
    if precision not in PRECISIONS:
        raise UnknownName("precision", precision, list(PRECISIONS))
    config = dataclasses.replace(config, theory=theory, precision=precision)
    # All agents are made before the first is run: a wrong option of the last one should not cost the first one's time.
    made = [agent.make(built.model, config.episodes) for agent in config.agents]
    directory = None if out is None else storage.prepare(Path(out), config)
    progress = progress or Silence()
    circumstances, yardsticks = metadata.describe(), (built.optimal_value, built.uniform_value)

    stopped = False

    def stop() -> bool:
        nonlocal stopped
        stopped = stopped or (should_stop is not None and should_stop())
        return stopped

    def result(runs: list[AgentRun]) -> RunResult:
        facts = {**circumstances, "seconds": time.perf_counter() - started}
        return RunResult(config, built, tuple(runs), stopped, facts, *yardsticks, out=directory)

    done: dict[int, AgentRun] = {}

    def in_order() -> list[AgentRun]:
        return [done[number] for number in sorted(done)]

    place = cast(built, precision)
    nameless = any(agent.given is not None for agent in config.agents)  # a checkpoint could be another agent's
    kept = checkpoint.Checkpoints(
        None if nameless else directory, checkpoint.fingerprint([storage.config_text(config)])
    )
    try:
        for numbers in _side_by_side(made):
            if stop():
                break
            progress.start(
                ", ".join(config.agents[number].label for number in numbers),
                config.episodes,
                len(numbers) * len(config.seeds),
            )
            curves = checkpoint.simulate_kept(
                kept,
                [f"{number}" for number in numbers],
                [cast(made[number], precision) for number in numbers],
                place,
                config.seeds,
                every=checkpoint_seconds,
                parts=parts,
                clock=time.monotonic,
                progress=progress.advance,
                stop=stop,
            )
            progress.finish()
            for number, curve in zip(numbers, curves, strict=True):
                done[number] = AgentRun(config.agents[number], made[number], curve)
            if directory is not None:
                storage.write_results(result(in_order()), directory)
    finally:
        progress.close()
    finished = result(in_order())
    if directory is not None and done:
        storage.write_run(finished, directory)
    if not stopped:
        kept.clear()
    return finished


def _side_by_side(agents: Sequence[AnyLearner]) -> list[list[int]]:
    """The agents' numbers, grouped by program, in the order of each group's first."""
    groups: dict[object, list[int]] = {}
    for number, agent in enumerate(agents):
        groups.setdefault(engine.program_of(agent), []).append(number)
    return list(groups.values())
