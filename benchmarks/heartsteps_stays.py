# SPDX-License-Identifier: Apache-2.0
"""HeartSteps: 37 people for about six weeks. Is a belief carried over days worth something, and what do stays tell?

    RETICENT_DATA=... python benchmarks/heartsteps_stays.py

**People left out one by one.** Kinds of people are fitted (EM over people, rows shrunk to those of all) to 36 of them; the
37th acts on a belief that is carried over their days, formed from what was recorded before each decision. The return of a
day is estimated doubly robustly from the trial's known chances, later states as recorded, and compared with the one plan of
the other 36. Mean over people ± standard error of the mean; all settings that were tried are printed.

**Shares.** Simulated people of three kinds fitted to all 37, suggestions drawn as in the trial. How well shares are known
at person-level ε = 1, δ = 1e-5: one vector of the stay, clipped once; the mean of 42 daily vectors, each clipped; and the
stay without noise. Root mean square over shares of the standard deviation over cohorts, by the agent's own rule and update.
"""

from __future__ import annotations

import argparse
import dataclasses

import jax.numpy as jnp
import numpy as np

from reticent.agents.kinds.rule import evidence, make_rule
from reticent.agents.score.coordinates import simplex_coordinates
from reticent.privacy.accounting.gaussian import mu_of
from reticent.runtime import double_precision
from reticent.worlds.people import heartsteps
from reticent_wire.clipping import clip_norm
from reticent_wire.forms.kinds import VectorRule

SETTINGS = ((2, 30.0), (3, 30.0), (2, 100.0), (3, 100.0))
"""Kinds, and pseudo-counts of everybody's rows in the rows of a kind."""

LEVELS = np.array([1e-9, 0.55, 0.75])
"""Between rewards of no, few, some and many steps."""

POOLED = 20.0
"""Pseudo-counts of a state's row in that of one of its actions, and of all states' in a state's."""

DAYS = 42
SIMULATED = 600
COHORTS = 400


