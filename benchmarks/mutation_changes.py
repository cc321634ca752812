# SPDX-License-Identifier: Apache-2.0
"""What can be changed about a module, one thing at a time: the mistakes that a careless edit makes.

Comparisons, arithmetic, numbers, ``and``/``or``, a dropped ``not`` or minus, branches exchanged, a largest taken for a
smallest, a guard or a clip left out, a statement removed, nothing returned. Left alone is what no test should read: texts,
annotations, docstrings, arguments of errors, how an object is shown, and decorators that only make things faster or shorter
to write.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,  # codespell:ignore notin
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Add,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.Break: ast.Continue, ast.Continue: ast.Break,
}  # fmt: skip

OPPOSITES = {
    **{a: b for pair in (
        ("min", "max"), ("minimum", "maximum"), ("floor", "ceil"), ("any", "all"), ("zeros", "ones"),
        ("zeros_like", "ones_like"),
    ) for a, b in (pair, pair[::-1])},
}  # fmt: skip
"""Functions that are easily taken for each other."""

GUARDS = ("require", "check", "clip", "whole", "quantize", "nearest", "dithered", "round", "floor", "ceil", "abs", "sqrt",
          "on_grid")  # fmt: skip
"""A call of one of these is replaced by its first argument: the guard is forgotten. Beginnings of names, without ``_``."""

LONGEST, AROUND = 100, 30
"""Characters of a change that are shown, and those around it."""

UNREAD = ("__repr__", "__str__")
WITHOUT_WEIGHT = ("strict", "indent", "stacklevel", "frozen", "eq", "slots")
"""Keywords whose value no behaviour of right code depends on."""

PLAIN_DECORATORS = (
    "property", "cached_property", "classmethod", "staticmethod", "dataclass", "register_dataclass", "overload",
    "abstractmethod", "override", "runtime_checkable", "cache", "lru_cache", "jit", "partial",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change: the function it is in, what it says before and after, and the whole changed module."""

    line: int
    function: str
    said: str
    tree: ast.Module = dataclasses.field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """Stays the same when lines move."""
        return f"{self.function}: {self.said}"

    @property
    def source(self) -> str:
        return ast.unparse(ast.fix_missing_locations(self.tree))


@dataclasses.dataclass(frozen=True)
class _Site:
    path: tuple[tuple[str, int | None], ...]
    kind: str
    function: str


def mutants(source: str) -> list[Mutant]:
    """Every change of a module, in the order of its lines."""
    tree = ast.parse(source)
    found = []
    for site in _sites(tree, (), "module"):
        broken = _copied_for(tree, site)
        before = _said(broken, site)
        line = getattr(_at(broken, site.path), "lineno", 0)
        _apply(broken, site)
        after = "removed" if site.kind == "remove" else _said(broken, site)
        if after != before:
            found.append(Mutant(line, site.function, " → ".join(_window(before, after)), broken))
    return sorted(found, key=lambda mutant: mutant.line)


def _copied_for(tree: ast.Module, site: _Site) -> ast.Module:
    """The module with a copy of the one statement, function or class that is to be changed; the rest is shared."""
    (_, index), *_ = site.path
    assert index is not None
    body = list(tree.body)
    body[index] = copy.deepcopy(body[index])
    return ast.Module(body, tree.type_ignores)


# -- where -------------------------------------------------------------------------------------------------------------


def _sites(node: ast.AST, path: tuple[tuple[str, int | None], ...], function: str) -> Iterator[_Site]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        if node.name in UNREAD:
            return
        function = node.name if function == "module" else f"{function}.{node.name}"
    for kind in _kinds(node):
        yield _Site(path, kind, function)
    if isinstance(node, ast.Raise | ast.JoinedStr) or _is_alias(node) or _makes_text(node):
        return
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not _is_unread(node, field, child):
                yield from _sites(child, (*path, (field, index)), function)


def _is_unread(parent: ast.AST, field: str, child: ast.AST) -> bool:
    """Types as values, settings without weight, docstrings."""
    if isinstance(child, ast.keyword) and child.arg in WITHOUT_WEIGHT:
        return True
    types = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "isinstance"
    return types and field == "args" and child is parent.args[1]  # type: ignore[attr-defined]


def _is_alias(node: ast.AST) -> bool:
    """``__all__ = …``, ``Name = A | B`` and ``if TYPE_CHECKING``."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias"
    if not isinstance(node, ast.Assign):
        return False
    types = isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.BitOr)
    target = node.targets[0]
    return ast.unparse(target) == "__all__" or (types and _name(target)[:1].isupper())


def _kinds(node: ast.AST) -> list[str]:
    """What can be changed about a node."""
    match node:
        case ast.BinOp() | ast.AugAssign() if type(node.op) in SWAPPED:
            return (
                [] if _makes_text(node) else ["operator", "remove"] if isinstance(node, ast.AugAssign) else ["operator"]
            )
        case ast.BoolOp():
            return ["operator"]
        case ast.Compare() if type(node.ops[0]) in SWAPPED:
            return ["compare"] + (["compare last"] if len(node.ops) > 1 else [])
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            return ["drop"]
        case ast.Constant() if type(node.value) in (int, float, bool):
            return ["constant"]
        case ast.Break() | ast.Continue():
            return ["jump"]
        case ast.IfExp():
            return ["exchange"]
        case ast.comprehension(ifs=[_, *_]):
            return ["unfilter"]
        case ast.Return(value=ast.AST()):
            return [] if isinstance(node.value, ast.Constant) and node.value.value is None else ["nothing"]
        case ast.Call():
            opposite = ["opposite"] if _name(node.func) in OPPOSITES else []
            bare = _name(node.func).lstrip("_")
            return opposite + (["unwrap"] if bare.startswith(GUARDS) and node.args else [])
        case ast.Raise():
            return ["remove"]
        case ast.Delete():  # of a name it only says that an argument is not used
            return [] if all(isinstance(target, ast.Name) for target in node.targets) else ["remove"]
        case ast.Expr(value=ast.Call() | ast.Await()):
            return ["remove"]
        case ast.Assign():
            kept = {_name(part) for part in ast.walk(node.value) if isinstance(part, ast.Name)}
            target = node.targets[0]
            again = isinstance(target, ast.Name) and target.id in kept
            return ["remove"] if again or isinstance(target, ast.Attribute | ast.Subscript) else []
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            names = [_name(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list]
            return ["undecorate"] if any(name not in PLAIN_DECORATORS for name in names) else []
    return []


def _makes_text(node: ast.AST) -> bool:
    """Whether this puts texts together."""
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in sides
    )


def _name(node: ast.AST) -> str:
    """The last word of a name: ``maximum`` of ``jnp.maximum``."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


