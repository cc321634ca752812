# SPDX-License-Identifier: Apache-2.0
"""``reticent init``: begin a deployment in an empty store."""

from __future__ import annotations

from reticent.cli.options import Config, Dev, Json


def init(
    config: Config,
    dev: Dev = False,
    as_json: Json = False,
) -> None:
    """Begin a deployment: make its store, its rollback guard and the first entry of its public ledger.

    Once per deployment and never for users who were promised something by another one: a second beginning is a second
    budget. What is there already is refused. Serving refuses an empty store.
    """
    import warnings

    from reticent.cli.output import note, print_json
    from reticent.errors import InvalidInput, MissingExtra

    try:
        from reticent.service.config import DevelopmentSecrets
        from reticent.service.http import app
    except ModuleNotFoundError as missing:
        raise MissingExtra("reticent init", str(missing.name), "service") from None
    warnings.simplefilter("ignore", DevelopmentSecrets)
    settings = app.chosen_settings(config, host=None, port=None, development=dev)
    if settings.rollback_guard_file.exists():
        raise InvalidInput(
            "rollback_guard",
            settings.rollback_guard_file,
            "no file yet",
            "this deployment was begun; serve it, or name other files",
        )
    deployment = app.make_deployment(settings, begin=True)
    deployment.store.close()
    guarantee = deployment.mechanism.guarantee
    if as_json:
        print_json(
            {
                "deployment": deployment.identity,
                "rollback_guard": str(settings.rollback_guard_file),
                "public_key": deployment.secrets.public_key,
                "promise": guarantee.to_dict(),
            }
        )
        return
    note(guarantee.sentence())
    print(f"deployment      {deployment.identity}\nrollback guard  {settings.rollback_guard_file}")
    print(f"public key      {deployment.secrets.public_key}")
    print(f"next            reticent serve --config {config}{' --dev' if dev else ''}")
