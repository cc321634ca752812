"""What a deployment is told: one YAML file, and secrets from the environment.

Secrets never come from the file: it ends up in repositories. On a loopback address well-known development secrets stand
in for missing ones, with a warning; anywhere else the service refuses to start without proper ones.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from reticent.errors import InvalidInput

ENVIRONMENT = {
    "app_key": ("RETICENT_APP_KEY", "dev-app-key"),
    "admin_key": ("RETICENT_ADMIN_KEY", "dev-admin-key"),
    "user_secret": ("RETICENT_USER_SECRET", "dev-user-secret"),
}
"""Where each secret comes from, and what stands in for it on a loopback address."""

SECRET_LENGTH = 32
"""Least length of a secret away from loopback."""

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class DevelopmentSecrets(UserWarning):
    """The service runs with well-known secrets, on a loopback address."""


class Settings(BaseModel):
    """Every setting of a deployment; only ``world`` or ``model_file`` has to be given.

    Attributes:
      world: a world of the zoo, of which only the model is used; or
      model_file: an ``.npz`` file with the model's arrays (:mod:`reticent.service.models`).
      agent: a private agent with its options, by name.
      episodes: K, the number of users that are learned from.
      contributions: g, how often one user may contribute; the promise is per user, so the noise grows with it.
      pan_private: open sums start with noise of their own, so that a look at the sums in the store is covered too.
      database: SQLAlchemy URL: SQLite (one process) or PostgreSQL.
      planning: whether the admission that ends a round waits for the new plan (``inline``) or not (``background``).
      ticket_lifetime: seconds until an open episode expires.
      finish_after: seconds from the K-th admission to the end of the last round.
      body_limit: largest request body in bytes. rate_limit: requests per second and key in one worker; 0 turns it off.
      public_reads: whether published numbers may be read without a key; by default on loopback addresses only.
      app_key_sha256, admin_key_sha256: hashes of further accepted keys.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    world: str | None = None
    model_file: Path | None = None
    agent: str = "private-score-vi"
    episodes: Annotated[int, Field(ge=1, le=10**9)] = 10_000
    contributions: Annotated[int, Field(ge=1, le=1000)] = 1
    pan_private: bool = False
    database: str = "sqlite:///reticent.db"
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8400
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    planning: Literal["background", "inline"] = "background"
    ticket_lifetime: Annotated[float, Field(gt=0, le=1e9)] = 86_400.0
    finish_after: Annotated[float, Field(ge=0, le=1e9)] = 604_800.0
    body_limit: Annotated[int, Field(ge=1024)] = 1 << 20
    rate_limit: Annotated[float, Field(ge=0)] = 1000.0
    public_reads: bool | None = None
    app_key_sha256: tuple[Digest, ...] = ()
    admin_key_sha256: tuple[Digest, ...] = ()

    _secrets: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if (self.world is None) == (self.model_file is None):
            raise InvalidInput("world and model_file", "both or neither", "exactly one of the two", "name the model")
        if self.workers > 1 and not self.database.startswith("postgresql"):
            raise InvalidInput("workers", self.workers, "1 with SQLite", "use a PostgreSQL URL for several workers")
        if self.workers > 1 and self.planning == "inline":
            raise InvalidInput("planning", "inline", "background with several workers", "drop the setting")
        return self

    @property
    def loopback(self) -> bool:
        """Whether the address can be reached from this machine only."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def open_reads(self) -> bool:
        """Whether published numbers may be read without a key."""
        return self.loopback if self.public_reads is None else self.public_reads

    def secret(self, name: str) -> str:
        """A secret of the environment, or its development stand-in.

        Raises:
          InvalidInput: there is no proper one, and the address is not a loopback address.
        """
        variable, stand_in = ENVIRONMENT[name]
        given = self._secrets.get(name) or os.environ.get(variable)
        if self.loopback:
            if not given:
                warnings.warn(f"{variable} is not set: a well-known one is used", DevelopmentSecrets, stacklevel=2)
            return given or stand_in
        if not given or given == stand_in or len(given) < SECRET_LENGTH:
            raise InvalidInput(
                variable, "missing or weak", f"at least {SECRET_LENGTH} characters on the address {self.host}",
                f"set it to what `openssl rand -hex {SECRET_LENGTH}` prints",
            )  # fmt: skip
        return given

    def with_secrets(self, **secrets: str) -> Settings:
        """The same settings with these secrets instead of the environment's, for tests and embedding."""
        changed = self.model_copy()
        changed._secrets = {**self._secrets, **secrets}
        return changed

    def key_hashes(self, kind: Literal["app", "admin"]) -> tuple[str, ...]:
        """SHA-256 of every accepted key of a kind. Keys are long random strings, so a slow hash would add nothing."""
        further = self.app_key_sha256 if kind == "app" else self.admin_key_sha256
        return (hashlib.sha256(self.secret(f"{kind}_key").encode()).hexdigest(), *further)


def read_settings(path: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a YAML file; ``RETICENT_DATABASE`` overrides its database, which may carry a password.

    Raises:
      InvalidInput: the file is missing, is not YAML, or a setting is outside its domain.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as problem:
        raise InvalidInput("--config", path, "a readable YAML file", str(problem).partition("\n")[0]) from None
    if not isinstance(content, dict):
        raise InvalidInput("--config", path, "a YAML mapping", "write lines of the form key: value")
    if environment.get("RETICENT_DATABASE"):
        content["database"] = environment["RETICENT_DATABASE"]
    return make_settings(content)


def make_settings(content: dict[str, Any]) -> Settings:
    """Settings from plain values, with this library's errors."""
    try:
        return Settings(**content)
    except ValidationError as problem:
        first = problem.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "settings"
        raise InvalidInput(field, first.get("input"), first["msg"], "see docs/service.md") from None
