# SPDX-License-Identifier: Apache-2.0
"""Learners among recorded people: reward by ε and trust, beside the pilot's plan (docs/measurements/people).

    RETICENT_DATA=FOLDER python benchmarks/real_people_learners.py msnbc --orders 3
    RETICENT_DATA=FOLDER python benchmarks/real_people_learners.py msnbc-history --orders 3
    RETICENT_DATA=FOLDER python benchmarks/real_people_learners.py msnbc-kinds --orders 1
    RETICENT_DATA=FOLDER python benchmarks/real_people_learners.py hillstrom jester --orders 16
    RETICENT_DATA=FOLDER python benchmarks/real_people_learners.py heartsteps
    RETICENT_DATA=FOLDER python benchmarks/real_people_learners.py msnbc --deployed   # also the deployed agent, real noise

Every learner meets the same people in several orders. Values are means over orders of the mean return; ± is the standard
deviation over orders, that is over who comes when and over noise. "Last tenth" is measured on the tenth of the users
met last. Thirty-seven people are too few to meet: for ``heartsteps`` populations are simulated that blend their
candidates, and ± is the standard error over populations.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from typing import Any

import numpy as np

from reticent.agents.registry import make_agent
from reticent.errors import ReticentError
from reticent.privacy.noise import SecureNoise
from reticent.replay.deployed import meet_deployed
from reticent.replay.logs import RandomisedUsers, Replayable
from reticent.replay.simulated import meet_recorded
from reticent.service.embedded import DeployedAgent
from reticent.simulation.simulate import simulate
from reticent.simulation.world_batch import stack_worlds
from reticent.worlds import Model, make_world
from reticent.worlds.people import heartsteps, hillstrom, jester, msnbc
from reticent.worlds.people.truth import blend_world

SPECS = (
    "score-vi",
    "private-score-vi:epsilon=0.5",
    "private-score-vi:epsilon=1",
    "private-score-vi:epsilon=3",
    "private-score-vi:epsilon=1,trust=shuffle",
    "private-score-vi:epsilon=1,trust=local",
    "dp-ucbvi:epsilon=1",
    "private-ucb-vi:epsilon=1",
)
# With a new plan after each of 300 000 users, tables of 69 x 18 x 69 take hours; with growing rounds, many minutes.
FOR_MANY_STATES = (*SPECS[:-2], "dp-ucbvi:epsilon=1,counter=epochs", "private-ucb-vi:epsilon=1,counter=epochs")

# The trial lasted six weeks: a promise about 42 days of a person together, and not about one day.
FOR_WHOM_WE_MEET_DAILY = (*SPECS, "private-score-vi:epsilon=1,contributions=42")

# Tables of 521 x 18 x 521 are beyond the tabular learners.
# Four kinds of readers, of which no blend is near the deployed ones: with residuals and without.
FOR_WRONG_CANDIDATES = tuple(
    f"{name}:residual={use}" for use in ("on", "off") for name in ("score-vi", "private-score-vi")
)

LISTS = {
    "msnbc": FOR_MANY_STATES, "msnbc-history": SPECS[:-2], "msnbc-kinds": FOR_WRONG_CANDIDATES,
    "heartsteps": FOR_WHOM_WE_MEET_DAILY,
}  # fmt: skip

ENTERED_BY_FRONT = "arrived: entered, page: frontpage"
"""The first state that none of the deployed readers has."""

DAYS = (1_616, 4_000, 20_000)
"""Person-days that a learner meets: as many whole days as were recorded, and more."""

POPULATIONS = 64


@dataclasses.dataclass(frozen=True)
class Problem:
    """People to be met, the model that a learner has, the pilot's plan ``(H, S)``, and how many users there are."""

    users: Replayable
    model: Model
    pilot: np.ndarray
    episodes: int


def readers() -> Problem:
    pilot, deployed = msnbc.populations(msnbc.load_sessions())
    fitted = msnbc.fit_pilot(pilot, 4, holdout=0.0)
    plan = msnbc.empirical(pilot).plan(5)[0]
    return Problem(msnbc.recorded_users(deployed), fitted.model, plan, 300_000)


def readers_of_kinds() -> Problem:
    """Candidates are kinds of readers, and not entry sections that blend them."""
    pilot, deployed = msnbc.populations(msnbc.load_sessions())
    fitted = msnbc.fit_pilot(pilot, 4, grouped=False, holdout=0.0, entries={ENTERED_BY_FRONT: 0.0})
    return Problem(msnbc.recorded_users(deployed), fitted.model, msnbc.empirical(pilot).plan(5)[0], 300_000)


def readers_with_history() -> Problem:
    """The state that ``fit`` chooses, from a pilot that is weighted to where the deployed readers enter."""
    pilot, deployed = msnbc.populations(msnbc.load_sessions())
    fitted = msnbc.fit_pilot(pilot, 4, history="auto", entries={"frontpage": 0.0})
    plan = fitted.kernel.blended(fitted.shares).plan(5)[0]
    return Problem(msnbc.recorded_users(deployed, fitted.coding), fitted.model, plan, 300_000)


def audience() -> Problem:
    people = jester.audience(jester.load_ratings())
    fitted = jester.fit_pilot(people, 3, holdout=0.0)
    plan = fitted.kernel.blended(fitted.shares).plan(6)[0]
    return Problem(jester.recorded_users(people), fitted.model, plan, 1_473)


