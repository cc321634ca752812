# SPDX-License-Identifier: Apache-2.0
"""What tastes learned on the device are worth, and what privacy takes of the mean that is learned from all users.

    RETICENT_DATA=FOLDER python benchmarks/factors.py jester --orders 16     # 100 jokes, 20 of them told, recorded people
    python benchmarks/factors.py shift --worlds 12                           # populations that differ from the pilot's
    python benchmarks/factors.py covariance --worlds 8                       # what knowing their covariance would add

``jester``: loadings from the people who did not rate all jokes (the number of factors is chosen among them), then those who
rated all, each met once, in several random orders. Gains are over the pilot's best list of 20 jokes, paired by person.
``shift``: random worlds, seeds from 50 000, none of which was looked at while the agent was written; the mean of tastes is
so many standard deviations away from the pilot's. Differences are in percent of the best list's value.
``covariance``: what an oracle of the users' covariance would add, with nothing learned. In random worlds its eigenvalues go
from 1/s to s. Recorded people, if there are any: mean and covariance are fitted to all ratings of one half of them, without
privacy, and used for the other half, and the other way round.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.agents import make_agent
from reticent.agents.factors.learner import FactorsLearner
from reticent.learning.learner import AgentState
from reticent.learning.plan import Plan
from reticent.learning.promise import NoPromise
from reticent.runtime import double_precision
from reticent.simulation.rollout import Streams, rollout, streams
from reticent.worlds.people import jester
from reticent.worlds.people.data import FOLDER
from reticent.worlds.people.recorded import mean_of
from reticent.worlds.tastes import (
    RecordedTastes,
    TasteModel,
    TasteWorld,
    fit_tastes,
    make_taste_model,
    random_tastes,
    recorded_tastes,
    taste_world,
)

FIRST_SEED = 50_000
VALUED = 2**14
BLOCK = 256
AGENTS = {
    "no privacy": "factors",
    "joint, ε = 1": "private-factors:epsilon=1",
    "joint, ε = 0.3": "private-factors:epsilon=0.3",
    "local, ε = 1": "private-factors:epsilon=1,trust=local",
}


@jax.jit
def plan_of(agent: FactorsLearner, state: AgentState) -> Plan:
    return agent.plan(state)


@jax.jit
def value_of(agent: FactorsLearner, plan: Plan, world: TasteWorld) -> jax.Array:
    return agent.simulated_value(plan, world, VALUED)


@jax.jit
def meet(
    agent: FactorsLearner, world: Any, state: AgentState, plan: Plan, keys: Streams, first: Any, count: Any, starts: Any
) -> tuple[AgentState, jax.Array]:
    """The state after ``count`` users of a round, at most a block, who begin by the draws ``starts``; and their returns."""

    def one(number: jax.Array, start: jax.Array) -> tuple[jax.Array, jax.Array]:
        steps = agent.model.horizon * (1 + world.step_draws)
        own = jax.random.uniform(jax.random.fold_in(keys.users, first + number), (steps,))
        noise = agent.aggregator.simulate_user_noise(jax.random.fold_in(keys.user_noise, first + number))
        episode = rollout(agent, world, plan, jnp.concatenate([start, own]))
        return agent.report(plan, episode, noise), episode.rewards.sum()

    numbers = jnp.arange(BLOCK)
    reports, returns = jax.vmap(one)(numbers, starts)
    return agent.absorb(state, jnp.tensordot((numbers < count).astype(reports.dtype), reports, axes=1)), returns


@jax.jit
def close(agent: FactorsLearner, state: AgentState, plan: Plan, keys: Streams, users: Any, number: Any) -> AgentState:
    noise = agent.aggregator.simulate_round_noise(jax.random.fold_in(keys.round_noise, number))
    return agent.close(state, plan, users, noise)


def run(agent: FactorsLearner, world: Any, starts: np.ndarray, seed: int) -> tuple[AgentState, np.ndarray]:
    """The state after all users, who begin by the draws ``starts`` ``(K, n)``, and their returns ``(K,)``."""
    state, keys, met, returns = agent.init(), streams(seed), 0, []
    padded = np.concatenate([starts, np.repeat(starts[-1:], BLOCK, axis=0)])
    for number, size in enumerate(map(int, agent.schedule.round_sizes)):
        plan = plan_of(agent, state)
        for inside in range(0, size, BLOCK):
            begin, count = met + inside, min(BLOCK, size - inside)
            state, earned = meet(agent, world, state, plan, keys, begin, count, padded[begin : begin + BLOCK])
            returns.append(np.asarray(earned)[:count])
        state, met = close(agent, state, plan, keys, float(size), number), met + size
    return state, np.concatenate(returns)


def made(spec: str, world: Any, users: int) -> FactorsLearner:
    """An agent that shares its compiled program with others of its kind."""
    agent: FactorsLearner = dataclasses.replace(make_agent(spec, world.model, users), promise=NoPromise())
    return agent


# -- recorded people ----------------------------------------------------------------------------------------------------


def with_error(values: np.ndarray) -> str:
    found = mean_of(values)
    return f"{found.value:+.3f} ± {found.error:.3f}"


def people(orders: int, horizon: int, factors: list[int], agents: list[int]) -> None:
    audience = jester.audience(jester.load_ratings())
    fitted = fit_tastes(audience.pilot, horizon, factors)
    world = recorded_tastes(fitted.model, audience.deployed)
    print(f"pilot {len(audience.pilot):,}, deployed {world.people:,}; held-out log-likelihood of a pilot person:")
    print({number: round(score, 2) for number, score in fitted.held_out.items()}, f"-> {fitted.model.factors} factors")
    ratings = audience.deployed
    listed = ratings[:, np.argsort(-np.nanmean(audience.pilot, axis=0))[:horizon]].sum(axis=1)
    own = ratings[:, np.argsort(-ratings.mean(axis=0))[:horizon]].sum(axis=1)
    print(
        f"\n| {horizon} of 100 jokes, {world.people:,} people | gain over the pilot's best list | orders: s.d., worst |"
    )
    print(f"|---|--:|--:|\n| the pilot's best list: {mean_of(listed).value:.3f} ± {mean_of(listed).error:.3f} | 0 | |")
    print(f"| these people's own best list, in sample | {with_error(own - listed)} | |")
    print(f"| tastes on the device, the pilot's mean | {with_error(never_learned(world) - listed)} | |")
    for name, spec in chosen_agents(agents):
        gains = learned_in_orders(spec, world, orders) - listed
        each = gains.mean(axis=1)
        print(f"| {name} | {with_error(gains.mean(axis=0))} | {each.std(ddof=1):.3f}, {each.min():+.3f} |", flush=True)
    best = np.sort(ratings, axis=1)[:, -horizon:].sum(axis=1)
    print(f"| every person's own ratings known | {with_error(best - listed)} | |")


def chosen_agents(numbers: list[int]) -> list[tuple[str, str]]:
    return [list(AGENTS.items())[number] for number in numbers]


def never_learned(world: RecordedTastes) -> np.ndarray:
    """Returns of all people under the first plan."""
    agent = made("factors", world, world.people)
    still = dataclasses.replace(agent, prior=jnp.asarray(1e-9))
    return run(still, world, draws_of(world, np.arange(world.people)), 0)[1]


def draws_of(world: RecordedTastes, order: np.ndarray) -> np.ndarray:
    return np.asarray(jax.vmap(world.draw_of)(jnp.asarray(order)))


def learned_in_orders(spec: str, world: RecordedTastes, orders: int) -> np.ndarray:
    """Returns ``(orders, people)``, by person, of all people met once in random orders."""
    agent, returns = made(spec, world, world.people), np.zeros((orders, world.people))
    for seed in range(orders):
        order = np.random.default_rng(seed).permutation(world.people)
        returns[seed, order] = run(agent, world, draws_of(world, order), seed)[1]
    return returns


# -- shifted populations ------------------------------------------------------------------------------------------------


def shifted(worlds: int, users: int, shift: float, agents: list[int]) -> None:
    gaps: list[float] = []
    over: list[float] = []
    gained: dict[str, list[float]] = {name: [] for name, _ in chosen_agents(agents)}
    for number in range(worlds):
        world = random_tastes(items=40, factors=6, horizon=10, shift=shift, strength=0.2, seed=FIRST_SEED + number)
        listed = float(world.policy_value(world.best_list()))
        starts = np.random.default_rng(number).random((users, world.start_draws))
        value = functools.partial(valued, world=world)
        for name, spec in chosen_agents(agents):
            agent = made(spec, world, users)
            begin = agent.init()
            known = value(agent, begin._replace(past=begin.past._replace(mean=world.mean)))
            pilot, last = value(agent, begin), value(agent, run(agent, world, starts, number)[0])
            gained[name].append(100 * (last - pilot) / listed)
        gaps.append(100 * (known - pilot) / listed)
        over.append(100 * (known - listed) / listed)
    cells = " | ".join(with_error(np.array(column)) for column in (over, gaps, *gained.values()))
    print(f"| {shift:g} | {worlds} | {cells} |", flush=True)


# -- the covariance -----------------------------------------------------------------------------------------------------

EM_PASSES = 50


def with_law(model: TasteModel, mean: np.ndarray, root: np.ndarray) -> TasteModel:
    """The same items in coordinates in which tastes of this mean and covariance have the mean 0 and the covariance I."""
    loadings = np.asarray(model.loadings)
    middle = np.asarray(model.intercepts) + loadings @ mean
    return make_taste_model(middle, loadings @ root, np.asarray(model.noise), model.horizon)


def fitted_law(model: TasteModel, ratings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the tastes of people all of whose ratings are known, by EM from the pilot's."""
    loadings, noise = np.asarray(model.loadings), np.asarray(model.noise)
    mean, covariance = np.zeros(model.factors), np.eye(model.factors)
    told = (ratings - np.asarray(model.intercepts)) / noise @ loadings
    for _ in range(EM_PASSES):
        prior = np.linalg.inv(covariance)
        spread = np.linalg.inv(prior + (loadings / noise[:, None]).T @ loadings)
        each = (told + prior @ mean) @ spread
        mean = each.mean(axis=0)
        covariance = spread + (each - mean).T @ (each - mean) / len(each)
    return mean, covariance


