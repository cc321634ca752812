# SPDX-License-Identifier: Apache-2.0
"""Options that are off by default read releases alone, under every trust model that has them."""

from __future__ import annotations

import pytest
from option_replay import REPLAYED, option_findings


@pytest.mark.verify
@pytest.mark.parametrize(("option", "trust"), REPLAYED)
def test_an_option_switched_on_shows_no_user(option: str, trust: str) -> None:
    assert option_findings(option, trust) == []
