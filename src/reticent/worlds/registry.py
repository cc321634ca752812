"""The zoo by name: ``make_world_from("riverswim:states=4")``, and each world's registered defaults.

Adding a world is one file in :mod:`reticent.worlds.zoo` whose factory carries one line,
``@register_world("name", DEFAULTS)``, and the file's name in the zoo's ``__init__``.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from reticent.errors import MissingExtra
from reticent.naming import Entry, Registry, join, split
from reticent.runtime import double_precision
from reticent.worlds.world import World

WORLDS: Registry[World] = Registry("world")

DEFAULT_BONUS_SCALE = 0.1
"""Multiplier of an agent's exploration bonus where a world's defaults do not name the agent."""


@dataclasses.dataclass(frozen=True)
class Defaults:
    """What a run on a world uses unless told otherwise.

    Attributes:
      episodes: how many users a run meets.
      how: which bonus scales were chosen and how, in one sentence.
      bonus_scale: multiplier of the exploration bonus by agent name; see :meth:`bonus_scale_of`.
      epsilon, delta, trust: the privacy under which ``episodes`` and the private scales were chosen, and what private
        agents keep here unless told otherwise.
      replan: how often learners that may plan after every user do so: large worlds say ``epoch``, because one plan of
        theirs costs as much as thousands of users.
    """

    episodes: int
    how: str
    bonus_scale: Mapping[str, float] = dataclasses.field(default_factory=dict)
    epsilon: float = 1.0
    delta: float = 1e-5
    trust: str = "joint"
    replan: str = "episode"

    def bonus_scale_of(self, agent: str) -> float:
        """The agent's scale here, or :data:`DEFAULT_BONUS_SCALE` (the linear agents' own) where it is not named."""
        return self.bonus_scale.get(agent, DEFAULT_BONUS_SCALE)

    def options_of(self, agent: str) -> dict[str, Any]:
        """This world's values of the options that it has a say in; an agent takes those that it knows."""
        promise = {"epsilon": self.epsilon, "delta": self.delta, "trust": self.trust}
        # An agent that this world does not name keeps its own scale: papers count their bonuses in different units.
        named = {"bonus_scale": self.bonus_scale[agent]} if agent in self.bonus_scale else {}
        return {**named, "replan": self.replan, **promise}


_DEFAULTS: dict[str, list[tuple[dict[str, Any], Defaults]]] = {}


def register_world(
    name: str, defaults: Defaults, variants: Mapping[str, Defaults] | None = None
) -> Callable[[Callable[..., World]], Callable[..., World]]:
    """Decorator: register a world's factory together with its defaults.

    ``variants`` gives other defaults for some options, such as ``{"features=blend": Defaults(...)}``; the last one
    whose options all hold is used.
    """

    def add(factory: Callable[..., World]) -> Callable[..., World]:
        WORLDS.register(name)(factory)
        read = Entry(name, factory).read  # not looked up: that would load plugins while the zoo is being read
        _DEFAULTS[name] = [({}, defaults)]
        _DEFAULTS[name] += [(read(split(f"{name}:{key}")[1]), value) for key, value in (variants or {}).items()]
        return factory

    return add


def load_zoo() -> None:
    """Import the zoo, so that its worlds are registered. (Here and not at the top: the zoo imports this module.)"""
    import reticent.worlds.people.worlds
    import reticent.worlds.zoo  # noqa: F401


@double_precision
def make_world_from(spec: str, **overrides: Any) -> World:
    """The world named by ``name`` or ``name:key=value,...``; its ``name`` is that spec.

    ``overrides`` fill options that the spec leaves open (None means not given).

    Raises:
      UnknownName: no such world or option; the message lists those there are.
      InvalidInput: an option's value is outside its domain.
      MissingExtra: the world's data are in an optional package that is not installed.

    >>> make_world_from("riverswim:states=4").model.horizon
    16
    """
    load_zoo()
    world = WORLDS.make(spec, **overrides)
    name, raw = split(spec)
    given = {key: value for key, value in overrides.items() if value is not None}
    return dataclasses.replace(world, name=join(name, {**given, **raw}))


def defaults_of(spec: str) -> Defaults:
    """The registered defaults of the world that ``spec`` names, variants included."""
    load_zoo()
    name, raw = split(spec)
    entry = WORLDS.find(name)
    options = {key: parameter.default for key, parameter in entry.options.items()} | entry.read(raw)
    matching = [value for wanted, value in _DEFAULTS[name] if wanted.items() <= options.items()]
    return matching[-1]


def world_rows() -> list[dict[str, Any]]:
    """One row per registered world, at its default options: what a listing or a page of documentation shows."""
    load_zoo()
    rows: list[dict[str, Any]] = []
    for entry in WORLDS.entries():
        defaults = defaults_of(entry.name)
        rows.append(
            {
                "name": entry.name,
                "summary": entry.summary,
                "options": {key: _describe(parameter) for key, parameter in entry.options.items()},
                **world_numbers(entry.name),
                "default_episodes": defaults.episodes,
                "bonus_scale": dict(defaults.bonus_scale),
                "epsilon": defaults.epsilon,
                "delta": defaults.delta,
                "trust": defaults.trust,
                "replan": defaults.replan,
                "how": defaults.how,
            }
        )
    return rows


@double_precision
def world_numbers(name: str) -> dict[str, Any]:
    """Sizes and values of a world; None for all, and ``needs`` says what to do, where an optional package is missing."""
    try:
        world = make_world_from(name)
    except MissingExtra as missing:
        sizes = ("states", "actions", "horizon", "d1", "d2", "optimal_value", "uniform_value")
        return {**dict.fromkeys(sizes), "needs": missing.remedy}
    return {
        "states": world.model.states,
        "actions": world.model.actions,
        "horizon": world.model.horizon,
        "d1": world.model.d1,
        "d2": world.model.d2,
        "optimal_value": world.optimal_value,
        "uniform_value": world.uniform_value,
        "needs": None,
    }


def _describe(parameter: inspect.Parameter) -> str:
    """An option as ``default (type)`` or ``default (choice | choice)``."""
    annotation = parameter.annotation
    if typing.get_origin(annotation) is typing.Literal:
        kind = " | ".join(str(choice) for choice in typing.get_args(annotation))
    else:
        kind = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return f"{parameter.default} ({kind})"
