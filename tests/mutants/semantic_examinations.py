# SPDX-License-Identifier: Apache-2.0
"""Examinations of meaning: what plans, moments, posteriors and vectors *are*, and not which bits they had."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from examinations import Examination, _named
from only_system_entropy import OtherEntropy, only_system_entropy
from option_replay import FLAGSHIP, option_findings, small_world
from scipy.stats import binom, chi2

from reticent.agents import make_agent
from reticent.agents.score import posterior
from reticent.agents.score.learner import ScoreLearner
from reticent.agents.score.posterior import Posterior
from reticent.errors import InvalidInput
from reticent.inference import Decisions, contributions
from reticent.learning.plan import Plan
from reticent.privacy.accounting.gaussian import delta_of
from reticent.privacy.noise import GRID_BITS, SecureNoise, discretization_delta
from reticent.runtime import double_precision
from reticent.service.mechanism import make_mechanism
from reticent.simulation import engine, micro_study
from reticent.simulation.rollout import episode_uniforms, rollout, streams
from reticent.simulation.simulate import simulate
from reticent.worlds import Episode, World, make_world
from reticent.worlds.models.prior import draw_truths
from reticent.worlds.records import fit, fitting
from reticent.worlds.world import world_from_parameters


@functools.cache
def mixed_world() -> World:
    return make_world("random-blend:states=4,actions=3,horizon=3,d=3")


# -- options that are off by default ------------------------------------------------------------------------------------


def option_replayed(option: str, trust: str = "joint") -> Examination:
    """Rounds with options switched on, a user against nothing (:mod:`option_replay`)."""
    about = {"option": option} if trust == "joint" else {"option": option, "trust": trust}
    return _named(lambda: option_findings(option, trust), "replay", about)


# -- what a learner's numbers mean --------------------------------------------------------------------------------------


def _learned(agent: ScoreLearner, world: World, rounds: int, seed: int = 0) -> Iterator[tuple[int, Any, Plan]]:
    """The state and the plan before each of some rounds of simulated users."""
    plan_of, close = jax.jit(agent.plan), jax.jit(agent.close)
    total = jax.jit(lambda plan, users, key: _summed(agent, world, plan, users, key), static_argnums=1)
    state = agent.init()
    for number in range(rounds):
        plan = plan_of(state)
        yield number, state, plan
        size = int(agent.schedule.round_sizes[number])
        key = jax.random.fold_in(jax.random.key(seed), number)
        noise = agent.aggregator.simulate_round_noise(key)
        state = close(agent.absorb(state, total(plan, size, key)), plan, size, noise)


def _summed(agent: ScoreLearner, world: World, plan: Plan, users: int, key: Any) -> Any:
    def one(place: Any) -> Any:
        served = agent.served(plan, place)
        uniforms = episode_uniforms(key, place, world.model.horizon, world.start_draws, world.step_draws)
        own = agent.aggregator.simulate_user_noise(jax.random.fold_in(key, place + 10**6))
        return agent.report(served, rollout(agent, world, served, uniforms), own)

    return jax.vmap(one)(jnp.arange(users)).sum(axis=0)


def hopeful() -> Examination:
    """The explorers' plan promises in every state at least what the greedy one does: a bonus is never negative."""

    def examine() -> list[str]:
        world = mixed_world()
        agent = make_agent("private-score-vi:epsilon=3,first=0.3,residual=off", world.model, 300)
        found = []
        for number, _, plan in _learned(agent, world, 4):
            more = np.asarray(plan.extension.hoped - plan.values)
            if more.min() < -1e-9:
                found.append(f"round {number}: the explorers' value is below the greedy one by {-more.min():.3g}")
            if number and more.max() <= 0:
                found.append(f"round {number}: nothing is hoped for")
        return found

    return _named(double_precision(examine), "semantics", {"what": "optimism"})


