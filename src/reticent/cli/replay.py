# SPDX-License-Identifier: Apache-2.0
"""``reticent replay``: recorded users meet the deployed agent, before launch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli.options import Json

if TYPE_CHECKING:
    from reticent.replay.before_launch import LogReplay


PIECES = (
    "a person whose rows were split is met as several users: the promise below is about one piece, and a person of g pieces"
    " is protected at g times its strength (group privacy)"
)


def replay(
    log: Annotated[Path, typer.Argument(help="A long table, .csv or .parquet: one row per user and step.")],
    deployment: Annotated[Path, typer.Option(help="The deployment's file, such as reticent rehearse writes.")],
    probability: Annotated[
        str | None, typer.Option(help="The column of the probability with which the recorded action was drawn.")
    ] = None,
    rewards_of: Annotated[
        str | None, typer.Option(help="Beginning of the columns of what every action would have paid: PREFIX + action.")
    ] = None,
    states_unaffected: Annotated[
        bool, typer.Option("--states-unaffected", help="Declare that actions do not change what comes next.")
    ] = False,
    reward: Annotated[str, typer.Option(help="The column of the reward.")] = "reward",
    user: Annotated[str, typer.Option(help="The column of the user.")] = "user",
    step: Annotated[str, typer.Option(help="The column of the step; without it every user has one row.")] = "step",
    time: Annotated[str | None, typer.Option(help="The column that orders a user's rows instead.")] = None,
    gaps: Annotated[str | None, typer.Option(help="Missing steps, as in reticent fit.")] = None,
    longer: Annotated[
        str | None, typer.Option(help="Longer sessions, as in reticent fit.", show_default="cut at the horizon")
    ] = None,
    leaves: Annotated[bool, typer.Option("--leaves", help="Users with fewer rows than the horizon have left.")] = False,
    pilot: Annotated[
        Path | None, typer.Option(help="The log that the candidates were fitted to: refused if a person is in both.")
    ] = None,
    orders: Annotated[int, typer.Option(help="In how many orders those compared with meet the users.")] = 4,
    seed: Annotated[int, typer.Option(help="Of the orders, and of simulated noise.")] = 0,
    as_json: Json = False,
) -> None:
    """Meet recorded users one by one with the deployed agent and real noise, and say what it is worth beside others.

    Exact where the log allows (every action's reward is recorded, and actions do not change what comes next), unbiased
    where actions were drawn with recorded probabilities, refused with the reason otherwise. States and actions are
    coded as the model says. What is printed is computed from the log without noise: it is for the owner of the log.
    """
    from reticent.cli.output import note, print_json
    from reticent.errors import InvalidInput, MissingExtra

    try:
        from reticent.replay.before_launch import deployed_model, replay_log
        from reticent.service.config import read_settings
    except ModuleNotFoundError as missing:
        raise MissingExtra("reticent replay", str(missing.name), "service") from None
    import numpy as np

    from reticent.replay.logs import RandomisedUsers, replayable, require_enough
    from reticent.reports.progress import Telling
    from reticent.runtime import enable_compilation_cache
    from reticent.worlds.records import Columns, read_log
    from reticent.worlds.records.disjoint import require_disjoint

    if orders < 1:
        raise InvalidInput("--orders", orders, "at least 1", "4 are enough to see whether the order matters")
    enable_compilation_cache()
    settings = read_settings(deployment, option="--deployment")
    loaded = deployed_model(settings)
    coding, horizon = loaded.coding, loaded.model.horizon
    assert coding is not None
    columns = Columns(
        user,
        step,
        tuple(part.column for part in coding.parts),
        coding.action.column,
        reward,
        probability=probability,
        rewards_of=rewards_of,
        time=time,
    )
    if pilot is not None:
        require_disjoint(pilot, log, user)
    options: Any = {"gaps": gaps, "longer": longer}  # what they may be is checked where they are used
    records = read_log(
        log, columns=columns, coding=coding, leaves_before=horizon if leaves else None, horizon=horizon, **options
    )
    for changed in records.notes:
        note(changed)
    if "split" in (gaps, longer):
        note(PIECES)
    users = replayable(records, horizon, states_unaffected=states_unaffected)
    logged = np.bincount(records.user, weights=records.reward * (records.step < horizon), minlength=records.users)
    note(f"{records.users:,} recorded users: {users.why}")
    if isinstance(users, RandomisedUsers):
        note(f"about {users.expected_met:,.0f} of them will be met by each agent")
    require_enough(users, logged, log.name)
    if loaded.provenance.doubt:
        note(f"the candidates rest on too little: {loaded.provenance.doubt}")
    with Telling("records") as tell:
        found = replay_log(settings, loaded, users, logged, source=log.name, orders=orders, seed=seed, told=tell)
    if as_json:
        print_json(found.to_dict())
    else:
        print_replay(found)


def print_replay(found: LogReplay) -> None:
    """The table for people."""
    from reticent.cli.output import print_table
    from reticent.replay.before_launch import CAUTION

    print(f"{found.source}: {found.users:,} recorded users; {found.why}\n{found.agent}: {found.sentence}")
    print_table(
        ("acting", "how", "value", "±", "last tenth", "±", "users met", "orders", "s"),
        [
            (
                row.name,
                row.remark,
                *(
                    "–" if number is None else f"{number:.4f}"
                    for number in (row.value, row.error, row.learned, row.learned_error)
                ),
                f"{row.met:,}",
                f"{row.orders}",
                f"{row.seconds:.0f}" if row.seconds else "–",
            )
            for row in found.rows
        ],
        left=2,
    )
    print("value: mean return in the model's units (rewards mapped to [0, 1]), ± 1.96 standard errors over users")
    for title, reason in found.absent:
        print(f"does not apply: {title}: {reason}")
    print(CAUTION)