def shoppers() -> Problem:
    pilot, deployed = hillstrom.customers(hillstrom.load_customers())
    records = hillstrom.recorded(deployed)
    states = np.repeat(records.states, 2, axis=1)
    users = RandomisedUsers(
        states, records.actions, records.rewards, records.probabilities, ~records.allowed, len(hillstrom.ARMS),
        "every arm was drawn with probability 1/3",
    )  # fmt: skip
    rates, number = hillstrom.visit_rates(pilot)
    arm = int(((rates * number).sum(axis=0) / number.sum(axis=0)).argmax())
    model = make_world("hillstrom").model
    return Problem(users, model, np.full((1, model.states), arm), records.users // 3)


PROBLEMS = {
    "msnbc": readers, "msnbc-history": readers_with_history, "msnbc-kinds": readers_of_kinds, "jester": audience,
    "hillstrom": shoppers,
}  # fmt: skip


def row(name: str, met: list[np.ndarray], base: float, best: float | None, seconds: float) -> float:
    """Print a learner's row, and say what it earned on the last tenth."""
    whole = np.array([returns.mean() for returns in met])
    late = np.array([returns[-len(returns) // 10 :].mean() for returns in met])
    spread = [f" ± {values.std(ddof=1):.4f}" if len(values) > 1 else "" for values in (whole, late)]
    closed = "" if best is None or best <= base else f"{100 * (late.mean() - base) / (best - base):.0f}%"
    print(
        f"| `{name}` | {whole.mean():.4f}{spread[0]} | {late.mean():.4f}{spread[1]} | {closed} | {whole.min():.4f} | "
        f"{np.mean([len(returns) for returns in met]):,.0f} | {seconds:.0f} s |",
        flush=True,
    )
    return float(late.mean())


def run(name: str, specs: list[str], orders: int, users: int | None, deployed: bool) -> None:
    problem: Any = PROBLEMS[name]()
    people, model = problem.users, problem.model
    episodes = users or problem.episodes
    listed = [np.random.default_rng([7, number]).permutation(people.users) for number in range(orders)]
    base = people.value(problem.pilot)
    print(f"\n## {name}: {people.users:,} recorded, {episodes:,} users, {orders} orders; {people.why}\n")
    print(f"the pilot's plan: {base.value:.4f} ± {base.error:.4f}\n")
    print("| learner | all users | last tenth | of the way | worst order, all users | met | time |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    best: float | None = None
    for spec in specs:
        began = time.perf_counter()
        try:
            agent = make_agent(spec, model, episodes)
        except ReticentError as problem_found:
            print(f"| `{spec}` | does not apply: {problem_found} | | | | | |")
            continue
        late = row(spec, meet_recorded(agent, people, listed, seed=7), base.value, best, time.perf_counter() - began)
        best = late if best is None else best
    if deployed:
        began = time.perf_counter()
        shell = DeployedAgent("private-score-vi:epsilon=1", model, episodes, SecureNoise())
        met = meet_deployed(shell, people, listed[0], np.random.default_rng(7))
        row("deployed, ε = 1, real noise", [met], base.value, best, time.perf_counter() - began)


def walkers(specs: list[str], days: int) -> None:
    """Populations that blend the candidates of 37 people, availability and all: each has a learner of its own."""
    fitted = heartsteps.fit_people(heartsteps.days_log(heartsteps.load_decisions()), 3, holdout=0.0)
    kernel, model, initial = fitted.kernel, fitted.model, np.asarray(fitted.model.initial)
    drawn = np.random.default_rng(0).dirichlet(np.ones(kernel.d), size=POPULATIONS)
    place = stack_worlds([blend_world(model, kernel, weights, "heartsteps") for weights in drawn])
    best = np.asarray(place.optimal_policy_value())
    pooled = kernel.blended(fitted.shares).plan(heartsteps.HORIZON)[0]
    pilot = np.array([initial @ kernel.blended(weights).evaluate(pooled) for weights in drawn])
    print(f"\n## heartsteps: {days:,} person-days, {POPULATIONS} populations that blend {kernel.d} candidates\n")
    print(f"best plan of each {best.mean():.4f}; one plan, from all 37 people {pilot.mean():.4f}\n")
    print("| learner | all days | more than the one plan | last tenth | more than the one plan | better in | time |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for spec in specs:
        began = time.perf_counter()
        try:
            agent = make_agent(spec, model, days)
        except ReticentError as problem_found:
            print(f"| `{spec}` | does not apply: {problem_found} | | | | | |")
            continue
        curves = simulate(agent, place, list(range(POPULATIONS)))
        at = int(0.9 * days)
        before = np.array([np.interp(at, curves.episodes, regret) for regret in curves.regret])
        total = curves.regret[:, -1]
        cells = []
        for earned in (best - total / days, best - (total - before) / (days - at)):
            gained = earned - pilot
            cells += [f"{earned.mean():.4f}", f"{gained.mean():+.4f} ± {gained.std(ddof=1) / POPULATIONS**0.5:.4f}"]
        spent = time.perf_counter() - began
        print(f"| `{spec}` | {' | '.join(cells)} | {(gained > 0).mean():.0%} | {spent:.0f} s |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", help="of " + ", ".join([*PROBLEMS, "heartsteps"]))
    parser.add_argument("--orders", type=int, default=4)
    parser.add_argument(
        "--users", type=int, default=None, help="K; by default as many as there are, or several numbers of days"
    )
    parser.add_argument("--agent", action="append", default=None, help="only this one; repeat for more")
    parser.add_argument("--deployed", action="store_true", help="also the deployed agent, one user after another")
    arguments = parser.parse_args()
    for which in arguments.which or [*PROBLEMS, "heartsteps"]:
        chosen = arguments.agent or list(LISTS.get(which, SPECS))
        if which == "heartsteps":
            for number in [arguments.users] if arguments.users else DAYS:
                walkers(chosen, number)
        else:
            run(which, chosen, arguments.orders, arguments.users, arguments.deployed)