def moments_simulated(users: int = 6_000) -> Examination:
    """Published moments of a round against a simulated mixture of its users, the estimate being the truth.

    A user's vector before whitening has mean 0 and the covariance C, summed over steps; the share of explorers is exact.
    Each of the C's k diagonal entries is compared at 5 standard errors: a false alarm has probability 6e-7·k.
    """

    def examine() -> list[str]:
        world = mixed_world()
        agent = make_agent("score-vi:explore=0.001,bonus=8,residual=off", world.model, 300)
        *_, (_, state, plan) = _learned(agent, world, 3)
        extension = plan.extension
        share = float(extension.share)
        if not 0.05 < share < 0.95 or abs(share - 0.5) < 0.05:
            return [f"the share of explorers is {share}: nothing would show"]
        truth = world_from_parameters(
            world.model, np.asarray(extension.reference.theta[0]), np.asarray(extension.reference.reward_theta[0])
        )
        explorers = round(share * users)

        def one(place: Any) -> Any:
            served = agent.served(plan, jnp.where(place < explorers, -1, 2**30))
            key = jax.random.key(11)
            uniforms = episode_uniforms(key, place, world.model.horizon, truth.start_draws, truth.step_draws)
            return agent.statistic(served, rollout(agent, truth, served, uniforms))

        vectors = np.asarray(jax.jit(jax.vmap(one))(jnp.arange(users)))
        size = agent.coordinates.size
        raw = np.linalg.solve(np.asarray(extension.reference.whiten[0]), vectors[:, :size].T).T
        claimed = np.diag(np.asarray(extension.moments.spread.sum(axis=0)))
        squares = raw**2
        errors = squares.std(axis=0) / np.sqrt(users)
        off = (squares.mean(axis=0) - claimed) / errors
        del state
        return [
            f"moment {index} is {value:.1f} standard errors off" for index, value in enumerate(off) if abs(value) > 5
        ]

    return _named(double_precision(examine), "semantics", {"what": "moments"})


def on_the_simplex() -> Examination:
    """Estimates of weights are weights, also where releases lead out of the simplex, and the nearest such in their metric.

    The nearest point x of a convex set has no point y of it with ⟨y − x, A(θ − x)⟩ > 0: asked of the simplex's corners.
    """

    def examine() -> list[str]:
        agent = make_agent("score-vi:residual=off", mixed_world().model, 60)
        coordinates, found = agent.coordinates, []
        basis = np.asarray(coordinates.basis)
        for seed in range(5):
            draw = np.random.default_rng(seed)
            square = draw.normal(size=(coordinates.size, coordinates.size))
            information = 100 * (square @ square.T + np.eye(coordinates.size))
            outside = np.asarray(coordinates.centre) + basis @ draw.normal(size=coordinates.size)
            strength = information + np.eye(coordinates.size) / float(coordinates.variance)
            moment = strength @ np.asarray(coordinates.eta(outside))
            believed = Posterior(jnp.asarray(information)[None], jnp.asarray(moment)[None])
            theta = np.asarray(coordinates.theta(posterior.summarize(coordinates, believed).mean))[0]
            if theta.min() < -1e-9 or abs(theta.sum() - 1) > 1e-9:
                found.append(f"the estimate {theta.round(3).tolist()} is outside the simplex")
            pull = basis @ strength @ basis.T @ (outside - theta)
            if ((np.eye(len(theta)) - theta) @ pull).max() > 1e-3:
                found.append("the estimate is not the nearest point of the simplex")
        return found

    return _named(double_precision(examine), "semantics", {"what": "simplex"})


