# SPDX-License-Identifier: Apache-2.0
"""What commands print: one JSON document, or tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence


def print_json(content: object) -> None:
    """One JSON document on standard output."""
    print(json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False))


def note(text: str) -> None:
    """A remark on standard error, where it cannot get into a result."""
    print(f"note: {text}", file=sys.stderr, flush=True)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """A table on standard output; the first ``left`` columns hold words, the others numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, title in enumerate(head):
        words = index < left
        table.add_column(
            title,
            justify="left" if words else "right",
            overflow="fold",
            no_wrap=not words,
            min_width=17 if words else None,
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
