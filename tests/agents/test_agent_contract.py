# SPDX-License-Identifier: Apache-2.0
"""What every agent keeps, whoever wrote it: parametrised over the registry, so a new agent is tested by registering it.

An agent is six pure functions (``init``, ``plan``, ``act``, ``report``, ``absorb``, ``close``; ``update`` is the last
three for a round of one user) over pytrees of arrays. Noise comes from the aggregator's own simulation. And every agent
says what it promises its users, if only that it promises nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import AGENTS, make_agent
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.learning.promise import NoPromise, Promise
from reticent.privacy.guarantee import CHANGES, guarantee_of
from reticent.privacy.sums import PrivateSums
from reticent.simulation.engine import program_of
from reticent.simulation.rollout import episode_uniforms, rollout
from reticent.simulation.simulate import Curves, simulate
from reticent.worlds import Episode, World, make_world
from reticent.worlds.tastes import TasteWorld, random_tastes

EPISODES = 40
# Every registered agent as it comes, and the options that change which code runs.
VARIANTS = {
    "ucrl-vtr": ["replan=epoch"],
    "private-score-vi": ["residual=off"],
    "private-linopt-vi": ["trust=local", "trust=shuffle", "calibration=paper,counter=tree"],
    "private-elimination": ["trust=local", "trust=shuffle", "calibration=theorem,oracle=lattice,candidates=30"],
    "private-factors": ["trust=local", "bonus=0.5"],
    "private-linucb": ["noise=wishart", "trust=shuffle"],
    "ucbvi": ["bonus=bernstein"],
    "private-ucb-vi": ["trust=local", "law=laplace,counter=tree,pool=false"],
}
SPECS = [
    spec
    for entry in AGENTS.entries()
    for spec in (entry.name, *(f"{entry.name}:{variant}" for variant in VARIANTS.get(entry.name, [])))
]


QUICK = {"private-score-vi:residual=off", "private-linopt-vi:trust=local", "private-ucb-vi"}
"""Three families and two trust models; all others play in the long verification. What they promise is quick. With
residuals the flagship's programs take half a minute to compile."""


def marks(spec: str) -> list[pytest.MarkDecorator]:
    """Contracts of private agents guard their promises; those of the others are part of ``make verify`` alone."""
    if spec in QUICK:
        return []
    private = "epsilon" in AGENTS.find(spec.partition(":")[0]).options
    return [pytest.mark.verify, pytest.mark.guard] if private else [pytest.mark.verify]


@pytest.fixture(
    scope="module",
    params=[pytest.param(spec, marks=marks(spec)) for spec in SPECS],
)
def spec(request: pytest.FixtureRequest) -> str:
    """Module scope: pytest then runs all checks of one agent in a row, and what they share is computed once."""
    return str(request.param)


@pytest.fixture(params=SPECS)
def promising(request: pytest.FixtureRequest) -> str:
    """Every agent and variant."""
    return str(request.param)


# Agents that are made for some worlds only.
WORLDS = {
    **dict.fromkeys(("linucb", "private-linucb"), "contextual-bandit:contexts=4,actions=3,d=2"),
    **dict.fromkeys(("kinds", "private-kinds"), "random-blend:states=4,actions=3,horizon=3,d=3"),
}
TASTES = {"factors", "private-factors"}


@functools.cache
def world_of(spec: str) -> World | TasteWorld:
    name = spec.partition(":")[0]
    if name in TASTES:
        return random_tastes(items=6, factors=2, horizon=3, strength=0.3, shift=1.0)
    return make_world(WORLDS.get(name, "random-blend:states=4,actions=3,horizon=3,d1=3,d2=2"))


@functools.cache
def agent_of(spec: str) -> LinOptLearner:
    # Epochs that start small, so that there are several even among forty users.
    wanted, offered = {"bonus_scale": 0.1, "first": 4}, AGENTS.find(spec.partition(":")[0]).options
    return make_agent(
        spec, world_of(spec).model, EPISODES, **{key: value for key, value in wanted.items() if key in offered}
    )


