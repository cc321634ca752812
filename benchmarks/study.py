# SPDX-License-Identifier: Apache-2.0
"""One study from beginning to end: who is promised what, what is learned, and which effects can be told afterwards.

    RETICENT_DATA=FOLDER python benchmarks/study.py --out docs/pictures/study.png

People of the world ``heartsteps`` (docs/real-people.md) for 42 days of five decisions. Half of a person's μ² goes to
learning, an eighth to each of four questions. Noise is simulated and everything is seeded; ``--secure`` draws it as a
deployment does.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reticent.agents import make_agent
from reticent.inference import (
    Contrast,
    Decisions,
    Effects,
    EffectsPlan,
    contributions,
    estimate,
    plan_effects,
    release,
    total_guarantee,
)
from reticent.privacy.accounting.gaussian import epsilon_of, mu_of
from reticent.privacy.guarantee import guarantee_of
from reticent.privacy.noise import SecureNoise
from reticent.reports.plots import COLOURS, DPI, FAINT, INK
from reticent.service.mechanism import make_mechanism
from reticent.simulation.study import Population, Study, live, people_around, true_effects
from reticent.worlds import World, make_world

DAYS, FLOOR, DELTA, ALIKE, POPULATION = 42, 0.2, 1e-5, 5.0, 1
PEOPLE, BUDGETS = (40, 400, 4000), (None, 10.0, 3.0, 1.0)
LEARNING, QUESTION = 1 / 2, 1 / 8
ARMS = (("move", 1), ("sit less", 2))
LABELS = (
    *(f"{arm}, all" for arm, _ in ARMS),
    *(f"{arm}, {steps} steps before" for arm, _ in ARMS for steps in ("no", "some", "many")),
)


def share(epsilon: float, part: float) -> float:
    """The ε of a release that may have ``part`` of a person's μ²."""
    return epsilon_of(mu_of(epsilon, DELTA) * part**0.5, DELTA)


def questions(world: World) -> list[Contrast]:
    """Each arm against nothing, where people are available: in all their decisions, and by their steps before.

    The baseline is the public model's mean reward at an even blend; the radius is what one in a thousand people exceeds
    who are drawn from that model and act at random. Nobody's data are in either.
    """
    model = world.model
    names = model.names.states
    there = np.array(["available: yes" in name for name in names])
    steps = np.array([0 if "before < 1," in name else 2 if "before ≥" in name else 1 for name in names])
    means = np.asarray(model.reward_features).mean(axis=0) * float(np.asarray(world.reward_theta)[0].sum())
    shape = (model.horizon, 1)
    asked = []
    for groups in (np.where(there, 0, -1), np.where(there, steps, -1)):
        for _, arm in ARMS:
            asked.append(
                Contrast(
                    np.tile(groups, shape), FLOOR, model.actions, treatment=arm,
                    baseline=np.tile(np.clip(means[:, [0, arm]].mean(axis=1), 0, 1), shape),
                ).over_days(DAYS)
            )  # fmt: skip
    drawn = drawn_people(world, 2000)
    return [dataclasses.replace(one, clip=radius(one, drawn)) for one in asked]


def drawn_people(world: World, people: int) -> Decisions:
    """People of the public model (of ``world`` nothing else is used but its scale), who act at random for a whole study."""
    draw = np.random.default_rng(7)
    model = world.model
    blends = draw.dirichlet(np.ones(model.d1), people)
    rows = np.einsum("nd,dsak->nsak", blends, np.asarray(model.transition_features)).cumsum(axis=-1)
    total = float(np.asarray(world.reward_theta)[0].sum())
    means = np.einsum("nd,dsa->nsa", total * blends, np.asarray(model.reward_features))
    who, columns = np.arange(people), []
    for _ in range(DAYS):
        state = draw.choice(model.states, people, p=np.asarray(model.initial) / np.asarray(model.initial).sum())
        for _ in range(model.horizon):
            action = draw.integers(0, model.actions, people)
            columns.append((state, action, (draw.random(people) < means[who, state, action]).astype(float)))
            state = (draw.random((people, 1)) >= rows[who, state, action]).sum(axis=1).clip(0, model.states - 1)
    states, actions, rewards = (np.stack([column[place] for column in columns], axis=1) for place in range(3))
    return Decisions(states, actions, rewards, np.full((*states.shape, model.actions), 1 / model.actions))


