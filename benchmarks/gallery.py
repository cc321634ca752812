# SPDX-License-Identifier: Apache-2.0
"""One picture of every world in the zoo, and the table of docs/gallery.md.

    python benchmarks/gallery.py                    # all of them, into docs/pictures
    python benchmarks/gallery.py --world tutor      # one

Left: how far the policy in force is from the best one, for ``private-score-vi`` at ε = 1 and for ``score-vi`` without
privacy (for bandits ``private-linucb`` and ``linucb``), at the registered number of users; acting at random is 100%. Both
plan on public epochs, so that they differ in privacy and not in how often they may think. Right: something of the world
itself.
A world whose extra is not installed is skipped, and the script says so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter

from reticent.agents import make_agent
from reticent.errors import MissingExtra
from reticent.experiments.reach import in_words, median_users_until
from reticent.reports.plots import COLOURS, DPI, FAINT, INK, band, band_words, gaps
from reticent.runtime import double_precision, enable_compilation_cache
from reticent.simulation.simulate import Curves, simulate
from reticent.worlds import WORLDS, World, default_episodes, make_world
from reticent.worlds.registry import load_zoo
from reticent.worlds.zoo import hard_instance, keyboard, mobile_health, tutor

SHOWN = {"riverswim": "riverswim:features=blend"}
"""Worlds shown with other options than their own: one-hot features have 72 + 12 dimensions to learn, not 4 + 2."""

FLOOR = 1e-4
"""Gaps below this are drawn on it."""

SOFT = ("#9ecae1", "#08519c", "#a1d99b", "#006d2c", "#fdbe85", "#a63603", "#eeeeee")


class Shown(NamedTuple):
    """One world of the gallery with what was measured in it."""

    spec: str
    world: World
    episodes: int
    names: tuple[str, str]
    private: Curves
    free: Curves

    @property
    def chance(self) -> float:
        """What acting at random loses."""
        return self.world.optimal_value - self.world.uniform_value

    def users_until_near(self, curves: Curves) -> str:
        """The median over seeds of how many users come before the gap stays below 5 % of what acting at random loses."""
        return in_words(median_users_until(curves.episodes, curves.value, self.world.optimal_value, self.chance))


def measure(spec: str, seeds: int, episodes: int | None) -> Shown:
    """Run both learners in the world."""
    world = make_world(spec)
    users = default_episodes(spec) if episodes is None else episodes
    names = ("private-linucb", "linucb") if world.model.horizon == 1 else ("private-score-vi", "score-vi")
    options: tuple[dict[str, float], dict[str, float]] = ({"epsilon": 1.0, "delta": 1e-5}, {})
    agents = [make_agent(name, world.model, users, **given) for name, given in zip(names, options, strict=True)]
    return Shown(spec, world, users, names, *(simulate(agent, world, range(seeds)) for agent in agents))


# -- the picture ---------------------------------------------------------------------------------------------------------


def draw(shown: Shown, path: Path) -> None:
    """Both panels of one world."""
    figure = Figure(figsize=(10.67, 4.8), dpi=DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.0))
    learning_panel(left, shown)
    name = shown.spec.partition(":")[0]
    PANELS.get(name, losses_panel)(right, shown.world)
    for axes in (left, right):
        axes.tick_params(colors=INK, labelsize=8.5)
        axes.title.set_color(INK)
    model = shown.world.model
    sizes = f"{model.states} states, {model.actions} actions, {model.horizon} steps, d = {model.d1} + {model.d2}"
    best, random = shown.world.optimal_value, shown.world.uniform_value
    figure.suptitle(
        f"{shown.spec}: {sizes}; return of the best policy {best:.3f}, at random {random:.3f}", fontsize=11, color=INK
    )
    words = band_words(len(shown.private.seeds)) + " Simulated; the gap is measured against the hidden truth."
    figure.supxlabel(words, fontsize=8.5, color=FAINT)
    figure.savefig(path, metadata={"Software": "reticent"})


def learning_panel(axes: Axes, shown: Shown) -> None:
    """Gap to the best policy over users, both axes logarithmic."""
    private, free = shown.names
    learners = ((f"{private}, joint ε = 1, δ = 1e-5", shown.private), (f"{free}, no privacy", shown.free))
    for colour, (label, curves) in zip(COLOURS, learners, strict=False):
        episodes, samples = gaps(curves)
        measured = band(samples / shown.chance).at_least(FLOOR)
        if measured.low is not None and measured.high is not None:
            axes.fill_between(episodes, measured.low, measured.high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(episodes, measured.mean, color=colour, linewidth=2, label=label)
    axes.axhline(1.0, color=FAINT, linestyle=(0, (5, 3)), linewidth=1.3, label="actions at random")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1, shown.episodes)
    lowest = min(float(band(gaps(curves)[1] / shown.chance).mean.min()) for _, curves in learners)
    axes.set_ylim(max(0.5 * min(lowest, 0.1), FLOOR), None)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
    axes.set_xlabel("users (episodes)")
    axes.set_ylabel("gap to the best policy (random = 100%)")
    axes.set_title("Learning", loc="left", fontsize=11)
    axes.grid(color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(framealpha=0.8, edgecolor="white", fontsize=8.5, labelcolor=INK, loc="lower left")


# -- the right panels ----------------------------------------------------------------------------------------------------


def heat(
    axes: Axes, table: np.ndarray, rows: list[str], columns: list[str], label: str | None, **options: object
) -> None:
    """A labelled heat map; with ``label`` also its colour bar."""
    image = axes.imshow(table, aspect="auto", **options)  # type: ignore[arg-type]
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(range(len(columns)), columns)
    if label is not None:
        axes.figure.colorbar(image, ax=axes, label=label)


def mark_best(axes: Axes, best: np.ndarray, colour: str) -> None:
    """Frame column ``best[row]`` of every row."""
    for row, column in enumerate(best):
        axes.add_patch(Rectangle((column - 0.45, row - 0.45), 0.9, 0.9, fill=False, edgecolor=colour, linewidth=1.3))


@double_precision
def visits(world: World) -> np.ndarray:
    """Expected number of visits to every state in an episode of the best policy, ``(S,)``.

    It is the derivative of the return with respect to a payment in that state: exact, whatever form the world has.
    """
    import dataclasses

    import jax
    import jax.numpy as jnp

    policy = np.asarray(world.optimal_policy)

    def paid(bonus: jax.Array) -> jax.Array:
        means = world.reward_means + bonus[None, :, None]
        return dataclasses.replace(world, reward_means=means).policy_value(jnp.asarray(policy))

    return np.asarray(jax.grad(paid)(jnp.zeros(world.model.states)))


def losses_panel(axes: Axes, world: World) -> None:
    """What each action loses at the first step, in the states that the best policy visits most."""
    often = np.argsort(-visits(world), kind="stable")[:20]
    table = np.asarray(world.optimal_action_values)[0][often]
    losses = table.max(axis=1, keepdims=True) - table
    actions = [str(action) for action in range(table.shape[1])] if table.shape[1] <= 25 else []
    heat(axes, losses, [str(state) for state in often], actions, "return lost by the action", cmap="magma_r")
    mark_best(axes, table.argmax(axis=1), INK)
    axes.set_xlabel("action")
    axes.set_ylabel("state (the 20 most visited, in order)")
    axes.set_title("What an action loses at the first step; framed: the best", loc="left", fontsize=11)


def health_panel(axes: Axes, world: World) -> None:
    """The best message at the first decision point."""
    best = np.asarray(world.optimal_policy)[0].argmax(axis=-1).reshape(4, 4)
    heat(axes, best, list(mobile_health.ACTIVITIES), list(mobile_health.BURDENS), None, cmap=ListedColormap(
        ["#eeeeee", "#9ecae1", "#08519c"]), vmin=0, vmax=2)  # fmt: skip
    for (row, column), message in np.ndenumerate(best):
        colour = "white" if message == 2 else INK
        axes.text(column, row, mobile_health.MESSAGES[message], ha="center", va="center", fontsize=9, color=colour)
    axes.set_xlabel("how burdened by messages")
    axes.set_ylabel("how active")
    axes.set_title("The best message, first decision of the day", loc="left", fontsize=11)


def river_panel(axes: Axes, world: World) -> None:
    """Values by step and place."""
    values = np.asarray(world.optimal_action_values).max(axis=-1).T
    places = [str(state + 1) for state in range(world.model.states)]
    heat(axes, values, places, [], "best return from here", cmap="viridis", origin="lower")
    axes.set_xticks(range(0, world.model.horizon, 4), [str(step + 1) for step in range(0, world.model.horizon, 4)])
    axes.set_xlabel("step")
    axes.set_ylabel("place in the river (1: near bank)")
    axes.set_title("What a place is worth", loc="left", fontsize=11)


def glucose_panel(axes: Axes, world: World) -> None:
    """The best first dose by glucose and insulin on board."""
    from reticent.worlds.zoo import glucose

    rule = glucose.grid(round(1 + np.sqrt(1 + world.model.states)))  # n nodes times n - 2
    levels, aboard = (np.unique(coordinate) for coordinate in rule.nodes.T)
    best = np.asarray(world.optimal_policy)[0].argmax(axis=-1).reshape(len(levels), len(aboard))
    heat(axes, best, [f"{level:.0f}" for level in levels], [f"{units:.1f}" for units in aboard], None,
         cmap=ListedColormap(["#eeeeee", "#9ecae1", "#4292c6", "#08306b"]), vmin=0, vmax=3, origin="lower")  # fmt: skip
    for (row, column), dose in np.ndenumerate(best):
        colour = "white" if dose >= 2 else INK
        axes.text(column, row, f"{glucose.DOSES[dose]:g}", ha="center", va="center", fontsize=8, color=colour)
    axes.set_xlabel("insulin on board (units)")
    axes.set_ylabel("glucose (mg/dL)")
    axes.set_title("The best first dose (units)", loc="left", fontsize=11)


def icu_panel(axes: Axes, world: World) -> None:
    """How often the best policy gives each treatment, where it makes a difference."""
    from reticent.worlds.zoo import icu_sepsis

    values = np.asarray(world.optimal_action_values)[0]
    matters = values.max(axis=1) - values.min(axis=1) > 1e-9
    table = np.zeros(values.shape[1])
    np.add.at(table, values.argmax(axis=1), np.where(matters, visits(world), 0))
    levels = [str(level) for level in range(icu_sepsis.LEVELS)]
    table = (table / table.sum()).reshape(len(levels), len(levels))
    heat(axes, table, levels, levels, "share of decisions", cmap="Blues", origin="lower")
    axes.set_xlabel("vasopressor (level)")
    axes.set_ylabel("intravenous fluid (level)")
    axes.set_title("Treatments of the best policy, where they differ", loc="left", fontsize=11)


def tutor_panel(axes: Axes, world: World) -> None:
    """The best exercise at the first step, in every state."""
    best = np.asarray(world.optimal_policy)[0].argmax(axis=-1).reshape(3, 3, 3, 3)
    table = best.transpose(3, 0, 1, 2).reshape(9, 9)  # rows: mood, counting; columns: adding, multiplying
    rows = [f"{mood}, {level}" for mood in tutor.MOODS for level in tutor.LEVELS]
    columns = [f"{adding}\n{multiplying}" for adding in tutor.LEVELS for multiplying in tutor.LEVELS]
    heat(axes, table, rows, columns, None, cmap=ListedColormap(SOFT), vmin=0, vmax=6)
    short = ("c", "C", "a", "A", "m", "M", "rest")
    for (row, column), action in np.ndenumerate(table):
        colour = "white" if action in (1, 3, 5) else INK
        axes.text(column, row, short[action], ha="center", va="center", fontsize=8, color=colour)
    axes.set_xlabel("adding (above), multiplying (below)")
    axes.set_ylabel("mood, counting")
    axes.set_title(
        "The best first exercise: counting, adding, multiplying;\ncapitals are hard", loc="left", fontsize=10
    )


def keyboard_panel(axes: Axes, world: World) -> None:
    """Where the best suggestions come from, by the class of the word just written."""
    best = np.asarray(world.optimal_policy)[0].argmax(axis=-1)
    often = visits(world)
    origin = {
        word: topic
        for (topic, part), words in keyboard.lexicon().items()
        for word in words
        if part not in keyboard.SHARED
    }
    columns = [*keyboard.TOPICS, "shared word", "silence"]
    classes = list(keyboard.GRAMMAR)
    part_of = {word: part for (_, part), words in keyboard.lexicon().items() for word in words}
    table = np.zeros((len(classes), len(columns)))
    for word, suggestion in enumerate(best):
        kind = "silence" if suggestion == keyboard.SILENCE else origin.get(int(suggestion), "shared word")
        table[classes.index(part_of[word]), columns.index(kind)] += often[word]
    table /= table.sum(axis=1, keepdims=True)
    heat(axes, table, classes, columns, "share of suggestions", cmap="Blues", vmin=0, vmax=1)
    axes.set_xticklabels(columns, rotation=30, ha="right")
    axes.set_xlabel("what is suggested")
    axes.set_ylabel("after a")
    axes.set_title("Where the best suggestions come from", loc="left", fontsize=11)


def successors_panel(axes: Axes, world: World) -> None:
    """The states that may follow each state under the best policy's first action."""
    best, states = np.asarray(world.optimal_policy)[0].argmax(axis=-1), np.arange(world.model.states)
    possible = np.asarray(world.rows)[0, states, best] > 0
    following = np.asarray(world.model.successors)[states, best]
    axes.plot(following[possible], np.repeat(states, possible.sum(axis=1)), ",", color=COLOURS[0], alpha=0.7)
    axes.set_xlim(0, world.model.states)
    axes.set_ylim(0, world.model.states)
    axes.set_xlabel("next state")
    axes.set_ylabel("state")
    mean = possible.sum(axis=1).mean()
    axes.set_title(f"What may follow: {mean:.0f} states of {world.model.states:,} on average", loc="left", fontsize=11)


