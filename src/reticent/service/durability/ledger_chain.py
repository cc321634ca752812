# SPDX-License-Identifier: Apache-2.0
"""The public ledger of a deployment: one signed entry per published version, each with the hash of the one before.

An entry says which version it is, how many users came before it, the digest of the billboard as it is served, the digest
of the release behind it, and what has been spent. Entry 0 also states the promise and the noise on every sum, so that an
outsider can work out what was spent (:func:`examine`). An observer who has kept an old head notices if the past was
changed; a reader with the public key notices entries of another signer. What no chain can show is that noise was drawn
as stated.

All of it is public: digests of published bytes, and functions of the plan.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from reticent.privacy.accounting.account import GAUSSIAN, LAPLACE, Account, GaussianAccount
from reticent.privacy.ledger import CounterShare

PURPOSE = b"reticent ledger v1\n"
ACCOUNTS: dict[str, Account] = {account.law: account for account in (GAUSSIAN, LAPLACE)}
TOLERANCE = 1e-6
"""Relative, of a recomputed budget: that of the calibration."""


def canonical(content: Mapping[str, Any]) -> str:
    """The one way to write a JSON object down."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def billboard_digest(served: Mapping[str, Any]) -> str:
    """SHA-256 of a billboard as ``GET /v1/billboards/{version}`` answers it, in canonical form."""
    return hashlib.sha256(canonical(served).encode()).hexdigest()


def entry_hash(entry: str) -> str:
    """What the next entry says of this one."""
    return hashlib.sha256(PURPOSE + entry.encode()).hexdigest()


def signed(entry: Mapping[str, Any], sign: Callable[[bytes], bytes]) -> dict[str, str]:
    """An entry as it is stored and served: its text, its hash, and the signature of the hash."""
    text = canonical(entry)
    name = entry_hash(text)
    return {"entry": text, "hash": name, "signature": sign(PURPOSE + bytes.fromhex(name)).hex()}


class Finding(NamedTuple):
    """Something that is not as it must be, at the entry of a version."""

    version: int
    what: str


def examine(
    rows: Sequence[Mapping[str, str]],
    public_key: str,
    *,
    billboards: Mapping[int, Mapping[str, Any]] | None = None,
    head: str | None = None,
) -> list[Finding]:
    """Everything that is wrong with a chain, recomputed from outside; nothing if nothing is.

    Args:
      rows: all entries from version 0 on, as :func:`signed` made them.
      public_key: the deployment's, which the auditor knows.
      billboards: answers of the service by version, whose digests are compared.
      head: the hash of an entry that was seen before, which must still be there.
    """
    wrong: list[Finding] = []
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
    entries = [json.loads(row["entry"]) for row in rows]
    before, promise = None, entries[0].get("promise") if entries else None
    if promise is None:
        return [Finding(0, "the chain does not begin with a promise")]
    if promise["public_key"] != public_key:
        wrong.append(Finding(0, "it was begun under another key"))
    for version, (row, entry) in enumerate(zip(rows, entries, strict=True)):
        found = entry_hash(row["entry"])
        if canonical(entry) != row["entry"] or found != row["hash"]:
            wrong.append(Finding(version, "the hash is not the entry's"))
        try:
            key.verify(bytes.fromhex(row["signature"]), PURPOSE + bytes.fromhex(found))
        except (InvalidSignature, ValueError):
            wrong.append(Finding(version, "the signature is not the deployment's"))
        if entry["version"] != version or entry["deployment"] != entries[0]["deployment"]:
            wrong.append(Finding(version, "it is an entry of another place"))
        if entry["previous"] != before:
            wrong.append(Finding(version, "it does not follow the entry before"))
        before = found
        wrong += [Finding(version, what) for what in _overspent(promise, entry)]
        board = (billboards or {}).get(version)
        if board is not None and billboard_digest(board) != entry["billboard"]:
            wrong.append(Finding(version, "the billboard is not the one that was published"))
    if head is not None and head not in {entry_hash(row["entry"]) for row in rows}:
        wrong.append(Finding(len(rows) - 1, "the head that was seen before is gone: the past was changed"))
    return wrong


def _overspent(promise: Mapping[str, Any], entry: Mapping[str, Any]) -> list[str]:
    """What is wrong with the stated budget of an entry. The law of coins has no account here, and is taken as stated."""
    said, wrong = float(entry["epsilon"]), []
    if said > promise["epsilon"] * (1 + TOLERANCE):
        wrong.append("more was spent than promised")
    if promise["law"] in ACCOUNTS:
        account, shares = ACCOUNTS[promise["law"]], [CounterShare(**share) for share in promise["shares"]]
        if isinstance(account, GaussianAccount):
            account = GaussianAccount(draws=int(promise.get("draws", 0)))  # older chains state none
        strength = account.strength(shares, float(entry["exposure"])) if entry["version"] else 0.0
        worked_out = account.epsilon_of(strength, float(promise["delta"])) if strength else 0.0
        if not math.isclose(worked_out, said, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            wrong.append("the stated budget is not what the stated noise costs")
    if entry["version"] and float(entry["exposure"]) < 1:
        wrong.append("a release that charges no user")
    return wrong