def radius(question: Contrast, drawn: Decisions) -> float:
    """What one in a thousand of these exceeds, times what weights at the floor spread beyond those at random."""
    lengths = np.linalg.norm(contributions(question, drawn)[:, : question.size], axis=1) * question.residual_bound
    least = question.least
    return float(np.quantile(lengths, 0.999) * np.sqrt(0.25 / (least * (1 - least))))


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """One study: gains by day, and for all questions the effects, their truth, and the effects without noise.

    ``gains``: what a day's plan is worth to these people beyond acting at random; ``best`` likewise, of the best plan of
    the population's blend that has the floor. ``clipped``: the largest share of people beyond a question's radius.
    """

    gains: np.ndarray
    best: float
    effects: list[Effects]
    plain: list[Effects]
    truth: np.ndarray
    clipped: float


def study(world: World, asked: list[Contrast], people: int, epsilon: float | None, seed: int, secure: bool) -> Outcome:
    population = people_around(world, people, ALIKE, seed)
    rounds = f"floor={FLOOR},bonus=0,first=1e9,growth=1,largest={people}"
    noise: Any = None
    if epsilon is None:
        agent = make_agent(f"score-vi:{rounds}", world.model, DAYS * people)
    else:
        spec = f"private-score-vi:epsilon={share(epsilon, LEARNING)!r},delta={DELTA},contributions={DAYS},{rounds}"
        mechanism = make_mechanism(spec, world.model, DAYS * people, SecureNoise())
        agent = mechanism.agent
        if secure:
            noise = lambda _: np.asarray(mechanism.round_noise()) * mechanism.grid  # noqa: E731
    lived = live(agent, population, seed, noise)
    plans = [
        plan_effects(one, people, epsilon=None if epsilon is None else share(epsilon, QUESTION), delta=DELTA,
                     deployment=epsilon is not None)
        for one in asked
    ]  # fmt: skip
    if epsilon is not None and seed == 0:
        print(f"  {people} people: {ledger(agent, plans)}", flush=True)
    uniform = np.full((world.model.horizon, world.model.states, world.model.actions), 1 / world.model.actions)
    random, best = population.mean_value(uniform), population.mean_value(best_with_floor(world))
    source = SecureNoise() if secure and epsilon is not None else np.random.default_rng(1000 + seed)
    return analysed(lived, population, asked, plans, source, lived.values - random, best - random)


def ledger(agent: Any, plans: list[EffectsPlan]) -> str:
    """What one person is charged in all."""
    promise = guarantee_of(agent)
    assert promise is not None
    parts = [promise, *(plan.guarantee for plan in plans if plan.guarantee is not None)]
    shown = " + ".join(f"{part.spent:.3f}" for part in parts)
    return f"ε spent: {shown}, together {total_guarantee(parts, DELTA):.4f}"


def analysed(
    lived: Study,
    population: Population,
    asked: list[Contrast],
    plans: list[EffectsPlan],
    noise: SecureNoise | np.random.Generator,
    gains: np.ndarray,
    best: float,
) -> Outcome:
    effects, plain, truth, clipped = [], [], [], []
    for question, plan in zip(asked, plans, strict=True):
        users = contributions(question, lived.decisions)
        silent = plan_effects(question, len(users), epsilon=None)
        plain.append(estimate(silent, users.sum(axis=0)))
        effects.append(estimate(plan, release(plan, users, noise)))
        truth.append(true_effects(question, lived, population))
        clipped.append((np.linalg.norm(users[:, : question.size], axis=1) > 1 - 1e-9).mean())
    return Outcome(gains, best, effects, plain, np.concatenate(truth), float(np.max(clipped)))


