# SPDX-License-Identifier: Apache-2.0
"""The grid of a sweep, read from YAML: which worlds, agents, options and seeds are to be combined.

Wherever a list is meant one value may stand alone. Everything that can be told to be wrong without computing is refused
here, with the place in the file: ``privacy.epsilon[2]`` is the third value of ``epsilon`` under ``privacy``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

from reticent.agents import AGENTS
from reticent.errors import InvalidInput, ReticentError, UnknownName, unreadable_yaml
from reticent.experiments.config import DEFAULT_SEEDS, NOT_PRIVATE, default_agents
from reticent.naming import split

KEYS = ("worlds", "agents", "episodes", "privacy", "bonus_scales", "options", "seeds", "seeds_per_cell", "ray")
DEFAULT_SEEDS_PER_CELL = 16
NO_PRIVACY = "none"
"""As a value of ``privacy.trust``: the non-private learner runs in a private agent's place."""


T = TypeVar("T")


class InvalidSweep(ReticentError):
    """What is wrong with a sweep's file, and where in it."""

    def __init__(self, place: str, problem: ReticentError) -> None:
        self.place, self.problem = place, problem
        super().__init__(f"{place}: {problem}")


@contextmanager
def at(place: str) -> Iterator[None]:
    """Within the block, an error says at which place of the file it was caused."""
    try:
        yield
    except ReticentError as problem:
        raise InvalidSweep(place, problem) from None


@dataclasses.dataclass(frozen=True)
class Axis:
    """One option and the values that it takes, as text; ``place`` is where the file says so."""

    place: str
    option: str
    values: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class RayOptions:
    """What a cell asks of a Ray cluster, and how often it is tried again if its worker or node dies."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    max_retries: int = 5


@dataclasses.dataclass(frozen=True)
class Grid:
    """A sweep's file, checked. An episode number of None is the world's own."""

    worlds: tuple[str, ...]
    agents: tuple[str, ...]
    episodes: tuple[int | None, ...]
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    seeds_per_cell: int = DEFAULT_SEEDS_PER_CELL
    ray: RayOptions = dataclasses.field(default_factory=RayOptions)

    def to_dict(self) -> dict[str, object]:
        """As plain values, for the copy that is kept beside the results; :func:`grid_of` reads it again."""
        axes: dict[str, dict[str, list[str]]] = {"privacy": {}, "options": {}}
        for axis in self.axes:
            section = axis.place.partition(".")[0]
            axes["privacy" if section == "privacy" else "options"][axis.option] = list(axis.values)
        return {
            "worlds": list(self.worlds),
            "agents": list(self.agents),
            "episodes": list(self.episodes),
            **axes,
            "seeds": list(self.seeds),
            "seeds_per_cell": self.seeds_per_cell,
            "ray": dataclasses.asdict(self.ray),
        }


def read_grid(path: Path) -> Grid:
    """Read and check a sweep's file.

    Raises:
      ReticentError: it cannot be read, or something in it is wrong; the message says where.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _NoRepeatedKeys)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise unreadable_yaml("CONFIG", path, problem) from None
    with at(path.name):
        return grid_of(content)


def grid_of(content: object) -> Grid:
    """Check the content of a sweep's file.

    Raises:
      ReticentError: names the place.

    >>> grid_of({"worlds": "riverswim", "agents": "oppo", "bonus_scales": [0.1, 1], "seeds": 4}).axes
    (Axis(place='bonus_scales', option='bonus_scale', values=('0.1', '1')),)
    """
    if not isinstance(content, Mapping):
        raise InvalidInput(
            "the file", type(content).__name__, f"a mapping with {', '.join(KEYS)}", "see docs/sweeps.md"
        )
    for key in content:
        if key not in KEYS:
            raise UnknownName("key", str(key), list(KEYS))
    if "worlds" not in content:
        raise InvalidInput("worlds", "missing", "the name of a world or a list of them", "see `reticent worlds`")
    agents = _names(content, "agents") if "agents" in content else tuple(default_agents())
    for place, spec in _places("agents", agents):
        with at(place):
            name, raw = split(spec)
            AGENTS.find(name).read(raw)
    return Grid(
        worlds=_names(content, "worlds"),
        agents=agents,
        episodes=_episodes(content.get("episodes")),
        axes=_axes(content, agents),
        seeds=_seeds(content.get("seeds", DEFAULT_SEEDS)),
        seeds_per_cell=_whole("seeds_per_cell", content.get("seeds_per_cell", DEFAULT_SEEDS_PER_CELL), 1),
        ray=_ray(content.get("ray")),
    )


