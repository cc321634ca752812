# SPDX-License-Identifier: Apache-2.0
"""``reticent fit``: candidate models from a table of past sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from reticent.cli.options import Json

if TYPE_CHECKING:
    from reticent.worlds.models.provenance import Provenance


def fit(
    log: Annotated[Path, typer.Argument(help="A long table, .csv or .parquet, or its parts ('parts/*.parquet').")],
    horizon: Annotated[int, typer.Option(help="Steps of an episode.")],
    origin: Annotated[
        str,
        typer.Option(
            help="What the log is: public, simulated or released (--epsilon, --delta). It must be said.",
            show_default=False,
        ),
    ] = "",
    candidates: Annotated[
        str, typer.Option(help="Number of candidate models, a range to choose from, or none: the log's own table.")
    ] = "2-8",
    kinds: Annotated[
        str | None,
        typer.Option(
            help="Number of hidden kinds of users, or a range, instead of candidates: for private-kinds, whose devices "
            "act on a belief about their own user."
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")] = Path("model.npz"),
    state: Annotated[
        list[str] | None, typer.Option(help="A column of the state; repeat for more.", show_default="state")
    ] = None,
    action: Annotated[str, typer.Option(help="The column of the action.")] = "action",
    reward: Annotated[str, typer.Option(help="The column of the reward.")] = "reward",
    user: Annotated[str, typer.Option(help="The column of the user.")] = "user",
    step: Annotated[
        str, typer.Option(help="The column of the step, counted by one; without it every user has one row.")
    ] = "step",
    time: Annotated[
        str | None, typer.Option(help="The column that orders a user's rows instead: dates, timestamps or numbers.")
    ] = None,
    gaps: Annotated[
        str | None,
        typer.Option(
            help="Missing steps and rows with an empty cell: drop users, split their rows, or fill in a state 'absent'.",
            show_default="they are refused",
        ),
    ] = None,
    longer: Annotated[
        str | None,
        typer.Option(
            help="Sessions longer than the horizon: cut them, or split them into pieces.",
            show_default="all rows are used",
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="A column of public groups, each of which is a blend of its own.")
    ] = None,
    bins: Annotated[
        list[str] | None,
        typer.Option(help="Cut points of a numeric column: COLUMN=CUT,CUT, or parts of equal size: COLUMN=q4; repeat."),
    ] = None,
    categories: Annotated[
        list[str] | None, typer.Option(help="Public list of a column's values: COLUMN=VALUE,VALUE; repeat for more.")
    ] = None,
    rare: Annotated[
        int, typer.Option(help="Values of a state column in fewer rows than this are one value, 'other'.")
    ] = 0,
    reward_range: Annotated[
        str, typer.Option(help="Public range of rewards, which is mapped to [0, 1]: LEAST,MOST.")
    ] = "0,1",
    history: Annotated[
        str,
        typer.Option(
            help="Observations in the state, the present one included, or auto: as many as held-out users want.",
        ),
    ] = "1",
    history_rare: Annotated[
        int, typer.Option(help="Histories in fewer rows than this public number fold into shorter ones.")
    ] = 5,
    remember: Annotated[
        list[str] | None, typer.Option(help="A state column to remember; repeat for more.", show_default="all")
    ] = None,
    entries: Annotated[
        list[str] | None,
        typer.Option(
            help="Share of the service's users who enter in a state: STATE=SHARE; repeat. Others share the rest as in "
            "the log. Users of the log are weighted accordingly."
        ),
    ] = None,
    leaves: Annotated[
        bool, typer.Option("--leaves", help="Users with fewer rows than the horizon have left: a state 'over'.")
    ] = False,
    shared_rewards: Annotated[
        bool, typer.Option("--shared-rewards", help="Rewards are known: one table, nothing to learn about them.")
    ] = False,
    untried: Annotated[
        str | None,
        typer.Option(help="The action that is taken where another was never tried, as where it is not possible."),
    ] = None,
    smoothing: Annotated[
        float | None,
        typer.Option(
            help="Pseudo-counts of what all users did, in every candidate.",
            show_default="5, or more if held-out users are explained better",
        ),
    ] = None,
    starts: Annotated[int, typer.Option(help="Random starts of the estimation.")] = 8,
    holdout: Annotated[float, typer.Option(help="Share of users who are held out to judge the candidates.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Of the starts, and of who is held out.")] = 0,
    source: Annotated[str | None, typer.Option(help="Where it comes from.", show_default="the file's name")] = None,
    protected: Annotated[
        Path | None,
        typer.Option(help="A log of people who are to be protected, such as the trial's: refused if one is in both."),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="ε of the release, if the log is one.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ of the release, if the log is one.")] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Write the model even if the log says too little to learn from.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Estimate candidate models from records, and say how far to trust them.

    The log must be public: candidates are published before the first user comes, and no ε covers what is in them. Never
    fit the records of the users that you want to protect, unless the log is itself a private release (--origin released).

    Bad rows are named, and then nothing is written. Ctrl-C writes nothing either. A log that says too little to learn from
    gets its report and what would suffice, and no model is written (exit status 1) but with --anyway.
    """
    from reticent.cli.interrupt import listening

    with listening() as interrupt:
        from reticent.cli.output import note, print_json
        from reticent.errors import InvalidInput
        from reticent.reports.progress import Telling
        from reticent.worlds.records import Columns, Stopped
        from reticent.worlds.records import fit as fit_log

        range_of_rewards = numbers("--reward-range", reward_range)
        if len(range_of_rewards) != 2:
            raise InvalidInput("--reward-range", reward_range, "LEAST,MOST", "give two numbers")
        try:
            with Telling("starts") as tell:
                fitted = fit_log(
                    log,
                    horizon=horizon,
                    candidates=span(candidates),
                    kinds=None if kinds is None else span(kinds, "--kinds"),
                    columns=Columns(user, step, tuple(state or ["state"]), action, reward, group, time=time),
                    bins={key: cuts(f"--bins {key}", text) for key, text in pairs("--bins", bins)},
                    rare=rare,
                    gaps=gaps,
                    longer=longer,
                    categories={key: text.split(",") for key, text in pairs("--categories", categories)},
                    reward_range=(range_of_rewards[0], range_of_rewards[1]),
                    leaves_before=horizon if leaves else None,
                    history=depth(history),
                    history_rare=history_rare,
                    remember=tuple(remember or ()),
                    entries=shares(entries),
                    shared_rewards=shared_rewards,
                    untried=untried,
                    smoothing=smoothing,
                    starts=starts,
                    holdout=holdout,
                    seed=seed,
                    origin=_provenance(origin, source or log.name, epsilon, delta),
                    protected=protected,
                    progress=lambda done, total, what: tell("fit", done, total, what),
                    should_stop=interrupt,
                )
        except Stopped as stopped:
            note(str(stopped))
            raise typer.Exit(130) from None
        refused = bool(fitted.report.doubt) and not anyway
        path = None if refused else fitted.save(out, anyway=anyway)
        note(fitted.provenance.sentence())
        if as_json:
            written = None if path is None else str(path)
            print_json({"model": written, "provenance": fitted.provenance.to_dict(), **fitted.report.to_dict()})
        else:
            print(fitted.report)
            if path is None:
                print(
                    "model     none written: the log says too little to learn from; --anyway writes it with this doubt"
                )
            else:
                print(f"model     {path}\nnext      {next_step(path, kinds is not None)}")
        if refused:
            raise typer.Exit(1)