def chain_panel(axes: Axes, world: World) -> None:
    """The chance to reach the goal by step and signs."""
    steps = world.model.horizon
    chances = np.stack([np.asarray(world.transitions)[step, step, :, -1] for step in range(steps)])
    signs = [
        "".join("+" if sign > 0 else "−" for sign in vector) for vector in hard_instance.sign_vectors(world.model.d1)
    ]
    heat(axes, chances, [str(step + 1) for step in range(steps)], signs, "chance to reach the goal", cmap="viridis")
    mark_best(axes, chances.argmax(axis=1), "white")
    axes.set_xticklabels(signs, rotation=45)
    axes.set_xlabel("action (a vector of signs)")
    axes.set_ylabel("step")
    axes.set_title("The signs to be guessed; framed: the right ones", loc="left", fontsize=11)


PANELS: dict[str, Callable[[Axes, World], None]] = {
    "glucose": glucose_panel,
    "hard-instance": chain_panel,
    "icu-sepsis": icu_panel,
    "keyboard": keyboard_panel,
    "large-blend": successors_panel,
    "mobile-health": health_panel,
    "riverswim": river_panel,
    "tutor": tutor_panel,
}
"""What a world's right panel shows; one without an entry shows :func:`losses_panel`."""


# -- the table -----------------------------------------------------------------------------------------------------------