def flat(effects: list[Effects], field: str) -> np.ndarray:
    return np.concatenate([getattr(one, field) for one in effects])


def summary(outcomes: list[Outcome]) -> str:
    low, high, truth = (np.stack(rows) for rows in (
        [flat(one.effects, "low") for one in outcomes], [flat(one.effects, "high") for one in outcomes],
        [one.truth for one in outcomes],
    ))  # fmt: skip
    half = np.median((high - low) / 2, axis=0)
    last = np.array([one.gains[-7:].mean() for one in outcomes])
    best = np.mean([one.best for one in outcomes])
    told = ((low > 0) | (high < 0)).mean(axis=0)
    covered = ((low <= truth) & (truth <= high)).mean()
    error = last.std() / max(len(last) - 1, 1) ** 0.5
    return (
        f"gain in the last week {last.mean():.4f} ± {error:.4f} (best {best:.4f}); "
        f"half-widths {np.round(half, 4).tolist()}; told from 0: {np.round(told, 2).tolist()}; "
        f"cover {100 * covered:.0f} % of {truth.size}; clipped at most {100 * max(one.clipped for one in outcomes):.2f} %"
    )


def best_with_floor(world: World) -> np.ndarray:
    """The best plan of the population's blend that has the floor, ``(H, S, A)``."""
    model = world.model
    rows, means = np.asarray(world.transitions), np.asarray(world.mean_rewards)
    policy, following = np.zeros((model.horizon, model.states, model.actions)), np.zeros(model.states)
    for step in reversed(range(model.horizon)):
        table = means[step] + rows[step] @ following
        policy[step] = FLOOR + (1 - model.actions * FLOOR) * np.eye(model.actions)[table.argmax(axis=1)]
        following = (policy[step] * table).sum(axis=1)
    return policy


COLOUR = dict(zip(BUDGETS, (INK, COLOURS[0], COLOURS[2], COLOURS[1]), strict=True))
"""By ε, in all panels."""