def next_step(path: Path, kinds: bool) -> str:
    """What to do with the model."""
    if kinds:
        return f'serve a file with model_file: {path} and agent: "private-kinds:epsilon=1" (docs/personal.md)'
    return f"reticent rehearse {path} --epsilon 1: how good, after how many users"


def span(text: str, option: str = "--candidates") -> int | tuple[int, int]:
    """``4`` or ``2-8``; ``none`` is one: the log's own table, which users then correct (docs/misspecification.md).

    >>> span("4"), span("2-8"), span("none")
    (4, (2, 8), 1)
    """
    from reticent.errors import InvalidInput

    if text == "none":
        return 1
    low, dash, high = text.partition("-")
    try:
        return (int(low), int(high)) if dash else int(low)
    except ValueError:
        raise InvalidInput(option, text, "a number, a range such as 2-8, or none", "correct it") from None


def depth(text: str) -> int | Literal["auto"]:
    """``2`` or ``auto``.

    >>> depth("2"), depth("auto")
    (2, 'auto')
    """
    from reticent.errors import InvalidInput

    if text == "auto":
        return "auto"
    if not text.isdigit():
        raise InvalidInput("--history", text, "a number of observations, or auto", "2 remembers the one before")
    return int(text)


def shares(texts: list[str] | None) -> dict[str, float] | None:
    """``STATE=SHARE`` options; a state's name may have ``=`` in it.

    >>> shares(["frontpage=0", "a = b=0.5"])
    {'frontpage': 0.0, 'a = b': 0.5}
    """
    from reticent.errors import InvalidInput

    if not texts:
        return None
    found = {}
    for text in texts:
        state, equals, share = text.rpartition("=")
        try:
            found[state] = float(share)
        except ValueError:
            equals = ""
        if not (state and equals):
            raise InvalidInput("--entries", text, "STATE=SHARE", "name a first state, then its share, such as news=0.3")
    return found


def pairs(option: str, texts: list[str] | None) -> list[tuple[str, str]]:
    """``COLUMN=…`` options as pairs."""
    from reticent.errors import InvalidInput

    parts = [text.partition("=") for text in texts or []]
    for column, equals, content in parts:
        if not (column and equals and content):
            shown = f"{column}{equals}{content}"
            raise InvalidInput(option, shown, "COLUMN=VALUE,VALUE", "name the column, then list its values")
    return [(column, content) for column, _, content in parts]


def cuts(option: str, text: str) -> list[float] | int:
    """``1,2.5`` as cut points, ``q4`` as a number of parts.

    >>> cuts("--bins x", "1,2.5"), cuts("--bins x", "q4")
    ([1.0, 2.5], 4)
    """
    return int(text[1:]) if text[:1] == "q" and text[1:].isdigit() else numbers(option, text)


def numbers(option: str, text: str) -> list[float]:
    """``1,2.5`` as numbers."""
    from reticent.errors import InvalidInput

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(option, text, "numbers with commas between them", "correct it") from None


def _provenance(kind: str, source: str, epsilon: float | None, delta: float | None) -> Provenance:
    from typing import cast, get_args

    from reticent.errors import InvalidInput
    from reticent.worlds.models.provenance import Kind, Provenance

    if kind not in get_args(Kind):
        raise InvalidInput(
            "--origin", kind or "missing", "public, simulated or released",
            "say what the log is; protected users' own data are none of these, and candidates must not be made from them",
        )  # fmt: skip
    return Provenance(cast(Kind, kind), source, epsilon, delta)
