# SPDX-License-Identifier: Apache-2.0
"""Every source file says under which licence it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KINDS = ("*.py", "*.ts", "*.js", "*.mjs", "*.css")


def test_every_source_file_has_its_licence() -> None:
    listed = subprocess.run(["git", "ls-files", *KINDS], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: which files are the project's own is not known")
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in listed.stdout.splitlines()}
    lacking = [
        name for name, text in texts.items()
        if text.strip() and "SPDX-License-Identifier: Apache-2.0" not in "".join(text.splitlines(keepends=True)[:3])
    ]  # fmt: skip
    assert lacking == [], "put the identifier on the first line"
