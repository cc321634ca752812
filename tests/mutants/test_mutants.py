# SPDX-License-Identifier: Apache-2.0
"""Every planted bug is caught by the check that the documentation names, for the right reason; unbroken code passes."""

from __future__ import annotations

import re
from pathlib import Path

import count_mutants  # noqa: F401  (registers its mutants with the others)
import effects_mutants  # noqa: F401  (likewise)
import factors_mutants  # noqa: F401  (likewise)
import held_up_mutants  # noqa: F401  (likewise)
import kinds_mutants  # noqa: F401  (likewise)
import option_mutants  # noqa: F401  (likewise)
import path_mutants
import pytest
import rare_mutants  # noqa: F401  (likewise)
import returning_mutants  # noqa: F401  (likewise)
import score_mutants  # noqa: F401  (likewise)
import score_residual_mutants  # noqa: F401  (likewise)
import semantic_mutants  # noqa: F401  (likewise)
import service_mutants
import shuffler_mutants  # noqa: F401  (likewise)
import stays_mutants  # noqa: F401  (likewise)
import untrusted_service_mutants  # noqa: F401  (likewise)
from examinations import Examination

from mutants import MUTANTS, QUICK, Mutant

MEASUREMENTS = Path(__file__).parents[2] / "docs" / "measurements"
TABLES = tuple(
    MEASUREMENTS / f"{page}.md" for page in ("planted-bugs", "planted-bugs-deployed", "planted-bugs-devices")
)

CLASSES = path_mutants.CLASSES | service_mutants.CLASSES

EXAMINATIONS: dict[tuple, tuple[Examination, bool]] = {}
for one in MUTANTS:
    key = one.examine.key
    EXAMINATIONS[key] = one.examine, one.long and EXAMINATIONS.get(key, (None, True))[1]


def marks(long: bool) -> list:
    return [pytest.mark.verify] if long else []


@pytest.mark.parametrize(
    "examine",
    [
        pytest.param(examine, id="-".join(map(str, key)), marks=marks(long))
        for key, (examine, long) in EXAMINATIONS.items()
    ],
)
def test_the_unbroken_code_passes(examine: Examination) -> None:
    assert examine() == []


GUARDS = QUICK | {members[0] for members in path_mutants.CLASSES.values()}
"""Planted bugs that every change is tested against: one or more of each class. ``make verify`` plants all of them."""


@pytest.mark.verify  # the quick suite examines the unbroken code, which is what changes from day to day
@pytest.mark.parametrize(
    "broken", [pytest.param(m, id=m.name, marks=[pytest.mark.guard] if m.name in GUARDS else []) for m in MUTANTS]
)
def test_the_mutant_is_caught(broken: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    broken.apply(monkeypatch)
    findings = broken.examine()
    assert any(re.search(broken.sees, finding) for finding in findings), findings


def test_there_are_enough_of_them_and_no_two_alike() -> None:
    assert len({one.name for one in MUTANTS}) == len(MUTANTS) >= 100
    assert {one.name for one in MUTANTS} >= QUICK


IN_A_TEST_OF_ITS_OWN = {"raw-sum-in-a-debug-line"}
"""Mutants whose examination the quick suite carries out elsewhere: tests/service/test_real_path.py."""


def test_the_quick_suite_examines_every_class_that_nothing_had_noticed() -> None:
    """Of each class in docs/measurements/promises.md, at least one examination of the unbroken code is quick."""
    page = (MEASUREMENTS / "promises.md").read_text()
    table = page.split("## Planted bugs that nothing had noticed")[1].split("##")[0]
    classes = [line.split("|") for line in table.splitlines() if line.startswith("| ") and "`" in line]
    assert len(classes) >= 15
    quick = {one.name for one in MUTANTS if not EXAMINATIONS[one.examine.key][1]} | IN_A_TEST_OF_ITS_OWN
    for _, title, caught, *_ in classes:
        assert quick & set(re.findall(r"`([a-z0-9-]+)`", caught)), title


def test_every_class_has_three_or_more() -> None:
    known = {one.name for one in MUTANTS}
    for name, members in CLASSES.items():
        assert len(set(members)) >= 3, name
        assert set(members) <= known, name


def rows() -> list[str]:
    return [f"| `{one.name}` | {one.mistake} | {one.caught_by} |" for one in MUTANTS]


def class_rows() -> list[str]:
    return [f"| {name} | {', '.join(f'`{member}`' for member in members)} |" for name, members in CLASSES.items()]


def test_the_tables_in_the_docs_are_this_registry() -> None:
    lines = [line for page in TABLES for line in page.read_text().splitlines()]
    written = [line for line in lines if re.match(r"\| `[a-z0-9-]+` \|", line)]
    assert written == rows(), "python tests/mutants/test_mutants.py prints the tables"
    assert [line for line in lines if re.match(rf"\| ({'|'.join(CLASSES)}) \|", line)] == class_rows()
    assert f"all {len(MUTANTS)} of the table are caught" in (MEASUREMENTS / "audit.md").read_text()


if __name__ == "__main__":
    print("\n".join(["| mutant | mistake | caught by |", "|---|---|---|", *rows()]))
    print("\n".join(["", "| class | mutants |", "|---|---|", *class_rows()]))
