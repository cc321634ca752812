# SPDX-License-Identifier: Apache-2.0
"""Optional packages: which of this library's extras brings each, and the one sentence that says so where it is missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from reticent.errors import MissingExtra

EXTRAS = {
    "matplotlib": "plots",
    "gymnasium": "gym",
    "polars": "people",
    "opendp": "secure",
    "ray": "ray",
    "icu_sepsis": "icu",
    "cryptography": "service",
    "fastapi": "service",
    "prometheus_client": "service",
    "psycopg": "service",
    "pydantic": "service",
    "sqlalchemy": "service",
    "uvicorn": "service",
    "opentelemetry": "telemetry",
}
"""By importable name, the extra that brings an optional package: ``pip install 'reticent[EXTRA]'``."""


def require(package: str, what: str) -> ModuleType:
    """Import an optional package; ``what`` is about to use it.

    Raises:
      MissingExtra: it is not installed; the message names it, and what to install.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as missing:
        raise missing_extra(missing, what) or missing from None


def missing_extra(missing: ModuleNotFoundError, what: str) -> MissingExtra | None:
    """The error that a user gets for an import that failed; None if the package is in no extra.

    >>> str(missing_extra(ModuleNotFoundError(name="matplotlib.axes"), "a picture"))
    "a picture needs the package matplotlib, which is not installed; run pip install 'reticent[plots]'"
    """
    package = (missing.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    return None if extra is None else MissingExtra(what, package.replace("_", "-"), extra)
