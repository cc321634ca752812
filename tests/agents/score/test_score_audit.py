# SPDX-License-Identifier: Apache-2.0
"""The flagship held to its promise: worst pairs, hostile vectors, the proof replayed, and an attack."""

from __future__ import annotations

import pytest
from audited import require_hostile_vectors_within, require_proof_replayed

from reticent.agents import make_agent
from reticent.audit import Subject, audit, check_noise, worst_pair
from reticent.worlds.registry import make_world

pytestmark = pytest.mark.guard

WORLD = make_world("random-blend:states=3,actions=2,horizon=2,d1=2,d2=2,per_step=true")
KINDS = ["joint", "local", "shuffle", "joint,adjacency=zero-out", "joint,deployment=true", "joint,score=likelihood"]


def subject(kind: str, users: int = 2) -> Subject:
    return Subject(make_agent(f"private-score-vi:first=0.1,growth=1,epsilon=8,trust={kind}", WORLD.model, users))


@pytest.mark.parametrize("kind", KINDS)
def test_the_worst_vectors_spend_the_promise_and_no_more(kind: str) -> None:
    one = subject(kind)
    _, strength = worst_pair(one, random=8, gradient=False)
    assert strength <= one.promised * (1 + 1e-9)
    assert strength >= (0.95 if kind == "shuffle" else 1 - 1e-4) * one.promised  # a coarse grid rounds the corner off
    assert check_noise(one) == []


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_vectors_stay_within_the_promise(kind: str) -> None:
    require_hostile_vectors_within(subject(kind))


@pytest.mark.verify
@pytest.mark.parametrize("kind", KINDS)
def test_the_flagship_replayed(kind: str) -> None:
    require_proof_replayed(subject(kind))


@pytest.mark.verify
@pytest.mark.parametrize("trust", ["joint", "local"])
def test_an_attack_proves_nearly_all_of_the_claim_and_no_more(trust: str) -> None:
    """A correct audit is called violated once in a thousand; the seed is fixed."""
    found = audit(subject(trust, users=4), WORLD, trials=20_000)
    assert found.verdict == "consistent"
    assert found.lower_bound_epsilon > 0.9 * 8
