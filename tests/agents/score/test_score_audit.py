# SPDX-License-Identifier: Apache-2.0
"""The flagship held to its promise: worst pairs, hostile vectors, the proof replayed, and an attack."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.audit import Subject, audit, check_noise, realised_mu, replay, seen_as, user_of, worst_pair
from reticent.worlds import Episode
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
    """Far outside, infinite, no numbers, every coordinate 1; each also against nothing."""
    one = subject(kind)
    hostile = [pair for pair in one.neighbours.worst_cases(1, 0) if pair.origin.startswith("hostile")]
    assert len(hostile) >= 10
    for pair in hostile:
        for other in (pair.replacement, one.neighbours.nothing()):
            assert realised_mu(one, pair._replace(replacement=other)) <= one.promised * (1 + 1e-9)


@pytest.mark.verify
@pytest.mark.parametrize("kind", KINDS)
def test_the_flagship_replayed(kind: str) -> None:
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
@pytest.mark.parametrize("trust", ["joint", "local"])
def test_an_attack_proves_nearly_all_of_the_claim_and_no_more(trust: str) -> None:
    """A correct audit is called violated once in a thousand; the seed is fixed."""
    found = audit(subject(trust, users=4), WORLD, trials=20_000)
    assert found.verdict == "consistent"
    assert found.lower_bound_epsilon > 0.9 * 8