@dataclasses.dataclass(frozen=True)
class Trial:
    """What was recorded, by day ``(D, 5)``, and whose day it was ``(D,)``."""

    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    levels: np.ndarray
    allowed: np.ndarray
    person: np.ndarray

    @classmethod
    def load(cls) -> Trial:
        log = heartsteps.days_log(heartsteps.load_decisions())
        seen = heartsteps.recorded(log)
        person = log.sort("day", "moment")["person"].to_numpy().reshape(-1, heartsteps.HORIZON)[:, 0]
        levels = np.searchsorted(LEVELS, seen.rewards, side="right")
        return cls(seen.states, seen.actions, seen.rewards, levels, seen.allowed, person)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """States, actions and levels of reward."""
        return int(self.states.max()) + 1, len(heartsteps.ACTIONS), len(LEVELS) + 1

    @property
    def pays(self) -> np.ndarray:
        """Mean reward of each level."""
        return np.array([self.rewards[self.levels == level].mean() for level in range(len(LEVELS) + 1)])

    @property
    def available(self) -> np.ndarray:
        """In which states a suggestion may be made, ``(S,)``."""
        return np.isin(np.arange(self.sizes[0]), np.unique(self.states[self.allowed]))

    def counts(self, days: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How often levels of reward ``(S, A, B)`` and next states ``(S, A, S)`` followed."""
        s, a, b = self.sizes
        paid, moved = np.zeros((s, a, b)), np.zeros((s, a, s))
        np.add.at(paid, (self.states[days], self.actions[days], self.levels[days]), 1)
        before, after = self.states[days, :-1], self.states[days, 1:]
        np.add.at(moved, (before, self.actions[days, :-1], after), 1)
        return paid, moved


@dataclasses.dataclass(frozen=True)
class Kinds:
    """Shares ``(M,)``, chances of levels ``(M, S, A, B)`` and of next states ``(M, S, A, S)``."""

    shares: np.ndarray
    paid: np.ndarray
    moved: np.ndarray

    def likelihoods(self, paid: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """Log-likelihoods of counts, with any leading axes ``(..., M)``."""
        return np.einsum("...sab,msab->...m", paid, np.log(self.paid)) + np.einsum(
            "...sat,msat->...m", moved, np.log(self.moved)
        )


def pooled_rows(counts: np.ndarray, least: float) -> np.ndarray:
    """Everybody's rows: an action's shrunk to its state's, a state's to all."""
    everywhere = counts.sum(axis=(0, 1)) + least
    state = counts.sum(axis=1) + POOLED * everywhere / everywhere.sum()
    rows = counts + POOLED * (state / state.sum(axis=-1, keepdims=True))[:, None]
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


def fit(paid: np.ndarray, moved: np.ndarray, kinds: int, weight: float, starts: int = 3, steps: int = 30) -> Kinds:
    """Kinds of the people with these counts, by EM; the best of several starts."""
    draw, best, found = np.random.default_rng(0), -np.inf, None
    common = pooled_rows(paid.sum(axis=0), 1.0), pooled_rows(moved.sum(axis=0), 0.5)
    for _ in range(starts if kinds > 1 else 1):
        belongs = draw.dirichlet(np.full(kinds, 0.3), size=len(paid))
        for _ in range(steps):
            rows = [
                np.einsum("nm,nsab->msab", belongs, counts) + weight * table
                for counts, table in zip((paid, moved), common, strict=True)
            ]
            rows = [table / table.sum(axis=-1, keepdims=True) for table in rows]
            now = Kinds((belongs.sum(axis=0) + 1) / (len(paid) + kinds), *rows)
            joint = now.likelihoods(paid, moved) + np.log(now.shares)
            total = np.logaddexp.reduce(joint, axis=1)
            belongs = np.exp(joint - total[:, None])
        prior = sum(float((table * np.log(row)).sum()) for table, row in zip(common, rows, strict=True))
        if total.sum() + weight * prior > best:
            best, found = total.sum() + weight * prior, now
    assert found is not None
    return found


def tables(kinds: Kinds, trial: Trial) -> np.ndarray:
    """Optimal tables ``(H, M, S, A)``; where no suggestion may be made, all actions are none."""
    pays, closed = kinds.paid @ trial.pays, ~trial.available
    values, found = np.zeros(pays.shape[:2]), []
    for _ in range(heartsteps.HORIZON):
        table = pays + np.einsum("msat,mt->msa", kinds.moved, values)
        table[:, closed] = table[:, closed, :1]
        values = table.max(axis=-1)
        found.append(table)
    return np.stack(found[::-1])


def choices(trial: Trial, days: np.ndarray, kinds: Kinds) -> np.ndarray:
    """What a belief that is carried over these days would have chosen, ``(days, H)``."""
    best, known = tables(kinds, trial), np.log(kinds.shares)
    paid, moved = np.log(kinds.paid), np.log(kinds.moved)
    chosen = np.zeros((len(days), heartsteps.HORIZON), int)
    for number, day in enumerate(days):
        for step in range(heartsteps.HORIZON):
            state, action = trial.states[day, step], trial.actions[day, step]
            belief = np.exp(known - known.max())
            if trial.available[state]:
                chosen[number, step] = (belief @ best[step, :, state]).argmax()
            known = known + paid[:, state, action, trial.levels[day, step]]
            if step + 1 < heartsteps.HORIZON:
                known = known + moved[:, state, action, trial.states[day, step + 1]]
    return chosen


def value(trial: Trial, days: np.ndarray, chosen: np.ndarray, expected: np.ndarray) -> float:
    """Doubly robust return of a day under these choices; ``expected`` rewards are ``(S, A)``."""
    states, actions, rewards = trial.states[days], trial.actions[days], trial.rewards[days]
    chances = np.array(heartsteps.CHANCES)[actions]
    corrected = expected[states, chosen] + (chosen == actions) / chances * (rewards - expected[states, actions])
    return float(np.where(trial.allowed[days], corrected, rewards).sum(axis=1).mean())


def left_out(trial: Trial) -> None:
    people = np.unique(trial.person)
    own = [np.flatnonzero(trial.person == name) for name in people]
    counted = [trial.counts(days) for days in own]
    paid, moved = (np.stack(part) for part in zip(*counted, strict=True))
    print(f"{len(people)} people, {len(trial.person)} days")
    for kinds, weight in SETTINGS:
        gains, likelier = [], []
        for number, days in enumerate(own):
            others = np.delete(paid, number, axis=0), np.delete(moved, number, axis=0)
            one, many = fit(*others, 1, weight), fit(*others, kinds, weight)
            expected = (one.paid @ trial.pays)[0]
            worth = [value(trial, days, choices(trial, days, laws), expected) for laws in (many, one)]
            gains.append(worth[0] - worth[1])
            joint = many.likelihoods(paid[number], moved[number]) + np.log(many.shares)
            likelier.append(np.logaddexp.reduce(joint) - one.likelihoods(paid[number], moved[number])[0])
        print(
            f"| {kinds} kinds, weight {weight:g} | belief over days less one plan, a day {with_error(gains)} "
            f"| held-out log-likelihood of a person {with_error(likelier)} |",
            flush=True,
        )


def with_error(values: list[float]) -> str:
    found = np.array(values)
    return f"{found.mean():+.3f} ± {found.std(ddof=1) / len(found) ** 0.5:.3f} (median {np.median(found):+.3f})"


def simulated(trial: Trial, kinds: Kinds, people: int, seed: int) -> np.ndarray:
    """Log-likelihoods ``(M, n, days, M)`` of simulated people of each kind under the trial's suggestions."""
    draw = np.random.default_rng(seed)
    first = np.bincount(trial.states[:, 0], minlength=trial.sizes[0]) / len(trial.states)
    count, shape = len(kinds.shares), (people, DAYS)
    found = np.zeros((count, *shape, count))
    for kind in range(count):
        state = draw.choice(len(first), size=shape, p=first)
        for step in range(heartsteps.HORIZON):
            action = np.where(
                trial.available[state], draw.choice(len(heartsteps.CHANCES), shape, p=heartsteps.CHANCES), 0
            )
            level = drawn(draw, kinds.paid[kind, state, action])
            found[kind] += np.moveaxis(np.log(kinds.paid[:, state, action, level]), 0, -1)
            if step + 1 < heartsteps.HORIZON:
                after = drawn(draw, kinds.moved[kind, state, action])
                found[kind] += np.moveaxis(np.log(kinds.moved[:, state, action, after]), 0, -1)
                state = after
    return found


def drawn(draw: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """One index of each row of chances."""
    uniform = draw.random(rows.shape[:-1])[..., None] * rows.sum(axis=-1, keepdims=True)
    return np.asarray((np.cumsum(rows, axis=-1) <= uniform).sum(axis=-1).clip(max=rows.shape[-1] - 1))


@double_precision
def deviation(kinds: Kinds, told: np.ndarray, met: np.ndarray, people: int, noise: float) -> float:
    """Of a share, from the mean of each person's clipped vectors, which has the noise of one.

    The rule is read off ``told``, cohorts are drawn from ``met``, both ``(M, n, reports, M)``.
    """
    count = len(kinds.shares)
    basis, shares = simplex_coordinates(count, 1.0).basis, jnp.asarray(kinds.shares)
    flat = jnp.asarray(told.reshape(count, -1, count))
    rule = make_rule(basis, shares, flat, jnp.zeros((count - 1, count - 1)) + 1e-9 * jnp.eye(count - 1),
                     jnp.asarray(noise**2), jnp.asarray(float(people)))  # fmt: skip
    gained, weighted = evidence(basis, rule, jnp.asarray(noise**2), jnp.asarray(float(people)))
    vectors = VectorRule(basis, shares, rule.whiten, rule.radius).vector(jnp.asarray(met), jnp)
    sent = np.asarray(clip_norm(vectors, 1.0, jnp)).mean(axis=2)
    draw = np.random.default_rng(1)
    kind = drawn(draw, np.broadcast_to(kinds.shares, (COHORTS, people, count)))
    means = sent[kind, draw.integers(sent.shape[1], size=kind.shape)].mean(axis=1)
    released = means + noise / people * draw.standard_normal(means.shape)
    moved = (released - np.asarray(rule.responses) @ kinds.shares) @ np.linalg.solve(gained, weighted).T
    return float(np.sqrt(((moved @ np.asarray(basis).T) ** 2).mean()))


def shares_known(trial: Trial) -> None:
    own = [trial.counts(np.flatnonzero(trial.person == name)) for name in np.unique(trial.person)]
    kinds = fit(*(np.stack(part) for part in zip(*own, strict=True)), 3, 100.0, starts=6)
    told, met = (simulated(trial, kinds, SIMULATED, seed) for seed in (0, 1))
    stay = [days.sum(axis=2, keepdims=True) for days in (told, met)]
    noise = 2 / mu_of(1.0, 1e-5)
    print("| people | one report of the stay | mean of 42 daily reports | the stay without noise |")
    for people in (37, 100, 400):
        found = (
            deviation(kinds, *stay, people, noise), deviation(kinds, told, met, people, noise),
            deviation(kinds, *stay, people, 0.0),
        )  # fmt: skip
        print(f"| {people} | " + " | ".join(f"{one:.3f}" for one in found) + " |", flush=True)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    trial = Trial.load()
    shares_known(trial)
    left_out(trial)


if __name__ == "__main__":
    main()
