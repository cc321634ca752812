# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have: one wording each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Config = Annotated[Path, typer.Option(help="The deployment's YAML file; see docs/service.md.")]
Dev = Annotated[
    bool, typer.Option("--dev", help="Let well-known secrets stand in for missing ones, on this machine only.")
]
