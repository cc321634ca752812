# SPDX-License-Identifier: Apache-2.0
"""The table of docs/peers.md: every agent that it names exists, a row counts what it says, an absent peer says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reticent.agents import make_agent
from reticent.worlds import make_world

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from peers import HEAD, PEERS, Peer, outside, row

WORLD = make_world("random-blend:states=2,actions=2,horizon=2,d=2")


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.agent)
def test_every_agent_applies_and_is_in_the_page(peer: Peer) -> None:
    make_agent(peer.agent, WORLD.model, 50)
    page = (Path(__file__).parents[2] / "docs" / "peers.md").read_text(encoding="utf-8")
    assert f"| `{peer.agent}` ({peer.source}) |" in page


@pytest.mark.verify
def test_a_row_counts_steps_beside_learner_episodes() -> None:
    line = row(Peer("somebody", "score-vi"), WORLD, episodes=40, seeds=2)
    assert len(line) == len(HEAD)
    assert line[:3] == ("`score-vi` (somebody)", "none", "2")
    episodes, steps = (float(cell.replace(",", "")) for cell in line[3:5])
    assert steps == pytest.approx(2 * episodes, abs=2)


def test_a_peer_that_cannot_run_says_why() -> None:
    lines = outside(WORLD, "/nonexistent/python", 1)
    assert len(lines) == 2
    assert all("did not run" in line[0] and set(line[1:]) == {"–"} for line in lines)
