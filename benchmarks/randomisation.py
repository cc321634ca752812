# SPDX-License-Identifier: Apache-2.0
"""What a study tells afterwards: intervals of effects by number of people and ε, and how many of them cover.

python benchmarks/randomisation.py --studies 1000 --out docs/pictures/randomisation.png
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reticent.inference import estimate, plan_effects
from reticent.reports.plots import COLOURS, DPI, INK
from reticent.simulation import micro_study

PEOPLE = (40, 100, 400, 1000, 4000)
BUDGETS = (None, 10.0, 3.0, 1.0)


def measure(floor: float, people: int, studies: int) -> dict[float | None, tuple[float, float]]:
    """By ε: the median half-width of 95 % intervals, and the share that covers."""
    chunk = max(1, 40_000 // people)
    sums = np.concatenate(
        [micro_study.play(floor, min(chunk, studies - at), people // 4, 4, at) for at in range(0, studies, chunk)]
    )
    found = {}
    for epsilon in BUDGETS:
        plan = plan_effects(micro_study.contrast(floor), people, epsilon=epsilon)
        noisy = sums + np.random.default_rng(people).normal(size=sums.shape) * plan.scales
        effects = estimate(plan, noisy)
        covered = (effects.low <= micro_study.EFFECTS) & (effects.high >= micro_study.EFFECTS)
        found[epsilon] = float(np.median((effects.high - effects.low) / 2)), float(covered.mean())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--out", default="docs/pictures/randomisation.png")
    arguments = parser.parse_args()
    figure = Figure(figsize=(8.4, 3.6), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    widths, cover = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    for floor, style in ((0.2, "-"), (0.1, "--")):
        rows = {people: measure(floor, people, arguments.studies) for people in PEOPLE}
        for epsilon, colour in zip(BUDGETS, (INK, *COLOURS), strict=False):
            label = ("no privacy" if epsilon is None else f"ε = {epsilon:g}") + f", floor {floor:g}"
            for axes, place in ((widths, 0), (cover, 1)):
                axes.plot(PEOPLE, [rows[n][epsilon][place] for n in PEOPLE], style, color=colour, label=label, lw=1.4)
            shown = ", ".join(f"{n}: ±{rows[n][epsilon][0]:.3f} ({100 * rows[n][epsilon][1]:.1f} %)" for n in PEOPLE)
            print(f"{label}: {shown}", flush=True)
    widths.set(xscale="log", yscale="log", ylim=(0.01, 10), xlabel="people", ylabel="half-width of a 95 % interval")
    cover.set(xscale="log", ylim=(0.9, 1.0), xlabel="people", ylabel="share of intervals that cover")
    cover.axhline(0.95, color=INK, lw=0.8, linestyle=":")
    widths.legend(frameon=False, fontsize=7)
    for axes in (widths, cover):
        axes.grid(alpha=0.25)
    figure.savefig(arguments.out)


if __name__ == "__main__":
    main()
