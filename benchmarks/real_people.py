# SPDX-License-Identifier: Apache-2.0
"""What there is to learn from recorded people: the tables of docs/measurements/people.

    RETICENT_DATA=FOLDER python benchmarks/real_people.py                   # all of them, two minutes on one core
    RETICENT_DATA=FOLDER python benchmarks/real_people.py msnbc --out DIR   # one, and its model file

For each data set: what a plan from the pilot earns among those whom a service would meet, what their own model earns,
the blend of the pilot's candidates that is next to them, and acting at random. No learner and no privacy yet: this is
the room that they have.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from reticent.worlds.people import heartsteps, hillstrom, jester, msnbc
from reticent.worlds.people.recorded import Estimate, mean_of
from reticent.worlds.records import Fitted


def row(name: str, measured: Estimate | float) -> None:
    value = f"{measured.value:.4f} ± {measured.error:.4f}" if isinstance(measured, Estimate) else f"{measured:.4f}"
    print(f"| {name} | {value} |")


def table(title: str, unit: str) -> None:
    print(f"\n## {title}\n\n| plan | {unit} |\n|---|--:|")


def keep(fitted: Fitted, out: Path | None, name: str) -> None:
    if out is not None:
        print(f"model: {fitted.save(out / f'{name}.npz')}")


def readers(out: Path | None) -> None:
    sessions = msnbc.load_sessions()
    for who in ("all", "changing"):
        for share in (0.9, 1.0):
            pilot, deployed = msnbc.populations(sessions, who=who, front_share=share)
            users, horizon = msnbc.recorded_users(deployed), 5
            table(
                f"msnbc, {who} sessions, {share:.0%} of the pilot by the front page: {len(deployed):,} readers",
                "hits per session",
            )
            row("their own first-order chain", users.value(msnbc.empirical(deployed).plan(horizon)[0]))
            row("their own chain over the last two pages", second_order(deployed))
            row("the pilot's", users.value(msnbc.empirical(pilot).plan(horizon)[0]))
            for grouped in (True, False) if share < 1 else (False,):
                for d in (2, 4, 8):
                    began = time.perf_counter()
                    fitted = msnbc.fit_pilot(pilot, d, grouped=grouped)
                    spent = time.perf_counter() - began
                    weights = msnbc.nearest_blend(fitted, deployed)
                    how = "entry sections are blends" if grouped else "readers of one kind each"
                    zeta = distance(fitted, weights, deployed)
                    name = f"blend of {d} candidates ({how}; ζ = {zeta:.3f}; fit {spent:.1f} s)"
                    row(name, users.value(fitted.kernel.blended(weights).plan(horizon)[0]))
                    if (who, share, grouped, d) == ("all", 0.9, True, 4):
                        keep(fitted, out, "msnbc")
            if (who, share) == ("all", 0.9):
                best_use_of_the_pilot(pilot, deployed)
            row("at random", users.uniform_value())
    print("\n## msnbc: the time of a fit\n")
    pages = sessions.changes(5)[:300_000]
    for grouped in (False, True):
        began = time.perf_counter()
        msnbc.fit_pilot(pages, (4, 8), grouped=grouped)
        how = "groups" if grouped else "users"
        print(f"300,000 sessions, 4 to 8 candidates, 8 starts each, {how}: {time.perf_counter() - began:.0f} s")


def best_use_of_the_pilot(pilot: np.ndarray, deployed: np.ndarray) -> None:
    """What the pilot's readers are worth without any learning: with their history, and weighted to the declared entries."""
    alone = msnbc.empirical(pilot[pilot[:, 0] != 0]).plan(5)[0]
    row("those of the pilot who entered elsewhere, alone", msnbc.recorded_users(deployed).value(alone))
    entered = {1: "arrived: entered, page: frontpage", "auto": "frontpage"}
    for history in (1, "auto"):
        for declared in (False, True):
            entries = {entered[history]: 0.0} if declared else None
            fitted = msnbc.fit_pilot(pilot, 1, history=history, entries=entries)
            users = msnbc.recorded_users(deployed, fitted.coding)
            how = "weighted to entries elsewhere" if declared else "as they are"
            chosen = "chosen by fit" if history == "auto" else "given"
            measured = users.value(fitted.kernel.blended(fitted.shares).plan(5)[0])
            row(f"the pilot's, {how}, last {fitted.report.depth} pages ({chosen})", measured)
    for d in (2, 4, 8):
        fitted = msnbc.fit_pilot(pilot, d, history=2, smoothing=5.0)
        users = msnbc.recorded_users(deployed, fitted.coding)
        weights = msnbc.nearest_blend(fitted, deployed)
        row(f"blend of {d} candidates, last 2 pages", users.value(fitted.kernel.blended(weights).plan(5)[0]))


def second_order(pages: np.ndarray) -> Estimate:
    """What the readers' own plan earns if the state is the page before and the page."""
    size, horizon = msnbc.LEFT + 1, pages.shape[1] - 1
    now = pages.astype(np.int64)
    state = now + size * np.concatenate([np.full((len(now), 1), msnbc.LEFT), now[:, :-1]], axis=1)
    state[now == msnbc.LEFT] = size * size - 1
    counts = np.zeros((size * size, size * size))
    np.add.at(counts, (state[:, :-1].ravel(), state[:, 1:].ravel()), 1)
    rows = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    hits = np.stack([rows[:, np.arange(size * size) % size == page].sum(axis=1) for page in range(msnbc.LEFT)], axis=1)
    hits[-1] = 0
    values, left, paid = np.zeros(len(rows)), np.ones(len(now), bool), np.zeros(len(now))
    plans = []
    for _ in range(horizon):
        wait = rows @ values
        plans.append(np.where(hits.max(axis=1) >= wait, hits.argmax(axis=1), -1))
        values = np.maximum(hits.max(axis=1), wait)
    for step, plan in enumerate(reversed(plans)):
        choice = plan[state[:, step]]
        asked = left & (choice >= 0) & (now[:, step] != msnbc.LEFT)
        paid += asked & (choice == now[:, step + 1])
        left &= ~asked
    return mean_of(paid)


