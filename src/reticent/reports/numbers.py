# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them: in tables, labels and captions."""

from __future__ import annotations


def users_in_words(users: float | None) -> str:
    """A number of users for a table's cell; a dash where there is none."""
    return "–" if users is None else f"{users:,.0f}"


def option_in_words(value: object) -> str:
    """An option's value."""
    if value is None:
        return "default"
    return f"{value:g}" if isinstance(value, float) else str(value)
