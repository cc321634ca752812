# SPDX-License-Identifier: Apache-2.0
"""Score-VI where nobody knows beforehand where users begin: the promise, held three ways, and what is learned."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.agents import make_agent
from reticent.agents.score import unit_ball
from reticent.agents.score.first_states import empty_start_posterior, estimated_starts, learn_starts
from reticent.agents.score.learner import ScoreLearner
from reticent.agents.score.unit_ball import UnitBall
from reticent.audit import Subject, audit, check_noise, realised_mu, replay, seen_as, user_of, worst_pair
from reticent.errors import InvalidInput
from reticent.privacy.noise import SecureNoise
from reticent.service.mechanism import make_mechanism
from reticent.simulation.simulate import simulate
from reticent.worlds import Episode, make_world, with_unknown_start, world_from_parameters
from reticent_wire.clipping import clip_norm

pytestmark = pytest.mark.guard

TINY = "random-blend:states=3,actions=2,horizon=2,d1=2,d2=2,per_step=true"
KNOWN, WORLD = make_world(TINY), make_world(TINY + ",initial=unknown")
KINDS = ["joint", "local", "shuffle", "joint,adjacency=zero-out", "joint,deployment=true", "joint,start_share=0.5"]


def subject(kind: str, users: int = 2) -> Subject:
    return Subject(make_agent(f"private-score-vi:first=0.1,growth=1,epsilon=8,trust={kind}", WORLD.model, users))


def over_the_promise(one: Subject) -> list[str]:
    pairs = [*one.neighbours.worst_cases(4, 0), *one.neighbours.random_pairs(4, 0)]
    return [pair.origin for pair in pairs if not realised_mu(one, pair) <= one.promised * (1 + 1e-9)]


def users_who_begin_at(one: Subject, *starts: int) -> list[Any]:
    draw = np.random.default_rng(7)
    return [user_of(one, Episode(np.array([start, 0, 1]), draw.integers(0, 2, 2), draw.random(2))) for start in starts]


# -- the promise --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_worst_vectors_spend_the_promise_and_no_more(kind: str) -> None:
    """Sensitivity by search, and the law of the noise on all D + S numbers."""
    one = subject(kind)
    _, strength = worst_pair(one, random=4, gradient=False)
    assert strength <= one.promised * (1 + 1e-9)
    assert strength >= (0.93 if kind == "shuffle" else 1 - 1e-4) * one.promised  # a coarse grid rounds the corner off
    assert over_the_promise(one) == []
    assert check_noise(one) == []


def test_two_users_of_a_world_move_less_than_the_worst_vectors() -> None:
    """Opposite surprises and other first states: 4(1 − τ) + 2τ, since two indicators are √2 apart."""
    one = subject("joint,start_share=0.5")
    (pair,) = [pair for pair in one.neighbours.worst_cases(1, 0) if pair.origin.startswith("users")]
    assert realised_mu(one, pair) == pytest.approx(one.promised * np.sqrt((4 * 0.5 + 2 * 0.5) / 4), rel=1e-6)


@given(st.lists(st.floats(width=64), min_size=8, max_size=8), st.floats(0.01, 0.99))
@settings(max_examples=60, deadline=None)
def test_whatever_is_sent_stays_within_the_unit_ball_and_each_part_within_its_share(
    numbers: list[float], share: float
) -> None:
    ball = subject("joint").sums
    assert isinstance(ball, UnitBall)
    assert ball.starts == 3
    sent = np.asarray(dataclasses.replace(ball, start_share=share).clip(jnp.asarray(numbers)))
    assert np.linalg.norm(sent) <= 1
    assert np.linalg.norm(sent[:-3]) <= np.sqrt(1 - share)
    assert np.linalg.norm(sent[-3:]) <= np.sqrt(share)


@pytest.mark.verify
@pytest.mark.parametrize("kind", KINDS[:4])
def test_the_release_replayed(kind: str) -> None:
    """From the proof's corner, and as users of the world; the third begins elsewhere than the first."""
    one = subject(kind)
    pair, strength = worst_pair(one, random=2, gradient=False)
    found = replay(
        one, [seen_as(pair.canary), seen_as(0.3 * jnp.ones(one.agent.dimension))], 0, seen_as(pair.replacement)
    )
    assert found.findings == ()
    # Coins of the shuffle model also round, to either side: by a step of 1/32 in six numbers, of a distance of 2.
    assert found.realised == pytest.approx(strength, rel=0.08 if kind == "shuffle" else 0.02)
    users = users_who_begin_at(one, 0, 1, 2)
    other = seen_as(one.neighbours.nothing()) if one.zero_out else users[2]
    assert replay(one, users[:2], 0, other).findings == ()


