# SPDX-License-Identifier: Apache-2.0
"""Worlds and agents are named the same way everywhere: ``name`` or ``name:key=value,key=value``.

A registry maps a name to a *factory*, a function whose keyword-only parameters are the keys. Their annotations say how a
value is read, their defaults what is used without one; so the function's signature is the only list of options there is.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from reticent.errors import InvalidInput, UnknownName

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, eq=False)
class OneOf:
    """In the annotation of an option, ``Annotated[str, OneOf(names)]``: its value is one of these, read when asked."""

    names: Iterable[str]


def split(spec: object) -> tuple[str, dict[str, str]]:
    """Split ``name:key=value,...``, or an object whose string is of that form, into the name and its raw options.

    >>> split("random-blend:states=20,seed=0")
    ('random-blend', {'states': '20', 'seed': '0'})
    """
    name, _, rest = str(spec).strip().partition(":")
    options: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in rest.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise InvalidInput(f"option of {name!r}", part, "of the form key=value", "write it as key=value")
        options[key.strip().replace("-", "_")] = value.strip()
    return name, options


def join(name: str, options: Mapping[str, object]) -> str:
    """The inverse of :func:`split`."""
    return name + (":" + ",".join(f"{key}={value}" for key, value in options.items()) if options else "")


@dataclasses.dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered name: its factory and its one-line summary (the first line of the factory's docstring)."""

    name: str
    factory: Callable[..., T]

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.factory) or "").partition("\n")[0]

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The keyword-only parameters of the factory, by key."""
        parameters = inspect.signature(self.factory, eval_str=True).parameters
        return {key: p for key, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}

    def offers(self, key: str, value: object) -> bool:
        """Whether the option ``key`` may be ``value``, as far as its type lists choices."""
        choices = choices_of(self.options[key].annotation)
        return choices is None or value in choices

    def read(self, raw: Mapping[str, str]) -> dict[str, Any]:
        """Turn raw option strings into typed keyword arguments.

        Raises:
          UnknownName: a key that the factory does not have.
          InvalidInput: a value that cannot be read as the key's type.
        """
        known = self.options
        for key in raw:
            if key not in known:
                raise UnknownName(f"option of {self.name!r}", key, sorted(known))
        return {key: _convert(f"{self.name}: {key}", value, known[key].annotation) for key, value in raw.items()}


class Registry(Generic[T]):
    """Names and what they make; ``kind`` ("world", "agent") is used in messages.

    Other packages add to it by an entry point of the group ``reticent.<kind>s``, whose module registers when it is loaded;
    that happens when a registry is first looked into. Iterating gives the names.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[T]] = {}
        self._plugins_loaded = False

    def __iter__(self) -> Iterator[str]:
        self._load_plugins()
        return iter(self._entries)

    def __contains__(self, name: object) -> bool:
        self._load_plugins()
        return name in self._entries

    def _load_plugins(self) -> None:
        if not self._plugins_loaded:
            self._plugins_loaded = True  # before loading: a plugin may look into the registry itself
            for point in importlib.metadata.entry_points(group=f"reticent.{self.kind}s"):
                point.load()

    def register(self, name: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Decorator: the one line that adds a world or an agent."""

        def add(factory: Callable[..., T]) -> Callable[..., T]:
            if name in self._entries:
                raise InvalidInput(f"{self.kind} name", name, "new", "choose a name that is not registered yet")
            self._entries[name] = Entry(name, factory)
            return factory

        return add

    def entries(self) -> list[Entry[T]]:
        self._load_plugins()
        return list(self._entries.values())

    def find(self, name: str) -> Entry[T]:
        if name not in self:
            raise UnknownName(self.kind, name, sorted(self._entries))
        return self._entries[name]

    def make(self, spec: object, *positional: Any, **overrides: Any) -> T:
        """Build from ``name:key=value``; ``overrides`` fill options the spec leaves open (None means not given)."""
        name, raw = split(spec)
        entry = self.find(name)
        given = {key: value for key, value in overrides.items() if value is not None}
        for key in given:
            if key not in entry.options:
                raise UnknownName(f"option of {name!r}", key, sorted(entry.options))
        return entry.factory(*positional, **{**given, **entry.read(raw)})


def choices_of(annotation: Any) -> list[str] | None:
    """What an option of this annotation may be, where that is a list: ``Literal[...]`` or ``Annotated[str,
    OneOf(...)]``."""
    if typing.get_origin(annotation) is typing.Literal:
        return [str(choice) for choice in typing.get_args(annotation)]
    for extra in getattr(annotation, "__metadata__", ()):
        if isinstance(extra, OneOf):
            return list(extra.names)
    return None


def _convert(field: str, text: str, annotation: Any) -> Any:
    origin = typing.get_origin(annotation)
    choices = choices_of(annotation)
    if choices is not None:
        if text not in choices:
            raise UnknownName(f"value of {field}", text, choices)
        return text
    if origin in (types.UnionType, typing.Union):
        inner = [part for part in typing.get_args(annotation) if part is not type(None)]
        if text.lower() in ("none", "default"):
            return None
        for part in inner[:-1]:
            try:
                return _convert(field, text, part)
            except (InvalidInput, UnknownName):
                continue
        return _convert(field, text, inner[-1])
    try:
        if annotation is bool:
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[text.lower()]
        if annotation is int:
            return int(float(text)) if "e" in text.lower() and float(text).is_integer() else int(text)
        if annotation is float:
            return float(text)
    except (ValueError, KeyError, OverflowError):
        raise InvalidInput(field, text, f"of type {annotation.__name__}", "correct the value") from None
    return text
