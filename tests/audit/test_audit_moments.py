"""Model-free learners under replay and audit: the promise holds, and noise that forgets the rounds is caught."""

from __future__ import annotations

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.linear_mdp.learner import LinearMdpLearner
from reticent.agents.linear_mdp.linear_mdp_plan import LinearMdpOptions, LinearMdpPlan
from reticent.agents.linear_mdp.lsvi_ucb import make_private_lsvi
from reticent.agents.registry import privacy_plan_of
from reticent.audit import Subject
from reticent.audit.dispatch import audit_any
from reticent.audit.moments import audit_moments, replay_moments
from reticent.errors import InvalidInput
from reticent.worlds import Episode, make_model, make_world_from

HALF = np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)]])
"""Two unit features with inner product s/2 = 1/2: the pair that attains the joint sensitivity at moment_share 1."""


@functools.cache
def one_step(**given) -> tuple[LinearMdpLearner, LinearMdpPlan]:
    """One state, two actions, one step: targets are rewards, so every round's moments move by all they may."""
    model = make_model(
        np.ones((1, 1, 2, 1)), np.ones((1, 1, 2)), 1, linear_features=HALF.T.reshape(2, 1, 2), transition_bound=1.0
    )
    return make_private_lsvi(model, 64, LinearMdpOptions(epsilon=4.0, delta=1e-5, first=4, **given))


def opposite() -> tuple[Episode, Episode]:
    stay = jnp.zeros(2, int)
    return (
        Episode(stay, jnp.array([0]), jnp.array([1.0])),
        Episode(stay, jnp.array([1]), jnp.array([0.0])),
    )


@functools.cache
def found(factor: float, growth: float = 1.5):
    agent, plan = one_step(growth=growth)
    moments = dataclasses.replace(agent.aggregator, moment_scale=factor * agent.aggregator.moment_scale)
    return audit_moments(dataclasses.replace(agent, aggregator=moments), plan, pair=opposite(), trials=8_000, seed=1)


@pytest.mark.parametrize("growth", [1.5, 1.0])
def test_the_audit_is_consistent_and_tight(growth):
    """False alarm at most once in a thousand seeds by construction; this seed is fixed."""
    audit = found(1.0, growth)
    assert audit.verdict == "consistent"
    assert audit.lower_bound_epsilon > 0.9 * audit.claimed_epsilon
    assert audit.strongest.realised_mu == pytest.approx(audit.claimed_mu, rel=0.05)


@pytest.mark.parametrize("growth", [1.5, 1.0])
def test_noise_that_forgets_the_number_of_rounds_is_caught(growth):
    _, plan = one_step(growth=growth)
    forgotten = 1 / np.sqrt(plan.calibration.exposure[-1])
    audit = found(float(forgotten), growth)
    assert audit.verdict == "violated"
    assert audit.lower_bound_epsilon > 1.1 * audit.claimed_epsilon


def test_too_few_trials_are_refused():
    with pytest.raises(InvalidInput, match="trials"):
        audit_moments(*one_step(), trials=10)


# -- replay --------------------------------------------------------------------------------------------------------------


@functools.cache
def small_agent() -> tuple[LinearMdpLearner, LinearMdpPlan]:
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
    agent, _ = small_agent()
    users = [[an_episode(rng) for _ in range(size)] for size in agent.schedule.sizes]
    return users, an_episode(rng)


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_moved_noise_hides_a_user_and_costs_no_more_than_promised(epoch):
    agent, plan = small_agent()
    users, instead = population(epoch)
    replay = replay_moments(agent, plan, users, (epoch, 1), instead, seed=epoch)
    assert replay.findings == ()
    assert 0 < replay.realised_mu <= replay.promised_mu


class Leaky(LinearMdpLearner):
    """Adds a trace of the raw sums to what it publishes."""

    def close(self, state, plan, users, noise=None):
        after = super().close(state, plan, users, noise)
        books = after.aggregate
        raw = books.sums.weighted[0]
        published = books.published._replace(weights=books.published.weights + 1e-3 * raw)
        return after._replace(aggregate=books._replace(published=published))


def test_a_leak_beside_the_noise_is_found():
    agent, plan = small_agent()
    leaky = Leaky(**{field.name: getattr(agent, field.name) for field in dataclasses.fields(agent)})
    users, instead = population(0)
    assert any(
        "tells the neighbours apart" in line for line in replay_moments(leaky, plan, users, (0, 1), instead).findings
    )


def test_noise_that_is_too_small_is_found():
    agent, plan = small_agent()
    quiet = dataclasses.replace(agent.aggregator, moment_scale=agent.aggregator.moment_scale / 50)
    users, instead = population(0)
    broken = dataclasses.replace(agent, aggregator=quiet)
    assert any("promised" in line for line in replay_moments(broken, plan, users, (0, 1), instead).findings)


# -- the audit that fits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["private-lsvi-ucb", "lsl-improve", "lsw-improve"])
def test_every_kind_of_release_has_its_audit(name):
    world = make_world_from("linear-mdp:states=3,actions=2,d=2,horizon=1")
    agent = make_agent(name, world.model, 16)
    subject = Subject(agent, privacy_plan_of(name, world.model, 16, {}))
    audit = audit_any(subject, world, trials=1000, seed=2)
    assert (audit.agent, audit.world, audit.verdict) == (name, world.name, "consistent")
    assert (audit.claimed_mu is None) == (name != "private-lsvi-ucb")
    assert audit.strongest.realised_mu > 0
    with pytest.raises(InvalidInput, match="adversary"):
        audit_any(subject, world, adversary="actions", trials=1000)
