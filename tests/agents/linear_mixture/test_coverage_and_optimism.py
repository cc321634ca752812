# SPDX-License-Identifier: Apache-2.0
r"""Lemma CI and the optimism it buys, by simulation on random blends.

Every program below runs the library's own pure functions and reports, for every episode k,

* how far θ is from its estimates: the largest :math:`\|\theta_h-\hat\theta_h^k\|_{\Lambda_h^k}/\beta` over h and both
  regressions. θ is inside all ellipsoids of episode k where this is at most 1;
* the least slack of what the paper proves for such an episode. LinOpt-VI: :math:`Q^k\ge Q^*` everywhere (Lemma
  "optimism"). LinOpt-PO: :math:`V_1^k\ge V_1^{\pi^k}`. Both: :math:`0\le Q^k-(r+PV^k)\le 2(\Gamma_p+\Gamma_r)`.

The second is a theorem about a single episode with no probability left in it, so one counter-example is a bug. It
holds at any bonus scale if "inside" means the equally scaled ellipsoids; small scales are where Q is not clipped and it
has teeth.

The first is statistical. Lemma CI promises that at bonus scale 1 a whole run stays inside with probability 1−3α, so of
200 runs at least 170 are asked for at α = 0.05. The lemma is loose (the largest ratio in all runs and episodes is
0.65), so a correct program is far from the line: were its miss probability even as high as 5%, more than 30 misses in
200 runs would have probability below 1e-7. And seeds are fixed: the outcome is the same whenever the test is run. That
a wrong radius would be noticed is checked too: at a fifth of the radius every run leaves.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scripted_regularizer import ScriptedRegularizer

from reticent.agents import make_agent
from reticent.agents.linear_mixture.frame import PAPER_FRAME, Frame, framed_values
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.radius import radii
from reticent.agents.linear_mixture.regularizer import Certificate
from reticent.agents.linear_mixture.statistics import Statistics, estimates
from reticent.learning.ridge import width
from reticent.simulation.rollout import episode_uniforms, rollout, streams
from reticent.worlds import World, make_world

EPISODES, ALPHA = 250, 0.05
WORLD_SEEDS, RUNS_PER_WORLD = 4, 50
RUNS = WORLD_SEEDS * RUNS_PER_WORLD


class Audit(NamedTuple):
    """Per episode: distance of θ in radii, slacks of the claims (negative is a violation), share of Q not clipped."""

    distance: Any
    optimism: Any
    lower: Any
    upper: Any
    free: Any


def audit(agent: LinOptLearner, world: World, seed: jax.Array, script: Any) -> Audit:
    """One run of ``agent`` with every claim measured in every episode."""
    model = world.model
    key = streams(seed).users
    best = world.optimal_action_values
    if script is not None:
        agent = dataclasses.replace(agent, aggregator=ScriptedRegularizer(script))

    def one(state: Any, k: jax.Array) -> Any:
        plan = agent.plan(state, action_values=True)
        sums = agent.aggregator.released(state.aggregate)
        transition, reward = estimates(sums)
        radius_p, radius_r = (agent.bonus_scale * row for row in agent.radii.after(state.rounds))

        def distances(truth: jax.Array, theta: jax.Array, gram: jax.Array) -> jax.Array:
            error = truth - theta
            return jnp.sqrt(jnp.einsum("hi,hij,hj->h", error, gram, error))

        ratio = jnp.maximum(
            (distances(world.transition_theta, transition.theta, sums.transition_gram) / radius_p).max(),
            (distances(world.reward_theta, reward.theta, sums.reward_gram) / radius_r).max(),
        )
        features = jax.vmap(model.value_features)(framed_values(plan))
        gamma_p = (
            radius_p[:, None, None]
            * plan.extension.scales[:, None, None]
            * jax.vmap(width)(transition.factor, features)
        )
        gamma_r = radius_r[:, None, None] * jax.vmap(width, in_axes=(0, None))(reward.factor, model.reward_features)
        bellman = world.mean_rewards + jnp.einsum("hsat,ht->hsa", world.transitions, plan.values[1:])
        surplus = plan.action_values - bellman
        if agent.method == "value-iteration":
            optimism = (plan.action_values - best).min()
        else:
            optimism = (plan.values[0] - world.evaluate(plan.policy)[0]).min()
        left = model.horizon - jnp.arange(model.horizon)[:, None, None]
        found = Audit(
            ratio, optimism, surplus.min(), (2 * (gamma_p + gamma_r) - surplus).min(),
            (plan.action_values < left - 1e-9).mean(),
        )  # fmt: skip
        episode = rollout(agent, world, plan, episode_uniforms(key, k, model.horizon))
        return agent.update(state, plan, episode), found

    return jax.lax.scan(one, agent.init(), jnp.arange(EPISODES))[1]


@functools.cache
def blends() -> tuple[World, ...]:
    specs = [f"random-blend:states=5,actions=3,horizon=3,d1=3,d2=2,seed={seed},per_step=true" for seed in range(4)]
    worlds = map(make_world, specs)
    # Their reward weights have sums of their own, which nothing here uses; side by side they must be of one structure.
    return tuple(
        dataclasses.replace(world, name="blend", model=dataclasses.replace(world.model, reward_total=None))
        for world in worlds
    )


def stack(trees: Any) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@jax.jit
def audit_all(agents: LinOptLearner, worlds: World, seeds: jax.Array, scripts: Any) -> Audit:
    """Worlds × seeds at once; results ``(worlds, seeds, episodes)``."""
    over_seeds = jax.vmap(audit, in_axes=(None, None, 0, 0))
    return jax.vmap(over_seeds, in_axes=(0, 0, None, None))(agents, worlds, seeds, scripts)


SEEDS = jnp.arange(1000, 1000 + RUNS_PER_WORLD)


def runs(name: str, scale: float, frame: Frame = PAPER_FRAME) -> Audit:
    agents = []
    for world in blends():
        agent = make_agent(name, world.model, EPISODES, bonus_scale=scale, alpha=ALPHA)
        new = radii(world.model, frame, agent.aggregator.certificate(), EPISODES, ALPHA)
        agents.append(dataclasses.replace(agent, frame=frame, radii=new, name=name))
    return Audit(*map(np.asarray, audit_all(stack(agents), stack(blends()), SEEDS, None)))


def assert_implied(found: Audit) -> None:
    """What the paper proves of an episode whose ellipsoids hold θ, in every such episode."""
    inside = found.distance <= 1
    assert inside.any()
    assert found.optimism[inside].min() >= -1e-9
    assert found.lower[inside].min() >= -1e-9
    assert found.upper[inside].min() >= -1e-9


@pytest.mark.verify
@pytest.mark.parametrize("name", ["ucrl-vtr", "oppo"])
def test_coverage_and_optimism_at_the_theory_s_radius(name: str) -> None:
    found = runs(name, 1.0)
    assert_implied(found)
    covered = (found.distance <= 1).all(axis=-1)
    assert covered.size == RUNS
    assert covered.mean() >= 1 - 3 * ALPHA
    assert found.free[..., -1].mean() > 0.05  # not everything is clipped at H-h+1, where optimism is trivial


@pytest.mark.verify
@pytest.mark.parametrize("name", ["ucrl-vtr", "oppo"])
@pytest.mark.parametrize("scale", [0.5, 0.2])
def test_optimism_follows_at_any_scale(name: str, scale: float) -> None:
    found = runs(name, scale)
    assert_implied(found)
    assert found.free.mean() > 0.2
    if scale == 0.2:
        # The checks can fail: an ellipsoid this small loses θ in most runs, and the claims with it.
        assert (found.distance > 1).any(axis=-1).mean() > 0.5
        assert found.lower.min() < -0.01


@pytest.mark.verify
@pytest.mark.parametrize("frame", [Frame(centred=True, span="seen"), Frame(centred=True, span="step")], ids=str)
def test_coverage_in_other_frames(frame: Frame) -> None:
    found = runs("ucrl-vtr", 1.0, frame)
    # β_p and the features of the last step are 0 in these frames: 0/0 there says nothing, and nothing is needed.
    assert not np.isnan(found.distance).any()
    assert_implied(found)
    assert (found.distance <= 1).all(axis=-1).mean() >= 1 - 3 * ALPHA


@pytest.mark.verify
def test_coverage_under_changing_regularizers() -> None:
    """Gaussian (Z, z), fresh in every episode and step, within a certificate that holds for all of them."""
    world = blends()[0]
    horizon, d1, d2 = world.model.horizon, world.model.d1, world.model.d2
    rng = np.random.default_rng(0)
    shape = (RUNS_PER_WORLD, EPISODES + 1, horizon)

    def noise(d: int, level: float) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        raw = rng.normal(scale=level, size=(*shape, d, d))
        Z = (raw + raw.swapaxes(-1, -2)) / 2
        Z = Z + (2 * np.abs(np.linalg.eigvalsh(Z)).max()) * np.eye(d)
        z = rng.normal(scale=4 * level, size=(*shape, d))
        eigenvalues = np.linalg.eigvalsh(Z)
        nu = np.sqrt((z * np.linalg.solve(Z, z[..., None])[..., 0]).sum(axis=-1)).max()
        return Z, z, [np.full((1, horizon), bound) for bound in (eigenvalues.min(), eigenvalues.max(), nu)]

    Z_p, z_p, bounds_p = noise(d1, 6.0)
    Z_r, z_r, bounds_r = noise(d2, 2.0)
    scripts = Statistics(*map(jnp.asarray, (Z_p, z_p, Z_r, z_r)))
    agent = make_agent("ucrl-vtr", world.model, EPISODES, bonus_scale=1.0, alpha=ALPHA)
    limits = Certificate(*bounds_p, *bounds_r)
    agent = dataclasses.replace(agent, radii=radii(world.model, PAPER_FRAME, limits, EPISODES, ALPHA))
    found = Audit(*map(np.asarray, audit_all(stack([agent]), stack([world]), SEEDS, scripts)))
    assert_implied(found)
    assert (found.distance <= 1).all(axis=-1).mean() >= 1 - 3 * ALPHA
    # The noise is no trifle: its ν is a large part of the radius.
    assert bounds_p[2].max() > 0.2 * np.asarray(agent.radii.transition).max()
