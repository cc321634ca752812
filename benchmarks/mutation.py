"""Systematic mutation of small modules that privacy rests on: every operator and number changed, one at a time.

    python benchmarks/mutation.py clipping grid

A mutant is written to a copy of the source tree and put to the target's tests; it *survives* if they all pass. Survivors
are printed as Markdown rows, to be explained in docs/audit.md one by one. A target takes minutes to hours, so this is no
part of any suite.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ("src", "clients/python/src")
WIRE = "clients/python/src/reticent_client/wire"


@dataclasses.dataclass(frozen=True)
class Target:
    """A module, and the tests that are to see every change of it; ``select`` chooses among them, as pytest's ``-k``."""

    module: str
    tests: tuple[str, ...]
    timeout: float = 600.0
    select: str = ""


TARGETS = {
    "clipping": Target(
        f"{WIRE}/clipping.py", ("clients/python/tests/test_wire_contributions.py",), 60.0,
        "no_vector or short_vectors or every_number",
    ),
    "grid": Target(
        f"{WIRE}/grid.py", ("clients/python/tests/test_wire_contributions.py",), 60.0,
        "rounding_moves or steps_are_exact or fine_enough",
    ),
    "sensitivity": Target("src/reticent/privacy/sensitivity.py", ("tests/privacy/test_sensitivity.py",)),
    "noise": Target("src/reticent/privacy/noise.py", ("tests/privacy/test_noise.py",)),
}  # fmt: skip

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Line, what was changed, and the whole changed source, for every place that can be changed."""
    tree = ast.parse(source)
    for index, node in enumerate(ast.walk(tree)):
        for change in changes(node):
            broken = copy.deepcopy(tree)
            place = next(found for at, found in enumerate(ast.walk(broken)) if at == index)
            said = apply(place, change)
            yield getattr(node, "lineno", 0), said, ast.unparse(broken)


def changes(node: ast.AST) -> list[str]:
    """What can be changed about a node."""
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        return [] if _in_annotation(node) else ["op"]
    if isinstance(node, ast.BoolOp):
        return ["op"]
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        return ["compare"]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        return ["drop"]
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return ["number"]
    return []


def _in_annotation(node: ast.BinOp) -> bool:
    """Whether ``a | b`` is a type."""
    return isinstance(node.op, ast.BitOr) and all(
        isinstance(side, ast.Name | ast.Constant) for side in (node.left, node.right)
    )


def apply(node: ast.AST, change: str) -> str:
    """Change ``node`` in place; says how."""
    before = ast.unparse(node)
    if change == "op":
        node.op = SWAPPED[type(node.op)]()  # type: ignore[attr-defined]
    elif change == "compare":
        node.ops[0] = SWAPPED[type(node.ops[0])]()  # type: ignore[attr-defined]
    elif change == "drop":
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else node.op  # type: ignore[attr-defined]
        if isinstance(node.op, ast.Not):  # type: ignore[attr-defined]
            node.operand = ast.UnaryOp(ast.Not(), node.operand)  # type: ignore[attr-defined]
    else:
        node.value = node.value + 1 if isinstance(node.value, int) else 2 * node.value + 0.125  # type: ignore[attr-defined]
    return f"{before} → {ast.unparse(node)}"


def survives(target: Target, tree: Path) -> bool:
    """Whether all tests of the target pass on a tree of sources."""
    path = os.pathsep.join(str(tree / base) for base in SOURCES)
    command = [
        sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *[str(ROOT / test) for test in target.tests],
        "-k", target.select,
    ]  # fmt: skip
    try:
        environment = {**os.environ, "PYTHONPATH": path}
        ran = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=target.timeout, check=False
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False  # it hangs, and is seen by that
    return ran.returncode == 0


def examine(name: str) -> None:
    target = TARGETS[name]
    source = (ROOT / target.module).read_text()
    with tempfile.TemporaryDirectory() as where:
        tree = Path(where)
        for base in SOURCES:
            shutil.copytree(ROOT / base, tree / base, ignore=shutil.ignore_patterns("__pycache__"))
        if not survives(target, tree):
            raise SystemExit(f"{name}: its tests do not pass on the unbroken code")
        found, left = 0, 0
        for line, said, broken in mutants(source):
            (tree / target.module).write_text(broken)
            found += 1
            if survives(target, tree):
                left += 1
                print(f"| `{target.module.rpartition('/')[2]}:{line}` | `{said}` |", flush=True)
        print(f"{name}: {found} mutants, {found - left} killed, {left} survive", flush=True)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or TARGETS:
        examine(chosen)
