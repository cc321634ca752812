"""The web application: a deployment behind its routes."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse

import reticent
from reticent.errors import InvalidInput
from reticent.privacy.noise import SecureNoise
from reticent.service.api import episodes, operation, problems, published
from reticent.service.api.guard import Guard
from reticent.service.api.quick import Quick
from reticent.service.config import DevelopmentSecrets, Settings, read_settings
from reticent.service.deployment import Deployment
from reticent.service.enrolment import Enrolment
from reticent.service.gathering import take_short_turns
from reticent.service.keys import Keys
from reticent.service.limits import largest_request
from reticent.service.mechanism import Mechanism, make_mechanism
from reticent.service.models import deployment_model
from reticent.service.secrets import Secrets
from reticent.service.sockets import LIMITS, Limits
from reticent.service.storage.engine import Store
from reticent.service.upkeep import Upkeep
from reticent.service.witness import Witness

CONFIG = "RETICENT_WORKER"
"""Where workers find what the command was told: the configuration file, and the options that change it."""


def make_promise(settings: Settings) -> Mechanism:
    """What the settings promise, and the keys checked; no store is touched.

    Raises:
      InvalidInput: a setting is outside its domain, or a secret is missing.
    """
    Keys(settings)
    return _mechanism(settings)


def _mechanism(settings: Settings) -> Mechanism:
    return make_mechanism(
        settings.agent, deployment_model(settings), settings.episodes, SecureNoise(),
        contributions=settings.contributions, pan_private=settings.pan_private,
    )  # fmt: skip


def make_deployment(settings: Settings, *, begin: bool = False) -> Deployment:
    """The deployment that the settings describe, in its store; ``begin`` it if the store is empty.

    Raises:
      InvalidInput: a setting is outside its domain, or the store is another deployment's; nothing was changed.
    """
    deployment = unopened_deployment(settings)
    deployment.set_up(begin=begin)
    return deployment


def unopened_deployment(settings: Settings) -> Deployment:
    """The deployment that the settings describe, before it has looked into its store."""
    secrets = Secrets(settings.secret("user_secret"))
    return Deployment(
        _mechanism(settings), Store(settings.database, settings.workers), secrets,
        inline=settings.planning == "inline",
        ticket_lifetime=settings.ticket_lifetime, finish_after=settings.finish_after,
        witness=Witness(settings.witness_file, secrets), canaries=settings.canaries,
    )  # fmt: skip


def create_app(settings: Settings, *, begin: bool = False) -> FastAPI:
    """The application for one deployment; errors of configuration come out here, before anybody is served.

    ``begin`` begins the deployment if its store is empty, which is otherwise refused.
    """
    keys = Keys(settings)
    enrolment = None if settings.enrolment_key is None else Enrolment(settings.enrolment_key)
    deployment = make_deployment(settings, begin=begin)
    upkeep = Upkeep(deployment)
    desk = episodes.Desk(deployment, enrolment, settings.gather_seconds)
    if deployment.mechanism.wire == "messages" and not keys.has("shuffler"):
        deployment.store.close()
        raise InvalidInput("RETICENT_SHUFFLER_KEY", "missing", "given in the shuffle model", "give the shuffler a key")
    body_limit = settings.body_limit or largest_request(deployment.mechanism)
    limits = Limits(body_bytes=body_limit, read_seconds=settings.read_seconds, connections=settings.connections)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        upkeep.start()
        yield {LIMITS: limits}
        desk.close()
        upkeep.stop()
        deployment.store.close()

    app = FastAPI(
        title="reticent", version=reticent.__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        openapi_url=None, description="Learns from every user, reveals none. See docs/service.md.",
    )  # fmt: skip
    app.state.keys, app.state.deployment, app.state.settings = keys, deployment, settings
    app.state.desk, app.state.upkeep = desk, upkeep
    for part in (episodes, published, operation):
        app.include_router(part.router)
    _include_dashboard(app)
    _describe(app)
    problems.install(app)
    app.add_middleware(Quick, desk=desk)
    app.add_middleware(
        Guard, keys=keys, hosts=(*settings.hosts, settings.host), open_reads=settings.open_reads,
        development=settings.development, body_limit=body_limit, rate_limit=settings.rate_limit,
    )  # fmt: skip
    return app


def chosen_settings(config: Path, *, host: str | None, port: int | None, development: bool) -> Settings:
    """The settings of a file with the command's options: what the command checks and its workers serve are the same."""
    given = {key: value for key, value in (("host", host), ("port", port)) if value is not None}
    settings = read_settings(config, changed=given)
    return settings.for_development() if development else settings


def tell_workers(config: Path, *, host: str | None, port: int | None, development: bool) -> None:
    """Leave what :func:`create_worker` needs in the environment, which workers inherit."""
    told = {"config": str(config.resolve()), "host": host, "port": port, "development": development}
    os.environ[CONFIG] = json.dumps(told)


def create_worker() -> FastAPI:
    """The application of one of several workers, by what :func:`tell_workers` left."""
    from reticent.runtime import enable_compilation_cache

    enable_compilation_cache()
    take_short_turns()
    warnings.simplefilter("ignore", DevelopmentSecrets)  # the command has said it
    told = json.loads(os.environ[CONFIG])
    return create_app(chosen_settings(Path(told.pop("config")), **told))


def _include_dashboard(app: FastAPI) -> None:
    """The page for people, where it is installed."""
    with contextlib.suppress(ModuleNotFoundError):
        app.include_router(importlib.import_module("reticent.service.dashboard.routes").router)


def _describe(app: FastAPI) -> None:
    """The OpenAPI document, for those who may read. There is no page for it: those load scripts from strangers."""

    @app.get("/openapi.json", include_in_schema=False)
    def document() -> JSONResponse:
        return JSONResponse(app.openapi())