def a_short_life(agent: LinOptLearner, key: jax.Array) -> Any:
    """One user, a round of her own, and the plan after her."""
    plan = agent.plan(agent.init())
    first, second, third = jax.random.split(key, 3)
    world = world_of(agent.name)
    uniforms = episode_uniforms(first, 0, agent.model.horizon, world.start_draws, world.step_draws)
    episode = rollout(agent, world, plan, uniforms)
    user_noise = agent.aggregator.simulate_user_noise(second)
    round_noise = agent.aggregator.simulate_round_noise(third)
    state = agent.update(agent.init(), plan, episode, user_noise, round_noise)
    return state, agent.plan(state, action_values=True), episode


KEYS = jax.random.split(jax.random.key(5), 4)


@functools.cache
def lives(spec: str) -> Any:
    """Several lives at once in one compiled program, a leading axis over keys."""
    return jax.jit(jax.vmap(a_short_life, in_axes=(None, 0)))(agent_of(spec), KEYS)


def life(spec: str) -> Any:
    return jax.tree.map(lambda leaf: leaf[0], lives(spec))


@functools.cache
def run_of(spec: str) -> Curves:
    """Seeds 0, 1 and 0 again, all users, as the engine runs them by default."""
    return simulate(agent_of(spec), world_of(spec), [0, 1, 0])


def shapes(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)


def assert_close(left: Any, right: Any) -> None:
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for one, other in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-9, atol=1e-9)


def test_a_seed_is_a_run(spec: str) -> None:
    curves = run_of(spec)
    np.testing.assert_array_equal(curves.regret[0], curves.regret[2])
    first, other, again = (jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), curves.carry) for i in range(3))
    assert_close(first, again)
    # Another seed meets other users: what was learned from them differs, whether or not the policy does.
    differs = [not np.array_equal(a, b) for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(other), strict=True)]
    assert any(differs)


@pytest.mark.verify
def test_blocks_and_segments_do_not_matter(spec: str) -> None:
    whole = run_of(spec)
    cut = simulate(agent_of(spec), world_of(spec), [0, 1, 0], width=3, segments=7)
    np.testing.assert_array_equal(whole.episodes, cut.episodes)
    np.testing.assert_allclose(whole.regret, cut.regret, rtol=0, atol=1e-9)
    assert_close(whole.carry, cut.carry)


@pytest.mark.verify
def test_compiled_vectorised_and_plain_execution_agree(spec: str) -> None:
    """``jit(vmap(f))`` and plain Python, one operation at a time, do the same."""
    assert_close(a_short_life(agent_of(spec), KEYS[0]), life(spec))
    together = lives(spec)[2]
    assert len({(states.tobytes(), rewards.tobytes()) for states, rewards in
                zip(np.asarray(together.states), np.asarray(together.rewards), strict=True)}) > 1  # fmt: skip


@pytest.mark.verify
def test_state_and_plan_are_arrays_of_lasting_shape(spec: str) -> None:
    agent = agent_of(spec)
    before = agent.init()
    after, plan, _ = life(spec)
    for leaf in jax.tree.leaves((before, after, plan)):
        assert isinstance(leaf, jax.Array)
    assert jax.tree.structure(before) == jax.tree.structure(after)
    assert shapes(before) == shapes(after)
    assert shapes(jax.eval_shape(functools.partial(agent.plan, action_values=True), before)) == shapes(plan)
    model = agent.model
    everywhere = (model.horizon, model.states, model.actions)
    assert plan.action_values.shape == plan.probabilities(model.actions).shape == everywhere
    assert plan.policy.shape == (everywhere[:2] if agent.method == "value-iteration" else everywhere)
    without = jax.eval_shape(agent.plan, before).action_values
    assert (without is None) == (agent.method == "value-iteration")
    assert plan.values.shape == (model.horizon + 1, model.states)
    assert (int(before.rounds), int(after.rounds)) == (0, 1)


