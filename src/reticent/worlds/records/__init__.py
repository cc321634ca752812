# SPDX-License-Identifier: Apache-2.0
"""From recorded people to candidate models: reading, coding, estimation, and how far to trust it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from reticent.extras import missing_extra

if TYPE_CHECKING:
    from reticent.worlds.records.coded import Log
    from reticent.worlds.records.coding import Bins, Categories, Coding
    from reticent.worlds.records.fitting import Fitted, Stopped, fit
    from reticent.worlds.records.log import read_log
    from reticent.worlds.records.report import FitReport
    from reticent.worlds.records.table import Columns

# Imported when first used: a coding needs NumPy alone, and must not wait for the tables of a fit.
_HOMES = {
    "Bins": "coding",
    "Categories": "coding",
    "Coding": "coding",
    "Columns": "table",
    "FitReport": "report",
    "Fitted": "fitting",
    "Log": "coded",
    "Stopped": "fitting",
    "fit": "fitting",
    "read_log": "log",
}

__all__ = ["Bins", "Categories", "Coding", "Columns", "FitReport", "Fitted", "Log", "Stopped", "fit", "read_log"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    except ModuleNotFoundError as missing:
        raise missing_extra(missing, "reading records") or missing from None
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