def draw(found: dict[Any, list[Outcome]], path: str) -> None:
    figure = Figure(figsize=(13.2, 4.9), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    days, told, wide = figure.subplots(1, 3, gridspec_kw={"width_ratios": (1, 1.15, 0.9)})
    _draw_days(days, found)
    _draw_effects(told, found[4000, 1.0][0])
    _draw_widths(wide, found)
    for axes in (days, told, wide):
        axes.grid(alpha=0.25)
        axes.title.set_fontsize(10)
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    figure.savefig(path)


def _draw_days(axes: Any, found: dict[Any, list[Outcome]]) -> None:
    at = np.arange(1, DAYS + 1)
    for people, style in ((4000, "-"), (40, "--")):
        for epsilon in (None, 1.0):
            gains = np.stack([one.gains for one in found[people, epsilon]])
            middle, error = gains.mean(axis=0), gains.std(axis=0) / (len(gains) - 1) ** 0.5
            label = f"{people} people, " + ("no privacy" if epsilon is None else f"ε = {epsilon:g}")
            axes.plot(at, middle, style, color=COLOUR[epsilon], label=label, lw=1.4)
            axes.fill_between(at, middle - error, middle + error, color=COLOUR[epsilon], alpha=0.15, lw=0)
    best = np.mean([one.best for one in found[4000, None]])
    axes.axhline(best, color=FAINT, lw=0.8, linestyle=":")
    axes.annotate("best plan that keeps the floor", (DAYS, best), (0, 3), textcoords="offset points", ha="right",
                  fontsize=8, color=FAINT)  # fmt: skip
    many, few = (len(found[people, None]) for people in (4000, 40))
    axes.set_title(f"What is learned: mean of {many} and {few} studies,\nbands ± 1 standard error")
    axes.set(xlabel="day of the study", ylabel="return of a day beyond acting at random", ylim=(-0.001, 0.053))


def _draw_effects(axes: Any, one: Outcome) -> None:
    rows = np.arange(len(LABELS))
    for effects, offset, colour, label in (
        (one.plain, -0.16, INK, "95 % interval, no privacy"),
        (one.effects, 0.16, COLOUR[1.0], "95 % interval, ε = 1"),
    ):
        centre = flat(effects, "estimate")
        reach = flat(effects, "high") - centre
        axes.errorbar(centre, rows + offset, xerr=reach, fmt="o", ms=3, color=colour, lw=1.3, capsize=2, label=label)
    axes.plot(one.truth, rows, "|", color=COLOURS[3], ms=16, mew=1.8, label="truth")
    axes.axvline(0, color=FAINT, lw=0.8)
    axes.set_yticks(rows, LABELS, fontsize=8)
    axes.invert_yaxis()
    title = "What can be told at the end of one study of 4000 people:\neffects of suggestions against none"
    axes.set(xlabel="effect on the outcome, which is from 0 to 1", title=title)


def _draw_widths(axes: Any, found: dict[Any, list[Outcome]]) -> None:
    for epsilon in BUDGETS:
        halves = [
            np.median([(flat(one.effects, "high") - flat(one.effects, "low"))[0] / 2 for one in found[people, epsilon]])
            for people in PEOPLE
        ]
        shown = np.where(np.isfinite(halves), halves, np.nan)
        label = "no privacy" if epsilon is None else f"ε = {epsilon:g}"
        axes.plot(PEOPLE, shown, marker="o", ms=4, color=COLOUR[epsilon], label=label, lw=1.4)
    size = abs(found[4000, None][0].truth[0])
    axes.axhline(size, color=COLOURS[3], lw=1.2, linestyle=":")
    axes.annotate("the effect itself", (32, size), (0, 3), textcoords="offset points", fontsize=8, color=COLOURS[3])
    axes.annotate("40 people: no interval\nat any of these ε", (34, 0.0034), fontsize=8, color=FAINT)
    axes.set(xscale="log", yscale="log", xlim=(30, 5500), ylim=(0.0018, 0.08))
    axes.set(xlabel="people", ylabel="half-width of a 95 % interval")
    axes.set_title("How well the effect of “move” is known\n(median of studies)")
    axes.set_xticks(PEOPLE, [str(people) for people in PEOPLE])
    axes.set_yticks([0.003, 0.01, 0.03], ["0.003", "0.01", "0.03"])
    axes.minorticks_off()


def _told(effects: list[Effects], place: int) -> str:
    centre, high = flat(effects, "estimate")[place], flat(effects, "high")[place]
    return f"{centre:+.4f} ± {high - centre:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=4, help="of 4000 people; twice and thrice as many of 400 and 40")
    parser.add_argument("--secure", action="store_true", help="noise from the operating system, as in a deployment")
    parser.add_argument("--out", default="docs/pictures/study.png")
    arguments = parser.parse_args()
    began = time.monotonic()
    world = make_world(f"heartsteps:population={POPULATION}")
    asked = questions(world)
    print(f"blend {np.round(np.asarray(world.transition_theta)[0], 2).tolist()}; radius "
          f"{[round(one.clip, 2) for one in asked]} instead of "
          f"{[round(dataclasses.replace(one, clip=np.inf).residual_bound) for one in asked]}")  # fmt: skip
    found: dict[Any, list[Outcome]] = {}
    for people, times in zip(PEOPLE, (3, 2, 1), strict=True):
        for epsilon in BUDGETS:
            seeds = range(times * arguments.studies)
            kept = [study(world, asked, people, epsilon, seed, arguments.secure) for seed in seeds]
            found[people, epsilon] = kept
            print(f"{people} people, ε {epsilon}: {summary(kept)} [{time.monotonic() - began:.0f} s]", flush=True)
            if people == max(PEOPLE) and epsilon in (None, 1.0):
                one = kept[0]
                for place, label in enumerate(LABELS):
                    told = [_told(effects, place) for effects in (one.plain, one.effects)]
                    print(f"    {label}: truth {one.truth[place]:+.4f}, without noise {told[0]}, released {told[1]}")
    draw(found, arguments.out)


if __name__ == "__main__":
    main()
