# SPDX-License-Identifier: Apache-2.0
"""The zoo by name: ``make_world("riverswim:states=4")``.

Adding a world is one file in :mod:`reticent.worlds.zoo` whose factory carries one line,
``@register_world("name")``, and the file's name in the zoo's ``__init__``.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from reticent.errors import InvalidInput, MissingExtra
from reticent.extras import missing_extra
from reticent.naming import Registry, join, split
from reticent.runtime import double_precision
from reticent.worlds.world import World

WORLDS: Registry[World] = Registry("world")


class Sizes(NamedTuple):
    """How large a world is."""

    states: int
    actions: int
    horizon: int
    d1: int
    d2: int


class Listed(NamedTuple):
    """What is said of a world where it is registered; see :func:`register_world`."""

    episodes: int
    sizes: Sizes | None
    requires: Callable[[], object] | None


_LISTED: dict[str, Listed] = {}


def register_world(
    name: str,
    *,
    episodes: int = 20_000,
    sizes: tuple[int, int, int, int, int] | None = None,
    requires: Callable[[], object] | None = None,
) -> Callable[[Callable[..., World]], Callable[..., World]]:
    """Decorator: register a world's factory.

    Args:
      name: of the world.
      episodes: how many users a run meets unless it says so.
      sizes: S, A, H, d1 and d2 at the default options, for a list; without them the world is made to be listed.
      requires: raises MissingExtra where data or a package are missing, without loading them.
    """

    def add(factory: Callable[..., World]) -> Callable[..., World]:
        WORLDS.register(name)(factory)
        _LISTED[name] = Listed(episodes, None if sizes is None else Sizes(*sizes), requires)
        return factory

    return add


def load_zoo() -> None:
    """Import the zoo, so that its worlds are registered. (Here and not at the top: the zoo imports this module.)"""
    import reticent.worlds.people.worlds
    import reticent.worlds.zoo  # noqa: F401


@double_precision
def make_world(spec: str, **overrides: Any) -> World:
    """The world named by ``name`` or ``name:key=value,...``; its ``name`` is that spec.

    ``overrides`` fill options that the spec leaves open (None means not given).

    Raises:
      UnknownName: no such world or option; the message lists those there are.
      InvalidInput: an option's value is outside its domain.
      MissingExtra: the world's data are in an optional package that is not installed.

    >>> make_world("riverswim:states=4").model.horizon
    16
    """
    load_zoo()
    name, raw = split(spec)
    _no_environment(name)
    try:
        world = WORLDS.make(spec, **overrides)
    except ModuleNotFoundError as missing:
        raise missing_extra(missing, f"the world {name}") or missing from None
    given = {key: value for key, value in overrides.items() if value is not None}
    return dataclasses.replace(world, name=join(name, {**given, **raw}))


def default_episodes(spec: str) -> int:
    """How many users a run meets in the world that ``spec`` names, unless it says so."""
    load_zoo()
    _no_environment(split(spec)[0])
    return _LISTED[WORLDS.find(split(spec)[0]).name].episodes


def _no_environment(name: str) -> None:
    """Say where a Gymnasium environment goes in, if that is what was named."""
    if name not in WORLDS and re.search(r"-v\d+$", name):
        raise InvalidInput(
            "world", name, "a registered world (reticent worlds lists them)",
            f"a table of Gymnasium becomes one in Python: reticent.from_gymnasium({name!r}, horizon=20); docs/gymnasium.md",
        )  # fmt: skip


def world_rows(*, values: bool = True) -> list[dict[str, Any]]:
    """One row per registered world, at its default options: what a listing or a page of documentation shows.

    Without ``values`` a world that declares its sizes is not made, which takes no time; the rows then have no values.
    """
    load_zoo()
    return [
        {
            "name": entry.name,
            "summary": entry.summary,
            "options": options_of(entry.name),
            **(world_numbers(entry.name) if values else world_sizes(entry.name)),
            "default_episodes": default_episodes(entry.name),
        }
        for entry in WORLDS.entries()
    ]


def options_of(name: str) -> dict[str, str]:
    """A world's options, each as ``default (type)`` or ``default (choice | choice)``."""
    return {key: _describe(parameter) for key, parameter in WORLDS.find(name).options.items()}


def world_sizes(name: str) -> dict[str, Any]:
    """Sizes of a world at its default options, and what it ``needs`` here (None: nothing); made only if it must be."""
    listed = _LISTED[WORLDS.find(name).name]
    sizes, needs = listed.sizes, None
    try:
        if listed.requires is not None:
            listed.requires()
        sizes = sizes or sizes_of(make_world(name))
    except MissingExtra as missing:
        needs = missing.remedy
    return {**(dict.fromkeys(Sizes._fields) if sizes is None else sizes._asdict()), "needs": needs}


def sizes_of(world: World) -> Sizes:
    """How large a world is."""
    model = world.model
    return Sizes(model.states, model.actions, model.horizon, model.d1, model.d2)


@double_precision
def world_numbers(name: str) -> dict[str, Any]:
    """Sizes and values of a world; None for all, and ``needs`` says what to do, where an optional package is missing."""
    try:
        world = make_world(name)
    except MissingExtra as missing:
        return {**dict.fromkeys((*Sizes._fields, "optimal_value", "uniform_value")), "needs": missing.remedy}
    return {
        **sizes_of(world)._asdict(),
        "optimal_value": world.optimal_value,
        "uniform_value": world.uniform_value,
        "needs": None,
    }


@double_precision
def world_sheet(spec: str) -> dict[str, Any]:
    """All about the world that ``spec`` names: what it is, options, sizes, values, and what states and actions are called.

    ``names`` is None where the model has none.

    Raises:
      UnknownName, InvalidInput, MissingExtra: as :func:`make_world`.
    """
    world = make_world(spec)
    entry = WORLDS.find(split(spec)[0])
    about = world.model.about
    return {
        "name": world.name,
        "summary": entry.summary,
        "description": inspect.getdoc(entry.factory) or "",
        "options": options_of(entry.name),
        **sizes_of(world)._asdict(),
        "optimal_value": world.optimal_value,
        "uniform_value": world.uniform_value,
        "default_episodes": default_episodes(entry.name),
        **about.to_dict(),
    }


def _describe(parameter: inspect.Parameter) -> str:
    """An option in words."""
    annotation = parameter.annotation
    if typing.get_origin(annotation) is typing.Literal:
        kind = " | ".join(str(choice) for choice in typing.get_args(annotation))
    else:
        kind = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return f"{parameter.default} ({kind})"
