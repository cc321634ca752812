# SPDX-License-Identifier: Apache-2.0
"""The page's routes: its files, which hold no number, and diagnostics, which are for readers of published numbers."""

from __future__ import annotations

import functools
import hashlib
import json
from importlib import resources
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel

from reticent.service.http.episodes import Served
from reticent.service.http.problems import documented
from reticent.service.http.schemas import INDEX
from reticent.service.http.security import BEARER
from reticent.service.rounds.frontend import Frontend
from reticent.service.rounds.refusals import Refusal

router = APIRouter(tags=["dashboard"])
READER = [Depends(BEARER)]
FOREVER = "public, max-age=31536000, immutable"
Known = Annotated[str | None, Header(alias="If-None-Match")]

FILES = {
    "dashboard.html": "text/html; charset=utf-8",
    "dashboard.css": "text/css; charset=utf-8",
    "dashboard.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

PROTECTION = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""The page runs no script but its own, asks this service only, and cannot be framed."""


class SignalFigures(BaseModel):
    """Released sums relative to their noise, per step (one entry if steps are added up) and together; null where nothing
    is released."""

    pooled: bool
    transition: list[float | None]
    reward: list[float | None]
    transition_together: float | None
    reward_together: float | None


class ValueFigures(BaseModel):
    """What a new user may expect of the policy: the agent's estimate and doubts, and the proven interval if there is one.

    ``deviation`` is the posterior's, ``explorers`` the estimate for those who explore; null where a family has none.
    """

    cautious: float
    estimate: float
    optimistic: float
    proven_low: float | None
    proven_high: float | None
    deviation: float | None
    explorers: float | None
    confidence: float | None
    bonus_scale: float
    largest: float


class FitFigures(BaseModel):
    """Whether the candidates explain what users do: a misfit, χ² with so many degrees of freedom if they do, and the
    probability of one as large then."""

    statistic: float
    degrees: int
    probability: float


class Diagnostics(BaseModel):
    """What a version's release says; ``signal`` is null for version 0, which has none, ``fit`` before the second release
    and where a family has none. Public, and never changes."""

    version: int
    users: int
    signal: SignalFigures | None
    value: ValueFigures | None
    fit: FitFigures | None


@router.get("/", include_in_schema=False)
def root() -> Response:
    """Where people find the page."""
    return RedirectResponse("/dashboard")


@router.get("/dashboard", include_in_schema=False)
def page(known: Known = None) -> Response:
    """The page itself."""
    return _file("dashboard.html", known)


@router.get("/dashboard/{name}", include_in_schema=False)
def part(name: str, known: Known = None) -> Response:
    """Its style, script and icon."""
    return _file(name, known)


@router.get("/v1/diagnostics", dependencies=READER, response_model=Diagnostics, responses=documented())
def newest(deployment: Served) -> Response:
    """What the newest published version's release says about its signal and its value."""
    version = int(deployment.clock()[0].served_version)
    return Response(
        _diagnostics(deployment, version), media_type="application/json", headers={"Cache-Control": "no-cache"}
    )


@router.get("/v1/diagnostics/{version}", dependencies=READER, response_model=Diagnostics, responses=documented(404))
def of_version(version: Annotated[int, Path(ge=0, le=INDEX)], deployment: Served) -> Response:
    """The same for one published version."""
    return Response(
        _diagnostics(deployment, version), media_type="application/json", headers={"Cache-Control": FOREVER}
    )


@functools.lru_cache(maxsize=256)
def _diagnostics(deployment: Frontend, version: int) -> bytes:
    """The answer for one version, which never changes."""
    return json.dumps(Diagnostics.model_validate(deployment.diagnostics(version)).model_dump()).encode()


@functools.cache
def _content(name: str) -> bytes:
    return (resources.files("reticent.service.http.dashboard") / "page" / name).read_bytes()


def _file(name: str, known: str | None) -> Response:
    if name not in FILES:
        raise Refusal("not-found", "the dashboard has no such file")
    content = _content(name)
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {**PROTECTION, "ETag": tag, "Cache-Control": "no-cache"}
    if known is not None and tag in known:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=FILES[name], headers=headers)
