# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: what docs/notebooks/write_your_own.md defines is registered before tests are collected.

``python -m pytest -p notebook_definitions`` is what a third party does with a module of their own.
"""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "notebooks" / "write_your_own.md"
CELL = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def definitions() -> list[str]:
    """The page's cells up to its audit and its comparison, which run for a minute."""
    text = PAGE.read_text(encoding="utf-8")
    return CELL.findall(text[: text.index("A promise is worth its proof")])


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """After the suite's own, which says how JAX compiles."""
    module = types.ModuleType("write_your_own")
    sys.modules[module.__name__] = module
    for number, code in enumerate(definitions()):
        exec(compile(code, f"{PAGE.name}, cell {number}", "exec", dont_inherit=True), vars(module))
