# SPDX-License-Identifier: Apache-2.0
"""mypy on a file of planted leaks, with the configuration that ``make lint`` uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def refused_and_planted(planted: Path, cache: Path) -> tuple[set[int], set[int], str]:
    """The lines that mypy has an error for, those that end in ``# refused``, and what mypy said; one run for all."""
    api = pytest.importorskip("mypy.api")
    config = str(ROOT / "pyproject.toml")
    told, problems, _ = api.run(
        ["--config-file", config, "--cache-dir", str(cache), "--no-error-summary", str(planted)]
    )
    assert problems == ""
    found = {int(line) for line in re.findall(rf"{planted.name}:(\d+): error:", told)}
    lines = planted.read_text().splitlines()
    return found, {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}, told