# -- what --------------------------------------------------------------------------------------------------------------


def _apply(tree: ast.AST, site: _Site) -> None:
    node = _at(tree, site.path)
    match site.kind:
        case "operator":
            node.op = SWAPPED[type(node.op)]()
        case "compare":
            node.ops[0] = SWAPPED[type(node.ops[0])]()
        case "compare last":
            node.ops[-1] = SWAPPED[type(node.ops[-1])]()
        case "drop":
            _put(tree, site.path, node.operand)
        case "constant":
            if isinstance(node.value, bool):
                node.value = not node.value
            else:
                node.value = node.value + 1 if isinstance(node.value, int) else 2 * node.value + 0.125
        case "jump":
            _put(tree, site.path, SWAPPED[type(node)]())
        case "exchange":
            node.body, node.orelse = node.orelse, node.body
        case "unfilter":
            node.ifs = []
        case "nothing":
            node.value = ast.Constant(None)
        case "opposite":
            if isinstance(node.func, ast.Attribute):
                node.func.attr = OPPOSITES[node.func.attr]
            else:
                node.func.id = OPPOSITES[node.func.id]
        case "unwrap":
            _put(tree, site.path, node.args[0])
        case "remove":
            _put(tree, site.path, ast.Pass())
        case "undecorate":
            node.decorator_list = [
                one for one in node.decorator_list
                if _name(one.func if isinstance(one, ast.Call) else one) in PLAIN_DECORATORS
            ]  # fmt: skip
        case other:
            raise AssertionError(other)


def _at(tree: ast.AST, path: tuple[tuple[str, int | None], ...]) -> Any:
    node: Any = tree
    for field, index in path:
        node = getattr(node, field) if index is None else getattr(node, field)[index]
    return node


def _put(tree: ast.AST, path: tuple[tuple[str, int | None], ...], new: ast.AST) -> None:
    *above, (field, index) = path
    parent = _at(tree, tuple(above))
    if index is None:
        setattr(parent, field, new)
    else:
        getattr(parent, field)[index] = new


def _said(tree: ast.AST, site: _Site) -> str:
    """What the code says at a place."""
    for depth in range(len(site.path), 0, -1):
        field, index = site.path[depth - 1]
        parent = _at(tree, site.path[: depth - 1])
        if isinstance(parent, ast.arguments) and field in ("defaults", "kw_defaults") and index is not None:
            return _default(parent, field, index)
    return _brief(_shown(tree, site))


def _shown(tree: ast.AST, site: _Site) -> ast.AST:
    """The node, or for a number or a dropped sign what it stands in: ``1.0`` alone says nothing."""
    above = 1 if site.kind in ("constant", "drop", "unfilter", "unwrap") else 0
    for up in range(above, len(site.path)):
        node: ast.AST = _at(tree, site.path[: len(site.path) - up])
        if isinstance(node, ast.expr | ast.stmt) and not isinstance(node, ast.Slice | ast.UnaryOp | ast.Tuple):
            return node
    return tree


def _default(arguments: ast.arguments, field: str, index: int) -> str:
    """The argument whose default this is."""
    if field == "kw_defaults":
        named, value = arguments.kwonlyargs[index], arguments.kw_defaults[index]
    else:
        every = [*arguments.posonlyargs, *arguments.args]
        named, value = every[len(every) - len(arguments.defaults) + index], arguments.defaults[index]
    return f"{ast.unparse(named)}={ast.unparse(value)}"  # type: ignore[arg-type]


def _brief(node: ast.AST) -> str:
    if isinstance(node, ast.If | ast.While):
        return f"{type(node).__name__.lower()} {ast.unparse(node.test)}"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        decorators = " ".join(f"@{ast.unparse(one)}" for one in node.decorator_list)
        return f"{decorators} def {node.name}({ast.unparse(node.args)})".strip()
    return " ".join(ast.unparse(node).split())


def _window(before: str, after: str) -> tuple[str, str]:
    """What differs between two long texts, with some of what is around it."""
    if max(len(before), len(after)) <= LONGEST:
        return before, after
    if after == "removed" or after.endswith("None"):
        return f"{before[:LONGEST]}…", after
    same = next(
        (at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    tail = next((at for at, (a, b) in enumerate(zip(before[::-1], after[::-1], strict=False)) if a != b), 0)
    tail = min(tail, len(before) - same, len(after) - same)

    def cut(text: str) -> str:
        first, last = max(0, same - AROUND), min(len(text), len(text) - tail + AROUND)
        return ("…" if first else "") + text[first:last][: 2 * LONGEST] + ("…" if last < len(text) else "")

    return cut(before), cut(after)