def covered_locally(seeds: int = 48) -> Examination:
    """Local ellipsoids of 95 % hold the truth in 85 % of runs at least: false alarm 1e-4."""

    def examine() -> list[str]:
        world = make_world("random-blend:states=4,actions=2,horizon=2,d=3")
        agent = make_agent("private-score-vi:trust=local,epsilon=10", world.model, 600)
        posterior = simulate(agent, world, range(seeds)).carry.state.past.transitions
        coordinates = agent.coordinates
        truth = np.atleast_2d(world.transition_theta)[:1]
        eta = (truth - np.asarray(coordinates.centre)) @ np.asarray(coordinates.basis)
        precision = np.asarray(posterior.information) + np.eye(coordinates.size) / float(coordinates.variance)
        off = np.linalg.solve(precision, np.asarray(posterior.moment)[..., None])[..., 0] - eta
        squared = np.einsum("ngi,ngij,ngj->ng", off, precision, off)
        held = int((squared <= chi2.ppf(0.95, coordinates.size)).all(axis=1).sum())
        wanted = int(binom.ppf(1e-4, seeds, 0.85))
        return [] if held >= wanted else [f"only {held} of {seeds} local ellipsoids hold the truth, {wanted} expected"]

    return _named(double_precision(examine), "semantics", {"what": "local coverage"})


def own_round() -> Examination:
    """Every round has its own radius, its own public replicas and its own noise."""

    def examine() -> list[str]:
        world = small_world()
        agent = make_agent("private-score-vi:epsilon=8,first=0.1,growth=3,free=2,residual=off", world.model, 2000)
        radii = np.asarray(agent.radii)
        if len(set(radii.round(9))) < 3:
            return ["radii do not differ between rounds: nothing would show"]
        found = []
        for number, _, plan in _learned(agent, world, 5):
            if float(plan.extension.reference.radius) != radii[number]:
                found.append(f"round {number} has the radius of another round")
        keys = [tuple(np.asarray(jax.random.key_data(agent.public_key(number))).tolist()) for number in range(8)]
        if len(set(keys)) < 8:
            found.append("two rounds have the same replicas")
        drawn = [
            np.asarray(engine._round_noise(agent, streams(0), jnp.asarray(number))).tobytes() for number in range(8)
        ]
        if len(set(drawn)) < 8:
            found.append("two rounds have the same noise")
        return found

    return _named(double_precision(examine), "semantics", {"what": "rounds"})


def without_rewards() -> Examination:
    """Where rewards are known, nothing of them is in the vector: not a number of it, and none of its values."""

    def examine() -> list[str]:
        learned = mixed_world().model
        known = dataclasses.replace(learned, known_rewards=jnp.asarray(learned.reward_features[0]))
        agent = make_agent(FLAGSHIP, known, 20)
        found = []
        if agent.dimension != agent.moving_groups * agent.coordinates.size:
            found.append(f"{agent.dimension} numbers are sent where {agent.coordinates.size} tell about transitions")
        plan = agent.served(agent.plan(agent.init()), 0)
        states, actions = np.array([0, 1, 2, 3]), np.array([0, 1, 2])
        vectors = [
            np.asarray(agent.statistic(plan, Episode(states, actions, np.array(rewards))))
            for rewards in ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.3, 1e6, np.nan])
        ]
        if any(not np.array_equal(vectors[0], other) for other in vectors[1:]):
            found.append("a vector depends on rewards that are known")
        return found

    return _named(double_precision(examine), "semantics", {"what": "known rewards"})


# -- what may be read ---------------------------------------------------------------------------------------------------


def rehearsed_alike() -> Examination:
    """Two worlds of one model with other truths are rehearsed alike, from the command's argument on."""

    def examine() -> list[str]:
        from reticent.cli import rehearse as command
        from reticent.experiments.rehearsal import rehearsal

        model = small_world().model
        seen = []
        for world in draw_truths(model, 2, seed=5):
            with mock.patch("reticent.worlds.make_world", lambda _, world=world: world):
                known, rewards, _ = command.the_model("a world")
                found = rehearsal.rehearse(
                    known, users=12, epsilons=(1.0,), trusts=("joint",), truths=2, rewards=rewards, floor=False
                )
            seen.append([*(outcome.regret.tobytes() for outcome in found.outcomes), found.optimal.tobytes()])
        return [] if seen[0] == seen[1] else ["what is rehearsed depends on the hidden truth"]

    return _named(examine, "semantics", {"what": "rehearsal"})


