"""One command's worth of work: some agents in one world, many seeds, with files if asked for."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from reticent.experiments import metadata, storage
from reticent.experiments.config import DEFAULT_SEEDS, DEFAULT_WORLD, resolve
from reticent.experiments.progress import Progress, Silence
from reticent.experiments.result import AgentRun, RunResult
from reticent.experiments.simulate import simulate
from reticent.worlds import World


def run(
    world: str | World = DEFAULT_WORLD,
    agents: Sequence[str] | None = None,
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
    progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> RunResult:
    """Run agents in a world and measure their regret.

    Args:
      world: a name such as ``"riverswim:states=4"``, or a :class:`~reticent.worlds.World`.
      agents: names such as ``"ucrl-vtr:bonus_scale=0.3"``. A private agent brings its non-private learner along.
      episodes: the number of users, by default the world's.
      seeds: how many independent repetitions (0, 1, …), or which.
      out: a directory for configuration, results, metadata, picture and report; None writes nothing.
      trust, epsilon, delta, counter, calibration: options for those agents that have them and do not name them.
      theory: draw the theorems' bounds too, and say in the report what they are worth.
      progress: is told how far the run is.
      should_stop: asked now and then; on True the run ends and keeps what is finished.

    Raises:
      ReticentError: a name or a number is wrong; nothing has been computed or written then.

    >>> result = run("riverswim:states=3", ["ucrl-vtr"], episodes=20, seeds=2)
    >>> [row["agent"] for row in result.summary()]
    ['ucrl-vtr']
    """
    started = time.perf_counter()
    flags = {
        "trust": trust, "epsilon": epsilon, "delta": delta, "counter": counter, "calibration": calibration,
    }  # fmt: skip
    config, built = resolve(world, agents, episodes, seeds, flags)
    config = dataclasses.replace(config, theory=theory)
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

    runs: list[AgentRun] = []
    try:
        for agent_config, agent in zip(config.agents, made, strict=True):
            if stop():
                break
            progress.start(agent_config.label, config.episodes, len(config.seeds))
            curves = simulate(agent, built, config.seeds, progress=progress.advance, should_stop=stop)
            progress.finish()
            runs.append(AgentRun(agent_config, agent, curves))
            if directory is not None:
                storage.write_results(result(runs), directory)
    finally:
        progress.close()
    finished = result(runs)
    if directory is not None and runs:
        storage.write_run(finished, directory)
    return finished
