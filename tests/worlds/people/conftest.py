# SPDX-License-Identifier: Apache-2.0
"""Recorded people are read from RETICENT_DATA; tests that need them are skipped, with the reason, where it is not set."""

from __future__ import annotations

import pytest

from reticent.worlds.people import MissingData
from reticent.worlds.people.data import find


@pytest.fixture(scope="session")
def published():
    """Skip unless a file is there: ``published(msnbc.PUBLISHED)``."""

    def need(which):
        try:
            return find(which)
        except MissingData as missing:
            pytest.skip(str(missing))

    return need
