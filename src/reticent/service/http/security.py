# SPDX-License-Identifier: Apache-2.0
"""Who may do what: a role per key, a need per path. The guard asks before a request's body is read.

Needs are told by the path alone, so that nothing has to be parsed for a stranger. A path that is listed nowhere needs any
key (and is then not found); tests hold every route to this table.
"""

from __future__ import annotations

from typing import Literal

from fastapi.security import HTTPBearer

from reticent.service.config import Role

BEARER = HTTPBearer(auto_error=False, description="A key; what it is good for, its role says.")
"""For the OpenAPI document; :class:`reticent.service.http.guard.Guard` is what checks."""

Need = Literal["nothing", "read", "serve", "mix", "operate"]

NEEDS: tuple[tuple[str, Need], ...] = (
    ("/v1/health", "nothing"),
    ("/v1/transparency", "nothing"),
    ("/dashboard", "nothing"),
    ("/v1/episodes", "serve"),
    ("/v1/groups", "serve"),
    ("/v1/batches", "mix"),
    ("/v1/admin", "operate"),
)
"""The need of every path below a prefix; others are there to be read."""

ALLOWED: dict[Need, frozenset[Role]] = {
    "nothing": frozenset({"reader", "app", "shuffler", "admin"}),
    "read": frozenset({"reader", "app", "shuffler", "admin"}),
    "serve": frozenset({"app", "admin"}),
    "mix": frozenset({"shuffler"}),
    "operate": frozenset({"admin"}),
}
"""Which roles meet a need. A batch ends its round's learning, so that only the shuffler may post one."""


def need_of(path: str) -> Need:
    """What a request for ``path`` needs."""
    if path == "/":  # leads to the dashboard
        return "nothing"
    for prefix, need in NEEDS:
        if path == prefix or path.startswith(f"{prefix}/"):
            return need
    return "read"
