# SPDX-License-Identifier: Apache-2.0
"""Keywords of :func:`~reticent.worlds.records.fit` that say how a table is read: columns by what they are, and options."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from reticent.errors import UnknownName
from reticent.worlds.records.log import read_log
from reticent.worlds.records.table import Columns

_COLUMNS = {field.name for field in dataclasses.fields(Columns)}
_READING = set(inspect.signature(read_log).parameters) - {"table", "columns", "horizon"}


def columns_and_options(
    columns: Columns | None, given: Mapping[str, Any], known: set[str]
) -> tuple[Columns, dict[str, Any]]:
    """The columns, with those that are given by name, and what is left for :func:`read_log`.

    ``known`` are the caller's own keywords, which a misspelled one may have meant.

    >>> columns_and_options(None, {"state": "mood", "rare": 5}, set())[0].state
    ('mood',)

    Raises:
      UnknownName: a keyword is none of these.
    """
    for name in given:
        if name not in _COLUMNS | _READING:
            raise UnknownName("option of fit", name, sorted(_COLUMNS | _READING | known))
    named = {name: value for name, value in given.items() if name in _COLUMNS}
    if "state" in named:
        named["state"] = (named["state"],) if isinstance(named["state"], str) else tuple(named["state"])
    options = {name: value for name, value in given.items() if name in _READING}
    return dataclasses.replace(columns or Columns(), **named), options
