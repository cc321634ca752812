# SPDX-License-Identifier: Apache-2.0
"""The command as its tests call it."""

from __future__ import annotations

import sys

import pytest

from reticent.cli import main


@pytest.fixture
def reticent(monkeypatch, capsys):
    """Call the command in this process: exit code, standard output, standard error."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["reticent", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return call
