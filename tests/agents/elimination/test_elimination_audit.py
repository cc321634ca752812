# SPDX-License-Identifier: Apache-2.0
"""Elimination held to its promise (Lemma 0): worst pairs, hostile vectors, the proof replayed, and an attack."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.audit import Subject, audit, check_noise, realised_mu, replay, seen_as, user_of, worst_pair
from reticent.worlds import Episode
from reticent.worlds.registry import make_world

WORLD = make_world("random-blend:states=3,actions=2,horizon=2,d1=2,d2=2")
KINDS = ["joint", "local", "joint,adjacency=zero-out"]


def subject(kind: str, users: int = 2) -> Subject:
    spec = f"private-elimination:first=0.01,candidates=4,proposals=1,epsilon=8,trust={kind}"
    return Subject(make_agent(spec, WORLD.model, users))


@pytest.mark.parametrize("kind", [KINDS[0], *(pytest.param(kind, marks=pytest.mark.verify) for kind in KINDS[1:])])
def test_the_worst_vectors_spend_the_promise_and_no_more(kind: str) -> None:
    """Replacing a user moves the sum by the declared sensitivity and no more, whatever the vectors are."""
    one = subject(kind)
    _, strength = worst_pair(one, random=4, gradient=False)
    assert strength <= one.promised * (1 + 1e-9)
    assert strength >= (1 - 1e-4) * one.promised
    assert check_noise(one) == []
    hostile = [pair for pair in one.neighbours.worst_cases(1, 0) if pair.origin.startswith("hostile")]
    assert len(hostile) >= 10
    for pair in hostile:
        for other in (pair.replacement, one.neighbours.nothing()):
            assert realised_mu(one, pair._replace(replacement=other)) <= one.promised * (1 + 1e-9)


@pytest.mark.verify
@pytest.mark.parametrize("kind", KINDS)
def test_the_proof_replayed(kind: str) -> None:
    """From the proof's corner, and as users of the world whose vectors depend on the plan that they were served."""
    one = subject(kind)
    pair, strength = worst_pair(one, random=2, gradient=False)
    found = replay(
        one, [seen_as(pair.canary), seen_as(0.3 * jnp.ones(one.agent.dimension))], 0, seen_as(pair.replacement)
    )
    assert found.findings == ()
    assert found.realised == pytest.approx(strength, rel=0.02)
    draw = np.random.default_rng(7)
    users = [user_of(one, Episode(draw.integers(0, 3, 3), draw.integers(0, 2, 2), draw.random(2))) for _ in range(3)]
    other = seen_as(one.neighbours.nothing()) if one.zero_out else users[2]
    assert replay(one, users[:2], 0, other).findings == ()


@pytest.mark.verify
def test_an_attack_proves_nearly_all_of_the_claim_and_no_more() -> None:
    """A correct audit is called violated once in a thousand; the seed is fixed."""
    found = audit(subject("joint", users=4), WORLD, trials=20_000)
    assert found.verdict == "consistent"
    assert found.lower_bound_epsilon > 0.9 * 8
