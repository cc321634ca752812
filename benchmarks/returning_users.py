# SPDX-License-Identifier: Apache-2.0
"""What it costs that users return: noise for g contributions, by counter and by how they are kept apart.

    python benchmarks/returning_users.py --out docs/pictures/returning_users.png

Formulas only: the norm of the worst pattern (:mod:`reticent.privacy.participation`) over that of one contribution.
"""

from __future__ import annotations

import argparse

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reticent.privacy.counters import make_counter
from reticent.privacy.participation import Participation, pattern_norm
from reticent.reports.plots import COLOURS, DPI, INK

ROUNDS = 64
TIMES = (1, 2, 3, 4, 6, 8, 10, 13, 16)
COUNTERS = ("separate", "tree", "toeplitz", "blt")


def factors(counter: str, gap: int) -> list[float]:
    """Noise for g contributions over noise for one."""
    strategy = make_counter(counter, (1,) * ROUNDS).strategy()
    once = pattern_norm(strategy, Participation())
    return [pattern_norm(strategy, Participation(g, gap=gap)) / once for g in TIMES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="docs/pictures/returning_users.png")
    path = parser.parse_args().out
    figure = Figure(figsize=(8.4, 3.6), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    for place, gap in enumerate((1, 4)):
        axes = figure.add_subplot(1, 2, place + 1)
        axes.plot(TIMES, TIMES, color=INK, linestyle=":", label="all in one round (g)")
        for counter, colour in zip(COUNTERS, COLOURS, strict=False):
            found = factors(counter, gap)
            axes.plot(TIMES, found, color=colour, marker="o", markersize=3, label=counter)
            print(f"gap {gap}, {counter}: g = 10 costs {found[TIMES.index(10)]:.2f} times the noise")
        axes.set_title("a round apart" if gap == 1 else f"{gap} rounds apart")
        axes.set_xlabel("contributions of one user, g")
        axes.set_ylabel("noise, in units of one contribution's" if place == 0 else "")
        axes.set_ylim(0, 16.5)
        axes.grid(alpha=0.25)
        if place == 0:
            axes.legend(frameon=False, fontsize=8)
    figure.savefig(path)


if __name__ == "__main__":
    main()
