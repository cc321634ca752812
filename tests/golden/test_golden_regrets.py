"""No algorithm changed without being noticed: regrets as they were recorded, bit for bit (:mod:`record`)."""

from __future__ import annotations

import json

import pytest
from record import FILE, RUNS, regrets

RECORDED = json.loads(FILE.read_text()) if FILE.exists() else {}
QUICK = {("blend", "private-linopt-vi"), ("blend", "private-ucb-vi"), ("river", "ucrl-vtr")}


@pytest.mark.usefixtures("every_pass")
@pytest.mark.parametrize(
    ("world", "agent"),
    [pytest.param(*run, marks=() if run in QUICK else pytest.mark.verify, id=" ".join(run)) for run in RUNS],
)
def test_regret_is_what_was_recorded(world: str, agent: str) -> None:
    assert regrets(world, agent) == RECORDED[f"{world} {agent}"]
