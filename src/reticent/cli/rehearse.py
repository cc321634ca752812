# SPDX-License-Identifier: Apache-2.0
"""``reticent rehearse``: what a deployment will be like, before the first user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reticent.cli.options import Json

if TYPE_CHECKING:
    from reticent.experiments.rehearsal import Rehearsal
    from reticent.worlds import Model
    from reticent.worlds.models.prior import RewardWeights


def rehearse(
    model: Annotated[str, typer.Argument(help="A model file, or a world, of which only the model is used.")],
    epsilon: Annotated[
        list[float] | None,
        typer.Option(help="ε; repeat for more. The first is the one to deploy.", show_default="1, 0.3 and 3"),
    ] = None,
    users: Annotated[int, typer.Option(help="K, the number of users.")] = 20_000,
    trust: Annotated[
        list[str] | None, typer.Option(help="joint, shuffle or local; repeat for more.", show_default="all")
    ] = None,
    agent: Annotated[
        list[str] | None, typer.Option(help="A private agent; repeat for more.", show_default="private-score-vi")
    ] = None,
    truths: Annotated[int, typer.Option(help="How many truths are drawn.")] = 200,
    delta: Annotated[float, typer.Option(help="δ of all promises.")] = 1e-5,
    target: Annotated[float, typer.Option(help="Gap to reach, as a share of what acting at random loses.")] = 0.05,
    concentration: Annotated[float, typer.Option(help="Of the Dirichlet prior; 1 is uniform.")] = 1.0,
    off: Annotated[
        float, typer.Option(help="How far truths are off every blend (total variation of each row): wrong candidates.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Of truths, users and noise.")] = 0,
    floor: Annotated[bool, typer.Option(help="Also run the learner without privacy.")] = True,
    out: Annotated[Path, typer.Option("--out", "-o", help="The deployment's file to write.")] = Path("deployment.yaml"),
    page: Annotated[
        Path | None, typer.Option(help="The page to write.", show_default="rehearsal.html beside the file")
    ] = None,
    as_json: Json = False,
) -> None:
    """Simulate the deployment over truths drawn from a public prior, and write what to serve.

    Candidates are public, so this costs no privacy. Says how good after how many users, at which ε and trust, with bands
    that hold nine in ten truths; writes a file for reticent serve and a page with the picture.
    """
    from reticent.cli.interrupt import listening

    with listening() as interrupt:
        from reticent.cli.output import note, print_json
        from reticent.experiments.rehearsal import rehearse as rehearse_model
        from reticent.experiments.rehearsal.deployment import answer, deployment_text
        from reticent.reports.plots.rehearsal import draw_rehearsal
        from reticent.reports.progress import reporter
        from reticent.reports.rehearsal_page import rehearsal_html
        from reticent.runtime import enable_compilation_cache

        enable_compilation_cache()
        known, rewards, where = the_model(model)
        asked = {"trusts": trust, "agents": agent}
        found = rehearse_model(
            known,
            users=users,
            epsilons=epsilon or (1.0, 0.3, 3.0),
            truths=truths,
            delta=delta,
            target=target,
            concentration=concentration,
            rewards=rewards,
            off=off,
            floor=floor,
            seed=seed,
            name=Path(model).name,
            progress=reporter(),
            should_stop=interrupt,
            **{key: value for key, value in asked.items() if value},
        )
        text = deployment_text(found, **where) if found.chosen is not None else None
        shown = page if page is not None else out.with_name("rehearsal.html")
        if text is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(text, encoding="utf-8")
        if found.outcomes:
            shown.parent.mkdir(parents=True, exist_ok=True)
            shown.write_text(rehearsal_html(found, answer(found), text, draw_rehearsal(found)), encoding="utf-8")
        if found.interrupted:
            note("interrupted; what was not finished is left out")
        if as_json:
            print_json(found.to_dict())
        else:
            print_rehearsal(found, out, shown)
        if interrupt.asked:
            raise typer.Exit(130)


def the_model(given: str) -> tuple[Model, RewardWeights, dict[str, str]]:
    """The model of a file or of a world, how its reward weights are drawn, and where a service finds it."""
    from reticent.errors import InvalidInput
    from reticent.worlds import load_model, make_world

    if not given.endswith(".npz") and Path(given).is_file():
        raise InvalidInput(
            "model", given, "a model file (.npz) or the name of a world",
            f"make a model of a log first: reticent fit {given} --help",
        )  # fmt: skip
    if not given.endswith(".npz"):
        return make_world(given).model, "own", {"world": given}
    loaded = load_model(given)
    return loaded.model, loaded.reward_weights, {"model_file": given}


def print_rehearsal(found: Rehearsal, deployment: Path, page: Path) -> None:
    """The table, the answer, and where the files are."""
    from reticent.cli.output import print_table
    from reticent.experiments.rehearsal.deployment import answer
    from reticent.reports.rehearsal_page import HEAD, rows

    print(
        f"{found.name}: {found.users:,} users, {found.truths:,} truths from a public prior; δ = {found.delta:g}, "
        f"target {100 * found.target:g}%; acting at random loses {found.scale.mean():.3f} per user"
    )
    print_table(HEAD, rows(found), left=2)
    for absent in found.absent:
        print(f"does not apply: {absent.agent}: {absent.reason}")
    print(answer(found))
    if found.chosen is not None:
        print(f"to serve  {deployment}\npage      {page}")
        print(
            f"next      reticent serve --dev --init --config {deployment}: a trial on this machine, without keys of its own"
        )
