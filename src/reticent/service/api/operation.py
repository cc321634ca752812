"""For whoever runs the service: health, and the admin's routes."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request

from reticent.service import published
from reticent.service.api import schemas
from reticent.service.api.episodes import Served
from reticent.service.api.problems import documented
from reticent.service.api.security import BEARER
from reticent.service.storage import records

router = APIRouter(prefix="/v1", tags=["operation"])
ADMIN = [Depends(BEARER)]


@router.get("/health", responses=documented())
def health(deployment: Served) -> schemas.Health:
    """Whether the service and its store answer; needs no key."""
    return schemas.Health(version=int(deployment.clock()[0].served_version))


@router.get("/admin/status", dependencies=ADMIN, responses=documented(403))
def admin_status(request: Request, deployment: Served) -> schemas.AdminStatus:
    """The status, with numbers that must not be published."""
    with deployment.store.read() as tx:
        waiting, sealed = records.open_episodes(tx), records.sealed_rounds(tx)
    public = published.status(deployment, request.app.state.settings.world)
    return schemas.AdminStatus(**public, open_episodes=waiting, sealed_rounds_waiting=sealed)


@router.post("/admin/expire", dependencies=ADMIN, responses=documented(403))
def expire(deployment: Served) -> schemas.Expired:
    """Wait no longer for overdue episodes."""
    return schemas.Expired(expired=deployment.expire())


@router.post("/admin/finish", dependencies=ADMIN, responses=documented(403, 409))
def finish(request: Request, deployment: Served) -> schemas.Status:
    """End the last round. To keep the promise, the time must not depend on which reports have come."""
    deployment.finish()
    deployment.advance()
    return schemas.Status(**published.status(deployment, request.app.state.settings.world))