def with_true_law(mean: bool, covariance: bool, model: TasteModel, seen: np.ndarray, met: np.ndarray) -> np.ndarray:
    """Returns of people who are ``met``, with the mean and the covariance of those who were ``seen``, or the pilot's."""
    middle, spread = fitted_law(model, seen)
    root = np.linalg.cholesky(spread) if covariance else np.eye(model.factors)
    return never_learned(recorded_tastes(with_law(model, middle if mean else 0 * middle, root), met))


def recorded_covariance(horizon: int, factors: list[int]) -> None:
    audience = jester.audience(jester.load_ratings())
    model = fit_tastes(audience.pilot, horizon, factors).model
    order = np.random.default_rng(0).permutation(len(audience.deployed))
    halves = [audience.deployed[order[half::2]] for half in (0, 1)]
    returns = {
        (mean, covariance): np.concatenate(
            [with_true_law(mean, covariance, model, *pair) for pair in (halves, halves[::-1])]
        )
        for mean in (False, True)
        for covariance in (False, True)
    }
    print(
        f"Jester, {horizon} of 100 jokes, {model.factors} factors, returns {returns[False, False].mean():.3f}; gain from"
    )
    print("the covariance alone", with_error(returns[False, True] - returns[False, False]))
    print("the mean alone", with_error(returns[True, False] - returns[False, False]))
    print("the covariance beside the mean", with_error(returns[True, True] - returns[True, False]), flush=True)