@pytest.mark.verify
def test_nothing_is_changed_in_place(spec: str) -> None:
    agent = agent_of(spec)
    state, plan, episode = life(spec)
    noise = agent.aggregator.simulate_user_noise(KEYS[0]), agent.aggregator.simulate_round_noise(KEYS[1])
    inputs = (agent, state, plan, episode, noise)
    copies = [np.array(leaf) for leaf in jax.tree.leaves(inputs)]
    agent.close(agent.absorb(state, agent.report(plan, episode, noise[0])), plan, 1, noise[1])
    for leaf, copy in zip(jax.tree.leaves(inputs), copies, strict=True):
        np.testing.assert_array_equal(np.asarray(leaf), copy)


def assert_proper(agent: LinOptLearner, plan: Any) -> None:
    horizon = agent.model.horizon
    policy, values = np.asarray(plan.probabilities(agent.model.actions)), np.asarray(plan.values)
    for leaf in jax.tree.leaves(plan):
        assert np.isfinite(leaf).all()
    assert policy.min() >= 0
    np.testing.assert_allclose(policy.sum(axis=-1), 1, rtol=0, atol=1e-12)
    left = (horizon - np.arange(horizon))[:, None]
    assert values.min() >= 0
    assert (values[:-1] <= left + 1e-12).all()
    assert not values[-1].any()
    if plan.action_values is None:
        return
    action_values = np.asarray(plan.action_values)
    assert action_values.min() >= 0
    assert (action_values <= left[..., None]).all()
    np.testing.assert_allclose((policy * action_values).sum(axis=-1), values[:-1], rtol=0, atol=1e-12)


@pytest.mark.verify
def test_plans_are_proper(spec: str) -> None:
    agent = agent_of(spec)
    assert_proper(agent, agent.plan(agent.init(), action_values=True))
    assert_proper(agent, life(spec)[1])
    last = jax.tree.map(lambda leaf: np.asarray(leaf[1]), run_of(spec).carry.plan)
    assert_proper(agent, last)


@pytest.mark.verify
def test_the_most_one_sided_users_do_no_harm(spec: str) -> None:
    """A round of a million identical users, at the edges of what an episode can be, and noise far out in its tail."""
    agent = agent_of(spec)
    horizon, states, actions = agent.model.horizon, agent.model.states, agent.model.actions
    tail = functools.partial(jax.tree.map, lambda leaf: 6 * jnp.sign(leaf) * jnp.abs(leaf).max())

    @jax.jit
    def after(episode: Episode) -> Any:
        state = agent.init()
        plan = agent.plan(state)
        report = agent.report(plan, episode, tail(agent.aggregator.simulate_user_noise(KEYS[0])))
        state = agent.absorb(state, jax.tree.map(lambda leaf: leaf * 1_000_000, report))
        state = agent.close(state, plan, 1_000_000, tail(agent.aggregator.simulate_round_noise(KEYS[1])))
        return state, agent.plan(state, action_values=True)

    for state, action, reward in ((0, 0, 0.0), (states - 1, actions - 1, 1.0)):
        episode = Episode(
            jnp.full(horizon + 1, state), jnp.full(horizon, action), jnp.full(horizon, reward, jnp.float64)
        )
        reached, plan = after(episode)
        for leaf in jax.tree.leaves(reached):
            assert np.isfinite(leaf).all()
        assert_proper(agent, plan)


def test_act_inverts_the_policy(spec: str) -> None:
    agent = agent_of(spec)
    plan, state = life(spec)[1], min(1, agent.model.states - 1)
    uniforms = np.concatenate([np.arange(0, 1, 1 / 512), [np.nextafter(1.0, 0.0)]])
    act = jax.jit(jax.vmap(agent.act, in_axes=(None, None, None, 0)))
    for step in range(agent.model.horizon):
        chosen = np.asarray(act(plan, step, state, uniforms))
        assert chosen.min() >= 0
        assert chosen.max() < agent.model.actions
        shares = np.bincount(chosen, minlength=agent.model.actions) / len(uniforms)
        np.testing.assert_allclose(shares, plan.probabilities(agent.model.actions)[step, state], atol=2 / 512)


