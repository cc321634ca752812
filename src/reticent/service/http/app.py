# SPDX-License-Identifier: Apache-2.0
"""The web application: a deployment behind its routes."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import APIRouter, FastAPI
from fastapi.responses import JSONResponse
from fastapi.telemetry import TelemetryConfig

import reticent
from reticent.errors import InvalidInput
from reticent.service.config import Settings, read_settings
from reticent.service.durability.rollback_guard import RollbackGuard
from reticent.service.http import episodes, groups, operation, problems, public_routes
from reticent.service.http.event_streams import EventStreams
from reticent.service.http.fast_path import FastPath
from reticent.service.http.guard import Guard
from reticent.service.http.limits import largest_group, largest_request
from reticent.service.http.readiness import Background, Readiness
from reticent.service.http.sockets import LIMITS, Limits
from reticent.service.keys import Keys
from reticent.service.processes.scheduler import Scheduler
from reticent.service.processes.telemetry import Traced, otlp_tracing
from reticent.service.public_configuration import PublicConfiguration
from reticent.service.rounds.context import Context
from reticent.service.rounds.enrolment import Enrolment
from reticent.service.rounds.frontend import Frontend
from reticent.service.secrets import Secrets
from reticent.service.store.engine import Store
from reticent.service.waiting_times import waiting_times

if TYPE_CHECKING:  # imported where they are made: workers do without the agent, and without JAX
    from reticent.service.mechanism import Mechanism
    from reticent.service.rounds.deployment import Deployment

C = TypeVar("C", bound=PublicConfiguration)

CONFIG = "RETICENT_WORKER"
"""Where workers find what the command was told: the configuration file, and the options that change it."""


SILENT: TelemetryConfig = {
    "tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False,
}  # fmt: skip
"""The framework's own telemetry, which would send ids of episodes, what is wrong with a body and messages of exceptions to
whatever an operator's environment names. What may be sent is in :mod:`reticent.service.processes.telemetry`."""


def make_promise(settings: Settings) -> Mechanism:
    """What the settings promise, and the keys checked; no store is touched.

    Raises:
      InvalidInput: a setting is outside its domain, or a secret is missing.
    """
    check_keys(settings)
    return _mechanism(settings)


def check_keys(settings: Settings) -> None:
    """Raise if keys cannot be used.

    Raises:
      InvalidInput: one is missing, weak or no key.
    """
    Keys(settings)
    if settings.enrolment_key is not None:
        Enrolment(settings.enrolment_key)


def require_shuffler(settings: Settings, configuration: PublicConfiguration) -> None:
    """Raise if the shuffle model has no key that may post batches.

    Raises:
      InvalidInput: it has none.
    """
    if configuration.wire == "messages" and not Keys(settings).has("shuffler"):
        raise InvalidInput("RETICENT_SHUFFLER_KEY", "missing", "given in the shuffle model", "give the shuffler a key")


def _mechanism(settings: Settings) -> Mechanism:
    from reticent.privacy.noise import SecureNoise
    from reticent.service.mechanism import make_mechanism
    from reticent.service.models import deployment_model

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
    with closed_if_refused(deployment):
        deployment.set_up(begin=begin)
    return deployment


@contextlib.contextmanager
def closed_if_refused(deployment: Frontend) -> Iterator[None]:
    """Close the store of a deployment that is not served after all: no one else would."""
    try:
        yield
    except BaseException:
        deployment.store.close()
        raise


def unopened_deployment(settings: Settings) -> Deployment:
    """The deployment that the settings describe, before it has looked into its store."""
    from reticent.service.rounds.deployment import Deployment

    return Deployment(make_context(_mechanism(settings), settings))


def make_context(configuration: C, settings: Settings) -> Context[C]:
    """The context of a deployment with this configuration and these settings; nothing has looked into its store.

    Raises:
      InvalidInput: a setting does not fit the agent; nothing was begun.
    """
    visits = configuration.published.rules.visits
    lifetime, finish_after = waiting_times(visits, settings.ticket_lifetime, settings.finish_after)
    secrets = Secrets(settings.secret("user_secret"))
    return Context(
        configuration, Store(settings.database, settings.processes), secrets, inline=settings.planning == "inline",
        ticket_lifetime=lifetime, finish_after=finish_after,
        rollback_guard=RollbackGuard(settings.rollback_guard_file, secrets), canaries=settings.canaries,
        shadow=settings.shadow, control=None if settings.control is None else settings.control.control,
    )  # fmt: skip


