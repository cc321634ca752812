# SPDX-License-Identifier: Apache-2.0
"""A sweep's unit of work: one agent in one world for a chunk of seeds, which one compiled program runs side by side.

A cell is plain values with nothing left open, and its ``id`` is a hash of them. So the same work has the same name
by any worker, on whatever machine and in which sweep: that is what makes results storable once and only once.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import reticent
from reticent.agents import AGENTS, make_agent
from reticent.errors import InvalidInput
from reticent.experiments.config import NOT_PRIVATE, AgentConfig, resolve
from reticent.experiments.sweep.grid import NO_PRIVACY, Grid, at
from reticent.naming import join, split
from reticent.worlds import World, make_world
from reticent.worlds.registry import WORLDS, load_zoo

FORMAT = 1
"""Version of what a cell's file holds; part of every id."""

PROBE_EPISODES = 100
"""Users of the agents that are made to try a value of the grid out."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
      world: the world with every option.
      agent: the agent's registered name.
      options: every option of the agent.
      episodes: the number of users.
      seeds: run side by side.
    """

    world: str
    agent: str
    options: Mapping[str, Any]
    episodes: int
    seeds: tuple[int, ...]

    def config(self) -> dict[str, Any]:
        """As plain values: all that a worker needs, and all that the id depends on."""
        return {
            "world": self.world,
            "agent": self.agent,
            "options": dict(self.options),
            "episodes": self.episodes,
            "seeds": list(self.seeds),
        }

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Cell:
        """The inverse of :meth:`config`."""
        return cls(**{**config, "seeds": tuple(config["seeds"])})

    @functools.cached_property
    def id(self) -> str:
        """Eighty bits of SHA-256 over the configuration and the library's version, in hexadecimal."""
        content = {"format": FORMAT, "reticent": reticent.__version__, **self.config()}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()[:20]

    @property
    def agent_config(self) -> AgentConfig:
        return AgentConfig(self.agent, self.agent, self.options)

    @property
    def setting(self) -> tuple[str, str, int]:
        """What all cells have in common that differ in their seeds only: world, agent with options, episodes."""
        return self.world, self.agent_config.spec, self.episodes

    @property
    def learner_episodes(self) -> int:
        return self.episodes * len(self.seeds)


def cells_of(grid: Grid) -> list[Cell]:
    """Every cell of a grid once, in the order of the file.

    Options apply to those agents that have them and do not name them in their own spec. As in a run, a private agent
    brings its non-private learner along unless the grid has one.

    Raises:
      ReticentError: a value that no cell can have; the message says where in the file it is.
    """
    found: dict[str, Cell] = {}
    for number, world in enumerate(grid.worlds):
        with at("worlds" if len(grid.worlds) == 1 else f"worlds[{number}]"):
            built = make_world(world)
        _check_numbers(grid, built)
        full = full_world(world)
        for episodes in grid.episodes:
            config, _ = resolve(world, agent_specs(grid), episodes, grid.seeds)
            for agent in config.agents:
                options = dict(agent.options)
                if options.get("trust") in ("local", "shuffle") and "counter" in options:
                    options["counter"] = None  # these models have one way to add up: all counters are one setting
                for seeds in chunks(config.seeds, grid.seeds_per_cell):
                    cell = Cell(full, agent.name, options, config.episodes, seeds)
                    found.setdefault(cell.id, cell)
    return list(found.values())


def agent_specs(grid: Grid) -> list[str]:
    """Every agent of the grid with every combination of the options that it has and does not name itself."""
    specs: dict[str, None] = {}
    for values in itertools.product(*(axis.values for axis in grid.axes)):
        point = {axis.option: value for axis, value in zip(grid.axes, values, strict=True)}
        for spec in grid.agents:
            name, raw = split(spec)
            fair: dict[str, str] = {}
            if point.get("trust") == NO_PRIVACY and "trust" not in raw and name in NOT_PRIVATE:
                name, fair = split(NOT_PRIVATE[name])
            known = AGENTS.find(name).options
            # Options in the private agent's spec mean nothing to the learner that takes its place.
            own = {key: value for key, value in raw.items() if key in known}
            specs[join(name, fair | {key: value for key, value in point.items() if key in known} | own)] = None
    return list(specs)


def chunks(seeds: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """Consecutive groups of ``size`` seeds; the last may be smaller. More seeds leave the full groups as they are.

    >>> list(chunks(range(5), 2))
    [(0, 1), (2, 3), (4,)]
    """
    for first in range(0, len(seeds), size):
        yield tuple(seeds[first : first + size])


def full_world(spec: str) -> str:
    """A world's name with every option, so that one world has one name however it was written."""
    name, options, defaults = _world_options(spec)
    return join(name, defaults | options)


def short_world(spec: str) -> str:
    """A world's name with the options that are not at their default.

    >>> short_world(full_world("riverswim:states=4"))
    'riverswim:states=4'
    """
    name, options, defaults = _world_options(spec)
    return join(name, {key: value for key, value in options.items() if value != defaults[key]})


def _world_options(spec: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A world's name, the options that the spec gives, and the defaults of all."""
    load_zoo()
    name, raw = split(spec)
    entry = WORLDS.find(name)
    return name, entry.read(raw), {key: parameter.default for key, parameter in entry.options.items()}


def _check_numbers(grid: Grid, world: World) -> None:
    """Refuse a number that no agent can have, such as a negative ε, where the file says it.

    One agent with that option and all others at their defaults is made for a few users. What depends on other options,
    on K or on the world is the cell's own matter.
    """
    for axis in grid.axes:
        for number, text in enumerate(axis.values):
            if not _is_number(text):
                continue
            for spec in grid.agents:
                name, raw = split(spec)
                if axis.option not in AGENTS.find(name).options or axis.option in raw:
                    continue
                try:
                    make_agent(join(name, {axis.option: text}), world.model, PROBE_EPISODES)
                except InvalidInput as problem:
                    if problem.field.rpartition(": ")[2] == axis.option:
                        with at(axis.place if len(axis.values) == 1 else f"{axis.place}[{number}]"):
                            raise
                break


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