def table_row(shown: Shown) -> str:
    """The world's row of docs/gallery.md."""
    model, world = shown.world.model, shown.world
    private, free = (
        f"{shown.users_until_near(curves)} | {mean:,.0f} ± {error:,.0f}"
        for curves, mean, error in ((one, *_regret(one)) for one in (shown.private, shown.free))
    )
    sizes = f"{model.states} | {model.actions} | {model.horizon} | {model.d1} + {model.d2}"
    values = f"{world.optimal_value:.3f} | {world.uniform_value:.3f}"
    return f"| `{shown.spec}` | {sizes} | {values} | {shown.episodes:,} | {private} | {free} |".replace(",", " ")


def _regret(curves: Curves) -> tuple[float, float]:
    """Mean over seeds and its standard error."""
    ends = curves.regret[:, -1]
    return float(ends.mean()), float(ends.std(ddof=1) / np.sqrt(len(ends)))


HEADER = """| world | S | A | H | d1 + d2 | best | random | users | private: 5 % | regret | not private: 5 % | regret |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", help="one world by its registered name (default: all)")
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--episodes", type=int, help="users (default: as registered)")
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    arguments = parser.parse_args()
    enable_compilation_cache()
    load_zoo()
    names = [entry.name for entry in WORLDS.entries()] if arguments.world is None else [arguments.world]
    rows = []
    for name in names:
        try:
            shown = measure(SHOWN.get(name, name), arguments.seeds, arguments.episodes)
        except MissingExtra as missing:
            print(f"SKIPPED {name}: {missing}", file=sys.stderr)
            continue
        path = arguments.out / f"gallery_{name}.png"
        draw(shown, path)
        rows.append(table_row(shown))
        seconds = shown.private.seconds + shown.free.seconds
        print(f"{path} ({seconds:.0f} s after compilation)", file=sys.stderr, flush=True)
    print("\n".join([HEADER, *rows]))


if __name__ == "__main__":
    main()
