# SPDX-License-Identifier: Apache-2.0
"""``reticent explain``: what an ε means, in plain words and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.options import Json

ALARMS = (0.5, 0.1, 0.05, 0.01, 0.001)
"""Shares of innocent users that an attacker is ready to accuse."""

BESIDE = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Values of ε that the asked one is shown beside."""

CELLS = 40
"""Width of a bar."""


def explain(
    epsilon: Annotated[float, typer.Option(help="ε of the promise; smaller is more private.")] = 1.0,
    delta: Annotated[float, typer.Option(help="δ of the promise.")] = 1e-5,
    prior: Annotated[float, typer.Option(help="How sure the attacker is beforehand: 0.5 is not at all.")] = 0.5,
    times: Annotated[int, typer.Option(help="How often one user takes part.")] = 1,
    out: Annotated[Path | None, typer.Option(help="A picture of it, such as explain.png.")] = None,
    as_json: Json = False,
) -> None:
    """Say what an attacker's best guess about one user gains under a promise (ε, δ).

    Exact for the Gaussian noise of this library's agents, from its trade-off curve, and for every attacker: also one who
    knows all other users' data, sees all that is published and computes for ever.
    """
    from reticent.cli.output import print_json

    content = facts(epsilon, delta, prior, times)
    if out is not None:
        from reticent.extras import require

        require("matplotlib", "the picture of a promise (--out)")
        from reticent.reports.plots.promise import draw_promise

        draw_promise(content, out)
    if as_json:
        print_json(content)
        return
    print("\n".join(words(content)))
    if out is not None:
        print(f"\npicture  {out}")


def facts(epsilon: float, delta: float, prior: float, times: int) -> dict[str, Any]:
    """The numbers behind the words.

    Raises:
      InvalidInput: one of them is outside its domain.
    """
    from reticent.privacy.accounting.gaussian import group, mu_of
    from reticent.privacy.accounting.guessing import caught, right_at_most, right_guesses
    from reticent.privacy.guarantee import MEANINGFUL_EPSILON

    mu = group(mu_of(epsilon, delta), times)
    beside = sorted({*BESIDE, epsilon})
    return {
        "epsilon": epsilon,
        "delta": delta,
        "times": times,
        "mu": mu,
        "prior": prior,
        "right_before": max(prior, 1.0 - prior),
        "right_after": right_guesses(mu, prior),
        "right_if_only_epsilon_is_known": right_at_most(epsilon, delta),
        "protects": epsilon <= MEANINGFUL_EPSILON,
        "caught": {f"{alarms:g}": caught(mu, alarms) for alarms in ALARMS},
        "right_by_epsilon": {f"{one:g}": right_guesses(group(mu_of(one, delta), times), prior) for one in beside},
    }


def words(content: dict[str, Any]) -> list[str]:
    """What people read: sentences, then bars."""
    before, after = 100 * content["right_before"], 100 * content["right_after"]
    often = "" if content["times"] == 1 else f" for a user who takes part {content['times']} times"
    lines = [
        f"ε = {content['epsilon']:g}, δ = {content['delta']:g}{often}. What can an adversary find out about one user?",
        "",
        "Suppose they know everything about all others, see everything that is ever published, and wonder",
        "which of two stories about that user is true.",
        f"Before they look, their best guess is right {before:.1f} times in a hundred.",
        f"After they have looked, it is right at most {after:.1f} times in a hundred: a gain of {after - before:.1f}.",
        *([] if content["protects"] else ["That is no protection: the name of a promise, and no more."]),
        "",
        "how often the best guess is right",
        *(
            _bar(f"ε = {key}", share, mark=float(key) == content["epsilon"])
            for key, share in content["right_by_epsilon"].items()
        ),
        _bar("no privacy", 1.0),
        "",
        "If they accuse only when they are fairly sure:",
    ]
    for alarms, share in content["caught"].items():
        if float(alarms) < 0.5:
            innocent = f"1 in {1 / float(alarms):,.0f}"
            lines.append(
                f"  accusing {innocent:>10} of the innocent, they find at most {100 * share:.2f}% of the true stories"
            )
    if content["times"] == 1:
        lines += [
            "",
            "These are the exact figures of Gaussian noise (the trade-off curve at "
            f"μ = {content['mu']:.4f}). Of any mechanism that is (ε, δ)-",
            "private and no more is known about, one could say only that the guess is right at most "
            f"{100 * content['right_if_only_epsilon_is_known']:.1f} times in a hundred",
            "(from even odds).",
        ]
    lines += [
        "",
        "In the joint model this is about every party but the server, which sees raw data; in the local model about the",
        "server too. It says nothing about what is true of all users: a service that learns that walks help has",
        "learned it of each of them, whether that user took part or not.",
    ]
    return lines


def _bar(label: str, share: float, *, mark: bool = False) -> str:
    """A bar from an even guess's share of 0 to certainty, for a terminal of any kind."""
    full = round(CELLS * share)
    return f"  {label:<12}{'█' * full}{'·' * (CELLS - full)} {100 * share:5.1f}%{'  <- asked' if mark else ''}"
