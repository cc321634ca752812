# SPDX-License-Identifier: Apache-2.0
"""The documentation stays readable: pages that are finished in one sitting, users who are "they", the field's words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)
FRONT = [
    ROOT / "SECURITY.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "deploy" / "README.md",
    *ROOT.glob("clients/*/README.md"),
]
LIMIT = 2500
"""Words of a page. Proofs may be longer: they are read section by section."""
AVOIDED = re.compile(r"\b(she|hers?|herself|nobody|whoever|whom|somebody|everybody|anybody)\b", re.IGNORECASE)


def prose(page: Path) -> str:
    """A page without fenced blocks and quoted names."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_can_be_read_to_its_end(page: Path) -> None:
    words = len(page.read_text(encoding="utf-8").split())
    assert words <= LIMIT or page.parent.name in {"proofs", "theory"}, f"{words} words: move a part to its own page"


def test_users_are_they_in_the_source() -> None:
    """Names, comments, docstrings and messages of the library, the clients and the dashboard; but for a world of words."""
    found = {
        f"{path.relative_to(ROOT)}:{number}": AVOIDED.findall(line)
        for folder in ("src", "clients/python/src", "clients/typescript/src")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".py", ".ts", ".js", ".html"} and path.name != "keyboard.py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if AVOIDED.search(line)
    }
    assert found == {}


@pytest.mark.parametrize("page", [*PAGES, *FRONT], ids=lambda page: str(page.relative_to(ROOT)))
def test_users_are_they(page: Path) -> None:
    assert AVOIDED.findall(prose(page)) == []
