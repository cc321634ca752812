# SPDX-License-Identifier: Apache-2.0
"""For operators: health, and the admin's routes."""

from __future__ import annotations

import dataclasses
from typing import Literal

from fastapi import APIRouter, Depends, Request

from reticent.service.durability.erasure import erase
from reticent.service.durability.export import choose_version
from reticent.service.http import schemas
from reticent.service.http.episodes import Served
from reticent.service.http.problems import documented
from reticent.service.http.security import BEARER
from reticent.service.rounds import public_views
from reticent.service.store import records

router = APIRouter(prefix="/v1", tags=["operation"])
ADMIN = [Depends(BEARER)]


@router.get("/health/live", responses=documented())
async def live() -> schemas.Live:
    """Whether the process answers; needs no key, and asks no other process."""
    return schemas.Live()


@router.get("/health", responses=documented())
@router.get("/health/ready", responses=documented())
async def ready(request: Request) -> schemas.Health:
    """Whether users can be served and learned from; needs no key, and answers within two seconds.

    A store that cannot be written or does not answer, sums that do not open and rounds that cannot be ended are a 503. A
    deployment that has stopped learning serves its policy on: it is degraded, and says so.
    """
    found = await request.app.state.readiness.ask()
    status: Literal["ok", "degraded"] = "degraded" if found.problems else "ok"
    return schemas.Health(status=status, version=found.version, problems=found.problems)


@router.get("/admin/status", dependencies=ADMIN, responses=documented(403))
def admin_status(request: Request, deployment: Served) -> schemas.AdminStatus:
    """The status, with numbers that must not be published."""
    with deployment.store.read() as tx:
        waiting, sealed = records.open_episodes(tx), records.sealed_rounds(tx)
    public = public_views.status(deployment, request.app.state.settings.world)
    return schemas.AdminStatus(**public, open_episodes=waiting, sealed_rounds_waiting=sealed)


@router.post("/admin/expire", dependencies=ADMIN, responses=documented(403))
def expire(deployment: Served) -> schemas.Expired:
    """Wait no longer for overdue episodes."""
    return schemas.Expired(expired=deployment.expire())


@router.post("/admin/fallback", dependencies=ADMIN, responses=documented(403, 404, 409))
def fallback(body: schemas.Fallback, deployment: Served) -> schemas.Served:
    """Serve users a published version other than the newest, or the newest again. Public, and no matter of privacy."""
    return schemas.Served(served_version=choose_version(deployment.store, body.version))


@router.post("/admin/erase", dependencies=ADMIN, responses=documented(403))
def erase_user(body: schemas.Erase, deployment: Served) -> schemas.Erased:
    """Erase a user at their request, and never learn from them again. A user who never came gets the same answer, with no
    episodes; it may be repeated."""
    done = erase(deployment.store, deployment.secrets, deployment.rollback_guard, body.user)
    return schemas.Erased.model_validate(dataclasses.asdict(done))


@router.post("/admin/finish", dependencies=ADMIN, responses=documented(403, 409))
def finish(request: Request, deployment: Served) -> schemas.Status:
    """End the last round. To keep the promise, the time must not depend on which reports have come."""
    deployment.finish()
    deployment.advance()
    return schemas.Status(**public_views.status(deployment, request.app.state.settings.world))