def _axes(content: Mapping[str, object], agents: tuple[str, ...]) -> tuple[Axis, ...]:
    """Every option of the file's three sections, each a known option of some agent with values of its type."""
    sections = {section: _mapping(content, section) for section in ("privacy", "options")}
    given = [(f"{section}.{key}", str(key), value) for section, keys in sections.items() for key, value in keys.items()]
    if content.get("bonus_scales") is not None:
        given.append(("bonus_scales", "bonus_scale", content["bonus_scales"]))
    names = {split(spec)[0] for spec in agents}
    beside = {split(NOT_PRIVATE[name])[0] for name in names & NOT_PRIVATE.keys()}
    entries = [AGENTS.find(name) for name in sorted(names | beside)]
    known = sorted({key for entry in entries for key in entry.options})
    axes: list[Axis] = []
    for place, option, value in given:
        if option not in known:
            raise UnknownName(f"option of this sweep's agents, {place}:", option, known)
        if option in {axis.option for axis in axes}:
            raise InvalidInput(place, "given twice", "in one place only", f"remove one of the values of {option}")
        values = tuple(str(single) for single in _list(place, value))
        for where, text in _places(place, values):
            for entry in entries:
                if option in entry.options and (option, text) != ("trust", NO_PRIVACY):
                    with at(where):
                        entry.read({option: text})
        axes.append(Axis(place, option, values))
    return tuple(axes)


def _episodes(value: object) -> tuple[int | None, ...]:
    if value is None:
        return (None,)
    given = _list("episodes", value)
    return tuple(_whole(place, number, 1) for place, number in _places("episodes", tuple(given)))


def _seeds(value: object) -> tuple[int, ...]:
    if isinstance(value, Mapping):
        for key in value:
            if key not in ("first", "count"):
                raise UnknownName("key of seeds", str(key), ["first", "count"])
        first = _whole("seeds.first", value.get("first", 0), 0)
        return tuple(range(first, first + _whole("seeds.count", value.get("count", DEFAULT_SEEDS), 1)))
    if isinstance(value, list):
        return tuple(_whole(place, number, 0) for place, number in _places("seeds", tuple(_list("seeds", value))))
    return tuple(range(_whole("seeds", value, 1)))


def _ray(value: object) -> RayOptions:
    given = _mapping({"ray": value}, "ray")
    known = [field.name for field in dataclasses.fields(RayOptions)]
    for key in given:
        if key not in known:
            raise UnknownName("key of ray", str(key), known)
    checked = RayOptions(
        num_cpus=_number("ray.num_cpus", given.get("num_cpus", RayOptions.num_cpus)),
        num_gpus=_number("ray.num_gpus", given.get("num_gpus", RayOptions.num_gpus)),
        max_retries=_whole("ray.max_retries", given.get("max_retries", RayOptions.max_retries), 0),
    )
    if checked.num_cpus == checked.num_gpus == 0:
        raise InvalidInput("ray.num_cpus", 0, "above 0 where num_gpus is 0", "give a cell some of the cluster")
    return checked


def _names(content: Mapping[str, object], key: str) -> tuple[str, ...]:
    names: list[str] = []
    for place, name in _places(key, tuple(_list(key, content[key]))):
        if not isinstance(name, str):
            raise InvalidInput(place, name, "a name, such as 'riverswim:states=4'", "put it in quotes")
        names.append(name)
    return tuple(names)


def _list(place: str, value: object) -> list[object]:
    """A list as it is, anything else as a list of one."""
    values = value if isinstance(value, list) else [value]
    if not values:
        raise InvalidInput(place, "empty", "at least one value", "remove the key or give a value")
    for where, single in _places(place, tuple(values)):
        if isinstance(single, list | dict):
            raise InvalidInput(where, single, "a single value", "write the values as one flat list")
    return values


def _mapping(content: Mapping[str, object], section: str) -> Mapping[str, object]:
    value = content.get(section)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(section, value, "a mapping of options to values", f"indent them under '{section}:'")
    return value


def _places(place: str, values: tuple[T, ...]) -> list[tuple[str, T]]:
    return [(place, values[0])] if len(values) == 1 else [(f"{place}[{n}]", value) for n, value in enumerate(values)]


def _whole(place: str, value: object, least: int) -> int:
    number = _number(place, value, f"a whole number of at least {least}")
    if number < least or number != int(number):
        raise InvalidInput(place, value, f"a whole number of at least {least}", "correct the value")
    return int(number)


def _number(place: str, value: object, bound: str = "a finite number of at least 0") -> float:
    """A number; YAML reads ``1e4`` as text, so text that is one is taken too."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else float("nan")
    except ValueError:
        number = float("nan")
    if not 0 <= number < float("inf"):
        raise InvalidInput(place, value, bound, "correct the value")
    return number


class _NoRepeatedKeys(yaml.SafeLoader):
    """YAML in which a key that is there twice is an error: the first one's values would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[object] = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if name in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} is there twice", key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)
