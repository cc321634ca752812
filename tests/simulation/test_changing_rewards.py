# SPDX-License-Identifier: Apache-2.0
"""Changing rewards, simulated: against a slow transcription, against rewards that stay, and whose regret is linear."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_linopt as slow

from reticent.agents import make_agent
from reticent.agents.linear_mixture.changing_rewards import for_changing_rewards
from reticent.errors import InvalidInput
from reticent.runtime import double_precision
from reticent.simulation.changing_rewards import ChangingCurves, simulate_changing_rewards
from reticent.simulation.rollout import episode_uniforms, streams
from reticent.simulation.simulate import simulate
from reticent.worlds import make_world
from reticent.worlds.transforms.changing_rewards import reward_stream, stream_of_tables

WORLD = make_world("random-blend:states=3,actions=2,horizon=3,d=2")
EPISODES, SEED = 12, 3


def worth(plain: slow.PlainWorld, policy: np.ndarray, table: np.ndarray) -> float:
    """V^π under a table, backward in plain loops."""
    values = np.zeros(len(plain.initial))
    for h in range(plain.horizon - 1, -1, -1):
        values = np.array([policy[h, s] @ (table[s] + plain.transitions[h, s] @ values) for s in range(len(values))])
    return float(plain.initial @ values)


def best(plain: slow.PlainWorld, table: np.ndarray) -> float:
    values = np.zeros(len(plain.initial))
    for h in range(plain.horizon - 1, -1, -1):
        values = np.array([max(table[s] + plain.transitions[h, s] @ values) for s in range(len(values))])
    return float(plain.initial @ values)


@double_precision
def the_uniforms(episodes: int, horizon: int) -> np.ndarray:
    key = streams(SEED).users
    return np.asarray(jax.vmap(lambda k: episode_uniforms(key, k, horizon))(jnp.arange(episodes)))


@pytest.mark.parametrize(
    "kind",
    ["adversarial", pytest.param("alternating", marks=pytest.mark.verify),
     pytest.param("drifting", marks=pytest.mark.verify)],
)  # fmt: skip
def test_it_is_the_algorithm_written_down_slowly(kind: str) -> None:
    stream = reward_stream(WORLD, kind, swing=0.7, period=5 if kind == "drifting" else None)
    model = stream.world.model
    agent = make_agent(
        "oppo:contrasts=true", model, EPISODES, bonus_scale=0.05, alpha=0.1, regularization=0.7
    )  # fmt: skip
    curves = simulate_changing_rewards(for_changing_rewards(agent, 0.8), stream, [SEED])

    psi, tables = np.asarray(model.transition_features), np.asarray(stream.tables)
    plain = slow.PlainWorld(
        psi=psi,
        varphi=np.asarray(model.reward_features),
        transitions=np.einsum("hd,dsat->hsat", np.asarray(stream.world.transition_theta), psi),
        mean_rewards=np.zeros((model.horizon, model.states, model.actions)),
        initial=np.asarray(model.initial),
    )
    announced: list[np.ndarray] = []

    def nature(k: int, policy: np.ndarray) -> np.ndarray:
        if kind == "adversarial":
            table = tables[int(np.argmin([worth(plain, policy, one) for one in tables]))]
        elif kind == "alternating":
            table = tables[k % 2]
        else:
            share = (1 - np.cos(2 * np.pi * k / 5)) / 2
            table = (1 - share) * tables[0] + share * tables[1]
        announced.append(table)
        return table

    radius = 0.05 * slow.beta_p(model.horizon, EPISODES, model.d1, 0.1, 0.7, 0.7, 0.0)
    trace = slow.lin_opt(
        plain, slow.fixed(0.7, 0.7, model.horizon, model.d1, model.d2), np.full(model.horizon, radius),
        np.zeros(model.horizon), the_uniforms(EPISODES, model.horizon), 0.8, announced=nature,
    )  # fmt: skip
    earned = np.cumsum([worth(plain, policy, table) for policy, table in zip(trace.policy, announced, strict=True)])
    means = np.cumsum(announced, axis=0) / np.arange(1, EPISODES + 1)[:, None, None]
    hindsight = np.array([(k + 1) * best(plain, mean) for k, mean in enumerate(means)])
    np.testing.assert_array_equal(curves.episodes, np.arange(1, EPISODES + 1))
    np.testing.assert_allclose(curves.earned[0], earned, rtol=0, atol=1e-9)
    np.testing.assert_allclose(curves.regret[0], hindsight - earned, rtol=0, atol=1e-9)
    # The last step of the mirror too, which no episode of the run has shown.
    last = trace.policy[-1] * np.exp(0.8 * trace.Q[-1])
    np.testing.assert_allclose(
        jax.nn.softmax(curves.state.log_policy[0], axis=-1), last / last.sum(axis=-1, keepdims=True), atol=1e-6
    )
    assert np.ptp(np.array(trace.policy), axis=0).max() > 0.1  # or the comparison would say little


@pytest.mark.verify
@pytest.mark.parametrize(
    "spec",
    ["oppo:contrasts=true,learning_rate=paper", "ucrl-vtr:contrasts=true",
     "private-linopt-po:counter=tree,epsilon=5,learning_rate=paper",
     "private-linopt-po:counter=blt,final_release=false,learning_rate=paper"],
)  # fmt: skip
def test_rewards_that_stay_are_the_ordinary_simulation(spec: str) -> None:
    """One table for ever and every user a round: the stationary learner's regret, seed by seed."""
    stream = stream_of_tables(WORLD, np.asarray(WORLD.reward_means), "alternating")
    agent = make_agent(spec, stream.world.model, 40)
    stays = simulate(agent, stream.world, [3, 4])
    changes = simulate_changing_rewards(for_changing_rewards(agent), stream, [3, 4])
    np.testing.assert_array_equal(changes.episodes, stays.episodes)
    np.testing.assert_allclose(changes.regret, stays.regret, rtol=1e-12, atol=1e-12)
    assert stays.regret[:, -1].min() > 0.1
    if agent.schedule.final_release and changes.state.log_policy is not None:
        np.testing.assert_allclose(changes.state.log_policy, stays.carry.state.log_policy, rtol=1e-12, atol=1e-12)