@pytest.mark.verify
def test_an_attack_proves_nearly_all_of_the_claim_and_no_more() -> None:
    """A correct audit is called violated once in a thousand; the seed is fixed."""
    found = audit(subject("joint", users=4), WORLD, trials=20_000)
    assert found.verdict == "consistent"
    assert found.lower_bound_epsilon > 0.9 * 8


# -- mistakes that these would find -------------------------------------------------------------------------------------


def test_parts_that_are_each_clipped_to_the_whole_ball_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unshared(vector: jax.Array, start: jax.Array, share: float, xp: object) -> jax.Array:
        return jnp.concatenate([clip_norm(vector, 1.0, xp), np.sqrt(share) * clip_norm(start, 1.0, xp)])

    monkeypatch.setattr(unit_ball, "with_start", unshared)
    assert over_the_promise(subject("joint"))


def test_a_first_state_that_is_taken_as_it_comes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def trusting(vector: jax.Array, start: jax.Array, share: float, xp: object) -> jax.Array:
        return jnp.concatenate([np.sqrt(1 - share) * clip_norm(vector, 1.0, xp), np.sqrt(share) * start])

    monkeypatch.setattr(unit_ball, "with_start", trusting)
    assert any(origin.startswith("hostile") for origin in over_the_promise(subject("joint")))


@pytest.mark.verify
def test_first_states_that_are_learned_before_the_noise_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ScoreLearner.close

    def close(self: ScoreLearner, state, plan, users, noise=None):  # type: ignore[no-untyped-def]
        after = real(self, state, plan, users, noise)
        exact = state.aggregate.open.ravel()[-self.starts :]
        starts = learn_starts(state.past.starts, exact, jnp.asarray(0.0), jnp.asarray(float(users)))
        return after._replace(past=after.past._replace(starts=starts))

    monkeypatch.setattr(ScoreLearner, "close", close)
    one = subject("joint")
    here, there = users_who_begin_at(one, 0, 2)
    assert replay(one, [here, here], 0, there).findings


# -- what is learned ----------------------------------------------------------------------------------------------------


def test_the_belief_goes_from_the_guess_to_the_truth_and_is_a_distribution() -> None:
    world = with_unknown_start(make_world("random-blend:states=6,horizon=2,d=2"), [0.5, 0.5, 0, 0, 0, 0])
    model, truth = world.model, np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.0])
    posterior = empty_start_posterior(model)
    np.testing.assert_allclose(estimated_starts(model, posterior), model.initial, atol=1e-12)
    far = []
    for users in (10.0, 100.0, 1e4, 1e6):
        posterior = learn_starts(posterior, jnp.asarray(users * truth), jnp.asarray(400.0), jnp.asarray(users))
        found = np.asarray(estimated_starts(model, posterior))
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1)
        far.append(np.abs(found - truth).sum())
    assert far == sorted(far, reverse=True)
    assert far[-1] < 1e-4
    lost = learn_starts(posterior, jnp.full(6, 7.0), jnp.asarray(400.0), jnp.asarray(0.0))  # a round that nobody was in
    np.testing.assert_array_equal(estimated_starts(model, lost), estimated_starts(model, posterior))


