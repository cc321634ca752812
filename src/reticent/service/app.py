"""The web application: a deployment behind its routes."""

from __future__ import annotations

import contextlib
import importlib
import os
import warnings
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import Depends, FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse

import reticent
from reticent.privacy.noise import SecureNoise
from reticent.service.api import episodes, operation, problems, published
from reticent.service.api.guard import Guard
from reticent.service.api.security import Keys, require_reader
from reticent.service.config import DevelopmentSecrets, Settings, read_settings
from reticent.service.deployment import Deployment
from reticent.service.mechanism import make_mechanism
from reticent.service.models import deployment_model
from reticent.service.secrets import Secrets
from reticent.service.storage.engine import Store
from reticent.service.upkeep import Upkeep

CONFIG = "RETICENT_CONFIG"
"""Where workers find their configuration file."""


def make_deployment(settings: Settings) -> Deployment:
    """The deployment that the settings describe, set up in its store.

    Raises:
      InvalidInput: a setting is outside its domain, or the store is another deployment's; nothing was changed.
    """
    secrets = Secrets(settings.secret("user_secret"))
    mechanism = make_mechanism(
        settings.agent, deployment_model(settings), settings.episodes, SecureNoise(),
        contributions=settings.contributions, pan_private=settings.pan_private,
    )  # fmt: skip
    deployment = Deployment(
        mechanism, Store(settings.database), secrets,
        contributions=settings.contributions, inline=settings.planning == "inline",
        ticket_lifetime=settings.ticket_lifetime, finish_after=settings.finish_after,
    )  # fmt: skip
    deployment.set_up()
    return deployment


def create_app(settings: Settings) -> FastAPI:
    """The application for one deployment; errors of configuration come out here, before anybody is served."""
    keys = Keys(settings)
    deployment = make_deployment(settings)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        upkeep = Upkeep(deployment)
        upkeep.start()
        yield
        upkeep.stop()
        deployment.store.close()

    app = FastAPI(
        title="reticent", version=reticent.__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        openapi_url=None, description="Learns from every user, reveals none. See docs/service.md.",
    )  # fmt: skip
    app.state.keys, app.state.deployment, app.state.settings = keys, deployment, settings
    for part in (episodes, published, operation):
        app.include_router(part.router)
    _include_dashboard(app)
    _describe(app)
    problems.install(app)
    app.add_middleware(Guard, body_limit=settings.body_limit, rate_limit=settings.rate_limit)
    return app


def create_worker() -> FastAPI:
    """The application of one of several workers, by the configuration file that the environment names."""
    from reticent.runtime import enable_compilation_cache

    enable_compilation_cache()
    warnings.simplefilter("ignore", DevelopmentSecrets)  # the command has said it
    return create_app(read_settings(Path(os.environ[CONFIG])))


def _include_dashboard(app: FastAPI) -> None:
    """The page for people, where it is installed."""
    with contextlib.suppress(ModuleNotFoundError):
        app.include_router(importlib.import_module("reticent.service.dashboard.routes").router)


def _describe(app: FastAPI) -> None:
    """The OpenAPI document and its page, for those who may read."""
    reader = [Depends(require_reader)]

    @app.get("/openapi.json", include_in_schema=False, dependencies=reader)
    def document() -> JSONResponse:
        return JSONResponse(app.openapi())

    @app.get("/docs", include_in_schema=False, dependencies=reader)
    def page() -> HTMLResponse:
        return get_swagger_ui_html(openapi_url="/openapi.json", title="reticent")
