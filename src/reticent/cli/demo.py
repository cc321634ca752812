# SPDX-License-Identifier: Apache-2.0
"""``reticent demo``: the private learner beside the paper's and a non-private one, with a picture and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli.options import Json

WORLD = "mobile-health"
AGENTS = ("private-score-vi", "private-linopt-vi:calibration=paper", "score-vi")
"""The default private learner, the paper's own noise, and the same learner without privacy."""


def demo(
    episodes: Annotated[int, typer.Option(help="Number of simulated users.")] = 20_000,
    seeds: Annotated[int, typer.Option(help="Number of independent repetitions.")] = 8,
    out: Annotated[Path, typer.Option(help="Directory for picture, report and data.")] = Path("results/demo"),
    as_json: Json = False,
) -> None:
    """See it work: prompts for physical activity to simulated users, with and without privacy (a minute or two).

    ε = 1, δ = 1e-5, joint privacy. The first learner is this library's, the second adds the noise of the paper it builds
    on, the third has no privacy. Needs no extra; with 'reticent[plots]' there is a picture.
    """
    from reticent.cli.run import run

    run(world=WORLD, agent=list(AGENTS), episodes=episodes, seeds=seeds, out=out, as_json=as_json, companions=False)
    if not as_json:
        print("\nNext: reticent explain --epsilon 1, which says what that ε means; reticent alone lists the journey.")
