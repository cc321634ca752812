# SPDX-License-Identifier: Apache-2.0
"""Options that are off by default read releases alone, under every trust model that has them."""

from __future__ import annotations

import pytest
from option_replay import GUARDS, OPTIONS, REPLAYED, option_findings


@pytest.mark.verify
@pytest.mark.parametrize(
    ("option", "trust"),
    [pytest.param(*one, marks=[pytest.mark.guard] if one in GUARDS else []) for one in REPLAYED],
)
def test_an_option_switched_on_shows_no_user(option: str, trust: str) -> None:
    assert option_findings(option, trust) == []


def test_every_option_guards_every_change_under_a_trust_model() -> None:
    assert {option for option, _ in GUARDS} == set(OPTIONS)
    assert set(GUARDS) <= set(REPLAYED)
