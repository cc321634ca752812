# SPDX-License-Identifier: Apache-2.0
"""The audit as the families' tests use it: what each of them asks, in one place that follows the audit's interface."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from reticent.audit import Audit, Subject, check_noise, realised_mu, replay, seen_as, user_of, worst_pair
from reticent.audit import audit as attack
from reticent.audit.hooks import Replay
from reticent.worlds import Episode


def realised_strength(agent: Any) -> float:
    """How far apart the agent's own reports of two users can be, in units of its noise."""
    return worst_pair(Subject(agent), gradient=False)[1]


def replay_findings(agent: Any, users: int, changed: int) -> tuple[str, ...]:
    """What a replay of so many users finds, the ``changed``-th being replaced by the user farthest from her."""
    pair, _ = worst_pair(Subject(agent), gradient=False)
    return replay(Subject(agent), [seen_as(pair.canary)] * users, changed, seen_as(pair.replacement)).findings


def noise_findings(agent: Any, draws: int = 4000) -> list[str]:
    """What is wrong with the noise that the agent draws."""
    return check_noise(Subject(agent), draws=draws)


def attacked(agent: Any, world: Any, trials: int) -> Audit:
    """The outcome of an attack with a canary."""
    return attack(Subject(agent), world, trials=trials)


def require_hostile_vectors_within(one: Subject) -> None:
    """Vectors far outside, infinite, no numbers, every coordinate 1, each also against nothing, stay within the promise."""
    hostile = [pair for pair in one.neighbours.worst_cases(1, 0) if pair.origin.startswith("hostile")]
    assert len(hostile) >= 10
    for pair in hostile:
        for other in (pair.replacement, one.neighbours.nothing()):
            assert realised_mu(one, pair._replace(replacement=other)) <= one.promised * (1 + 1e-9)


def require_the_worst_pair_at_the_promise(one: Subject) -> None:
    """No pair of users is farther apart than promised, and one pair is as far."""
    pairs = [*one.neighbours.worst_cases(4, 0), *one.neighbours.random_pairs(4, 0)]
    strengths = [realised_mu(one, pair) for pair in pairs]
    assert max(strengths) <= one.guarantee.promised_strength * (1 + 1e-9)
    assert max(strengths) > 0.99 * one.guarantee.promised_strength


def findings_of_random_users(one: Subject, users: int = 12, changed: int = 3) -> tuple[str, ...]:
    """What a replay of users with random vectors finds, one of whom is replaced by another, or by nothing."""
    seen = [seen_as(pair.canary) for pair in one.neighbours.random_pairs(users, 1)]
    other = one.neighbours.nothing() if one.zero_out else one.neighbours.random_pairs(1, 5)[0].canary
    return tuple(replay(one, seen, changed, seen_as(other)).findings)


def require_proof_replayed(one: Subject) -> None:
    """Two users of a world of three states, two actions and two steps, replayed: from the proof's corner, and as users of
    the world whose vectors depend on the plan that they were served."""
    pair, strength = worst_pair(one, random=2, gradient=False)
    small = seen_as(0.3 * jnp.ones(one.agent.dimension))
    found = replay(one, [seen_as(pair.canary), small], 0, seen_as(pair.replacement))
    assert found.findings == ()
    assert found.realised == pytest.approx(strength, rel=0.02)
    draw = np.random.default_rng(7)
    users = [user_of(one, Episode(draw.integers(0, 3, 3), draw.integers(0, 2, 2), draw.random(2))) for _ in range(3)]
    other = seen_as(one.neighbours.nothing()) if one.zero_out else users[2]
    assert replay(one, users[:2], 0, other).findings == ()


def replays_of_world_users(one: Subject, users: int) -> list[Replay]:
    """Replays with users of a world of three states, two actions and two steps: the first is replaced, and the last."""
    draw = np.random.default_rng(7)
    episodes = [
        Episode(draw.integers(0, 3, 3), draw.integers(0, 2, 2), draw.integers(0, 2, 2).astype(float)) for _ in range(5)
    ]
    seen = [user_of(one, episode) for episode in episodes]
    seen[4] = seen_as(one.neighbours.nothing()) if one.zero_out else seen[4]
    return [replay(one, seen[:users], changed, seen[4], seed=changed + 10**9) for changed in (0, users - 1)]
