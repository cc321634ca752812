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


@pytest.mark.verify
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("furo", reason="the site is not tested: pip install 'reticent[docs]'")
    line = ["-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(tmp_path)]
    done = subprocess.run([sys.executable, *line], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    assert "math notranslate" in (tmp_path / "reference" / "accounting.html").read_text(encoding="utf-8")
    assert (tmp_path / "searchindex.js").exists()
