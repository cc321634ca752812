# SPDX-License-Identifier: Apache-2.0
"""An ε that protects no one is named for what it is; one at which noise vanishes is refused."""

from __future__ import annotations

import pytest

import reticent
from reticent.errors import InvalidInput

MODEL = reticent.make_world("random-blend:states=3,actions=2,horizon=2,d=2").model


@pytest.mark.parametrize("agent", ["private-score-vi", "private-linopt-vi", "private-ucb-vi"])
def test_large_epsilons_are_named_or_refused(agent: str) -> None:
    assert "protects no one" not in reticent.make_agent(f"{agent}:epsilon=10", MODEL, 50).promise.sentence()
    assert "An ε of 100 protects no one" in reticent.make_agent(f"{agent}:epsilon=100", MODEL, 50).promise.sentence()
    with pytest.raises(InvalidInput, match=r"epsilon is 1e\+09, but must be at most 1000"):
        reticent.make_agent(f"{agent}:epsilon=1e9", MODEL, 50)
