# SPDX-License-Identifier: Apache-2.0
"""The interactive page as the site has it: the real page, theme and settings, without the pages beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def why_not() -> str | None:
    """What is missing to build it; None if nothing is."""
    try:
        import furo  # noqa: F401
        import myst_parser  # noqa: F401
    except ModuleNotFoundError as problem:
        return f"the Python package {problem.name} is not installed (pip install 'reticent[docs]')"
    return None


def build(where: Path) -> str:
    """Build the page alone below ``where`` and give its address, a file's: it must work without a server."""
    source, made = where / "source", where / "site"
    source.mkdir()
    shutil.copy(DOCS / "explore.md", source)
    shutil.copytree(DOCS / "explore", source / "explore")
    (source / "index.md").write_text("# reticent\n\n```{toctree}\nexplore\n```\n", encoding="utf-8")
    # Links to pages that are not there are no errors here; tests/test_site.py builds all of them.
    line = ["-m", "sphinx", "-q", "-Q", "-c", str(DOCS), "-b", "html", str(source), str(made)]
    subprocess.run([sys.executable, *line], check=True, timeout=300)
    return (made / "explore.html").as_uri()