def create_app(settings: Settings, *, begin: bool = False, warmed: Callable[[], None] = lambda: None) -> FastAPI:
    """The application for one deployment; errors of configuration come out here, before a user is served.

    This one process does everything. ``begin`` begins the deployment if its store is empty, which is otherwise refused.
    ``warmed`` is called when the first plans are compiled.
    """
    check_keys(settings)
    deployment = make_deployment(settings, begin=begin)
    with closed_if_refused(deployment):
        require_shuffler(settings, deployment.configuration)
        return application(settings, deployment, Scheduler(deployment, warmed=warmed))


def application(settings: Settings, deployment: Frontend, scheduler: Background) -> FastAPI:
    """The routes of a deployment, and what goes on beside them."""
    keys = Keys(settings)
    enrolment = None if settings.enrolment_key is None else Enrolment(settings.enrolment_key)
    handlers = episodes.RequestHandlers(deployment, enrolment, settings.gather_seconds)
    tracing = otlp_tracing() if settings.telemetry == "otlp" else None
    body_limit = settings.body_limit or largest_request(deployment.configuration)
    group_limit = largest_group(body_limit)
    limits = Limits(body_bytes=group_limit, read_seconds=settings.read_seconds, connections=settings.connections)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        scheduler.start()
        yield {LIMITS: limits}
        handlers.close()
        scheduler.stop()
        deployment.store.close()
        if tracing is not None:
            tracing.shutdown()

    app = FastAPI(
        title="reticent", version=reticent.__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        openapi_url=None, description="Learns from every user, reveals none. See docs/service.md.", telemetry=SILENT,
    )  # fmt: skip
    app.state.keys, app.state.deployment, app.state.settings = keys, deployment, settings
    app.state.handlers, app.state.scheduler, app.state.tracing = handlers, scheduler, tracing
    app.state.readiness = Readiness(deployment, scheduler, keys)
    app.state.streams = EventStreams(deployment, settings.world, settings.connections)
    routers = [episodes.router, groups.router, public_routes.router, operation.router, *_dashboard()]
    for router in routers:
        app.include_router(router)
    _describe(app)
    problems.install(app)
    app.add_middleware(FastPath, handlers=handlers, routers=routers)
    app.add_middleware(
        Guard, keys=keys, hosts=(*settings.hosts, settings.host), open_reads=settings.open_reads,
        development=settings.development, body_limit=body_limit, group_limit=group_limit, rate_limit=settings.rate_limit,
    )  # fmt: skip
    if tracing is not None:
        templates = [*app.routes, *(route for router in routers for route in router.routes)]
        app.add_middleware(Traced, provider=tracing, routes=templates)
    return app


def chosen_settings(config: Path, *, host: str | None, port: int | None, development: bool) -> Settings:
    """The settings of a file with the command's options: what the command checks and its workers serve are the same."""
    given = {key: value for key, value in (("host", host), ("port", port)) if value is not None}
    settings = read_settings(config, changed=given)
    return settings.for_development() if development else settings


def tell_workers(config: Path, home: Path, *, host: str | None, port: int | None, development: bool) -> None:
    """Leave what a worker needs in the environment, which workers inherit: the file, the options that change it, and the
    private directory of the planner."""
    told = {"config": str(config.resolve()), "home": str(home), "host": host, "port": port, "development": development}
    os.environ[CONFIG] = json.dumps(told)


def _dashboard() -> list[APIRouter]:
    """The page for people, where it is installed."""
    with contextlib.suppress(ModuleNotFoundError):
        return [importlib.import_module("reticent.service.http.dashboard.routes").router]
    return []


def _describe(app: FastAPI) -> None:
    """The OpenAPI document, for those who may read. There is no page for it: those load scripts from strangers."""

    @app.get("/openapi.json", include_in_schema=False)
    def document() -> JSONResponse:
        return JSONResponse(app.openapi())
