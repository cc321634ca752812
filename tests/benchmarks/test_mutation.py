# SPDX-License-Identifier: Apache-2.0
"""The mutation tool: under a good test every mutant dies, under a weak one a named mutant lives and is reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import mutation
from mutation_changes import mutants
from mutation_targets import TARGETS

MODULE = '''"""A module of 2 functions."""


def clipped(value: float | None, bound: float = 1.0) -> float:
    """At most 5 sentences."""
    if value is None:
        raise ValueError(f"no value below {bound + 1}")
    return min(value, bound)


class Shown:
    def __repr__(self) -> str:
        return "shown" * 3
'''

GOOD = """
import pytest
from tiny import clipped

def test_clipped():
    assert (clipped(0.5), clipped(3.0), clipped(3.0, 2.0)) == (0.5, 1.0, 2.0)
    with pytest.raises(ValueError):
        clipped(None)
"""

WEAK = """
from tiny import clipped

def test_clipped():
    assert (clipped(0.5), clipped(3.0, 2.0)) == (0.5, 2.0)
"""

TRIED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import mutation
from mutation_targets import Target
from mutation_trial import UnbrokenFails, load_heavy_libraries
root = Path(sys.argv[2])
load_heavy_libraries(root, ("pytest", "hypothesis"))
for name in ("good", "weak"):
    target = Target("src/tiny.py", (f"test_{name}.py",))
    try:
        mutation.examine(name, Target("src/tiny.py", (f"test_{name}.py",), "of_another_name"), mutation.Progress(20), root)
    except UnbrokenFails as failure:
        print(failure)
    result = mutation.examine(name, target, mutation.Progress(20), root)
    print(mutation.report([result], {name: {"clipped: bound: float=1.0 → bound: float=2.125": "a default"}}, "abc", "try"))
    print(name, result.tried, *[mutant.name for mutant in result.survivors], sep="|")
"""


def names(source: str) -> list[str]:
    return [mutant.name for mutant in mutants(source)]


def test_what_is_changed_and_what_is_left_alone() -> None:
    assert names(MODULE) == [
        "clipped: bound: float=1.0 → bound: float=2.125",
        "clipped: value is None → value is not None",
        "clipped: raise ValueError(f'no value below {bound + 1}') → removed",
        "clipped: return min(value, bound) → return None",
        "clipped: min(value, bound) → max(value, bound)",
    ]


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("a < b", ["a < b → a <= b"]),
        ("0 <= a < b", ["0 <= a < b → 0 < a < b", "0 <= a < b → 0 <= a <= b", "0 <= a < b → 1 <= a < b"]),
        ("a * b ** 2", ["a * b ** 2 → a / b ** 2", "b ** 2 → b * 2", "b ** 2 → b ** 3"]),
        ("a and not b", ["a and (not b) → a or not b", "a and (not b) → a and b"]),
        ("p if a else b", ["p if a else b → b if a else p"]),
        ("require_grid(a) + b", ["require_grid(a) + b → require_grid(a) - b", "require_grid(a) + b → a + b"]),
        ("[x for x in a if x]", ["[x for x in a if x] → [x for x in a]"]),
        ("f(a, flag=True)", ["f(a, flag=True) → f(a, flag=False)"]),
        ("zip(a, b, strict=True)", []),
        ("isinstance(a, int | float)", []),
        ("'text' * 3", []),
    ],
)
def test_changes_of_an_expression(line: str, changes: list[str]) -> None:
    assert names(f"c = {line}") == [f"module: {change}" for change in changes]


def test_statements_that_can_be_missing() -> None:
    source = "def f(x):\n    x = clip(x)\n    y = x\n    g(y)\n    y += 1\n    for _ in y:\n        break\n"
    assert [name.removeprefix("f: ") for name in names(source)] == [
        "x = clip(x) → removed", "x = clip(x) → x = x", "g(y) → removed", "y += 1 → y -= 1", "y += 1 → removed",
        "y += 1 → y += 2", "break → continue",
    ]  # fmt: skip


def test_a_sample_is_always_the_same_one() -> None:
    source = "\n".join(f"a{number} = {number} + b" for number in range(30))
    sample, possible = mutation.chosen_mutants(source, 10)
    assert (len(sample), possible) == (10, 60)
    assert [one.name for one in sample] == [one.name for one in mutation.chosen_mutants(source, 10)[0]]


def test_all_die_under_a_good_test_and_a_named_one_lives_under_a_weak_one(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "tiny.py").write_text(MODULE, encoding="utf-8")
    for name, text in (("good", GOOD), ("weak", WEAK)):
        (tmp_path / f"test_{name}.py").write_text(text, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", TRIED, str(Path(mutation.__file__).parent), str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = ran.stdout.splitlines()
    assert "good|5" in said
    assert said[0] == "tests of src/tiny.py: pytest ends with 5"
    weak = next(line for line in said if line.startswith("weak|")).split("|")
    assert weak[1:] == [
        "5", "clipped: bound: float=1.0 → bound: float=2.125",
        "clipped: raise ValueError(f'no value below {bound + 1}') → removed",
    ]  # fmt: skip
    assert "| `weak`, `clipped` | `bound: float=1.0 → bound: float=2.125` | a default |" in said
    assert any("raise ValueError" in line and line.endswith("**not explained** |") for line in said)
    assert any("3 of 5 mutants killed, **60.0%**" in line for line in said)


def test_the_goal_needs_the_share_and_the_reasons() -> None:
    survivor = mutants("a = b + c")[0]
    most = mutation.Result("t", "m", 20, 20, (survivor,))
    assert mutation.good_enough([most], {"t": {survivor.name: "why"}})
    assert not mutation.good_enough([most], {})
    assert not mutation.good_enough([mutation.Result("t", "m", 19, 19, (survivor,))], {"t": {survivor.name: "why"}})


def test_targets_exist() -> None:
    for target in TARGETS.values():
        assert all((mutation.ROOT / path).exists() for path in (target.module, *target.tests))


@pytest.mark.verify
@pytest.mark.parametrize("name", mutation.reasons())
def test_reasons_are_of_mutants_that_there_are(name: str) -> None:
    possible = set(names((mutation.ROOT / TARGETS[name].module).read_text(encoding="utf-8")))
    assert set(mutation.reasons()[name]) <= possible
