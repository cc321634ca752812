# SPDX-License-Identifier: Apache-2.0
"""Registries: choices that are read when asked, and plugins that are loaded when a registry is first looked into."""

from __future__ import annotations

import importlib.metadata
from typing import Annotated, Literal

import pytest

from reticent.errors import InvalidInput, UnknownName
from reticent.naming import OneOf, Registry, choices_of


def test_choices_are_those_of_the_moment() -> None:
    names = {"first": 1}
    annotation = Annotated[str, OneOf(names)]
    assert choices_of(annotation) == ["first"]
    names["second"] = 2
    assert choices_of(annotation) == ["first", "second"]
    assert choices_of(Literal["a", "b"]) == ["a", "b"]
    assert choices_of(Literal["a", "b"] | None) == choices_of(float) == choices_of(Annotated[str, "a remark"]) is None


COLOURS = {"red", "blue"}


def toys() -> Registry[str]:
    registry: Registry[str] = Registry("toy")

    @registry.register("ball")
    def ball(size: int, *, colour: Annotated[str, OneOf(COLOURS)] | None = None, bounce: float = 0.5) -> str:
        """A ball of some size.

        It rolls.
        """
        return f"{colour} ball of {size}, {bounce}"

    return registry


def test_an_optional_choice_is_read_like_a_choice() -> None:
    assert toys().make("ball:colour=blue,bounce=2", 3) == "blue ball of 3, 2.0"
    assert toys().make("ball:colour=none", 3) == "None ball of 3, 0.5"
    with pytest.raises(UnknownName, match="green") as refused:
        toys().make("ball:colour=green", 3)
    assert set(refused.value.known) == COLOURS


def test_a_name_is_registered_once_and_summed_up_in_a_line() -> None:
    registry = toys()
    assert [entry.summary for entry in registry.entries()] == ["A ball of some size."]
    assert "ball" in registry
    assert list(registry) == ["ball"]
    with pytest.raises(InvalidInput, match="toy name is ball"):
        registry.register("ball")(lambda: "another")


def test_what_an_option_offers_is_known_without_trying() -> None:
    entry = toys().find("ball")
    assert entry.offers("bounce", 7.0)
    assert set(entry.options) == {"colour", "bounce"}


def test_plugins_are_loaded_at_the_first_look_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    registry, loaded = toys(), []

    class Point:
        def load(self) -> None:
            loaded.append(1)
            assert "ball" in registry  # a plugin may look itself
            registry.register("kite")(lambda: "kite")

    asked = []

    def entry_points(group: str) -> list[Point]:
        asked.append(group)
        return [Point()]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert not loaded
    assert list(registry) == ["ball", "kite"]
    assert registry.make("kite") == "kite"
    assert (loaded, asked) == ([1], ["reticent.toys"])
