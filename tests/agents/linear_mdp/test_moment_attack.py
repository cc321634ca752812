# SPDX-License-Identifier: Apache-2.0
"""Model-free learners under replay and audit: the promise holds, and noise that forgets the rounds is caught."""

from __future__ import annotations

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.linear_mdp.learner import LinearMdpLearner
from reticent.agents.linear_mdp.linear_mdp_plan import LinearMdpOptions, reuse
from reticent.agents.linear_mdp.lsvi_ucb import make_private_lsvi
from reticent.audit import Audit, Pair, Replay, Subject, audit, replay, user_of
from reticent.errors import InvalidInput
from reticent.worlds import Episode, make_model, make_world

pytestmark = pytest.mark.guard

HALF = np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)]])
"""Two unit features with inner product s/2 = 1/2: the pair that attains the joint sensitivity at moment_share 1."""


@functools.cache
def one_step(**options) -> LinearMdpLearner:
    """One state, two actions, one step: targets are rewards, so every round's moments move by all they may."""
    model = make_model(
        np.ones((1, 1, 2, 1)), np.ones((1, 1, 2)), 1, linear_features=HALF.T.reshape(2, 1, 2), transition_bound=1.0
    )
    return make_private_lsvi(model, 64, LinearMdpOptions(epsilon=4.0, delta=1e-5, first=4, **options))


def opposite(agent: LinearMdpLearner) -> Pair:
    stay = jnp.zeros(2, int)
    users = Episode(stay, jnp.array([0]), jnp.array([1.0])), Episode(stay, jnp.array([1]), jnp.array([0.0]))
    return Pair(*(agent.statistic(agent.plan(agent.init()), user) for user in users), "opposite")


@functools.cache
def audited(factor: float, growth: float = 1.5) -> Audit:
    agent = one_step(growth=growth)
    moments = dataclasses.replace(agent.aggregator, moment_scale=factor * agent.aggregator.moment_scale)
    subject = Subject(dataclasses.replace(agent, aggregator=moments))
    return audit(subject, None, canaries=[("trajectory", opposite(agent))], trials=8_000, seed=1)


@pytest.mark.verify
@pytest.mark.parametrize("growth", [1.5, 1.0])
def test_the_audit_is_consistent_and_tight(growth):
    """False alarm at most once in a thousand seeds by construction; this seed is fixed."""
    result = audited(1.0, growth)
    assert result.verdict == "consistent"
    assert result.lower_bound_epsilon > 0.9 * result.claimed_epsilon
    assert result.strongest.scores.possible == pytest.approx(result.claimed_mu, rel=0.05)


@pytest.mark.verify
@pytest.mark.parametrize("growth", [1.5, 1.0])
def test_noise_that_forgets_the_number_of_rounds_is_caught(growth):
    exposure = reuse(np.asarray(one_step(growth=growth).aggregator.counter.sizes))
    result = audited(float(1 / np.sqrt(exposure[-1])), growth)
    assert result.verdict == "violated"
    assert result.lower_bound_epsilon > 1.1 * result.claimed_epsilon


# -- replay --------------------------------------------------------------------------------------------------------------


@functools.cache
def small_agent() -> LinearMdpLearner:
    rng = np.random.default_rng(3)
    psi = rng.dirichlet(np.ones(3), size=(2, 3, 2))
    model = make_model(psi, rng.uniform(size=(2, 3, 2)) / 2, 2)
    return make_private_lsvi(model, 14, LinearMdpOptions(epsilon=1.0, first=3, growth=1.5, shift_scale=1.0))


def an_episode(rng) -> Episode:
    return Episode(
        jnp.asarray(rng.integers(0, 3, 3)), jnp.asarray(rng.integers(0, 2, 2)), jnp.asarray(rng.uniform(size=2))
    )


def population(seed: int):
    rng = np.random.default_rng(seed)
    subject = Subject(small_agent())
    return [user_of(subject, an_episode(rng)) for _ in range(15)]


def replayed(agent: LinearMdpLearner, changed: int, seed: int = 0) -> Replay:
    *users, instead = population(seed)
    return replay(Subject(agent), users, changed, instead, seed=seed)


@pytest.mark.verify
@pytest.mark.parametrize(("epoch", "changed"), [(0, 1), (1, 4), (2, 9)])
def test_moved_noise_hides_a_user_and_costs_no_more_than_promised(epoch, changed):
    agent = small_agent()
    assert np.searchsorted(agent.schedule.ends, changed, side="right") == epoch
    result = replayed(agent, changed, epoch)
    assert result.findings == ()
    assert 0 < result.realised <= result.promised


class Leaky(LinearMdpLearner):
    """Adds a trace of the raw sums to what it publishes."""

    def close(self, state, plan, users, noise=None):
        after = super().close(state, plan, users, noise)
        raw = after.aggregate.weighted[0]
        return after._replace(past=after.past._replace(weights=after.past.weights + 1e-3 * raw))


@pytest.mark.verify
def test_a_leak_beside_the_noise_is_found():
    agent = small_agent()
    leaky = Leaky(**{field.name: getattr(agent, field.name) for field in dataclasses.fields(agent)})
    assert any("tells the neighbours apart" in line for line in replayed(leaky, 1).findings)


@pytest.mark.verify
def test_noise_that_is_too_small_is_found():
    agent = small_agent()
    quiet = dataclasses.replace(agent.aggregator, moment_scale=agent.aggregator.moment_scale / 50)
    assert any("promised" in line for line in replayed(dataclasses.replace(agent, aggregator=quiet), 1).findings)


# -- the audit that fits -------------------------------------------------------------------------------------------------


@pytest.mark.verify
@pytest.mark.parametrize("name", ["private-lsvi-ucb", "lsl-improve", "lsw-improve"])
def test_every_kind_of_release_has_its_audit(name):
    world = make_world("linear-mdp:states=3,actions=2,d=2,horizon=1")
    subject = Subject(make_agent(name, world.model, 16))
    result = audit(subject, world, trials=1000, seed=2)
    assert (result.agent, result.world, result.verdict) == (name, world.name, "consistent")
    assert (result.claimed_mu is None) == (name != "private-lsvi-ucb")
    assert result.strongest.scores.possible > 0
    with pytest.raises(InvalidInput, match="adversary"):
        audit(subject, world, adversary="actions", trials=1000)


def test_one_release_whose_noise_depends_on_the_data_has_no_replay():
    agent = make_agent("lsw-improve", make_world("linear-mdp:states=3,actions=2,d=2,horizon=1").model, 4)
    with pytest.raises(InvalidInput, match="noisy sums"):
        replay(Subject(agent), [lambda _: None] * 4, 0, lambda _: None)
