# SPDX-License-Identifier: Apache-2.0
r"""A pilot whose users are weighted to where the users of a service enter.

A pilot is recruited where that is easy, and its users may begin elsewhere than those of the service do: nine in ten by the
front page, say, where the service meets readers who come from search engines. Where users enter is often known
beforehand, without any record of them. With declared shares of first states, :func:`weigh` counts each pilot user
r = (declared share)/(pilot's share) times: estimates then are of the population that was declared, if users who enter
alike behave alike.

The others still tell something, as what happens in the middle of a session depends less on where it began. So training
users count :math:`(1-\lambda)r+\lambda` times (:func:`leaning`), and held-out users, who always count r times, choose λ.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from reticent.errors import InvalidInput
from reticent.worlds.records.coded import Log


def weigh(log: Log, entries: Mapping[str, float]) -> Log:
    """The log with weights of users, from declared shares of some first states; the others share the rest as in the log.

    Raises:
      InvalidInput: a state is unknown or no user of the log enters there, or the shares are no shares.
    """
    names = log.coding.state_names
    declared = {}
    for label, share in entries.items():
        if label not in names:
            raise InvalidInput(
                "entries", label, f"one of {', '.join(names[:12])}", "name first states as the report does"
            )
        if not 0 <= share <= 1:
            raise InvalidInput(
                f"entries: {label}", share, "a share in [0, 1]", "give the share of users who enter there"
            )
        declared[names.index(label)] = float(share)
    pilot = log.entries
    total = sum(declared.values())
    named = np.isin(np.arange(len(names)), list(declared))
    rest = float(pilot[~named].sum())
    if total > 1 + 1e-9 or (rest == 0 and abs(total - 1) > 1e-9):
        raise InvalidInput(
            "entries", f"shares that sum to {total:g}", "1, or less where others share the rest", "correct them"
        )
    wanted = np.where(named, 0.0, pilot * ((1 - total) / rest if rest > 0 else 0.0))
    for state, share in declared.items():
        if share > 0 and pilot[state] == 0:
            raise InvalidInput(
                f"entries: {names[state]}", share, "0: no user of the log enters there", "record some who do"
            )
        wanted[state] = share
    ratio = np.where(pilot > 0, wanted / np.where(pilot > 0, pilot, 1.0), 0.0)
    weight = ratio[log.state[log.first]]
    number = int((weight > 0).sum())
    if number < 2:
        raise InvalidInput("users who enter as declared", number, "at least 2", "declare other shares")
    effective = float(weight.sum() ** 2 / (weight**2).sum())
    note = (
        f"users were weighted to the declared entries: {number:,} of {log.users:,} enter so, and count as much as "
        f"{effective:,.0f} equal ones"
    )
    return dataclasses.replace(log, weight=weight / weight.mean(), notes=(*log.notes, note))


def leaning(log: Log, share: float) -> Log:
    """The log as training users count: λ is the ``share`` of all of them alike."""
    return log if log.weight is None else dataclasses.replace(log, weight=(1 - share) * log.weight + share)


def who_enter(log: Log) -> Log:
    """The users of a log who enter as declared, numbered anew."""
    if log.weight is None:
        return log
    kept = log.weight > 0
    rows = kept[log.user]
    number = np.cumsum(kept) - 1
    kept_rows = {field: getattr(log, field)[rows] for field in ("step", "state", "action", "following", "reward")}
    optional = {
        field: None if getattr(log, field) is None else getattr(log, field)[rows] for field in ("probability", "paid")
    }
    changed: Any = {**kept_rows, **optional}
    return dataclasses.replace(
        log, user=number[log.user[rows]], group=log.group[kept], weight=log.weight[kept], **changed
    )
