# SPDX-License-Identifier: Apache-2.0
"""The documentation site: every page is in it, and it builds without a warning, links within it included."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = set()
    for page in DOCS.rglob("*.md"):
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.S | re.M):
            entries = [line for line in block.splitlines() if line and not line.startswith(":")]
            for entry in entries:
                listed |= {one.resolve() for one in page.parent.glob(f"{entry}.md") if one != page}
    pages = {page.resolve() for page in DOCS.rglob("*.md") if "_build" not in page.parts}
    assert pages - listed == {DOCS / "index.md"}


def anchors(page: Path) -> set[str]:
    """What a link may name after ``#``: the headings, as GitHub and MyST write them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("front", ["README.md", "SECURITY.md", "CONTRIBUTING.md", "deploy/README.md"])
def test_links_of_front_files_lead_somewhere(front: str) -> None:
    """Sphinx checks links between pages; these files are outside of its source."""
    file = DOCS.parent / front
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)(?:#([^)\s]+))?\)", file.read_text(encoding="utf-8"))
    for path, anchor in links:
        target = file.parent / path
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks", "clients/python", "examples"])
def test_pages_that_sources_name_exist(folder: str) -> None:
    for file in (DOCS.parent / folder).rglob("*.py"):
        for path in re.findall(r"\bdocs/[\w/-]+\.md\b", file.read_text(encoding="utf-8")):
            assert (DOCS.parent / path).exists(), f"{file}: {path}"


@pytest.mark.verify
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    for package in ("furo", "latex2mathml"):
        pytest.importorskip(package, reason="the site is not tested: pip install 'reticent[docs]'")
    line = ["-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(tmp_path)]
    done = subprocess.run([sys.executable, *line], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    accounting = (tmp_path / "reference" / "accounting.html").read_text(encoding="utf-8")
    assert '<div class="formula' in accounting
    assert "<math" in accounting
    for page in tmp_path.rglob("*.html"):  # a reader needs no network, and no field is called an alias
        content = page.read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|link|img)[^>]*(?:src|href)="https?://', content), page
        assert "Alias for field number" not in content, page
    assert (tmp_path / "searchindex.js").exists()
