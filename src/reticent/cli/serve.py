"""``reticent serve``: the deployed agent as a web service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def serve(
    config: Annotated[Path, typer.Option(help="The deployment's YAML file; see docs/service.md.")],
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="as configured")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", show_default="as configured")] = None,
    check: Annotated[bool, typer.Option("--check", help="Check the configuration, say the promise, and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --check: the promise as one JSON object.")] = False,
) -> None:
    """Serve users over HTTP and learn from them, durably and under the promise of the configuration.

    Secrets come from the environment: RETICENT_APP_KEY, RETICENT_ADMIN_KEY, RETICENT_USER_SECRET. Needs
    pip install 'reticent[service]'.
    """
    import os
    import warnings

    from reticent.cli.output import note, print_json
    from reticent.extras import missing_extra

    try:
        import fastapi  # noqa: F401
        import sqlalchemy  # noqa: F401
        import uvicorn

        from reticent.service import app
        from reticent.service.config import DevelopmentSecrets, read_settings
    except ModuleNotFoundError as missing:
        raise missing_extra(missing, "reticent serve") or missing from None
    from reticent.runtime import enable_compilation_cache

    enable_compilation_cache()
    settings = read_settings(config)
    changed = {key: value for key, value in (("host", host), ("port", port)) if value is not None}
    settings = settings.model_copy(update=changed)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", DevelopmentSecrets)
        application = app.create_app(settings)  # what is wrong with the configuration is said here, once
    for warning in dict.fromkeys(str(one.message) for one in heard):
        note(warning)
    deployment = application.state.deployment
    note(deployment.mechanism.guarantee.sentence())
    if check:
        if as_json:
            print_json(deployment.mechanism.guarantee.to_dict())
        deployment.store.close()
        return
    note(f"serving on http://{settings.host}:{settings.port} with {settings.workers} worker(s)")
    # Access logs would tell who came back when, so there are none.
    common: dict[str, Any] = {
        "host": settings.host, "port": settings.port, "access_log": False, "server_header": False,
        "log_level": "warning", "timeout_graceful_shutdown": 5, "http": "reticent.service.sockets:PromptProtocol",
    }  # fmt: skip
    if settings.workers == 1:
        uvicorn.run(application, **common)
        return
    deployment.store.close()
    os.environ[app.CONFIG] = str(config.resolve())
    uvicorn.run("reticent.service.app:create_worker", factory=True, workers=settings.workers, **common)
