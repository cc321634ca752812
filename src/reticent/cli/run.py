# SPDX-License-Identifier: Apache-2.0
"""``reticent run``: agents in a world, with results, a picture and a report."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reticent.cli.options import Json

if TYPE_CHECKING:
    from reticent.experiments.result import RunResult


def run(
    world: Annotated[str, typer.Option(help="The world, such as riverswim:states=4.")] = "mobile-health",
    agent: Annotated[
        list[str] | None,
        typer.Option(help="An agent, such as ucrl-vtr:bonus_scale=0.3; repeat for more.", show_default="two"),
    ] = None,
    episodes: Annotated[int | None, typer.Option(help="Number of users.", show_default="the world's")] = None,
    seeds: Annotated[int, typer.Option(help="Number of independent repetitions.")] = 16,
    first_seed: Annotated[int, typer.Option(help="The first seed's number.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Directory.", show_default="results/WORLD-TIME")] = None,
    as_json: Json = False,
    trust: Annotated[str | None, typer.Option(help="Privacy: none, joint, shuffle or local (docs/shuffle.md).")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy: ε of the guarantee; smaller is more private.")] = None,
    delta: Annotated[float | None, typer.Option(help="Privacy: δ of the guarantee.")] = None,
    counter: Annotated[str | None, typer.Option(help="Privacy: how running sums are released, such as tree.")] = None,
    calibration: Annotated[str | None, typer.Option(help="Privacy: how noise is chosen: paper or exact.")] = None,
    theory: Annotated[bool, typer.Option("--theory", help="Draw the theorems' regret bounds too.")] = False,
    precision: Annotated[str, typer.Option(help="Of the simulation: float64, or float32 on a GPU.")] = "float64",
    companions: Annotated[
        bool, typer.Option(help="Let every private agent bring its learner without privacy along.")
    ] = True,
) -> None:
    """Run agents in a world and measure what learning costs.

    Writes the configuration, the results, a picture and a report to a directory. Ctrl-C keeps what is finished, and the
    same command with the same --out goes on from there; so does one after a crash.
    """
    from reticent.cli.interrupt import listening

    with listening() as interrupt:
        from reticent.cli.output import note, print_json
        from reticent.experiments.config import PRIVACY_OPTIONS, without_effect
        from reticent.experiments.run import run as run_agents
        from reticent.reports.progress import reporter
        from reticent.runtime import enable_compilation_cache

        enable_compilation_cache()
        chosen = dict(zip(PRIVACY_OPTIONS, (trust, epsilon, delta, counter, calibration), strict=True))
        directory = out if out is not None else default_directory(world)
        result = run_agents(
            world,
            agent,
            episodes,
            range(first_seed, first_seed + seeds) if seeds > 0 else seeds,
            out=directory,
            trust=trust,
            epsilon=epsilon,
            delta=delta,
            counter=counter,
            calibration=calibration,
            theory=theory,
            companions=companions,
            precision=precision,
            progress=reporter(),
            should_stop=interrupt,
        )
        for flag in without_effect(result.config, chosen):
            note(f"--{flag} had no effect: no agent of this run has that option")
        if result.interrupted:
            note(interruption(result))
            if out is None:
                note(f"add --out {directory} to the same command to go on")
        if as_json:
            print_json(result.to_dict())
        elif result.runs:
            print_result(result, directory)
        if interrupt.asked:
            raise typer.Exit(130)


def default_directory(world: str) -> Path:
    """``results/WORLD-TIME``, with the world's name made fit for a file."""
    name = "".join(letter if letter.isalnum() or letter in "-_=" else "-" for letter in world)
    return Path("results") / f"{name}-{datetime.datetime.now():%Y%m%d-%H%M%S}"


def interruption(result: RunResult) -> str:
    """What an interrupted run has kept."""
    if not result.runs:
        return "interrupted before anything was finished; there are no results"
    done = ", ".join(f"{row['agent']} {row['episodes']:,} of {result.config.episodes:,}" for row in result.summary())
    missing = [agent.label for agent in result.config.agents[len(result.runs) :]]
    return f"interrupted; kept: {done} episodes" + (f"; not started: {', '.join(missing)}" if missing else "")


def print_result(result: RunResult, directory: Path) -> None:
    """The table of results and where the files are."""
    from reticent.cli.output import print_table
    from reticent.experiments.config import FAIR_LABEL
    from reticent.experiments.storage import CONFIG, METADATA, PICTURE, REPORT, results_file
    from reticent.reports.numbers import users_in_words

    users = f"{result.config.episodes:,} users, {len(result.config.seeds)} seeds"
    print(f"{result.config.world}: {users}; best value {result.optimal_value:.4f}, random {result.uniform_value:.4f}")
    print_table(
        ("agent", "regret", "± s.e.", "final gap", "share", "users to 5%", "episodes/s", "s"),
        [
            (
                row["agent"],
                f"{row['regret_mean']:,.1f}",
                "–" if row["regret_stderr"] is None else f"{row['regret_stderr']:,.1f}",
                f"{row['final_gap']:.4f}",
                "–" if row["final_gap_share"] is None else f"{100 * row['final_gap_share']:.1f}%",
                users_in_words(row["users_until_5_percent"]),
                f"{row['episodes_per_second']:,.0f}",
                f"{row['seconds'] + row['compile_seconds']:.1f}",
            )
            for row in result.summary()
        ],
    )
    print("final gap: mean loss per user over the last 5% of the users; share: of what acting at random loses")
    print(
        "users to 5%: users until the gap stays below 5% of that, median over seeds (–: half of them never get there)"
    )
    if any(FAIR_LABEL in agent.label for agent in result.config.agents):
        print(
            f"{FAIR_LABEL}: with what the private learner uses of the model's declarations; its options are in {CONFIG}"
        )
    picture = directory / PICTURE
    print(f"picture  {picture if picture.exists() else 'could not be drawn; the report says why'}")
    print(f"report   {directory / REPORT}")
    print(f"data     {directory / results_file()}, {CONFIG}, {METADATA}")
