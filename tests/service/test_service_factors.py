# SPDX-License-Identifier: Apache-2.0
"""Tastes deployed: what devices, service and simulation compute; late, lost and repeated reports; the model's file."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.learning.control import ControlPlaces
from reticent.learning.plan import ControlGroup
from reticent.privacy.noise import SecureNoise
from reticent.runtime import double_precision
from reticent.service.embedded import DeployedAgent
from reticent.service.fingerprint import fingerprint
from reticent.service.mechanism import Mechanism, make_mechanism
from reticent.simulation.rollout import episode_uniforms, rollout
from reticent.worlds import Episode
from reticent.worlds.models.model_file import load_model, save_model
from reticent.worlds.models.names import Names
from reticent.worlds.models.provenance import Provenance
from reticent.worlds.tastes import random_tastes
from reticent.worlds.tastes.model import TasteModel
from reticent_wire.clipping import clip_norm
from reticent_wire.errors import InvalidInput as WireInvalid
from reticent_wire.model import Model as PublishedModel
from reticent_wire.trajectory import well_formed

WORLD = random_tastes(items=8, factors=2, horizon=4, shift=1.0, seed=3)
MODEL = WORLD.model
AGENT = "private-factors:first=0.4,growth=1,epsilon=15"
USERS = 12


def mechanism() -> Mechanism:
    return make_mechanism(AGENT, MODEL, USERS, SecureNoise())


@pytest.mark.parametrize("trust", ["joint", "local", "shuffle"])
def test_every_trust_model_can_be_deployed_and_publishes_what_devices_read(trust: str) -> None:
    made = make_mechanism(f"private-factors:trust={trust}", MODEL, 2000, SecureNoise())
    board = made.billboard(0, made.agent.init()).published
    read = PublishedModel.read(made.published.to_json())
    read.rules.form.require_version(read, board)
    assert read.rules.form.name == "factors"
    assert read.rules.form.remembers


def test_numpy_and_jax_form_the_same_vectors_whatever_a_user_sends() -> None:
    made, draw = mechanism(), np.random.default_rng(3)
    agent = made.agent
    board = made.billboard(0, agent.init())
    plan, report = made.plan_of(board), jax.jit(agent.report)
    silence = jnp.zeros_like(agent.aggregator.noise_scale)
    for trial in range(60):
        steps, wild = MODEL.horizon, trial % 3
        rewards = draw.normal(size=steps) * 10.0**wild
        if wild == 2:
            rewards[draw.integers(0, steps)] = draw.choice([np.nan, np.inf, -np.inf, 1e308])
        sent = Episode(draw.integers(-9, 9, steps + 1), draw.integers(-3, MODEL.actions + 3, steps), rewards)
        mine = made.contribution(board, sent, 0)
        inside = Episode(*well_formed(made.published, *sent)[:3])
        theirs = np.asarray(report(plan, inside, silence)) / made.grid
        assert np.abs(mine - theirs).max() <= 0.5 + 1e-6
        assert np.linalg.norm(mine * made.grid) <= 1 + made.grid


def test_an_embedded_agent_s_users_are_shown_items_by_their_tastes_and_none_twice() -> None:
    embedded = DeployedAgent(AGENT, MODEL, USERS, SecureNoise())
    agent, plan = embedded.mechanism.agent, embedded.plan
    known, memory = embedded.belief(embedded.begin("ann")), agent.empty_memory(plan)
    assert known is not None
    shown = []
    for step, reward in enumerate((1.0, 0.0, 0.25, 1.0)):
        item = known.act(step, 0)
        assert item == int(agent.act_from(plan, memory, step, 0, 0.0))
        known.observe(0, item, reward, 0)
        memory = agent.remember(plan, memory, jnp.asarray(0), jnp.asarray(item), jnp.asarray(reward), jnp.asarray(0))
        np.testing.assert_allclose(known.known, memory.mean, rtol=1e-9)
        shown.append(item)
    assert len(set(shown)) == len(shown)


def test_a_device_s_memory_goes_on_with_what_it_was_told_and_may_show_an_item_again() -> None:
    made = mechanism()
    model, board = made.published, made.billboard(0, made.agent.init()).published
    first = model.rules.form.belief(model, board)
    for step, reward in enumerate((1.0, 0.0, 1.0, 0.5)):
        first.observe(0, first.act(step, 0), reward, 0)
    again = model.rules.form.belief(model, board, first.likelihoods.on_device(np.array))
    np.testing.assert_array_equal(again.known, first.known)
    torn = model.rules.form.belief(model, board, np.array([99.0, np.nan, 3.0]))  # a spoiled file stops no visit
    assert 0 <= torn.act(0, 0) < model.actions


@double_precision
def test_means_of_users_who_were_served_another_plan() -> None:
    """Late users and an A/B share: |mean − g(δ)| within 5 standard errors in every coordinate (false alarm below 1e-4)."""
    agent, users = make_agent("private-factors:epsilon=4", MODEL, 1000), 6000
    reference = jax.jit(agent.plan)(agent.init())
    served = reference._replace(extension=reference.extension._replace(mean=jnp.array([2.5, -2.5])))
    places = ControlPlaces(jnp.asarray(8), jnp.asarray(4), jnp.asarray(0))
    alone = agent.rebase_plan(served, reference, 8).extension.rule
    mixed = agent.rebase_plan(served, reference, 8, ControlGroup(reference, places)).extension.rule

    def vectors(plan: object) -> np.ndarray:
        def one(user: jax.Array) -> jax.Array:
            uniforms = episode_uniforms(jax.random.key(5), user, MODEL.horizon, WORLD.start_draws, WORLD.step_draws)
            return agent.statistic(reference, rollout(agent, world, plan, uniforms))

        return np.asarray(clip_norm(jax.jit(jax.vmap(one))(jnp.arange(users)), 1.0, jnp))

    world = dataclasses.replace(WORLD, mean=jnp.zeros(2))
    late, others = vectors(served), vectors(reference)
    for rule, seen in ((alone, late), (mixed, np.concatenate([late, others])), (reference.extension.rule, others)):
        weights = np.exp(np.asarray(rule.weights))
        expected = weights @ np.asarray(rule.vectors) / weights.sum()
        error = np.sqrt(seen.var(axis=0) / users + 2 * seen.var(axis=0) / len(rule.vectors))
        assert (np.abs(seen.mean(axis=0) - expected) < 5 * error).all()


def test_a_round_that_was_lost_teaches_nothing() -> None:
    made = mechanism()
    state = made.agent.init()
    board, silence = made.billboard(0, state), np.zeros(made.noise_scale.shape, np.int64)
    closed, _ = made.close(0, state, board, 5 + silence, silence, lost=True)
    for before, after in zip(jax.tree.leaves(state.past), jax.tree.leaves(closed.past), strict=True):
        np.testing.assert_array_equal(before, after)
    assert int(closed.rounds) == 1


def test_what_a_version_publishes_is_checked_before_a_user_is_shown_anything() -> None:
    made = mechanism()
    model, board = made.published, made.billboard(0, made.agent.init()).published
    spoiled = dataclasses.replace(board, report={**board.report, "mean": np.full(2, np.nan)})
    with pytest.raises(WireInvalid, match="mean"):
        model.rules.form.require_version(model, spoiled)
    rules = dataclasses.replace(model.rules, bounds={**model.rules.bounds, "noise": np.zeros(MODEL.actions)})
    with pytest.raises(WireInvalid, match="noise"):
        model.rules.form.require_version(dataclasses.replace(model, rules=rules), board)
    with warnings.catch_warnings():  # and a hostile one says nothing of its user, by warnings either
        warnings.simplefilter("error")
        seen = well_formed(model, [0] * 5, [1] * 4, [1.0] * 4)
        assert np.linalg.norm(model.contribution(spoiled, seen)) <= 1


def test_a_model_file_has_tastes_in_it(tmp_path: Path) -> None:
    origin = Provenance("public", "simulated")
    names = Names(("here",), tuple("abcdefgh"))
    found = load_model(save_model(tmp_path / "tastes.npz", MODEL, names=names, provenance=origin)).model
    assert isinstance(found, TasteModel)
    assert fingerprint(found) == fingerprint(MODEL)
    other = dataclasses.replace(MODEL, noise=2 * MODEL.noise)
    assert fingerprint(other) != fingerprint(MODEL)
