# SPDX-License-Identifier: Apache-2.0
"""The documentation site: ``make docs`` builds it, and every warning is an error."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs" / "extensions"))

project = "reticent"
author = "The reticent authors"
copyright = "the reticent authors"
version = release = re.search(r'__version__ = "(.+)"', (ROOT / "src/reticent/__init__.py").read_text())[1]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "mathml", "scripts"]
html_math_renderer = "mathml"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_display_short_literal_types = True

html_theme = "furo"  # light and dark, as the reader's system says
html_title = f"reticent {release}"

html_theme_options = {"source_directory": "docs/"}
html_static_path = ["_static"]  # what explore.md loads
html_css_files = ["site.css"]


def setup(app):  # type: ignore[no-untyped-def]
    """Let pages link to the repository's front files as readers of the repository do: ``../SECURITY.md``.

    Fields of named tuples are listed once, with the words of their class.
    """
    app.connect("source-read", _front_files)
    app.connect("autodoc-skip-member", _skip_aliases)


def _skip_aliases(app, what, name, member, skip, options):  # type: ignore[no-untyped-def]
    del app, what, name, skip, options
    return True if str(getattr(member, "__doc__", "")).startswith("Alias for field number") else None


def _front_files(app, docname, source):  # type: ignore[no-untyped-def]
    del app
    if docname == "security":
        source[0] = (ROOT / "SECURITY.md").read_text(encoding="utf-8").replace("](docs/", "](")
    up = "../" * (docname.count("/") + 1)
    source[0] = source[0].replace(f"]({up}SECURITY.md", f"]({up[3:]}security.md")
