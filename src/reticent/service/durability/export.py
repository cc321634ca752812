# SPDX-License-Identifier: Apache-2.0
"""What operators read of a store without its mechanism, and the one thing they choose: public numbers, all of them.

A policy is exported from its billboard as it was published, so that a file says nothing that the service does not. Which
published version is served may be chosen: if the choice follows from what was published, it is post-processing; learning
goes on under the same account, since a round's contributions are clipped to the same bounds under every version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reticent.service.billboards import Billboard
from reticent.service.rounds.refusals import Refusal
from reticent.service.store import records
from reticent.service.store.engine import Store
from reticent.service.store.migrations import require_begun
from reticent_wire import arrays

EXPORTS = (".npz", ".json")
"""Kinds of files."""


def stored_status(store: Store) -> dict[str, Any]:
    """Where a deployment stands, by its store alone: the names of ``GET /v1/status`` as far as the store knows them."""
    with _reading(store) as tx:
        clock, version = records.deployment(tx), records.learner_version(tx)
    facts = json.loads(clock.facts)
    episodes, control = int(facts["round_ends"][-1]), facts.get("control", {})
    return {
        "deployment": str(clock.identity), "layout": int(clock.format), "agent": facts["agent"],
        "trust": facts["trust"], "epsilon": facts["epsilon"], "delta": facts["delta"],
        "contributions": facts["contributions"], "admitted": int(clock.admitted), "episodes": episodes,
        "version": version, "served_version": int(clock.served_version), "releases": int(facts["releases"]),
        "fallback": clock.fallback, "control_share": control.get("share"), "control_version": control.get("version"),
        "halted": clock.halted,
        "learning": bool(clock.admitted < episodes and clock.halted is None),
        "finished": bool(clock.finished and version >= min(facts["releases"], clock.open_round)),
    }  # fmt: skip


def choose_version(store: Store, version: int | None) -> int:
    """Serve users who come from now on a published version, None being the newest; says which that is.

    Places of an A/B share's controls are served the control's version whatever is chosen.

    Raises:
      Refusal: it was never published, or the deployment is a shadow; nothing was changed.
    """
    with _reading(store):
        pass
    with store.write() as tx:
        clock = records.deployment(tx, lock=True)
        if version != 0 and json.loads(clock.facts).get("shadow", False):
            raise Refusal("in-shadow", "users of a shadow deployment are served version 0; begin one without to act")
        if version is not None and not 0 <= version <= clock.served_version:
            raise Refusal(
                "not-found", f"version {version} has not been published; the newest is {clock.served_version}"
            )
        records.change_deployment(tx, fallback=version)
        return int(clock.served_version) if version is None else version


def published_policy(store: Store, version: int | None) -> tuple[dict[str, Any], str]:
    """A published version as ``GET /v1/billboards/{version}`` gives it, and the promise of the chain's first entry.

    Raises:
      Refusal: it was never published.
    """
    with _reading(store) as tx:
        clock = records.deployment(tx)
        chosen = records.version_to_serve(clock) if version is None else version
        content = records.billboard(tx, chosen) if 0 <= chosen <= clock.served_version else None
        promise = json.loads(records.chain(tx, 0, 1)[0].entry)["promise"]
    if content is None:
        raise Refusal("not-found", f"version {chosen} has not been published; the newest is {clock.served_version}")
    board = Billboard.read(chosen, content)
    final = chosen >= int(promise["releases"])
    return board.to_json(final=final, model=promise["model"]), promise["sentence"]


def write_policy(path: Path, board: dict[str, Any], promise: str, names: Mapping[str, Any]) -> None:
    """Write a billboard's policy and values, with promise and names (None: numbers), as NumPy arrays or as plain JSON."""
    policy, values = (
        arrays.from_json(name, board[name], dtype=board[name]["dtype"], shape=tuple(board[name]["shape"]))
        for name in ("policy", "values")
    )
    facts = {"version": int(board["version"]), "final": bool(board["final"]), "model": board["model"]}
    named = {f"{kind}_names": names[kind] for kind in ("states", "actions") if names.get(kind) is not None}
    if names.get("history") is not None:
        named["history"] = names["history"]
    if path.suffix == ".npz":
        texts = {key: json.dumps(value) if isinstance(value, dict) else value for key, value in named.items()}
        extra = {key: np.asarray(value) for key, value in {**facts, **texts, "promise": promise}.items()}
        np.savez(path, policy=policy, values=values, **extra)  # type: ignore[arg-type]
    else:
        plain = {**facts, "promise": promise, **named, "policy": policy.tolist(), "values": values.tolist()}
        path.write_text(json.dumps(plain, allow_nan=False, indent=1), encoding="utf-8")


def _reading(store: Store) -> Any:
    """A reading transaction on a store of the present layout in which a deployment was begun."""
    require_begun(store)
    return store.read()
