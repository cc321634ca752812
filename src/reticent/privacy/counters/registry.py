# SPDX-License-Identifier: Apache-2.0
"""Counters by name. Adding one is a file whose factory carries ``@register_counter("name")``, and its import in the
package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeAlias

from reticent.naming import OneOf, Registry
from reticent.privacy.counters.counter import Counter

COUNTERS: Registry[Counter] = Registry("counter")

CounterName: TypeAlias = Annotated[str, OneOf(COUNTERS)]
"""As the annotation of an option: the name of a counter."""

_GROUPED: set[str] = set()

Factory: TypeAlias = Callable[[tuple[int, ...]], Counter]
"""Makes a counter from the numbers of users of the rounds that are released."""


def register_counter(name: str, *, grouped: bool = False) -> Callable[[Factory], Factory]:
    """Decorator: the one line that adds a counter; ``grouped`` ones have rounds of many users."""

    def add(factory: Factory) -> Factory:
        COUNTERS.register(name)(factory)
        if grouped:
            _GROUPED.add(name)
        return factory

    return add


def make_counter(name: str, sizes: tuple[int, ...]) -> Counter:
    """The counter of this name over released rounds of these sizes."""
    return COUNTERS.find(name).factory(sizes)


def groups_users(name: str) -> bool:
    """Whether rounds of this counter are groups of users."""
    return COUNTERS.find(name).name in _GROUPED