def outcomes_clipped() -> Examination:
    """Outcomes outside [0, 1] count as the nearest that can be, and what is no number counts as nothing."""

    def examine() -> list[str]:
        question = micro_study.contrast(0.1)
        steps = len(question.groups)
        states, actions = np.arange(steps)[None] % micro_study.STATES, np.arange(steps)[None] % 2
        chances = np.full((1, steps, 2), 0.5)

        def of(outcome: float) -> np.ndarray:
            return contributions(question, Decisions(states, actions, np.full((1, steps), outcome), chances))

        found = []
        for outcome, inside in ((7.0, 1.0), (1 + 1e-9, 1.0), (-3.0, 0.0), (1e300, 1.0)):
            if not np.array_equal(of(outcome), of(inside)):
                found.append(f"an outcome of {outcome:g} moves more than one of {inside:g}")
        for outcome in (np.nan, np.inf, -np.inf):
            if of(outcome).any():
                found.append(f"an outcome of {outcome} counts")
        return found

    return _named(examine, "semantics", {"what": "outcomes"})


def system_entropy() -> Examination:
    """The secure source with every generator of Python and NumPy made to raise."""

    def examine() -> list[str]:
        source = SecureNoise()
        try:
            with only_system_entropy():
                drawn = [source.draw(np.full(50, scale)).integers for scale in (1.0, 3.7, 1e4) for _ in range(20)]
        except OtherEntropy as used:
            return [str(used)]
        return [] if len({one.tobytes() for one in drawn}) == len(drawn) else ["draws repeat themselves"]

    return _named(examine, "distribution", {"entropy": "the system's"})


def spent_in_full() -> Examination:
    """What is called spent leaves the δ of discrete noise its part, at an ε where that is no longer lost in rounding."""

    def examine() -> list[str]:
        made = make_mechanism("private-score-vi:epsilon=15,residual=off", small_world().model, 40, SecureNoise())
        strength, drawn = made.guarantee.mu or 0.0, int((made.noise_scale > 0).sum())
        told = {"guarantee": made.guarantee.spent, "status": made.spent(made.guarantee.ledger.rounds)[1]}
        return [
            f"the {name} leaves out the delta of discrete noise"
            for name, spent in told.items()
            if delta_of(strength, spent) + discretization_delta(drawn, spent, GRID_BITS - 1) > made.guarantee.delta
        ]

    return _named(examine, "semantics", {"what": "spent"})


def _pilot() -> pl.DataFrame:
    """Eight people of three steps each."""
    numbers = pl.int_range(24, eager=True)
    return pl.DataFrame(
        {
            "user": numbers // 3, "step": numbers % 3, "state": ["a", "b"] * 12, "action": ["x", "x", "y", "y"] * 6,
            "reward": [0.0, 1.0, 0.5] * 8,
        }
    )  # fmt: skip


def origin_asked() -> Examination:
    """Records whose origin is not said are not fitted: nothing can find it out, and the guarantee rests on it."""

    def examine() -> list[str]:
        options: Any = {"horizon": 3, "candidates": 2, "starts": 1, "holdout": 0}
        try:
            fitting.fit(_pilot(), **options)
        except TypeError as refused:
            return [] if "origin" in str(refused) else [f"refused for another reason: {refused}"]
        return ["records of an origin that was not said are fitted"]

    return _named(examine, "semantics", {"what": "origin"})


def people_apart() -> Examination:
    """Records with a person who is to be protected are not fitted, however a table writes their name."""

    def examine() -> list[str]:
        pilot, found = _pilot(), []
        for protected in ([3, 4], ["3", "4"], [3.0, None], ["003"]):
            try:
                options: Any = {"origin": "public", "horizon": 3, "candidates": 2, "starts": 1, "holdout": 0}
                fit(pilot, protected=pl.DataFrame({"user": protected}), **options)
            except InvalidInput as refused:
                if "both logs" not in str(refused):
                    found.append(f"refused for another reason: {refused}")
            else:
                found.append("candidates are fitted to a person who is protected")
        return found

    return _named(examine, "semantics", {"what": "pilot"})