def test_a_declared_start_leaves_nothing_to_release_and_one_in_doubt_costs_a_share() -> None:
    known, unknown = (make_agent("private-score-vi:residual=off", world.model, 400) for world in (KNOWN, WORLD))
    assert (known.starts, unknown.starts) == (0, 3)
    assert known.dimension == unknown.score_dimension == unknown.dimension - 3
    assert known.init().past.starts is None
    assert float(known.noise_scale) == float(unknown.noise_scale)  # one ball, one promise
    assert known.part_weights == (1.0, 0.0)
    assert unknown.part_weights == pytest.approx((np.sqrt(0.9), np.sqrt(0.1)))
    for share in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(InvalidInput, match="start_share"):
            make_agent(f"private-score-vi:start_share={share}", WORLD.model, 400)


@pytest.mark.verify
@pytest.mark.parametrize("agent", ["private-score-vi:epsilon=8", "score-vi"])
def test_where_users_begin_is_learned_from_them(agent: str) -> None:
    """The guess is far off; the total variation that is left is far below, for both seeds (fixed)."""
    base = make_world("random-blend:states=5,actions=2,horizon=2,d=2")
    truth = np.array([0.0, 0.7, 0.1, 0.2, 0.0])
    begun = world_from_parameters(
        dataclasses.replace(base.model, initial=jnp.asarray(truth)), base.transition_theta, base.reward_theta
    )
    world = with_unknown_start(begun)
    learner = make_agent(agent, world.model, 2000)
    posteriors = simulate(learner, world, (0, 1)).carry.state.past.starts
    found = np.asarray(jax.vmap(lambda posterior: estimated_starts(world.model, posterior))(posteriors))
    assert np.abs(found - truth).sum(axis=1).max() / 2 < 0.08
    assert np.abs(np.asarray(world.model.initial) - truth).sum() / 2 > 0.4


# -- the deployed path --------------------------------------------------------------------------------------------------


@pytest.mark.verify
@pytest.mark.parametrize("score", ["values", "likelihood"])
def test_a_deployment_forms_the_vector_that_the_simulation_forms(score: str) -> None:
    made = make_mechanism(
        f"private-score-vi:epsilon=8,first=0.4,growth=1,score={score}", WORLD.model, 40, SecureNoise()
    )
    agent, board = made.agent, made.billboard(0, made.agent.init())
    plan = agent.served(made.plan_of(board), 0)
    draw = np.random.default_rng(3)
    for start in range(3):
        episode = Episode(np.array([start, *draw.integers(0, 3, 2)]), draw.integers(0, 2, 2), draw.random(2))
        steps = made.contribution(board, episode, place=0)
        assert steps.shape == (1, agent.dimension)
        wanted = np.asarray(agent.aggregator.clip(agent.statistic(plan, episode)))
        np.testing.assert_allclose(steps[0] * made.grid, wanted, atol=1.01 * made.grid)
        assert (np.flatnonzero(steps[0, -3:]) == [start]).all()


@pytest.mark.verify
def test_a_deployment_learns_from_a_round_and_goes_on_after_a_restart() -> None:
    made = make_mechanism("private-score-vi:epsilon=8,first=0.4,growth=1", WORLD.model, 40, SecureNoise())
    state = made.agent.init()
    board = made.billboard(0, state)
    total = np.zeros((1, made.agent.dimension), np.int64)
    total[0, -2] = int(made.schedule.round_sizes[0] * np.sqrt(0.1) / made.grid)  # everybody began in the second state
    closed, released = made.close(0, state, board, total, made.round_noise())
    assert released.shape == (1, made.agent.dimension)
    again = made.from_bytes(made.to_bytes(closed))
    np.testing.assert_array_equal(again.past.starts.moment, closed.past.starts.moment)
    following = made.billboard(1, again)
    assert made.plan_of(following).extension.initial.sum() == pytest.approx(1)
    assert made.diagnostics(following, released) is not None
