"""The zoo by name: ``make_world_from("riverswim:states=4")``.

Adding a world is one file in :mod:`reticent.worlds.zoo` whose factory carries one line,
``@register_world("name")``, and the file's name in the zoo's ``__init__``.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable
from typing import Any

from reticent.errors import MissingExtra
from reticent.extras import missing_extra
from reticent.naming import Registry, join, split
from reticent.runtime import double_precision
from reticent.worlds.world import World

WORLDS: Registry[World] = Registry("world")

_EPISODES: dict[str, int] = {}


def register_world(name: str, *, episodes: int = 20_000) -> Callable[[Callable[..., World]], Callable[..., World]]:
    """Decorator: register a world's factory; ``episodes`` is how many users a run meets unless it says so."""

    def add(factory: Callable[..., World]) -> Callable[..., World]:
        WORLDS.register(name)(factory)
        _EPISODES[name] = episodes
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
    name, raw = split(spec)
    try:
        world = WORLDS.make(spec, **overrides)
    except ModuleNotFoundError as missing:
        raise missing_extra(missing, f"the world {name}") or missing from None
    given = {key: value for key, value in overrides.items() if value is not None}
    return dataclasses.replace(world, name=join(name, {**given, **raw}))


def default_episodes(spec: str) -> int:
    """How many users a run meets in the world that ``spec`` names, unless it says so."""
    load_zoo()
    return _EPISODES[WORLDS.find(split(spec)[0]).name]


def world_rows() -> list[dict[str, Any]]:
    """One row per registered world, at its default options: what a listing or a page of documentation shows."""
    load_zoo()
    rows: list[dict[str, Any]] = []
    for entry in WORLDS.entries():
        rows.append(
            {
                "name": entry.name,
                "summary": entry.summary,
                "options": {key: _describe(parameter) for key, parameter in entry.options.items()},
                **world_numbers(entry.name),
                "default_episodes": default_episodes(entry.name),
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
