# SPDX-License-Identifier: Apache-2.0
"""What commands on a deployment's store have in common: settings, store and secrets of a configuration file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reticent.service.config import Settings
    from reticent.service.secrets import Secrets
    from reticent.service.store.engine import Store


def chosen(config: Path, dev: bool, command: str) -> Settings:
    """The settings of a file, as ``command`` was told.

    Raises:
      MissingExtra: what the service needs is not installed.
    """
    import warnings

    from reticent.extras import missing_extra

    try:
        import sqlalchemy  # noqa: F401

        from reticent.service.config import DevelopmentSecrets, read_settings
    except ModuleNotFoundError as missing:
        raise missing_extra(missing, command) or missing from None
    warnings.simplefilter("ignore", DevelopmentSecrets)
    settings = read_settings(config)
    return settings.for_development() if dev else settings


@contextlib.contextmanager
def opened_store(config: Path, dev: bool, command: str) -> Iterator[tuple[Settings, Store, Secrets]]:
    """The store that a file names, closed afterwards. Neither the model nor JAX is needed for it."""
    settings = chosen(config, dev, command)
    from reticent.service.secrets import Secrets
    from reticent.service.store.engine import Store

    secrets = Secrets(settings.secret("user_secret"))
    store = Store(settings.database)
    try:
        yield settings, store, secrets
    finally:
        store.close()