@pytest.mark.verify
def test_within_a_round_every_announcement_is_stepped_along() -> None:
    """Rounds of many users: between two releases the policy moves on, one step for each user and none twice."""
    stream = reward_stream(WORLD, "alternating", swing=0.5)
    agent = for_changing_rewards(make_agent("private-linopt-po:first=16,growth=1", stream.world.model, 32), 0.3)
    assert agent.schedule.sizes == (16, 16)
    curves = simulate_changing_rewards(agent, stream, [0])
    assert int(curves.state.rounds[0]) == 2
    # At the last step of an episode Q is the announced table, so that 16 steps along each are known exactly.
    stepped = 0.3 * 16 * np.asarray(stream.tables).sum(axis=0)
    expected = np.broadcast_to(stepped - stepped.max(axis=-1, keepdims=True), stepped.shape)
    np.testing.assert_allclose(curves.state.log_policy[0, -1], expected, atol=1e-9)
    pairs = np.diff(curves.earned[0], prepend=0.0)[:16].reshape(8, 2)  # under one table and under the other
    both = pairs.sum(axis=1)
    assert len(np.unique(np.round(both, 6))) == len(both)  # one policy of a whole round would earn the same again


def test_who_steps_ahead_or_lives_elsewhere_is_refused() -> None:
    stream = reward_stream(WORLD, "alternating")
    agent = make_agent("private-linopt-po:first=5", stream.world.model, 20)
    with pytest.raises(InvalidInput, match="for_changing_rewards"):
        simulate_changing_rewards(agent, stream, [0])
    with pytest.raises(InvalidInput, match=r"stream\.world\.model"):
        simulate_changing_rewards(for_changing_rewards(agent), reward_stream(WORLD, "drifting"), [0])
    with pytest.raises(InvalidInput, match="contrasts=true"):
        simulate_changing_rewards(make_agent("ucrl-vtr", stream.world.model, 20), stream, [0])


# -- whose regret is linear ----------------------------------------------------------------------------------------------

SHORT, LONG, SEEDS = 500, 2000, range(8)
QUANTILE = 4.785
"""Of Student's t with seven degrees of freedom at 0.001: each comparison of eight seeds fails so often by chance."""


@functools.cache
def met(kind: str, spec: str, episodes: int, expects: str = "last") -> ChangingCurves:
    world = make_world("random-blend:states=5,actions=4,horizon=3,d=3")
    stream = reward_stream(world, kind, swing=0.6)
    agent = for_changing_rewards(make_agent(spec, stream.world.model, episodes))
    return simulate_changing_rewards(agent, stream, SEEDS, expects=expects)


def surely_below(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether the mean over seeds of left − right is below 0 by more than chance, at 0.001."""
    apart = left - right
    return bool(apart.mean() + QUANTILE * apart.std(ddof=1) / np.sqrt(len(apart)) < 0)


OPTIONS = "contrasts=true,centred=true,span=seen,pool=true,normalize=true"


@pytest.mark.verify
@pytest.mark.parametrize("spec", [f"oppo:{OPTIONS}", "private-linopt-po:epsilon=2"])
@pytest.mark.parametrize("kind", ["alternating", "adversarial"])
def test_policy_optimization_is_sublinear_and_following_the_last_announcement_is_not(kind: str, spec: str) -> None:
    """Four times as many episodes: √K would double regret and linear regret be four times as large."""
    short, long = (met(kind, spec, episodes).regret[:, -1] for episodes in (SHORT, LONG))
    assert surely_below(long, 3 * short)
    few, many = (met(kind, f"ucrl-vtr:{OPTIONS}", episodes).regret[:, -1] for episodes in (SHORT, LONG))
    assert surely_below(3.8 * few, many)
    assert surely_below(4 * long, many)
    if kind == "adversarial":  # to follow the mean of all announcements helps against a clock, not against an adversary
        few, many = (met(kind, f"ucrl-vtr:{OPTIONS}", n, "mean").regret[:, -1] for n in (SHORT, LONG))
        assert surely_below(3.8 * few, many)
        assert surely_below(2 * long, many)
