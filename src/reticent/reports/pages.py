# SPDX-License-Identifier: Apache-2.0
"""HTML pages from Jinja2 templates: one style, everything escaped, each page one file that needs nothing else.

Page modules beside this one turn results into plain values; :func:`render` puts them into ``templates/``. A template
inherits from ``base.html`` and finds the macros of ``macros.html`` (tables, figures, folded text) as ``show``.
"""

from __future__ import annotations

import base64
import functools
import re
from typing import Any

import jinja2
from markupsafe import Markup, escape


def render(template: str, **values: Any) -> str:
    """The template of this name with these values."""
    return _environment().get_template(template).render(**values)


def data_address(picture: bytes) -> str:
    """A PNG as the address of an image, so that the page holds it."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode('ascii')}"


def agent_name(label: str) -> Markup:
    """An agent's label as HTML that breaks between its options only."""
    pieces = re.split(r"(?<=[:,])", label)
    return Markup("<wbr>").join(Markup("<span class=piece>{}</span>").format(escape(piece)) for piece in pieces)


@functools.cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("reticent.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["agent_name"] = agent_name
    made.filters["data_address"] = data_address
    made.globals["show"] = made.get_template("macros.html").module
    return made
