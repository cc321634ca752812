# SPDX-License-Identifier: Apache-2.0
"""``reticent serve``: the deployed agent as a web service."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from reticent.cli.options import Config, Dev


def serve(
    config: Config,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="as configured")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", show_default="as configured")] = None,
    dev: Dev = False,
    init: Annotated[
        bool, typer.Option("--init", help="Begin the deployment if its store is empty; for demonstrations.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Check the configuration, say the promise, and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --check: the promise as one JSON object.")] = False,
) -> None:
    """Serve users over HTTP and learn from them, durably and under the promise of the configuration.

    Secrets come from the environment: RETICENT_APP_KEY, RETICENT_ADMIN_KEY, RETICENT_USER_SECRET, and for further roles
    RETICENT_READER_KEY and RETICENT_SHUFFLER_KEY; or from files, which RETICENT_APP_KEY_FILE and so on name. Needs pip
    install 'reticent[service]'.
    """
    import warnings

    from reticent.cli.output import note, print_json
    from reticent.extras import missing_extra

    try:
        import fastapi  # noqa: F401
        import sqlalchemy  # noqa: F401
        import uvicorn

        from reticent.service.config import DevelopmentSecrets
        from reticent.service.http import app
        from reticent.service.http.sockets import require_free
        from reticent.service.processes.interpreter import prepare_to_serve
        from reticent.service.processes.logs import configuration
        from reticent.service.processes.planner import Planner
    except ModuleNotFoundError as missing:
        raise missing_extra(missing, "reticent serve") or missing from None
    settings = app.chosen_settings(config, host=host, port=port, development=dev)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", DevelopmentSecrets)
        app.check_keys(settings)
        if not check:
            settings.secret("user_secret")
    told = [one.message for one in heard if isinstance(one.message, DevelopmentSecrets)]
    unset = list(dict.fromkeys(one.variable for one in told))
    if unset:
        note(f"not set, so well-known ones are used: {', '.join(unset)}")
    warnings.simplefilter("ignore", DevelopmentSecrets)
    # Access logs would tell who came back when, so there are none.
    common: dict[str, Any] = {
        "host": settings.host,
        "port": settings.port,
        "access_log": False,
        "server_header": False,
        "log_config": configuration(settings.logs),
        "timeout_graceful_shutdown": 5,
        "http": "reticent.service.http.sockets:PromptProtocol",
        "ws": "none",
        "proxy_headers": bool(settings.trusted_proxies),
        "forwarded_allow_ips": list(settings.trusted_proxies),
    }
    if not check:
        require_free(settings.host, settings.port)
    address = f"http://{settings.host}:{settings.port}"
    where, dashboard = f"serving on {address} with {settings.workers} worker(s)", f"dashboard: {address}/dashboard"
    if not check and settings.workers > 1:
        # What is wrong with the configuration is said by the planner, once, before there are workers.
        with Planner(settings, begin=init) as planner:
            note(planner.sentence)
            note(f"{where} and a planner")
            note(dashboard)
            note("compiling the first plans; /v1/health/ready answers 200 when they are there")
            app.tell_workers(config, planner.home, host=host, port=port, development=dev)
            uvicorn.run(
                "reticent.service.processes.worker:create_worker", factory=True, workers=settings.workers, **common
            )
        return
    from reticent.runtime import enable_compilation_cache

    enable_compilation_cache()
    application = None if check else app.create_app(settings, begin=init, warmed=lambda: note("ready"))
    mechanism = app.make_promise(settings) if application is None else application.state.deployment.mechanism
    note(mechanism.guarantee.sentence())
    if application is None:
        if as_json:
            print_json(mechanism.guarantee.to_dict())
        return
    note(where)
    note(dashboard)
    if dev:
        model = "" if settings.model_file is None else f" --model {settings.model_file}"
        note(f"next, in another terminal: reticent users --url {address}{model}")
    if settings.planning == "background":
        note("compiling the first plans; /v1/health/ready answers 200 when they are there")
    prepare_to_serve()
    uvicorn.run(application, **common)
