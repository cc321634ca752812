# SPDX-License-Identifier: Apache-2.0
"""A plugin of mypy: a user's value (:mod:`reticent_wire.boundary`) is given to no function that takes anything.

Types alone refuse a branch on such a value and its use as a number. What they let pass is a function whose parameter is any
object: ``str``, ``print``, ``format`` (which an f-string is), loggers, exceptions, comparisons. This refuses those calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mypy.errorcodes import ErrorCode
from mypy.options import Options
from mypy.plugin import FunctionContext, MethodContext, Plugin
from mypy.plugins.default import DefaultPlugin
from mypy.types import Instance, TupleType, Type, UnionType, get_proper_type

HELD = ("reticent_wire.boundary.Raw", "reticent_wire.boundary.Clipped")
MAY_TAKE = ("builtins.list.append",)
TELLING = ("reticent_wire.errors.", "reticent.errors.", "reticent_client.problems.")
"""Modules of ours whose functions make a text of what they are given."""

DEPTH = 4
"""How deep in a type a value is looked for: types may contain themselves."""

ESCAPES = ErrorCode("user-value", "A value of a user is given to a function that takes anything", "Privacy")


def _held(given: Type | None, depth: int = DEPTH) -> str | None:
    """The name of a user's value in a type, such as a list of them; None if there is none."""
    if depth == 0:
        return None
    found = get_proper_type(given)
    if isinstance(found, Instance):
        if found.type.fullname in HELD:
            return found.type.name
        parts: Sequence[Type] = found.args
    elif isinstance(found, UnionType | TupleType):
        parts = found.items
    else:
        return None
    return next((name for part in parts if (name := _held(part, depth - 1)) is not None), None)


class UserValues(Plugin):
    """Refuses what the module docstring names. What mypy's own rules look at (``functools.partial`` …) is left to them."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._default = DefaultPlugin(options)

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """Of functions and constructors."""
        return None if self._default.get_function_hook(fullname) else _hook(fullname)

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        """Of methods, operators among them."""
        return None if self._default.get_method_hook(fullname) else _hook(fullname)


def _hook(fullname: str) -> Callable[[FunctionContext | MethodContext], Type] | None:
    own = fullname.startswith(("reticent_client.", "reticent_wire.", "reticent."))
    operator = fullname.endswith("__")
    if fullname in MAY_TAKE or (own and not operator and not fullname.startswith(TELLING)):
        return None

    def check(context: FunctionContext | MethodContext) -> Type:
        for given in (one for several in context.arg_types for one in several):
            found = _held(given)
            if found is not None:
                context.api.fail(
                    f'a {found} value of a user is given to "{fullname}"; clip it, and release it by a mechanism',
                    context.context,
                    code=ESCAPES,
                )
                break
        return context.default_return_type

    return check


def plugin(version: str) -> type[Plugin]:
    """What mypy asks for."""
    del version
    return UserValues
