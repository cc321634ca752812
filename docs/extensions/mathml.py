# SPDX-License-Identifier: Apache-2.0
"""Formulas as MathML, which browsers render by themselves: a page needs no script and no network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number


def mathml(tex: str, display: str) -> str:
    """A formula as MathML; its TeX is kept for readers who copy it."""
    # The converter does not know \arg, and sets rows of a display only within an environment.
    known = re.sub(r"\\arg(?![a-zA-Z])", r"\\operatorname{arg}", tex)
    if r"\\" in known and r"\begin" not in known:
        known = rf"\begin{{aligned}}{known}\end{{aligned}}"
    return str(convert(known, display=display))


def visit_inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="formula"))
    number = f'<span class="eqno">({get_node_equation_number(translator, node)})</span>' if node["number"] else ""
    translator.body.append(f"{number}{mathml(node.astext(), 'block')}</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
