# SPDX-License-Identifier: Apache-2.0
"""``reticent audit --deployment``: a running service's public ledger, checked from outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer


def audit_deployment(where: str, *, head: str | None, public_key: str | None, as_json: bool) -> None:
    """Check the chain at a service's address or in a file that was kept of it; exit code 1 if anything is wrong.

    ``head`` is the hash of an entry that was seen before, or a file that was kept then. With ``RETICENT_READER_KEY`` in the
    environment, or where reading needs no key, billboards are fetched and their digests compared.
    """
    from reticent.cli.output import note, print_json
    from reticent.errors import InvalidInput, MissingExtra

    try:
        from reticent.service.durability import ledger_chain
    except ModuleNotFoundError as missing:
        raise MissingExtra("reticent audit --deployment", str(missing.name), "service") from None
    told, billboards = read_chain(where)
    if not told["entries"]:
        raise InvalidInput("--deployment", where, "a service or file with at least one entry", "check the address")
    earlier = None if head is None else read_head(head)
    wrong = ledger_chain.examine(told["entries"], public_key or told["public_key"], billboards=billboards, head=earlier)
    last = json.loads(told["entries"][-1]["entry"])
    found = {
        "verdict": "broken" if wrong else "consistent",
        "deployment": told["deployment"],
        "head": told["head"],
        "public_key": told["public_key"],
        "versions": len(told["entries"]),
        "billboards_compared": len(billboards),
        "epsilon_spent": last["epsilon"],
        "findings": [one._asdict() for one in wrong],
    }
    if as_json:
        print_json(found)
    else:
        print(
            f"{found['verdict']}: {found['versions']} versions, epsilon {last['epsilon']:.6g} spent, head {told['head']}"
        )
        for one in wrong:
            print(f"version {one.version}: {one.what}")
        if public_key is None:
            note("the public key was taken from the service itself: give --public-key to know that it is the right one")
        if not billboards:
            note("no billboard was compared: set RETICENT_READER_KEY, or audit a service whose reads are public")
    if wrong:
        raise typer.Exit(1)


def read_chain(where: str) -> tuple[dict[str, Any], dict[int, Any]]:
    """The whole chain at an address or in a file, and the billboards that may be read there."""
    import os

    from reticent_client import Connection, ServiceError

    if not where.startswith(("http://", "https://")):
        return read_file(Path(where)), {}
    connection = Connection(where, os.environ.get("RETICENT_READER_KEY"))
    told = connection.get("/v1/transparency")
    page = told
    while page["next"] is not None:
        page = connection.get(f"/v1/transparency?after={page['next']}", route="/v1/transparency")
        told["entries"] += page["entries"]
        told["head"] = page["head"]
    boards = {}
    try:
        for version in range(len(told["entries"])):
            boards[version] = connection.get(f"/v1/billboards/{version}", route="/v1/billboards/{version}")
    except ServiceError as refusal:
        if refusal.status not in (401, 403):
            raise
    connection.close()
    return told, boards


def read_head(given: str) -> str:
    """The hash itself, or that in a file which was kept."""
    return str(read_file(Path(given))["head"]) if Path(given).exists() else given


def read_file(path: Path) -> dict[str, Any]:
    from reticent.errors import InvalidInput

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        content["entries"], content["head"], content["public_key"], content["deployment"]
    except (OSError, ValueError, KeyError, TypeError):
        remedy = "curl https://service.example/v1/transparency > FILE"
        raise InvalidInput("--deployment", path, "a kept answer of /v1/transparency", remedy) from None
    return dict(content)
