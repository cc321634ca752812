# SPDX-License-Identifier: Apache-2.0
"""The documentation site: every page is in it, and it builds without a warning, links within it included."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_underscores_are_subscripts(page: Path) -> None:
    """``_`` after a bracket or an accent would begin an emphasis, and the formulas up to the next one lose both."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    parser = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)
    for block in parser.parse(page.read_text(encoding="utf-8")):
        for part in block.children or []:
            assert not part.markup.startswith("_"), block.content


@pytest.mark.parametrize(
    ("text", "set_as"),
    [
        ("P_hV and θ_{h,p}", "P[h]V and θ[h,p]"),
        ("V^{π_k}_1(s_h)", "V<π[k]>[1](s[h])"),
        ("x_hx_hᵀ, w_iᵀΛ_iw_i, σ_iq_i²", "x[h]x[h]ᵀ, w[i]ᵀΛ[i]w[i], σ[i]q[i]²"),
        ("⟨φ_V̄, θ̃_p⟩, β_plan, λ_max, ‖φ‖_{Λ⁻¹}", "⟨φ[V̄], θ̃[p]⟩, β[plan], λ[max], ‖φ‖[Λ⁻¹]"),
        ("Õ(d^{7/4}√K), e^ε, K)^{3/2}", "Õ(d<7/4>√K), e<ε>, K)<3/2>"),
        ("bonus_scale, d_model, test_a_b, RETICENT_APP_KEY", "bonus_scale, d_model, test_a_b, RETICENT_APP_KEY"),
    ],
)
def test_scripts_of_formulas_are_set_low_or_high(text: str, set_as: str) -> None:
    pytest.importorskip("sphinx", reason="scripts are not tested: pip install 'reticent[docs]'")
    spec = importlib.util.spec_from_file_location("scripts", DOCS / "extensions" / "scripts.py")
    assert spec is not None
    assert spec.loader is not None
    scripts = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scripts)
    written = "".join(map(str, scripts.split(text)))
    for kind, (left, right) in {"subscript": "[]", "superscript": "<>"}.items():
        written = written.replace(f"<{kind}>", left).replace(f"</{kind}>", right)
    assert written == set_as


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
    learners = (tmp_path / "learners.html").read_text(encoding="utf-8")
    assert "θ<sub>h,p</sub>" in learners
    assert 'class="pre">initial_known=False' in learners
    for page in tmp_path.rglob("*.html"):  # a reader needs no network, and no field is called an alias
        content = page.read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|link|img)[^>]*(?:src|href)="https?://', content), page
        assert "Alias for field number" not in content, page
    assert (tmp_path / "searchindex.js").exists()
