# SPDX-License-Identifier: Apache-2.0
"""What a run found, as numbers, tables and files. Simulation only: regret is measured against the hidden truth."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.experiments.config import AgentConfig, RunConfig
from reticent.experiments.reach import median_users_until
from reticent.extras import require
from reticent.learning.learner import AnyLearner
from reticent.short_repr import ShortRepr
from reticent.simulation.simulate import Curves
from reticent.worlds import World

if TYPE_CHECKING:
    import polars

    from reticent.reports.plots import Reference


@dataclasses.dataclass(frozen=True)
class AgentRun(ShortRepr):
    """One agent of a run: how it was configured, the agent itself, and what it did."""

    config: AgentConfig
    agent: AnyLearner
    curves: Curves

    def __repr__(self) -> str:
        return f"AgentRun({self.config.label!r}, {self.curves!r})"


@dataclasses.dataclass(frozen=True)
class RunResult(ShortRepr):
    """What :func:`reticent.run` returns.

    Attributes:
      config: every choice of the run.
      world: where it was made; ``optimal_value`` and ``uniform_value`` are its two yardsticks.
      runs: one per agent that was started, in the order of the configuration.
      interrupted: True if the run was stopped; what was finished by then is here.
      metadata: versions, device, date; see :mod:`reticent.experiments.metadata`.
      out: the directory that was written, if any.
    """

    config: RunConfig
    world: World
    runs: tuple[AgentRun, ...]
    interrupted: bool
    metadata: dict[str, Any]
    optimal_value: float
    uniform_value: float
    out: Path | None = None

    def __repr__(self) -> str:
        head = (
            f"RunResult: {self.config.world}, {self.config.episodes:,} users, {len(self.config.seeds)} seeds"
            f"{', interrupted' * self.interrupted}"
        )
        rows = (
            f"  {row['agent']}: regret {row['regret_mean']:,.1f}"
            + ("" if row["regret_stderr"] is None else f" ± {row['regret_stderr']:,.1f}")
            for row in self.summary()
        )
        return "\n".join([head, *rows])

    @property
    def curves(self) -> dict[str, Curves]:
        """The curves by agent, as the user named it."""
        return {run.config.label: run.curves for run in self.runs}

    @property
    def agents(self) -> dict[str, AnyLearner]:
        """The agents by name, as the user named them; a private one knows its guarantee."""
        return {run.config.label: run.agent for run in self.runs}

    @property
    def scale(self) -> float:
        """Optimal minus uniform value: what there is to learn, per episode."""
        return self.optimal_value - self.uniform_value

    def summary(self) -> list[dict[str, Any]]:
        """One row per agent.

        ``regret_mean`` and ``regret_stderr`` (None for a single seed) are of the cumulative regret at the end,
        ``final_gap`` is the mean gap to the optimal value over the last 5% of the episodes and ``final_gap_share`` the
        same as a share of :attr:`scale`; ``users_until_5_percent`` is the median number of users until that share stays
        below 5 % (None: in half of the seeds it never does); ``episodes_per_second`` counts the episodes of all seeds.
        """
        return [self._row(run) for run in self.runs]

    def _row(self, run: AgentRun) -> dict[str, Any]:
        from reticent.reports.run_page import promise

        curves = run.curves
        regret, count = curves.regret[:, -1], len(curves.seeds)
        gap = float(curves.tail_regret.mean())
        return {
            "agent": run.config.label,
            "regret_mean": float(regret.mean()),
            "regret_stderr": float(regret.std(ddof=1) / math.sqrt(count)) if count > 1 else None,
            "final_gap": gap,
            "final_gap_share": gap / self.scale if self.scale > 0 else None,
            "users_until_5_percent": median_users_until(curves.episodes, curves.value, self.optimal_value, self.scale),
            "episodes_per_second": curves.position * count / max(curves.seconds, 1e-9),
            "seconds": curves.seconds,
            "compile_seconds": curves.compile_seconds,
            "episodes": curves.position,
            "finished": curves.finished,
            "privacy": promise(run),
        }

    def to_dict(self) -> dict[str, Any]:
        """The run as one JSON object: what ``reticent run --json`` prints. A number that is not finite is null."""
        return {
            "world": self.config.world,
            "optimal_value": self.optimal_value,
            "uniform_value": self.uniform_value,
            "episodes": self.config.episodes,
            "seeds": len(self.config.seeds),
            "interrupted": self.interrupted,
            "results": [{key: _finite(value) for key, value in row.items()} for row in self.summary()],
        }

    def to_frame(self) -> polars.DataFrame:
        """All curves in long form: agent, seed, episode, value, regret."""
        require("polars", "a table of the curves")
        import polars

        parts = [
            polars.DataFrame(
                {
                    "agent": polars.Series([run.config.label], dtype=polars.String).new_from_index(
                        0, curves.regret.size
                    ),
                    "seed": np.repeat(curves.seeds.astype(np.int64), len(curves.episodes)),
                    "episode": np.tile(curves.episodes, len(curves.seeds)),
                    "value": curves.value.ravel(),
                    "regret": curves.regret.ravel(),
                }
            )
            for run in self.runs
            for curves in [run.curves]
        ]
        return polars.concat(parts) if parts else polars.DataFrame(schema=FRAME_SCHEMA)

    def plot(self, path: str | Path, references: Sequence[Reference] = ()) -> Path:
        """Draw the curves as a picture; the format follows the file's ending. ``references`` adds lines, as bounds."""
        require("matplotlib", "the picture of a run")
        from reticent.reports.plots.run import draw_run

        return draw_run(self, Path(path), references)

    def write(self, directory: str | Path) -> Path:
        """Write configuration, results, metadata, picture and report to ``directory``."""
        from reticent.experiments.storage import write_run

        return write_run(self, Path(directory))


FRAME_SCHEMA = {"agent": str, "seed": int, "episode": int, "value": float, "regret": float}


def _finite(value: Any) -> Any:
    """The value, or None in the place of a number that JSON has no word for."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
