# SPDX-License-Identifier: Apache-2.0
"""Published numbers: billboards, model, status, ledger, metrics, and a stream of changes.

Caches on the way may keep a plan for ever, but ask each time whether the model is still the same one: it says how much
noise a device adds. If a new deployment came to the address of an old one, devices with the old one's model would keep the
old one's promise. A tag is a digest of the content, so that no other content has it.
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from reticent.service.http import schemas
from reticent.service.http.episodes import Served
from reticent.service.http.guard import CALLER
from reticent.service.http.problems import documented
from reticent.service.http.security import BEARER
from reticent.service.http.sockets import ABORT, STREAMING
from reticent.service.rounds import public_views
from reticent.service.rounds.frontend import Frontend
from reticent.service.store import records

router = APIRouter(tags=["published"], dependencies=[Depends(BEARER)])
FOREVER, ASKED = "public, max-age=31536000, immutable", "no-cache"
Known = Annotated[str | None, Header(alias="If-None-Match")]


@functools.lru_cache(maxsize=16)
def _billboard(deployment: Frontend, version: int) -> bytes:
    final = version >= deployment.releases
    return json.dumps(
        deployment.billboard(version).to_json(final=final, model=deployment.configuration.model_digest)
    ).encode()


@functools.lru_cache(maxsize=2)
def _model(deployment: Frontend) -> bytes:
    return json.dumps(public_views.model(deployment)).encode()


def _cached(content: bytes, control: str, known: str | None) -> Response:
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": control}
    if known is not None and tag in known:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="application/json", headers=headers)


@router.get("/v1/billboard", response_model=schemas.Billboard, responses=documented())
def newest(deployment: Served, known: Known = None) -> Response:
    """The plan that users who come now are served: the newest published one, unless an operator chose an earlier one."""
    version = records.version_to_serve(deployment.clock()[0])
    return _cached(_billboard(deployment, version), ASKED, known)


@router.get("/v1/billboards/{version}", response_model=schemas.Billboard, responses=documented(404))
def of_version(
    version: Annotated[int, Path(ge=0, le=schemas.INDEX)], deployment: Served, known: Known = None
) -> Response:
    """One published plan; it never changes."""
    return _cached(_billboard(deployment, version), FOREVER, known)


@router.get("/v1/model", responses=documented())
def model(deployment: Served, known: Known = None) -> Response:
    """The known features, and how a device forms its report."""
    return _cached(_model(deployment), ASKED, known)


@router.get("/v1/names", responses=documented())
def names(deployment: Served, response: Response) -> schemas.ModelNames:
    """What the model's states and actions are called."""
    response.headers["Cache-Control"] = ASKED
    return schemas.ModelNames(**public_views.names(deployment))


@router.get("/v1/round", responses=documented())
def open_round(deployment: Served, response: Response) -> schemas.OpenRound:
    """The round that takes reports now, and what they are formed under; a device asks just before it forms its own."""
    response.headers["Cache-Control"] = "no-store"
    number, reference = deployment.open_round()
    return schemas.OpenRound(round=number, reference=reference)


@router.get("/v1/status", responses=documented())
def status(request: Request, deployment: Served) -> schemas.Status:
    """Where the deployment stands."""
    return schemas.Status(**public_views.status(deployment, request.app.state.settings.world))


@router.get("/v1/ledger", responses=documented())
def ledger(
    deployment: Served,
    after: Annotated[int, Query(ge=0, le=schemas.INDEX)] = 0,
    limit: Annotated[int, Query(ge=1, le=public_views.PAGE)] = public_views.PAGE,
) -> schemas.Ledger:
    """What was released when, and what it has cost each user: the planned releases after round ``after``."""
    return schemas.Ledger(**public_views.ledger(deployment, after, limit))


@router.get("/v1/transparency", responses=documented())
def transparency(
    deployment: Served,
    after: Annotated[int, Query(ge=0, le=schemas.INDEX)] = 0,
    limit: Annotated[int, Query(ge=1, le=public_views.PAGE)] = public_views.PAGE,
) -> schemas.Transparency:
    """The signed chain of everything published, for anyone to check; needs no key."""
    return schemas.Transparency(**public_views.transparency(deployment, after, limit))


@router.get("/metrics", responses=documented())
def metrics(deployment: Served) -> Response:
    """For Prometheus: public numbers only."""
    return Response(public_views.metrics(deployment), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/v1/events", responses=documented(), include_in_schema=False)
async def events(request: Request) -> StreamingResponse:
    """A stream of server-sent events: ``status`` when it changes, ``release`` for every new one."""
    kept = request.scope["state"]
    kept[STREAMING] = True
    stream = request.app.state.streams.follow(request.scope[CALLER], kept.get(ABORT, lambda: None))
    return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