def random_covariance(worlds: int, spread: float) -> None:
    over, gained = [], []
    for number in range(worlds):
        base = random_tastes(items=40, factors=6, horizon=10, strength=0.2, seed=FIRST_SEED + number)
        axes = np.linalg.qr(np.random.default_rng(number).normal(size=(6, 6)))[0]
        covariance = axes * np.geomspace(1 / spread, spread, 6) @ axes.T
        world = taste_world(base.model, covariance=covariance)
        told = taste_world(with_law(base.model, np.zeros(6), np.asarray(world.root)))
        listed = float(world.policy_value(world.best_list()))
        pilots, known = (value_of_start(one) for one in (world, told))
        over.append(100 * (pilots - listed) / listed)
        gained.append(100 * (known - pilots) / listed)
    print(f"| {spread:g} | {worlds} | {with_error(np.array(over))} | {with_error(np.array(gained))} |", flush=True)


def value_of_start(world: TasteWorld) -> float:
    """What the first plan is worth: the model's mean and covariance, and nothing learned from others."""
    agent = made("factors", world, 100)
    return valued(agent, agent.init(), world)


def valued(agent: FactorsLearner, state: AgentState, world: TasteWorld) -> float:
    return float(value_of(agent, plan_of(agent, state), world))


@double_precision
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=("jester", "shift", "covariance"))
    parser.add_argument("--orders", type=int, default=16, help="random orders in which recorded people are met")
    parser.add_argument("--horizon", type=int, default=20, help="H, of jester")
    parser.add_argument("--worlds", type=int, default=12)
    parser.add_argument("--users", type=int, default=2_000, help="K, of shift")
    parser.add_argument("--shifts", type=float, nargs="+", default=[0.0, 0.5, 1.0, 2.0])
    parser.add_argument("--spreads", type=float, nargs="+", default=[1.0, 2.0, 4.0], help="s, of covariance")
    parser.add_argument("--factors", type=int, nargs="+", default=[4, 8, 12, 16], help="of jester, to choose from")
    every = list(range(len(AGENTS)))
    parser.add_argument("--agents", type=int, nargs="*", choices=every, default=every, help="rows to make, by number")
    chosen = parser.parse_args()
    if chosen.study == "jester":
        people(chosen.orders, chosen.horizon, chosen.factors, chosen.agents)
        return
    if chosen.study == "covariance":
        print("| s | worlds | pilot's covariance − best list | true covariance − pilot's |\n|--:|--:|--:|--:|")
        for spread in chosen.spreads:
            random_covariance(chosen.worlds, spread)
        if os.environ.get(FOLDER):
            recorded_covariance(chosen.horizon, chosen.factors)
        return
    names = [name for name, _ in chosen_agents(chosen.agents)]
    print("| " + " | ".join(["shift", "worlds", "true mean − best list", "true mean − pilot's", *names]) + " |")
    print("|--:|--:|" + "--:|" * (2 + len(names)))
    for shift in chosen.shifts:
        shifted(chosen.worlds, chosen.users, shift, chosen.agents)


if __name__ == "__main__":
    main()
