# SPDX-License-Identifier: Apache-2.0
"""A plugin of mypy: a user's value (:mod:`reticent_wire.boundary`) is given to no function that takes anything.

Types alone refuse a branch on such a value and its use as a number. What they let pass is a function whose parameter is any
object: ``str``, ``print``, ``format`` (which an f-string is), loggers, exceptions, comparisons, keys of a dictionary. This
refuses those calls. A function of these packages may take a user's value where its signature says so.

The ways on from a user's value are few, and each is in a module of :data:`WAYS_ON`: elsewhere, what a device makes of a
value and what a mechanism releases of it are refused too, and so is the value itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mypy.errorcodes import ErrorCode
from mypy.nodes import CallExpr, Decorator, FuncDef, Node, RefExpr, TypeInfo
from mypy.options import Options
from mypy.plugin import AttributeContext, FunctionContext, MethodContext, Plugin
from mypy.plugins.default import DefaultPlugin
from mypy.types import AnyType, CallableType, Instance, TupleType, Type, TypeType, UnionType, get_proper_type

HELD = ("reticent_wire.boundary.Raw", "reticent_wire.boundary.Clipped")
OWN = ("reticent_client.", "reticent_wire.", "reticent.")

EVERY = frozenset(range(8))
MAY_TAKE: dict[str, frozenset[int]] = {
    "builtins.list.append": EVERY, "builtins.list.extend": EVERY, "builtins.dict.__setitem__": frozenset({1}),
    "builtins.dict.setdefault": frozenset({1}), "builtins.dict.update": EVERY, "builtins.zip": EVERY,
    "builtins.iter": EVERY, "builtins.next": EVERY, "builtins.enumerate": EVERY, "builtins.len": EVERY,
    "builtins.isinstance": frozenset({0}), "builtins.list": EVERY,
    "<list>": EVERY, "<list-comprehension>": EVERY, "<generator>": EVERY, "<dictionary-comprehension>": frozenset({1}),
}  # fmt: skip
"""Functions that look at no value, by the positions at which they may be given a collection with one in it. A value by
itself has no length and cannot be gone through, which mypy knows."""

COMPARING = (
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__contains__",
    "__hash__",
    "__str__",
    "__format__",
)
"""Operators whose own object must hold no value of a user either, such as a tuple with one in it."""

BOUNDARY = "reticent_wire.boundary"

WAYS_ON: dict[str, frozenset[str]] = {
    f"{BOUNDARY}._Held._value": frozenset({BOUNDARY}),
    f"{BOUNDARY}.Clipped.on_device": frozenset(
        {"reticent_client.episode", "reticent_client.memory", "reticent_wire.forms.kinds", "reticent_wire.forms.factors"}
    ),
    f"{BOUNDARY}.Clipped.release": frozenset(
        {
            "reticent.service.rounds.act", "reticent.service.rounds.context", "reticent.service.rounds.release",
            "reticent_client.messages", "reticent_client.report", "reticent_client.submission",
        }
    ),
}  # fmt: skip
"""Where a user's value may be used at all, by what it is used with: what to read when a promise is reviewed."""

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
        if fullname in WAYS_ON:
            return _way_on(fullname)
        return None if self._default.get_method_hook(fullname) else _hook(fullname)

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        """Of the value itself."""
        return _way_on(fullname) if fullname in WAYS_ON else None


def _way_on(fullname: str) -> Callable[[AttributeContext | MethodContext], Type]:
    def check(context: AttributeContext | MethodContext) -> Type:
        module = context.api.tree.fullname  # type: ignore[attr-defined]
        if module not in WAYS_ON[fullname]:
            context.api.fail(
                f'"{fullname}" is for {", ".join(sorted(WAYS_ON[fullname]))}; use the value there',
                context.context, code=ESCAPES,
            )  # fmt: skip
        return context.default_attr_type if isinstance(context, AttributeContext) else context.default_return_type

    return check


def _hook(fullname: str) -> Callable[[FunctionContext | MethodContext], Type]:
    name = fullname.rpartition(".")[2]
    own = fullname.startswith(OWN) and not (name.startswith("__") and name.endswith("__"))
    allowed = MAY_TAKE.get(fullname, frozenset())

    def check(context: FunctionContext | MethodContext) -> Type:
        takes_anything = _takes_anything(name, context) if own else None
        given = [
            one
            for position, several in enumerate(context.arg_types)
            if position not in allowed and (takes_anything is None or takes_anything(position))
            for one in several
        ]
        if name in COMPARING and isinstance(context, MethodContext):
            given.append(context.type)
        found = next((held for one in given if (held := _held(one)) is not None), None)
        if found is not None:
            context.api.fail(
                f'a {found} value of a user is given to "{fullname}"; clip it, and release it by a mechanism',
                context.context,
                code=ESCAPES,
            )
        return context.default_return_type

    return check


def _takes_anything(name: str, context: FunctionContext | MethodContext) -> Callable[[int], bool]:
    """Whether a function of ours is declared to take anything at a position: ``object``, ``Any`` or nothing said."""
    formal = _signature(name, context)

    def takes(position: int) -> bool:
        if formal is None or position >= len(formal):
            return False
        declared = get_proper_type(formal[position])
        return isinstance(declared, AnyType) or (
            isinstance(declared, Instance) and declared.type.fullname == "builtins.object"
        )

    return takes


def _signature(name: str, context: FunctionContext | MethodContext) -> Sequence[Type] | None:
    """The declared types of a function's parameters, without its own object; None if they are not known here."""
    if isinstance(context, MethodContext):
        receiver = get_proper_type(context.type)
        if isinstance(receiver, TypeType):
            receiver = get_proper_type(receiver.item)
        if isinstance(receiver, TupleType):
            receiver = receiver.partial_fallback
        return _parameters(receiver.type.get_method(name), True) if isinstance(receiver, Instance) else None
    called = context.context.callee.node if _is_call(context.context) else None  # type: ignore[attr-defined]
    if isinstance(called, TypeInfo):
        return _parameters(called.get_method("__init__"), True)
    return _parameters(called, False)


def _is_call(node: Node) -> bool:
    return isinstance(node, CallExpr) and isinstance(node.callee, RefExpr)


def _parameters(function: object, bound: bool) -> Sequence[Type] | None:
    if isinstance(function, Decorator):
        bound, function = bound and not function.func.is_static, function.func
    if not isinstance(function, FuncDef) or not isinstance(function.type, CallableType):
        return None
    declared = function.type
    kinds = declared.arg_types[1:] if bound and not function.is_static else declared.arg_types
    return kinds


def plugin(version: str) -> type[Plugin]:
    """What mypy asks for."""
    del version
    return UserValues