def test_the_schedule_is_respected(spec: str) -> None:
    """The policy in force changes only where the public schedule says so, and every announced round is closed."""
    agent, curves = agent_of(spec), run_of(spec)
    schedule = agent.schedule
    assert curves.episodes.tolist() == list(range(1, EPISODES + 1))
    changes = 1 + np.flatnonzero((np.diff(curves.value, axis=1) != 0).any(axis=0))
    assert set(changes.tolist()) <= set(schedule.ends.tolist())
    closed = schedule.rounds - (not schedule.final_release)
    assert np.asarray(curves.carry.state.rounds).tolist() == [closed] * 3


# -- promises -------------------------------------------------------------------------------------------------------------


def test_every_agent_says_what_it_promises(promising: str) -> None:
    promise = agent_of(promising).promise
    assert isinstance(promise, Promise)
    assert promise.sentence().endswith(".")
    guarantee = guarantee_of(agent_of(promising))
    if guarantee is None:
        assert isinstance(promise, NoPromise)
        assert re.search(r"no privacy|nothing about users", promise.sentence())
        return
    sentence = guarantee.sentence()
    assert f"({guarantee.epsilon:g}, {guarantee.delta:g})-indistinguishable" in sentence
    assert f"{guarantee.trust.name} differential privacy" in sentence
    assert guarantee.trust.exposed in sentence
    assert CHANGES[guarantee.adjacency] in sentence
    assert guarantee.not_covered
    assert json.loads(json.dumps(guarantee.to_dict()))["sentence"] == sentence


def test_a_guarantee_is_kept_by_its_ledger_and_made_of_its_noise(promising: str) -> None:
    agent = agent_of(promising)
    guarantee = guarantee_of(agent)
    if guarantee is None:
        assert not isinstance(agent.aggregator, PrivateSums)
        return
    ledger, schedule = guarantee.ledger, agent.schedule
    assert 0 < guarantee.spent <= guarantee.epsilon * (1 + 1e-6)
    assert 0 <= guarantee.delta < 1
    assert guarantee.releases == schedule.releases
    np.testing.assert_array_equal(ledger.round_ends, schedule.ends[: schedule.releases])
    assert all(row.scale > 0 and row.largest >= row.scale * (1 - 1e-9) for row in guarantee.sums)
    if isinstance(agent.aggregator, PrivateSums):
        assert agent.aggregator.trust is guarantee.trust
        scale = np.asarray(agent.aggregator.noise_scale)
        silent = np.ones(scale.shape, bool)
        for group in guarantee.groups:
            silent[group.step - 1, group.columns] = False
        assert (scale[silent] == 0).all()


def test_what_is_promised_is_no_part_of_the_program(promising: str) -> None:
    """Agents that differ in their promise alone are one compiled program."""
    agent = agent_of(promising)
    silent = dataclasses.replace(agent, promise=NoPromise("Nothing at all."))
    assert program_of(silent) == program_of(agent)
    assert agent.promise.sentence() != silent.promise.sentence()


def test_every_agent_with_an_epsilon_promises_something_or_says_what_else_it_means() -> None:
    without = [
        name for name in AGENTS if "epsilon" in AGENTS.find(name).options and guarantee_of(agent_of(name)) is None
    ]
    assert without == ["noisy-q-learning"]
    assert "every reward" in agent_of("noisy-q-learning").promise.sentence()


# -- reports --------------------------------------------------------------------------------------------------------------


def test_what_a_user_sends_does_not_depend_on_earlier_users(spec: str) -> None:
    """A report is made from the plan, the user's own episode and her noise; no state is there to leak."""
    agent = agent_of(spec)
    _, plan, episode = life(spec)
    noise = agent.aggregator.simulate_user_noise(KEYS[0])
    # Traced anew for either: an object that remembered the first user would form the second one's otherwise.
    first, again = (jax.jit(lambda *given: agent.report(*given))(plan, episode, noise) for _ in range(2))
    assert_close(first, again)
