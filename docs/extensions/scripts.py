# SPDX-License-Identifier: Apache-2.0
"""Subscripts and superscripts of formulas that are written as text: ``θ_{h,p}``, ``V^{π_k}``, ``P_hV``.

Pages write short formulas in Unicode, so that they can be read in the sources too. On the site, what follows ``_`` or
``^`` is set low or high if the base is a single letter, a bracket or a large operator. Code and names are left alone.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

LETTER = r"[^\W\d_]"
ACCENTS = r"[\u0300-\u036f]*"
BASE = rf"(?:(?<![A-Za-z_]){LETTER}|(?<=[A-Z])[a-z]|\b(?:max|min)|[)\]}}‖⟩|∏∑]){ACCENTS}[*°′″¹²³\u2070-\u2079]*"
BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
SHORT = rf"(?:max|min|plan|ij|jk)\b|[a-z]{ACCENTS}\d*(?![a-z]{{2}})|[^\W\d_a-z]{ACCENTS}|\d+|½"
MARKED = rf"[_^](?:{BRACES}|{SHORT})"
FORMULA = re.compile(rf"{BASE}((?:{MARKED})+)")
ONE = re.compile(rf"([_^])({BRACES}|{SHORT})")
LEFT_ALONE = (nodes.FixedTextElement, nodes.literal, nodes.math, nodes.raw, addnodes.desc_signature)


def split(text: str) -> list[nodes.Node]:
    """The text as nodes; a script in braces may have scripts of its own.

    >>> [str(node) for node in split("P_hV and V^{π_k}")]
    ['P', '<subscript>h</subscript>', 'V and V', '<superscript>π<subscript>k</subscript></superscript>']
    """
    found: list[nodes.Node] = []
    while (match := FORMULA.search(text)) is not None:
        found.append(nodes.Text(text[: match.start(1)]))
        for mark, script in ONE.findall(match[1]):
            kind = nodes.subscript if mark == "_" else nodes.superscript
            found.append(kind("", "", *split(script[1:-1] if script[0] == "{" else script)))
        # What follows is looked at by itself: the base of the second script of x_hx_h comes right after the first.
        text = text[match.end() :]
    return [*found, nodes.Text(text)] if text else found


class Scripts(SphinxPostTransform):
    """Set scripts in the text of every page."""

    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        del kwargs
        for text in list(self.document.findall(nodes.Text)):
            if not re.search("[_^]", text) or _is_code(text):
                continue
            parts = split(str(text))
            if len(parts) > 1:
                text.parent.replace(text, parts)


def _is_code(text: nodes.Text) -> bool:
    node: Any = text.parent
    while node is not None:
        if isinstance(node, LEFT_ALONE):
            return True
        node = node.parent
    return False


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_post_transform(Scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
