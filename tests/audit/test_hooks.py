# SPDX-License-Identifier: Apache-2.0
"""An agent of no family that the audit knows: one clipped vector per user, whose coordinates follow earlier releases.

Its author brings the sums, the guarantee and the neighbours; matched filter, replay, noise law, degenerate noise
and monitor are the library's.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from reticent.agents import make_agent
from reticent.audit import Subject, audit, check_noise, monitor, replay, seen_as, user_of, worst_pair
from reticent.audit.hooks import Neighbours, OwnReleases
from reticent.errors import InvalidInput
from reticent.learning.learner import AgentState, Learner
from reticent.learning.plan import Plan
from reticent.learning.schedule import Schedule
from reticent.privacy.accounting.gaussian import mu_of
from reticent.privacy.clipping import clip_norm
from reticent.privacy.counters import SeparateRounds
from reticent.privacy.guarantee import DeclaredGroup, Guarantee, NoisySum
from reticent.privacy.ledger import CounterShare, Ledger
from reticent.privacy.neighbouring_datasets import Pair
from reticent.privacy.sums import PrivateSums, SumState
from reticent.privacy.trust import JOINT
from reticent.worlds import Episode, World, make_world

RADIUS, NUMBERS = 1.5, 6


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ClippedVectors(PrivateSums):
    """One vector per user, its norm clipped as a whole; rounds are released separately."""

    noise_scale: Array
    grid: Array
    counter: object = dataclasses.field(metadata={"static": True})
    trust: object = dataclasses.field(default=JOINT, metadata={"static": True})
    law: str = dataclasses.field(default="gaussian", metadata={"static": True})
    clipped: bool = dataclasses.field(default=True, metadata={"static": True})

    def report(self, seen: Array, noise: Array | None) -> Array:
        vector = clip_norm(seen, RADIUS) if self.clipped else seen
        return self.send(vector[None], noise)

    def released(self, state: SumState) -> Array:
        return self.released_sums(state)[0]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorLearner(Learner[Array, Array, Array, None]):
    """Plans that are whitened by the last release: what a user's vector is depends on the plan that she was served."""

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan:
        model = self.model
        sums = self.aggregator.released(state.aggregate).reshape(model.states, model.actions)
        table = jnp.broadcast_to(sums, (model.horizon, *sums.shape))
        values = jnp.concatenate([table.max(axis=-1), jnp.zeros((1, model.states))])
        return Plan(table.argmax(axis=-1), values, None, table if action_values else None)

    def statistic(self, plan: Plan, episode: Episode) -> Array:
        here = episode.states[:-1] * self.model.actions + episode.actions
        weight = 1 / (1 + jnp.abs(plan.values[0, 0]))  # a function of earlier releases
        return weight * jax.nn.one_hot(here, NUMBERS, dtype=weight.dtype).sum(axis=0)

    def audit_hooks(self) -> VectorNeighbours:
        return VectorNeighbours()


class VectorNeighbours:
    """Opposite vectors at the radius, and far beyond it."""

    def nothing(self) -> Array:
        return jnp.zeros(NUMBERS)

    def worst_cases(self, count: int, seed: int) -> list[Pair[Array]]:
        axis = jnp.eye(NUMBERS)[0]
        return [Pair(far * axis, -far * axis, f"opposite, {far:g}") for far in (RADIUS, 1e3, jnp.inf)]

    def random_pairs(self, count: int, seed: int) -> list[Pair[Array]]:
        draw = np.random.default_rng(seed).normal(size=(count, 2, NUMBERS))
        return [Pair(jnp.asarray(one), jnp.asarray(two), f"random {at}") for at, (one, two) in enumerate(draw)]

    def possible_pair(self, world: World, seed: int) -> Pair[Array]:
        near = jnp.eye(NUMBERS)
        return Pair(near[0], near[1], "two cells")


@functools.cache
def world() -> World:
    return make_world("random-blend:states=3,actions=2,horizon=1,d1=2,d2=2")


def subject(factor: float = 1.0, clipped: bool = True) -> Subject:
    schedule = Schedule(6, (2, 2, 2), final_release=True)
    sigma = 2 * RADIUS / mu_of(2.0, 1e-5)
    shares = [CounterShare("vector", 1, 2 * RADIUS, sigma)]
    ledger = Ledger.of(shares, "separate", np.ones(3), schedule.ends, epsilon=2.0, delta=1e-5)
    promise = Guarantee(
        trust=JOINT, adjacency="replace", epsilon=2.0, delta=1e-5, ledger=ledger,
        sums=(NoisySum("vector", 1, 2 * RADIUS, sigma, sigma),),
        groups=(DeclaredGroup("vector", 1, slice(0, NUMBERS), 2 * RADIUS),),
    )  # fmt: skip
    scale = jnp.full((1, NUMBERS), factor * sigma)
    sums = ClippedVectors(scale, jnp.zeros(()), SeparateRounds(3), clipped=clipped)
    return Subject(
        VectorLearner(
            model=world().model, aggregator=sums, schedule=schedule, method="value-iteration", name="vectors",
            promise=promise,
        )
    )  # fmt: skip


@pytest.mark.verify
def test_a_third_partys_agent_is_audited_by_the_library() -> None:
    """False alarms: 1e-3 of the audit and of the monitor, 1e-6 of the noise; all seeds are fixed."""
    vectors = subject()
    assert isinstance(vectors.agent.audit_hooks(), Neighbours)
    assert not isinstance(vectors.agent.audit_hooks(), OwnReleases)
    pair, strength = worst_pair(vectors)
    assert strength == pytest.approx(vectors.promised)
    result = replay(vectors, [seen_as(pair.canary)] * 6, 3, seen_as(pair.replacement))
    assert result.findings == ()
    assert result.realised == pytest.approx(vectors.promised)
    users = [user_of(vectors, Episode(np.array([s, 0]), np.array([a]), np.ones(1))) for s in range(3) for a in range(2)]
    assert replay(vectors, users, 1, users[4]).findings == ()
    assert check_noise(vectors) == []
    assert audit(vectors, world(), trials=4000).verdict == "consistent"
    assert monitor(vectors, world(), trials=512).verdict == "consistent"


def test_its_mistakes_are_found_too() -> None:
    quiet, loud = subject(factor=0.9), subject(clipped=False)
    assert any("calibrated scale" in finding for finding in check_noise(quiet))
    assert monitor(quiet, world(), trials=2000).verdict == "violated"
    pair = subject().neighbours.worst_cases(0, 0)[1]
    findings = replay(loud, [seen_as(pair.canary)] * 6, 0, seen_as(pair.replacement)).findings
    assert any("the vector of step 1 moved by 2000, declared 3" in finding for finding in findings)


def test_who_brings_nothing_is_told_what_to_bring() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Silent(VectorLearner):
        audit_hooks = None

    agent = subject().agent
    silent = Silent(**{field.name: getattr(agent, field.name) for field in dataclasses.fields(agent)})
    with pytest.raises(InvalidInput, match="audit_hooks"):
        worst_pair(Subject(silent))
    with pytest.raises(InvalidInput, match="promises privacy"):
        Subject(make_agent("ucrl-vtr", world().model, 4))
