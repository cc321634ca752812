# SPDX-License-Identifier: Apache-2.0
"""What a sweep found, per setting: all seeds of one agent with its options in one world.

Rows come from the files of the sweep's own cells and from nothing else, so a directory may hold other sweeps' cells too.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.errors import ReticentError
from reticent.experiments.sweep import storage
from reticent.experiments.sweep.cells import Cell, short_world
from reticent.naming import join
from reticent.reports.numbers import option_in_words

if TYPE_CHECKING:
    import polars


class CountedTwice(ReticentError):
    """A seed of a setting is in more than one file. It cannot be by construction; it is checked all the same."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """One agent in one world, and how its finished seeds ended.

    Attributes:
      world: with the options that are not at their default.
      agent, options: as registered, and every option.
      varied: those options that the sweep varies for this agent.
      episodes: the number of users.
      wanted: how many seeds the sweep has; fewer are here if some failed or are missing.
      seeds: the finished seeds, and for each the cumulative ``regret`` and the ``final_gap`` (mean gap over the last
        5% of the users).
      optimal_value, uniform_value: the world's two yardsticks.
      epsilon_spent: what the agent's releases really spend at its δ; None without a promise.
    """

    world: str
    agent: str
    options: Mapping[str, Any]
    varied: tuple[str, ...]
    episodes: int
    wanted: int
    seeds: np.ndarray
    regret: np.ndarray
    final_gap: np.ndarray
    optimal_value: float
    uniform_value: float
    epsilon_spent: float | None

    @property
    def label(self) -> str:
        """The agent with what distinguishes it from others of this sweep."""
        return join(self.agent, {key: option_in_words(self.options[key]) for key in self.varied})

    @property
    def scale(self) -> float:
        """Optimal minus uniform value: what there is to learn, per user."""
        return self.optimal_value - self.uniform_value

    def row(self) -> dict[str, Any]:
        """As plain values; shares are of what acting at random loses, and standard errors are over the seeds."""
        promised = self.epsilon_spent is not None
        scale = self.scale if self.scale > 0 else math.nan
        return {
            "world": self.world,
            "agent": self.label,
            "episodes": self.episodes,
            "seeds": len(self.seeds),
            "seeds_missing": self.wanted - len(self.seeds),
            "regret_mean": float(self.regret.mean()),
            "regret_stderr": _stderr(self.regret),
            "regret_share": _number(float(self.regret.mean()) / (scale * self.episodes)),
            "final_gap": float(self.final_gap.mean()),
            "final_gap_stderr": _stderr(self.final_gap),
            "final_gap_share": _number(float(self.final_gap.mean()) / scale),
            "trust": self.options.get("trust") if promised else None,
            "epsilon": self.options.get("epsilon") if promised else None,
            "delta": self.options.get("delta") if promised else None,
            "epsilon_spent": self.epsilon_spent,
            "spec": join(self.agent, self.options),
        }


def settings_of(directory: Path, cells: Sequence[Cell], finished: Sequence[Cell]) -> list[Setting]:
    """The settings of ``cells`` of which any seed is finished, in the order of the cells.

    Raises:
      CountedTwice: a seed of a setting is there more than once.
    """
    import polars

    if not finished:
        return []
    ends = (
        storage.scan(directory, finished)
        .filter(polars.col("episode") == polars.col("episodes"))
        .select("cell", "seed", "regret", "final_gap", "optimal_value", "uniform_value", "epsilon_spent")
        .collect()
    )
    by_cell = {str(key[0]): part for key, part in ends.partition_by("cell", as_dict=True).items()}
    groups: dict[tuple[str, str, int], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.setting, []).append(cell)
    varied = varied_options(cells)
    settings = []
    for group in groups.values():
        first, parts = group[0], [by_cell[cell.id] for cell in group if cell.id in by_cell]
        if not parts:
            continue
        rows = polars.concat(parts).sort("seed")
        if rows["seed"].n_unique() < rows.height:
            raise CountedTwice(f"a seed of {first.agent_config.spec} in {first.world} is in more than one cell")
        world = rows.row(0, named=True)
        settings.append(
            Setting(
                world=short_world(first.world),
                agent=first.agent,
                options=first.options,
                varied=varied[first.agent],
                episodes=first.episodes,
                wanted=sum(len(cell.seeds) for cell in group),
                seeds=rows["seed"].to_numpy(),
                regret=rows["regret"].to_numpy(),
                final_gap=rows["final_gap"].to_numpy(),
                optimal_value=world["optimal_value"],
                uniform_value=world["uniform_value"],
                epsilon_spent=world["epsilon_spent"],
            )
        )
    return settings


def varied_options(cells: Sequence[Cell]) -> dict[str, tuple[str, ...]]:
    """By agent, the options that do not have the same value in all of its cells of one world.

    Options that a world chooses by itself differ between worlds without being varied.
    """
    values: dict[str, dict[tuple[str, str], set[str]]] = {}
    for cell in cells:
        for key, value in cell.options.items():
            values.setdefault(cell.agent, {}).setdefault((key, cell.world), set()).add(repr(value))
    return {
        agent: tuple(dict.fromkeys(key for (key, _), different in options.items() if len(different) > 1))
        for agent, options in values.items()
    }


def summary_frame(settings: Sequence[Setting]) -> polars.DataFrame:
    """One row per setting, with every varied option as a column of text besides."""
    import polars

    keys = dict.fromkeys(key for setting in settings for key in setting.varied)
    rows = [
        {**setting.row(), **{f"option_{key}": _text(setting.options.get(key)) for key in keys}} for setting in settings
    ]
    return polars.DataFrame(rows, infer_schema_length=None)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _stderr(values: np.ndarray) -> float | None:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None


def _number(value: float) -> float | None:
    """None for what is not a number: JSON has no other word for it."""
    return value if math.isfinite(value) else None
