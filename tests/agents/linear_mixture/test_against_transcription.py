# SPDX-License-Identifier: Apache-2.0
"""The learners against the slow transcription of the pseudo-code: same draws, same policies, values and estimates.

Value iteration chooses by argmax, so where two actions are tied *mathematically* a rounding error decides. With one-hot
features and Z = λI all untried actions of a state are so tied; there the transcription breaks ties as the library did
(after checking that they are ties). Everywhere else it is on its own: the clip at H−h+1 makes exact ties in both.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_linopt as slow
from scripted_regularizer import ScriptedRegularizer

from reticent.agents import make_agent
from reticent.agents.linear_mixture.frame import PAPER_FRAME, Frame
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.radius import radii
from reticent.agents.linear_mixture.regularizer import Certificate
from reticent.agents.linear_mixture.statistics import Statistics, estimates
from reticent.learning.schedule import Schedule
from reticent.simulation.rollout import episode_uniforms, rollout, streams
from reticent.simulation.simulate import simulate
from reticent.worlds import World, make_world

EPISODES = 200
ALPHA = 0.05
WORLDS = ["riverswim:states=3,horizon=6", "riverswim:states=4,features=blend,horizon=6",
          "random-blend:states=6,actions=3,horizon=4,d=3,per_step=true"]  # fmt: skip
FRAMES = {
    "centred-step": (Frame(centred=True, span="step"), slow.centred_step_frame),
    "centred-seen": (Frame(centred=True, span="seen"), slow.seen_frame(centred=True)),
    "seen": (Frame(centred=False, span="seen"), slow.seen_frame(centred=False)),
}


def script_for(world: World) -> tuple[ScriptedRegularizer, Certificate, slow.Regularizer]:
    """Symmetric noise over a shift, new in every episode and step: for the library, its constants, and plainly."""
    rng = np.random.default_rng(7)
    horizon, d1, d2 = world.model.horizon, world.model.d1, world.model.d2

    def matrices(d: int, shift: float, noise: float) -> np.ndarray:
        raw = rng.normal(scale=noise / np.sqrt(d), size=(EPISODES + 1, horizon, d, d))
        return shift * np.eye(d) + (raw + raw.swapaxes(-1, -2)) / 2

    def vectors(d: int, noise: float) -> np.ndarray:
        return rng.normal(scale=noise, size=(EPISODES + 1, horizon, d))

    Z_p, z_p, Z_r, z_r = matrices(d1, 20, 4), vectors(d1, 2), matrices(d2, 5, 1), vectors(d2, 0.5)
    bounds = []
    for Z, z in ((Z_p, z_p), (Z_r, z_r)):
        eigenvalues = np.linalg.eigvalsh(Z)
        norms = np.sqrt((z * np.linalg.solve(Z, z[..., None])[..., 0]).sum(axis=-1))
        # One row per round: the certificate may tighten or loosen as rounds close.
        bounds += [eigenvalues.min(axis=-1), eigenvalues.max(axis=-1), norms]
    script = Statistics(*map(jnp.asarray, (Z_p, z_p, Z_r, z_r)))
    return (
        ScriptedRegularizer(script),
        Certificate(*bounds),
        lambda k: slow.Regularization(Z_p[k], z_p[k], Z_r[k], z_r[k]),
    )


def plain(world: World) -> slow.PlainWorld:
    """The world as plain arrays, its truth expanded from θ here and not by the library."""
    psi, varphi = np.asarray(world.model.transition_features), np.asarray(world.model.reward_features)
    return slow.PlainWorld(
        psi=psi,
        varphi=varphi,
        transitions=np.einsum("hd,dsat->hsat", np.asarray(world.transition_theta), psi),
        mean_rewards=np.einsum("hd,dsa->hsa", np.asarray(world.reward_theta), varphi),
        initial=np.asarray(world.model.initial),
    )


@jax.jit
def run_library(agent: LinOptLearner, world: World, uniforms: jax.Array) -> Any:
    """All episodes in one scan, every plan and estimate kept."""

    def one(state: Any, draws: jax.Array) -> Any:
        plan = agent.plan(state, action_values=True)
        transition, reward = estimates(agent.aggregator.released(state.aggregate))
        episode = rollout(agent, world, plan, draws)
        return agent.update(state, plan, episode), (plan, transition.theta, reward.theta, episode)

    return jax.lax.scan(one, agent.init(), uniforms)


def uniforms_of(world: World, seed: int) -> jax.Array:
    key = streams(seed).users
    return jax.vmap(lambda k: episode_uniforms(key, k, world.model.horizon))(jnp.arange(EPISODES))


def ties_of(name: str, result: Any) -> np.ndarray | None:
    """The library's choices, for where the best actions are equal up to rounding: a pair that nobody has visited is like
    every other, and so are all pairs without a reward while the values that follow are the same everywhere."""
    return np.asarray(result[0].policy) if name == "ucrl-vtr" else None


def assert_same(result: Any, trace: slow.Trace) -> None:
    plan, theta_p, theta_r, episode = result
    np.testing.assert_array_equal(np.asarray(episode.states), np.array(trace.states))
    np.testing.assert_array_equal(np.asarray(episode.rewards), np.array(trace.rewards))
    played = plan.probabilities(plan.action_values.shape[-1])
    for ours, theirs in (
        (played, trace.policy), (plan.values, trace.V), (plan.action_values, trace.Q),
        (theta_p, trace.theta_p), (theta_r, trace.theta_r),
    ):  # fmt: skip
        np.testing.assert_allclose(np.asarray(ours), np.array(theirs), rtol=0, atol=1e-9)


@pytest.mark.verify
@pytest.mark.parametrize("scale", [1.0, 0.03])
@pytest.mark.parametrize("name", ["ucrl-vtr", "oppo:learning_rate=paper", "oppo:learning_rate=0.3"])
@pytest.mark.parametrize("spec", WORLDS)
def test_fixed_regularizer(spec: str, name: str, scale: float) -> None:
    world = make_world(spec)
    horizon, d1, d2, actions = world.model.horizon, world.model.d1, world.model.d2, world.model.actions
    agent = make_agent(name, world.model, EPISODES, bonus_scale=scale, alpha=ALPHA, regularization=0.7)
    uniforms = uniforms_of(world, 3)
    eta = {
        "ucrl-vtr": None, "oppo:learning_rate=paper": np.sqrt(2 * np.log(actions) / (horizon * EPISODES * horizon)),
        "oppo:learning_rate=0.3": 0.3,
    }[name]  # fmt: skip
    _, result = run_library(agent, world, uniforms)
    trace = slow.lin_opt(
        plain(world),
        slow.fixed(0.7, 0.7, horizon, d1, d2),
        np.full(horizon, scale * slow.beta_p(horizon, EPISODES, d1, ALPHA, 0.7, 0.7, 0.0)),
        np.full(horizon, scale * slow.beta_r(horizon, EPISODES, d2, ALPHA, 0.7, 0.7, 0.0)),
        np.asarray(uniforms),
        eta,
        ties=ties_of(name, result),
        ahead="paper" not in name,
    )
    assert_same(result, trace)
    # The estimates must have moved and the policies must not be all alike, or the comparison would say little.
    assert np.abs(trace.theta_p[-1]).max() > 0.05
    if scale < 1:
        assert len({policy.tobytes() for policy in trace.policy}) > 5


@pytest.mark.verify
@pytest.mark.parametrize("name", ["ucrl-vtr", "oppo"])
def test_the_engine_plays_the_same_episodes(name: str) -> None:
    """``simulate`` draws the same uniforms: its last plan, made after all K episodes, and its regret are the scan's."""
    world = make_world(WORLDS[2])
    agent = make_agent(name, world.model, EPISODES, bonus_scale=0.03)
    last, (plan, *_) = run_library(agent, world, uniforms_of(world, 3))
    curves = simulate(agent, world, [3], segments=3)
    np.testing.assert_allclose(curves.carry.plan.values[0], agent.plan(last).values, rtol=0, atol=1e-9)
    values = np.asarray(jax.vmap(world.policy_value)(plan.policy))
    regret = np.cumsum(world.optimal_value - values)
    np.testing.assert_allclose(curves.regret[0], regret[curves.episodes - 1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(curves.value[0], values[curves.episodes - 1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 0.03])
@pytest.mark.parametrize("method", ["value-iteration", "policy-optimization"])
@pytest.mark.parametrize("spec", [pytest.param(WORLDS[0], marks=pytest.mark.verify), WORLDS[2]])
def test_changing_regularizers(spec: str, method: Any, scale: float) -> None:
    world = make_world(spec)
    model = world.model
    regularizer, limits, script = script_for(world)
    agent = LinOptLearner(
        model=model, aggregator=regularizer, radii=radii(model, PAPER_FRAME, limits, EPISODES, ALPHA),
        bonus_scale=jnp.asarray(scale), learning_rate=jnp.asarray(0.1), frame=PAPER_FRAME,
        schedule=Schedule(EPISODES), method=method, name="scripted", pooled=False,
    )  # fmt: skip
    uniforms = uniforms_of(world, 5)
    # Plans differ with the row of the certificate, which the reference takes episode by episode.
    rows_p = [
        [slow.beta_p(model.horizon, EPISODES, model.d1, ALPHA, *(x[k, h] for x in (
            limits.transition_lambda_min, limits.transition_lambda_max, limits.transition_nu)))
         for h in range(model.horizon)] for k in range(EPISODES)
    ]  # fmt: skip
    rows_r = [
        [slow.beta_r(model.horizon, EPISODES, model.d2, ALPHA, *(x[k, h] for x in (
            limits.reward_lambda_min, limits.reward_lambda_max, limits.reward_nu)))
         for h in range(model.horizon)] for k in range(EPISODES)
    ]  # fmt: skip
    trace = slow.lin_opt(
        plain(world), script, scale * np.array(rows_p), scale * np.array(rows_r), np.asarray(uniforms),
        None if method == "value-iteration" else 0.1,
    )  # fmt: skip
    assert_same(run_library(agent, world, uniforms)[1], trace)


QUICK_FRAMES = {
    (WORLDS[0], "centred-seen", "ucrl-vtr"),
    (WORLDS[1], "centred-step", "ucrl-vtr"),
    (WORLDS[2], "seen", "ucrl-vtr"),
    (WORLDS[2], "centred-seen", "oppo"),
}


@pytest.mark.verify
@pytest.mark.parametrize(
    ("spec", "frame", "name"),
    [
        pytest.param(*case, name, marks=[] if (*case, name) in QUICK_FRAMES else [pytest.mark.verify])
        for case in [
            *((WORLDS[2], frame) for frame in FRAMES),
            (WORLDS[0], "centred-seen"),
            (WORLDS[1], "centred-step"),
        ]
        for name in ("ucrl-vtr", "oppo")
    ],
)
def test_other_frames(spec: str, frame: str, name: str) -> None:
    world = make_world(spec)
    model, scale = world.model, 0.05
    ours, theirs = FRAMES[frame]
    agent = make_agent(
        name if name == "ucrl-vtr" else f"{name}:learning_rate=paper", model, EPISODES, bonus_scale=scale, alpha=ALPHA
    )
    limits = agent.aggregator.certificate()
    agent = dataclasses.replace(
        agent, frame=ours, radii=radii(model, ours, limits, EPISODES, ALPHA), learning_rate=jnp.asarray(0.1)
    )
    steps_left = [model.horizon - h for h in range(1, model.horizon + 1)]
    if frame == "centred-step":  # V - c in [-(H-h)/2, (H-h)/2], features up to √d1 times its half-width
        ranges, lengths = steps_left, [np.sqrt(model.d1) * left / 2 for left in steps_left]
    else:  # in the unit ball, and nothing at the last step
        ranges = [(2.0 if ours.centred else 1.0) * (left > 0) for left in steps_left]
        lengths = [float(left > 0) for left in steps_left]
    radius_p = [
        slow.beta_general(R, L, np.sqrt(model.d1), model.horizon, EPISODES, model.d1, ALPHA, 1.0, 1.0, 0.0)
        for R, L in zip(ranges, lengths, strict=True)
    ]
    radius_r = [slow.beta_r(model.horizon, EPISODES, model.d2, ALPHA, 1.0, 1.0, 0.0)] * model.horizon
    uniforms = uniforms_of(world, 11)
    _, result = run_library(agent, world, uniforms)
    trace = slow.lin_opt(
        plain(world), slow.fixed(1.0, 1.0, model.horizon, model.d1, model.d2), scale * np.array(radius_p),
        scale * np.array(radius_r), np.asarray(uniforms), None if name == "ucrl-vtr" else 0.1, theirs,
        ties_of(name, result),
    )  # fmt: skip
    assert_same(result, trace)
