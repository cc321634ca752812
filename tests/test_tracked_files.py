# SPDX-License-Identifier: Apache-2.0
"""Nothing that is to be ignored is tracked: an environment added by mistake would replace that of every checkout."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="no checkout of git")
@pytest.mark.parametrize("kind", ["ignored", "links"])
def test_no_ignored_file_and_no_link_is_tracked(kind: str) -> None:
    asked = {"ignored": ["-ci", "--exclude-standard"], "links": ["--stage"]}[kind]
    found = subprocess.run(["git", "ls-files", *asked], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = found.stdout.splitlines()
    assert [line for line in lines if kind == "ignored" or line.startswith("120000")] == []
