# SPDX-License-Identifier: Apache-2.0
"""``reticent compare``: every agent that applies to a world, what each guarantees beside what it achieves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reticent.cli.options import Json

if TYPE_CHECKING:
    from reticent.experiments.compare import Comparison


def compare(
    world: Annotated[str, typer.Option(help="The world, such as riverswim:states=6.")] = "mobile-health",
    epsilon: Annotated[
        list[float] | None,
        typer.Option(
            help="ε; repeat for more. Regret is compared at the first.", show_default="1; with --all 1, 0.3 and 3"
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="δ of all approximate promises.")] = 1e-5,
    agent: Annotated[
        list[str] | None, typer.Option(help="Only this agent; repeat for more.", show_default="all")
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(help="Only this trust model: none, joint, shuffle or local; repeat.", show_default="all"),
    ] = None,
    episodes: Annotated[int | None, typer.Option(help="Number of users.", show_default="the world's")] = None,
    seeds: Annotated[int, typer.Option(help="Number of independent repetitions.")] = 8,
    minutes: Annotated[float, typer.Option(help="About how long it may take; slower agents are left out.")] = 2.5,
    every: Annotated[
        bool, typer.Option("--all", help="Run every agent to the end, however long it takes (hours on a CPU).")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Directory.", show_default="results/compare-WORLD-TIME")] = None,
    as_json: Json = False,
) -> None:
    """Run all applicable agents in one world and recommend one for each trust model.

    Each agent's speed is measured on its first users; who would not fit into --minutes is left out and says what it
    would take. Agents named by --agent are all run.

    Writes two pictures (regret against users; final gap against ε), a page and the numbers to a directory. Agents that do
    not apply say why. Ctrl-C keeps what is finished, and the same command with the same --out goes on from there.
    """
    from reticent.cli.interrupt import listening

    with listening() as interrupt:
        from reticent.cli.output import note, print_json
        from reticent.cli.run import default_directory
        from reticent.experiments.compare import compare as compare_agents
        from reticent.extras import require
        from reticent.reports.progress import reporter
        from reticent.runtime import enable_compilation_cache

        require("matplotlib", "reticent compare")
        enable_compilation_cache()
        directory = out if out is not None else default_directory(f"compare-{world}")
        found = compare_agents(
            world,
            epsilon or ((1.0, 0.3, 3.0) if every else (1.0,)),
            seconds=None if every or agent else 60 * minutes,
            tell=note,
            delta=delta,
            agents=agent,
            trusts=trust,
            episodes=episodes,
            seeds=seeds,
            out=directory,
            progress=reporter(),
            should_stop=interrupt,
        )
        if found.result.interrupted:
            note(f"interrupted; add --out {directory} to the same command to go on")
        if found.standings:
            write(found, directory)
        if as_json:
            print_json(found.to_dict())
        else:
            print_comparison(found, directory)
        if interrupt.asked:
            raise typer.Exit(130)


def write(found: Comparison, directory: Path) -> None:
    """The pictures, the page and the numbers."""
    import json

    from reticent.reports.comparison_page import comparison_html
    from reticent.reports.plots.comparison import draw_gaps, draw_regret

    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
    (directory / "compare.json").write_text(text + "\n", encoding="utf-8")  # first: no picture may cost the numbers
    regret, gaps = draw_regret(found), draw_gaps(found)
    (directory / "regret.png").write_bytes(regret)
    (directory / "gap.png").write_bytes(gaps)
    (directory / "compare.html").write_text(comparison_html(found, regret, gaps), encoding="utf-8")


def print_comparison(found: Comparison, directory: Path) -> None:
    """The advice, the table, who is absent, and where the files are."""
    from reticent.cli.output import print_table
    from reticent.reports.comparison_page import HEAD, rows

    config = found.result.config
    print(
        f"{config.world}: {config.episodes:,} users, {len(config.seeds)} seeds; regret at ε = {found.epsilons[0]:g}, "
        f"δ = {found.delta:g}; best value {found.result.optimal_value:.4f}, random {found.result.uniform_value:.4f}"
    )
    print_table(HEAD, rows(found), left=6)
    print("final gap: loss per user over the last 5% of the users, as a share of what acting at random loses")
    print(
        "users to 5%: users until the gap stays below 5% of that, median over seeds (–: half of them never get there)"
    )
    for one in found.absent:
        print(f"does not apply: {one.name}: {one.reason}")
    for reason in dict.fromkeys(one.reason for one in found.left_out):
        print(f"left out: {', '.join(one.name for one in found.left_out if one.reason == reason)}: {reason}")
    if found.left_out:
        print("Programs that were compiled are kept: the same command gets further the next time.")
    if found.standings:
        print("recommended, by trust model:")
        for advice in found.advice:
            print(f"  {advice.words}")
        print(f"pictures  {directory / 'regret.png'}, {directory / 'gap.png'}")
        print(f"page      {directory / 'compare.html'}\ndata      {directory / 'compare.json'}, {directory / 'runs'}")
