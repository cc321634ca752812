# SPDX-License-Identifier: Apache-2.0
"""What one user's episode looks like as their own belief sharpens, beside what all users would have been given.

    python benchmarks/belief_picture.py --out docs/pictures/belief.png

A made-up world of three kinds of people (a suggestion that suits one kind leaves the others cold), 20 decisions, shares
learned by ``private-kinds`` at ε = 1 from 2 000 simulated users. Drawn is the first later user who is of the rarest kind:
their belief, what they were suggested and whether they took it up, and what the best single plan would have suggested in
the same place. Beside it, the mean over 20 000 later users of each kind.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from reticent.agents import make_agent
from reticent.agents.kinds.learner import KindsLearner
from reticent.learning.plan import Plan
from reticent.reports.plots import COLOURS, FAINT, INK
from reticent.reports.plots.style import name_axes, new_figure, save, write_headings
from reticent.runtime import double_precision
from reticent.simulation.rollout import draw_sizes, episode_uniforms, rollout
from reticent.simulation.simulate import simulate
from reticent.worlds import Episode
from reticent.worlds.kinds import KindsWorld, kinds_world
from reticent.worlds.models.blend import blend
from reticent_wire.forms.kinds import belief

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = ("walkers", "readers", "talkers")
ACTIONS = ("walk", "article", "call", "nothing")
HORIZON, USERS, LATER = 20, 2_000, 20_000
SHARES = np.array([0.45, 0.35, 0.2])
TAKEN = np.array([[0.75, 0.35, 0.25, 0.2], [0.3, 0.75, 0.3, 0.2], [0.3, 0.4, 0.8, 0.2]])
"""With what probability each kind takes up each suggestion on a calm day; on a busy one three quarters of it."""


def people() -> KindsWorld:
    """Users are calm or busy, and change about every third decision."""
    rows = np.broadcast_to(np.array([[0.7, 0.3], [0.4, 0.6]])[None, :, None], (3, 2, 4, 2))
    means = np.stack([TAKEN, 0.75 * TAKEN], axis=1)
    made = blend(rows, means, SHARES, SHARES, HORIZON, initial=np.array([0.6, 0.4]), name="suggestions")
    return kinds_world(made.model, SHARES, name="suggestions")


@double_precision
def met_by(agent: KindsLearner, plan: Plan, world: KindsWorld, count: int) -> Episode:
    """Later users under the plan, with random numbers that no learning used."""
    sizes = draw_sizes(agent, world)

    def one(user: jax.Array) -> Episode:
        return rollout(agent, world, plan, episode_uniforms(jax.random.key(99), user, *sizes))

    episodes: Episode = jax.jit(jax.vmap(one))(jnp.arange(count))
    return episodes


@double_precision
def beliefs(agent: KindsLearner, plan: Plan, episode: Episode) -> np.ndarray:
    """b before every decision and after the last, ``(H + 1, Z)``."""
    known = [agent.empty_memory(plan)]
    for step in range(HORIZON):
        seen = (episode.states[step], episode.actions[step], episode.rewards[step], episode.states[step + 1])
        known.append(agent.remember(plan, known[-1], *seen))
    return np.asarray(belief(plan.extension.shares, jnp.stack(known), jnp))


@double_precision
def returns(agent: KindsLearner, plan: Plan, world: KindsWorld) -> np.ndarray:
    """Mean return of each kind: with the belief, with the best single plan, and where the kind is known, ``(M, 3)``."""
    found = []
    for kind in range(len(KINDS)):
        alone = kinds_world(world.model, np.eye(len(KINDS))[kind])
        own = jax.jit(agent.simulated_value, static_argnums=2)(plan, alone, LATER)
        found.append((float(own), float(alone.policy_value(world.blend_plan())), alone.optimal_value))
    return np.array(found)


def draw_belief(axes: Axes, chances: np.ndarray, own: int) -> None:
    steps = np.arange(len(chances))
    for kind in range(chances.shape[1]):
        colour, width = (COLOURS[kind], 2.6 if kind == own else 1.5) if kind < len(KINDS) else (FAINT, 1.2)
        axes.plot(steps, chances[:, kind], color=colour, linewidth=width)
    ends = np.argsort(chances[-1])
    height = -1.0
    for kind in ends:
        height = max(chances[-1, kind], height + 0.075)
        label = f"{(*KINDS, 'no kind')[kind]}{' (true)' if kind == own else ''}"
        colour = COLOURS[kind] if kind < len(KINDS) else FAINT
        axes.text(HORIZON + 0.3, height, label, color=colour, va="center", fontsize=9.5)
    axes.set_xlim(-0.5, HORIZON + 3.6)
    axes.set_ylim(-0.02, 1.04)
    axes.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    axes.set_xticks(range(0, HORIZON + 1, 5))
    axes.grid(axis="y", alpha=0.25)
    name_axes(axes, "What the device believes about its own user", "decisions so far")


def draw_actions(axes: Axes, rows: list[tuple[str, np.ndarray, np.ndarray | None]]) -> None:
    """Rows of suggestions, a cell each, those that were taken up with a dot."""
    tones = dict(zip(range(4), ("#BFDCEC", "#F5D2B8", "#BFE3D6", "#E4E4E4"), strict=True))
    for height, (name, actions, rewards) in enumerate(reversed(rows)):
        for step, action in enumerate(actions):
            axes.barh(height, 0.94, left=step + 0.03, height=0.72, color=tones[int(action)])
            axes.text(step + 0.5, height + (0.1 if rewards is not None else 0), ACTIONS[int(action)], ha="center",
                      va="center", fontsize=6.6, color=INK)  # fmt: skip
            if rewards is not None and rewards[step] == 1:
                axes.plot(step + 0.5, height - 0.2, marker="o", markersize=4, color=INK)
        axes.text(-0.2, height, name, ha="right", va="center", fontsize=9.5, color=INK)
    axes.set_xlim(-0.5, HORIZON + 3.6)
    axes.set_ylim(-0.5, len(rows) - 0.5)
    axes.axis("off")
    title = "What the user is suggested (● taken up), and what one plan for all would suggest"
    axes.set_title(title, loc="left", fontsize=11, color=INK)


def draw_returns(axes: Axes, found: np.ndarray) -> None:
    for kind in range(len(KINDS)):
        own, shared_plan, known = found[kind]
        axes.plot([shared_plan, own], [-kind, -kind], color=COLOURS[kind], linewidth=3, solid_capstyle="round")
        axes.plot(shared_plan, -kind, marker="o", color="white", markeredgecolor=COLOURS[kind], markersize=8)
        axes.plot(own, -kind, marker="o", color=COLOURS[kind], markersize=8)
        axes.plot(known, -kind, marker="|", color=INK, markersize=13, markeredgewidth=1.6)
        axes.text(
            found.min() - 0.15, -kind + 0.27, f"{KINDS[kind]}, {SHARES[kind]:.0%}", color=COLOURS[kind], fontsize=9.5
        )
    axes.set_yticks([])
    axes.set_ylim(-len(KINDS) + 0.3, 0.7)
    axes.grid(axis="x", alpha=0.25)
    name_axes(axes, "Taken up, of 20, by kind", "")
    marks = "○ one plan for all users\n● own belief\n| if the kind were known"
    axes.text(0.0, -0.13, marks, transform=axes.transAxes, fontsize=9, color=INK, va="top", linespacing=1.35)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures/belief.png"))
    path = parser.parse_args().out
    world = people()
    agent = make_agent("private-kinds:epsilon=1", world.model, USERS)
    carry = simulate(agent, world, [0]).carry
    plan: Plan = jax.tree.map(lambda leaf: leaf[0], carry.plan)
    met = met_by(agent, plan, world, 200)
    kinds = np.array([int(np.searchsorted(np.cumsum(SHARES), u)) for u in kind_draws(agent, world, 200)])
    own = int(SHARES.argmin())
    user = int(np.flatnonzero(kinds == own)[0])
    episode = Episode(*(field[user] for field in met))
    shared = np.asarray(world.blend_plan())[np.arange(HORIZON), np.asarray(episode.states[:-1])]
    found = returns(agent, plan, world)
    figure = new_figure(height=4.7)
    write_headings(
        figure,
        "A belief about the own user, on the user's own device",
        "Nothing of it is sent. What is learned from all users, at ε = 1, is how frequent the kinds are.",
        f"Simulated users of a made-up world. One user of the rarest kind; right: means over {LATER:,} users of each kind.",
    )
    grid = figure.add_gridspec(
        2, 1, height_ratios=(1.75, 1), left=0.085, right=0.71, top=0.79, bottom=0.09, hspace=0.62
    )
    top = figure.add_subplot(grid[0])
    draw_belief(top, beliefs(agent, plan, episode), own)
    for side in ("top", "right"):
        top.spines[side].set_visible(False)
    draw_actions(
        figure.add_subplot(grid[1]),
        [("this user", np.asarray(episode.actions), np.asarray(episode.rewards)), ("all users", shared, None)],
    )
    draw_returns(figure.add_axes((0.745, 0.3, 0.235, 0.49)), found)
    save(figure, path)
    print("user", user, "shares", np.round(np.asarray(plan.extension.shares), 3))
    for name, (mine, shared_plan, known) in zip(KINDS, found, strict=True):
        print(f"{name}: one plan {shared_plan:.2f}, own belief {mine:.2f}, kind known {known:.2f}")
    mine, shared_plan, known = SHARES @ found
    print(f"all: one plan {shared_plan:.2f}, own belief {mine:.2f}, kind known {known:.2f}")


@double_precision
def kind_draws(agent: KindsLearner, world: KindsWorld, count: int) -> np.ndarray:
    """The draws that decide the kinds of :func:`met_by`'s users."""
    sizes = draw_sizes(agent, world)
    key = jax.random.key(99)
    return np.asarray([float(episode_uniforms(key, user, *sizes)[1]) for user in range(count)])


if __name__ == "__main__":
    main()