def distance(fitted: Fitted, weights: np.ndarray, pages: np.ndarray) -> float:
    """Total variation between the readers' own chain and a blend, where they go (707 442 readers: no bias to speak of)."""
    own, blend = msnbc.empirical(pages), fitted.kernel.blended(weights)
    tables = []
    for kernel in (own, blend):
        full = np.zeros((kernel.states * kernel.actions, kernel.states))
        full[kernel.pair, kernel.following] = kernel.chances[:, 0]
        tables.append(full.reshape(kernel.states, kernel.actions, -1)[: 2 * msnbc.LEFT, 0])
    step = (np.arange(pages.shape[1] - 1) > 0) * msnbc.LEFT
    here = pages[:, :-1] != msnbc.LEFT
    visits = np.bincount((pages[:, :-1].astype(int) + step)[here], minlength=2 * msnbc.LEFT)
    return float(np.abs(tables[0] - tables[1]).sum(axis=1) @ visits / visits.sum() / 2)


def audience(out: Path | None) -> None:
    people = jester.audience(jester.load_ratings())
    users = jester.recorded_users(people)
    half = np.random.default_rng(0).random(users.users) < 0.5
    table(f"jester: {users.users:,} people who rated all jokes", "sum of six ratings from 0 to 1")
    row(
        "the other half's own model",
        users.subset(~half).value(users.subset(half).own_model(passes=20, seed=0).kernel.plan(6)[0]),
    )
    own = users.own_model(passes=20, seed=1)
    for d in (2, 3, 5):
        fitted = jester.fit_pilot(people, d)
        zeta = fitted.report.misfit.transition.estimate if fitted.report.misfit else float("nan")
        row(f"the pilot's shares of {d} candidates", users.value(fitted.kernel.blended(fitted.shares).plan(6)[0]))
        blend = fitted.kernel.blended(own.nearest_blend(fitted.kernel))
        row(f"blend of {d} candidates (pilot's held-out ζ = {zeta:.3f})", users.value(blend.plan(6)[0]))
        if d == 3:
            keep(fitted, out, "jester")
    everything = [users.returns(np.full((6, users.states), group)) for group in range(len(jester.ACTIONS))]
    row("an oracle: everybody's own best group", mean_of(np.max(everything, axis=0)))
    liked = np.corrcoef(np.nanmean(people.pilot, axis=0), people.deployed.mean(axis=0))[0, 1]
    for group, name in enumerate(jester.ACTIONS):
        row(f"always {name}", users.value(np.full((6, users.states), group)))
    row("at random", users.uniform_value())
    print(f"\ncorrelation of the two populations' mean ratings of jokes: {liked:.3f}")


def shoppers(_: Path | None) -> None:
    pilot, deployed = hillstrom.customers(hillstrom.load_customers())
    records = hillstrom.recorded(deployed)
    table(f"hillstrom: {records.users:,} customers who bought men's merchandise", "visits per customer")
    rates, number = hillstrom.visit_rates(pilot)
    arm = int(((rates * number).sum(axis=0) / number.sum(axis=0)).argmax())
    row(f"the pilot's best e-mail ({hillstrom.ARMS[arm]})", records.value(np.full((1, 6), arm)))
    for other, name in enumerate(hillstrom.ARMS):
        row(f"always {name}", records.value(np.full((1, 6), other)))
    half = np.random.default_rng(0).random(deployed.height) < 0.5
    best = hillstrom.visit_rates(deployed.filter(half))[0].argmax(axis=1)[None]
    row("best by context, from the other half", hillstrom.recorded(deployed.filter(~half)).value(best))
    row("at random", records.value(np.full((1, 6, 3), 1 / 3)))


def walkers(out: Path | None) -> None:
    log = heartsteps.days_log(heartsteps.load_decisions())
    fitted = heartsteps.fit_people(log, (2, 6))
    print(f"\n## heartsteps\n\n{fitted.report}")
    keep(fitted, out, "heartsteps")
    table(
        "heartsteps: populations that blend 3 candidates, 200 drawn",
        "return per day: best, mean population's, none, random",
    )
    fitted = heartsteps.fit_people(log, 3, holdout=0.0)
    kernel, initial = fitted.kernel, np.asarray(fitted.model.initial)
    pooled, _ = kernel.blended(fitted.shares).plan(5)
    even = np.full((5, kernel.states, kernel.actions), 1 / kernel.actions)
    results = []
    for weights in np.random.default_rng(0).dirichlet(np.ones(3), size=200):
        truth = kernel.blended(weights)
        plans = (truth.plan(5)[0], pooled, np.zeros((5, kernel.states), int), even)
        results.append([initial @ truth.evaluate(plan) for plan in plans])
    print("| mean | " + ", ".join(f"{value:.4f}" for value in np.mean(results, axis=0)) + " |")
    lost = np.array(results)[:, 0] - np.array(results)[:, 1]
    print(
        f"| lost by the plan of the pooled people: mean, 90% quantile | {lost.mean():.4f}, {np.quantile(lost, 0.9):.4f} |"
    )


PARTS = {"msnbc": readers, "jester": audience, "hillstrom": shoppers, "heartsteps": walkers}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", help="of " + ", ".join(PARTS))
    parser.add_argument("--out", type=Path, default=None, help="where to write model files")
    arguments = parser.parse_args()
    for name in arguments.which or PARTS:
        PARTS[name](arguments.out)
