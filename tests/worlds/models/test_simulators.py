# SPDX-License-Identifier: Apache-2.0
"""Candidates from simulators and from trajectories: they converge, the report's bounds hold, bad sources are refused."""

from __future__ import annotations

import itertools

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import InvalidInput
from reticent.worlds import Episode, Trajectory, blend, blend_from_simulators, make_world
from reticent.worlds.gymnasium_env import WorldEnv
from reticent.worlds.models.estimation import Sample, dirichlet_means, reward_error, tally, transition_error


def lake(rate=0.5, **options):
    return gymnasium.make("FrozenLake-v1", success_rate=rate, **options)


def table_of(env):
    """The exact transitions and rewards ``(S, A, S)``, ``(S, A)`` of a toy-text environment, which lists them."""
    listed = env.unwrapped.P
    transitions, rewards = np.zeros((16, 4, 16)), np.zeros((16, 4))
    for state in range(16):
        for action in range(4):
            for chance, following, reward, _ in listed[state][action]:
                transitions[state, action, following] += chance
                rewards[state, action] += chance * reward
    return transitions, rewards


def dense(model):
    """A model's candidates as ``(d1, S, A, S)``."""
    features = np.asarray(model.transition_features)
    if model.successors is None:
        return features
    full = np.zeros((*features.shape[:3], model.states))
    state, action = np.ogrid[: model.states, : model.actions]
    for candidate, columns in zip(full, features, strict=True):
        np.add.at(candidate, (state[..., None], action[..., None], np.asarray(model.successors)), columns)
    return full


def put(env, state):
    env.unwrapped.s = state


class Coin(gymnasium.Env):
    """One coin that never ends: state is the last side; action 1 turns it, action 0 throws it."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def __init__(self, heads=0.5, paid=1.0):
        self.heads, self.paid = heads, paid

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side = int(self.np_random.random() < self.heads)
        return self.side, {}

    def step(self, action):
        self.side = 1 - self.side if action == 1 else int(self.np_random.random() < self.heads)
        return self.side, self.paid * self.side, False, False, {}


# -- convergence ------------------------------------------------------------------------------------------------------


def test_the_error_bounds_hold_and_say_something():
    """At confidence 1 − 1e-6, over all pairs of two lakes: a false alarm in a million runs."""
    lakes = [lake(0.4), lake(0.8)]
    model, report, world = blend_from_simulators(
        lakes, 50, seed=1, samples=32_000, place=put, outcomes=3, confidence=1 - 1e-6, weights=[0.5, 0.5]
    )
    assert (report.samples, report.least_count) == (64_000, 500)
    exact, paid = zip(*(table_of(env) for env in lakes), strict=True)
    for estimate, transitions, one in zip(dense(model), exact, report.candidates, strict=True):
        error = np.abs(estimate - transitions).sum(axis=-1)
        assert (error <= one.transition_error).all()
        assert error.max() > 0
        assert 0.2 < one.transition_error.max() < 0.45
        assert one.untried == 0
        np.testing.assert_array_equal(one.counts, 500)
    most = np.maximum(*(one.reward_error for one in report.candidates))
    assert (np.abs(np.asarray(world.mean_rewards)[0] - np.mean(paid, axis=0)) <= most).all()
    assert report.zeta == max(one.transition_error.max() for one in report.candidates) / 2


@pytest.mark.parametrize(("n", "outcomes", "smoothing"), [(50, 2, 0.0), (400, 5, 1.0), (10_000, 30, 3.0)])
def test_the_bound_is_the_formula(n, outcomes, smoothing):
    """Weissman's bound by its other side: at ε the failure probability is the pair's share of δ/2 at its n-th sample."""
    counts, candidates, confidence = np.full((4, 3), n), 2, 0.9
    bound = transition_error(counts, outcomes, smoothing, candidates, confidence)[0, 0]
    epsilon = (bound * (n + smoothing) - 2 * smoothing) / n
    failure = (2**outcomes - 2) * np.exp(-n * epsilon**2 / 2)
    assert failure == pytest.approx(0.1 / 2 / (2 * 4 * 3) / (n * (n + 1)), rel=1e-6)
    doubt = reward_error(counts, candidates, confidence)[0, 0]
    assert 2 * np.exp(-2 * n * doubt**2) == pytest.approx(0.1 / 2 / (2 * 4 * 3) / (n * (n + 1)), rel=1e-6)


@pytest.mark.verify
def test_sixteen_times_the_samples_are_four_times_as_sharp():
    """Mean L1 errors over 64 pairs and 4 seeds: the ratio is 4 within a third. Its standard error is about 5%, so a
    false alarm is a matter of six of them."""
    truth = table_of(lake(0.5))[0]

    def error(samples, seed):
        model, _, _ = blend_from_simulators([lake(0.5)], 50, seed=seed, samples=samples, place=put, smoothing=0)
        return np.abs(dense(model)[0] - truth).sum(axis=-1).mean()

    few, many = (np.mean([error(samples, seed) for seed in range(4)]) for samples in (64 * 16, 64 * 256))
    assert 4 * 2 / 3 < few / many < 4 * 4 / 3


def test_exploring_by_chance_finds_what_can_be_found():
    """From the start alone: holes and the goal are absorbing because they end episodes, not because of counts."""
    model, report, _ = blend_from_simulators([lake(0.5)], 20, seed=3, samples=30_000, outcomes=3)
    (one,) = report.candidates
    assert set(np.flatnonzero(one.absorbing)) == {5, 7, 11, 12, 15}
    assert (one.counts[one.absorbing] == 0).all()
    assert (one.transition_error[one.absorbing] == 0).all()
    assert one.least_count > 0
    assert one.untried == 0
    assert one.counts.sum() == one.samples == 30_000
    assert one.episodes == report.first_states
    np.testing.assert_array_equal(model.initial, np.eye(16)[0])


def test_a_reticent_world_is_a_simulator_too():
    """Its episodes end in states that are acted in elsewhere, so nothing is taken for absorbing.

    The mean L1 error over 20 seeds is 0.066 ± 0.012, so 0.14 is six standard deviations away.
    """
    true = make_world("random-blend:states=4,actions=2,horizon=3")
    model, report, _ = blend_from_simulators([WorldEnv(true)], 3, seed=0, samples=3000, confidence=1 - 1e-6)
    (one,) = report.candidates
    assert not one.absorbing.any()
    error = np.abs(dense(model)[0] - np.asarray(true.transitions)[0]).sum(axis=-1)
    assert (error <= one.transition_error).all()
    assert 0 < error.mean() < 0.14


def test_the_shares_of_two_simulators_are_found_again():
    """Regress a third stream of transitions, from a true blend, on the two candidates.

    Over twelve seeds the shares spread by 0.015 and the optimal value by 0.013: both tolerances are six of these.
    """
    lakes = [lake(0.2), lake(0.9)]
    tables, rewards = zip(*(table_of(env) for env in lakes), strict=True)
    users = blend(tables, rewards, [0.3, 0.7], [0.3, 0.7], 20)
    model, _, world = blend_from_simulators(lakes, 20, seed=4, samples=16_000, place=put, weights=[0.3, 0.7])
    assert world.optimal_value == pytest.approx(users.optimal_value, abs=0.08)
    seen, report, _ = blend_from_simulators([WorldEnv(users)], 20, seed=5, samples=6000, smoothing=0)
    weight = np.sqrt(report.candidates[0].counts)[..., None]
    shares = np.linalg.lstsq((weight * dense(model)).reshape(2, -1).T, (weight * dense(seen)[0]).ravel(), rcond=None)[0]
    assert shares == pytest.approx([0.3, 0.7], abs=0.1)


# -- trajectories -----------------------------------------------------------------------------------------------------


def test_counting_by_hand():
    """States 0, 1 and an end 2; one action. Two visits of 0 (to 1, to 2), one of 1 (to 0); a pseudo-count that stays."""
    public = [Trajectory([0, 1, 0, 2], [0, 0, 0], [0.0, 0.5, 1.0], terminated=True)]
    model, report, _ = blend_from_simulators([public], 3, seed=0, states=3, actions=1)
    np.testing.assert_allclose(dense(model)[0, :, 0], [[1 / 3, 1 / 3, 1 / 3], [1 / 2, 1 / 2, 0], [0, 0, 1]])
    np.testing.assert_allclose(model.reward_features[0, :, 0], [1.0, 1.0, 0.0])  # (0.5, 0.5, 0), by the largest
    (one,) = report.candidates
    assert (one.samples, one.episodes, one.least_count, one.untried, one.pairs) == (3, 1, 1, 0, 2)
    assert one.absorbing.tolist() == [False, False, True]
    seen = blend_from_simulators([public], 3, seed=0, states=3, actions=1, prior="seen", smoothing=2.0).model
    np.testing.assert_allclose(dense(seen)[0, :, 0], [[0, 1 / 2, 1 / 2], [1, 0, 0], [0, 0, 1]])


def test_an_end_that_was_only_cut_off_is_not_known():
    cut = [Trajectory([0, 1], [0], [0.0])]
    (one,) = blend_from_simulators([cut], 2, seed=0, states=2, actions=1).report.candidates
    assert not one.absorbing.any()
    assert (one.untried, one.least_count, one.transition_error[1, 0]) == (1, 0, 2.0)


def test_episodes_come_in_batches_and_match_single_trajectories():
    rng = np.random.default_rng(0)
    batch = Episode(rng.integers(3, size=(2, 5, 4)), rng.integers(2, size=(2, 5, 3)), rng.random((2, 5, 3)))
    singles = [
        Trajectory(*(column[i, j] for column in batch)) for i in range(2) for j in range(5)
    ]  # fmt: skip
    together, apart = (blend_from_simulators([source], 3, seed=0, states=3, actions=2) for source in ([batch], singles))
    np.testing.assert_array_equal(together.model.transition_features, apart.model.transition_features)
    np.testing.assert_array_equal(together.model.reward_features, apart.model.reward_features)
    np.testing.assert_array_equal(together.model.initial, np.bincount(batch.states[..., 0].ravel(), minlength=3) / 10)
    assert together.report.first_states == apart.report.first_states == 10


def test_environments_and_trajectories_mix_and_few_successors_make_a_sparse_model():
    corridor = [Trajectory(list(range(16)), [1] * 15, [0.0] * 15)]
    model, report, world = blend_from_simulators(
        [lake(1.0), corridor], 10, seed=0, samples=5000, weights=[0.5, 0.5], names=["ice", "corridor"]
    )
    assert model.successors is not None
    np.testing.assert_allclose(dense(model).sum(axis=-1), 1, atol=1e-12)
    assert [one.name for one in report.candidates] == ["ice", "corridor"]
    assert world.model is model
    text = str(report)
    assert "corridor" in text
    assert "0.95" in text


# -- rewards, seeds, progress -----------------------------------------------------------------------------------------


def test_rewards_are_mapped_to_the_unit_interval_and_ends_pay_zero_before_that():
    falls = [Trajectory([0, 1], [0], [-3.0], terminated=True), Trajectory([0, 0], [0], [1.0])]
    model = blend_from_simulators([falls], 2, seed=0, states=2, actions=1, reward_range=(-3.0, 1.0)).model
    # Means −1 and 0 are 0.5 and 0.75 of the range; features are divided by the largest.
    np.testing.assert_allclose(model.reward_features[0, :, 0], [0.5 / 0.75, 1.0])
    with pytest.raises(InvalidInput, match=r"rewards of source 0 is -3 to 1, but must be in \[0, 1\].*reward_range"):
        blend_from_simulators([falls], 2, seed=0, states=2, actions=1)
    with pytest.raises(InvalidInput, match=r"reward_range is .* around 0"):
        blend_from_simulators(
            [[Trajectory([0, 1], [0], [2.0], terminated=True)]], 2, seed=0, states=2, actions=1, reward_range=(1, 2)
        )


def test_known_rewards_and_first_states_are_taken_as_given():
    known = np.zeros((1, 2, 2))
    known[0, 1] = 1
    model, report, world = blend_from_simulators(
        [Coin(0.2), Coin(0.8)], 4, seed=0, samples=200, reward_candidates=known, initial=1, weights=[0.5, 0.5]
    )
    assert (model.d1, model.d2, report.first_states) == (2, 1, 0)
    np.testing.assert_array_equal(model.initial, [0, 1])
    np.testing.assert_array_equal(world.mean_rewards[0], known[0])


def test_seeds_decide_everything():
    first, again, other = (blend_from_simulators([Coin()] * 2, 5, seed=seed, samples=300).model for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.transition_features, again.transition_features)
    assert not np.array_equal(first.transition_features, other.transition_features)
    assert not np.array_equal(first.transition_features[0], first.transition_features[1]), "two sources, one stream"


def test_progress_is_told_and_ends_at_the_total():
    told = []
    blend_from_simulators([Coin(), Coin()], 5, seed=0, samples=1000, progress=lambda *at: told.append(at))
    assert len(told) == 200
    assert told[-1] == (2000, 2000)
    assert all(earlier < later for earlier, later in itertools.pairwise(told))


# -- contracts --------------------------------------------------------------------------------------------------------


@st.composite
def samples(draw):
    """Up to three small sources of transitions over the same states and actions."""
    states, actions = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    sources = []
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 30))
        column = {
            name: np.array(draw(st.lists(st.integers(0, most - 1), min_size=size, max_size=size)))
            for name, most in (("states", states), ("actions", actions), ("following", states))
        }
        rewards = np.array(draw(st.lists(st.floats(0, 1), min_size=size, max_size=size)))
        ended = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
        sources.append(Sample(**column, rewards=rewards, ended=ended, firsts=column["states"][:1]))
    return states, actions, sources


@settings(max_examples=60, deadline=None)
@given(samples(), st.floats(0, 10), st.sampled_from(["stay", "seen"]))
def test_rows_are_distributions_and_counts_add_up(given_samples, smoothing, prior):
    states, actions, sources = given_samples
    tallies = [tally(sample, states, actions) for sample in sources]
    for sample, one, mean in zip(sources, tallies, dirichlet_means(tallies, smoothing, prior), strict=True):
        assert one.counts.sum() == one.transitions.sum() == len(sample.states)
        assert one.rewards.sum() == pytest.approx(sample.rewards.sum())
        np.testing.assert_array_equal(one.transitions.sum(axis=1), one.counts.ravel())
        rows = mean.toarray().reshape(states, actions, states)
        assert rows.min() >= 0
        np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=1e-12)
        np.testing.assert_array_equal(rows[one.absorbing], np.broadcast_to(
            np.eye(states)[one.absorbing][:, None], (int(one.absorbing.sum()), actions, states)
        ))  # fmt: skip
        if smoothing == 0:
            tried = one.counts > 0
            plain = one.transitions.toarray().reshape(rows.shape)[tried] / one.counts[tried][:, None]
            np.testing.assert_allclose(rows[tried], plain, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10**9), st.integers(1, 2000), st.floats(0, 10), st.floats(0.01, 0.999))
def test_the_bound_is_between_nothing_and_two_and_falls_with_samples(n, outcomes, smoothing, confidence):
    counts = np.array([[0, n, 4 * n + 20]])
    bound = transition_error(counts, outcomes, smoothing, 2, confidence)[0]
    assert bound[0] == 2
    assert 0 <= bound[2] <= bound[1] <= 2


# -- what is refused --------------------------------------------------------------------------------------------------


def test_spaces_that_are_not_discrete_are_named():
    with pytest.raises(InvalidInput, match=r"source 1: observation_space is Box.*must be Discrete, starting at 0"):
        blend_from_simulators([Coin(), gymnasium.make("CartPole-v1")], 5, seed=0)
    with pytest.raises(InvalidInput, match=r"source 1: observation_space is Discrete\(16\).*Discrete\(2\)"):
        blend_from_simulators([Coin(), lake()], 5, seed=0)


@pytest.mark.parametrize(
    ("trajectories", "message"),
    [
        ([], "transitions of source 0 is 0, but must be at least 1"),
        ([Trajectory([0], [], [])], "transitions of source 0 is 0"),
        ([Trajectory([0, 1], [0, 0], [0, 0])], r"trajectory 0: shapes .* \(2,\), \(2,\), \(2,\)"),
        ([Trajectory([0, 2], [0], [0])], "trajectory 0: states is 0 to 2, but must be from 0 to 1"),
        ([Trajectory([0, 1], [-1], [0])], "trajectory 0: actions is -1 to -1"),
        ([Trajectory([0.5, 1], [0], [0])], "trajectory 0: states.dtype is float64"),
        ([Trajectory([0, 1], [0], [np.nan])], "rewards of source 0 is nan"),
    ],
)
def test_wrong_trajectories_are_named(trajectories, message):
    with pytest.raises(InvalidInput, match=message):
        blend_from_simulators([trajectories], 2, seed=0, states=2, actions=1)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"samples": 0}, "samples is 0"),
        ({"smoothing": -1.0}, "smoothing is -1"),
        ({"smoothing": np.nan}, "smoothing is nan"),
        ({"confidence": 1.0}, "confidence is 1"),
        ({"prior": "flat"}, "prior is flat"),
        ({"outcomes": 0}, "outcomes is 0"),
        ({"reward_range": (1.0, 1.0)}, "reward_range"),
        ({"names": ["one", "two"]}, "names is 2 names"),
        ({"states": 3}, r"observation_space is Discrete\(2\)"),
        ({"weights": [0.5]}, "weights is sum 0.5"),
    ],
)
def test_wrong_options_are_named(option, message):
    with pytest.raises(InvalidInput, match=message):
        blend_from_simulators([Coin()], 2, **{"seed": 0, "samples": 10, **option})


def test_there_must_be_a_source_and_sizes():
    with pytest.raises(InvalidInput, match="sources is 0"):
        blend_from_simulators([], 2, seed=0)
    with pytest.raises(InvalidInput, match="states is None"):
        blend_from_simulators([[Trajectory([0, 1], [0], [0])]], 2, seed=0)
