# SPDX-License-Identifier: Apache-2.0
"""What a deployment is told: one YAML file, and secrets from the environment.

Secrets never come from the file: it ends up in repositories. Each may be in a file of its own, which a variable with the
ending ``_FILE`` names. Well-known development secrets stand in for missing ones only where they were asked for
(``--dev``) on a loopback address, with a warning; otherwise the service refuses to start without proper ones. An address
alone proves nothing: a proxy on the same machine makes loopback the world's.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from reticent.errors import InvalidInput, unreadable_yaml
from reticent.learning.control import Control
from reticent.service.setting_errors import explained

Role = Literal["reader", "app", "shuffler", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)

ENVIRONMENT = {
    "reader_key": ("RETICENT_READER_KEY", "dev-reader-key"),
    "app_key": ("RETICENT_APP_KEY", "dev-app-key"),
    "shuffler_key": ("RETICENT_SHUFFLER_KEY", "dev-shuffler-key"),
    "admin_key": ("RETICENT_ADMIN_KEY", "dev-admin-key"),
    "user_secret": ("RETICENT_USER_SECRET", "dev-user-secret"),
}
"""Where each secret comes from, and what stands in for it with ``--dev``."""

OPTIONAL = ("reader_key", "shuffler_key")
"""Secrets that a deployment can do without: no caller has that role then."""

SECRET_LENGTH = 32
"""Least length of a secret, but with ``--dev``."""

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class DevelopmentSecrets(UserWarning):
    """The service runs with well-known secrets, on a loopback address and by request."""

    def __init__(self, variable: str) -> None:
        self.variable = variable
        super().__init__(f"{variable} is not set: a well-known one is used")


class ControlShare(BaseModel):
    """An A/B share: this ``share`` of every round's places is served this ``version``, 0, for ever."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    share: Annotated[float, Field(gt=0, lt=1)]
    version: int = Control.version

    @model_validator(mode="after")
    def _made_of_public_numbers(self) -> ControlShare:
        if self.version != Control.version:
            raise InvalidInput(
                "control.version", self.version, f"{Control.version}, the only one that there is from the first user on",
                "leave it out; `reticent deployments fallback` serves the others an earlier version",
            )  # fmt: skip
        return self

    @property
    def control(self) -> Control:
        return Control(self.share)


class Settings(BaseModel):
    """Every setting of a deployment; only ``world`` or ``model_file`` has to be given.

    Attributes:
      world: a world of the zoo, of which only the model is used; or
      model_file: an ``.npz`` file with the model's arrays (:mod:`reticent.service.models`).
      agent: a private agent with its options, by name.
      episodes: K, the number of users that are learned from.
      contributions: g, how often one user may contribute; the promise is per user, so the noise grows with it.
      canaries: canary rounds without data, released with each round, which show that noise is as large as promised
        (:mod:`reticent.service.rounds.canaries`).
      pan_private: open sums start with noise of their own, so that a look at the sums in the store is covered too.
      database: SQLAlchemy URL: SQLite (one process) or PostgreSQL.
      rollback_guard: a file outside the database that remembers what was released
        (:mod:`reticent.service.durability.rollback_guard`); with SQLite by default beside it, with PostgreSQL to be given.
        Files of older deployments call it ``witness``.
      shadow: whether all users act by version 0 while other plans are learned and published.
      control: which share of every round's places is served version 0 for ever; None is no A/B share.
      planning: whether the admission that ends a round waits for the new plan (``inline``) or not (``background``).
      gather_seconds: how long admissions and submissions that come together wait for more to share a transaction with.
      ticket_lifetime: seconds until an open episode expires; by default a day, and to be given where a stay has several
        visits (:mod:`reticent.service.waiting_times`).
      finish_after: seconds from the K-th admission to the end of the last round; by default a week, or the lifetime of
        stays if that is longer.
      body_limit: largest request body in bytes; by default as much as the model's largest request can need.
      rate_limit: requests per second in one worker, per key, and per address of callers without a valid one; 0: no limit.
      connections: open connections per worker; the longest idle or half-open one gives way to a new one.
      read_seconds: how long a request may take to arrive.
      hosts: names that the service is called by, for the ``Host`` check; IP addresses and localhost always are.
      trusted_proxies: addresses whose ``X-Forwarded-For`` is believed.
      public_reads: whether published numbers may be read without a key; by default in development only.
      reader_key_sha256, app_key_sha256, shuffler_key_sha256, admin_key_sha256: hashes of further accepted keys.
      keys_file: a YAML file of such lists by role, read again whenever it changes.
      enrolment_key: the Ed25519 public key (64 hex digits) of the app's backend, which vouches for every user.
      logs: lines for people, or JSON lines.
      telemetry: whether spans of requests are sent by OTLP (:mod:`reticent.service.processes.telemetry`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    world: str | None = None
    model_file: Path | None = None
    agent: str = "private-score-vi"
    episodes: Annotated[int, Field(ge=1, le=10**9)] = 10_000
    contributions: Annotated[int, Field(ge=1, le=1000)] = 1
    canaries: Annotated[int, Field(ge=0, le=1000)] = 0
    pan_private: bool = False
    shadow: bool = False
    control: ControlShare | None = None
    database: str = "sqlite:///reticent.db"
    rollback_guard: Path | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8400
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    planning: Literal["background", "inline"] = "background"
    gather_seconds: Annotated[float, Field(ge=0, le=1)] = 0.01
    ticket_lifetime: Annotated[float, Field(gt=0, le=1e9)] | None = None
    finish_after: Annotated[float, Field(ge=0, le=1e9)] | None = None
    body_limit: Annotated[int, Field(ge=1024)] | None = None
    rate_limit: Annotated[float, Field(ge=0)] = 1000.0
    connections: Annotated[int, Field(ge=1, le=10**6)] = 1000
    read_seconds: Annotated[float, Field(gt=0, le=3600)] = 10.0
    hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    public_reads: bool | None = None
    reader_key_sha256: tuple[Digest, ...] = ()
    app_key_sha256: tuple[Digest, ...] = ()
    shuffler_key_sha256: tuple[Digest, ...] = ()
    admin_key_sha256: tuple[Digest, ...] = ()
    keys_file: Path | None = None
    enrolment_key: Digest | None = None
    logs: Literal["plain", "json"] = "plain"
    telemetry: Literal["off", "otlp"] = "off"

    _secrets: dict[str, str] = PrivateAttr(default_factory=dict)
    _development: bool = PrivateAttr(default=False)

    @model_validator(mode="before")
    @classmethod
    def _former_names(cls, given: Any) -> Any:
        """Files of older deployments call the rollback guard ``witness``."""
        if isinstance(given, dict) and "witness" in given and given.get("rollback_guard") is None:
            given = {key: value for key, value in given.items() if key != "rollback_guard"}
            given["rollback_guard"] = given.pop("witness")
        return given

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if (self.world is None) == (self.model_file is None):
            raise InvalidInput("world and model_file", "both or neither", "exactly one of the two", "name the model")
        if self.workers > 1 and not self.database.startswith("postgresql"):
            raise InvalidInput("workers", self.workers, "1 with SQLite", "use a PostgreSQL URL for several workers")
        if self.workers > 1 and self.planning == "inline":
            raise InvalidInput("planning", "inline", "background with several workers", "drop the setting")
        if self.control is not None and self.shadow:
            raise InvalidInput(
                "control",
                "beside shadow",
                "one of the two: in shadow all users are served version 0",
                "drop one of them",
            )
        if self.control is not None:
            self.control.control.require_both_groups(self.episodes)
        return self

    @property
    def processes(self) -> int:
        """How many processes share the database: a single worker plans by itself, several have a planner beside them."""
        return self.workers if self.workers == 1 else self.workers + 1

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
    def rollback_guard_file(self) -> Path:
        """Where the rollback guard is.

        Raises:
          InvalidInput: it was not said, and does not follow from the database's.
        """
        if self.rollback_guard is not None:
            return self.rollback_guard
        if not self.database.startswith("sqlite:///"):
            raise InvalidInput(
                "rollback_guard", "missing", "a file with PostgreSQL", "name one that all workers can write"
            )
        return Path(f"{self.database.removeprefix('sqlite:///').partition('?')[0]}.witness")

    @property
    def development(self) -> bool:
        """Whether well-known secrets may stand in for missing ones."""
        return self._development

    def for_development(self) -> Settings:
        """The same settings with stand-ins for missing secrets, as ``--dev`` asks for.

        Raises:
          InvalidInput: the address can be reached from other machines.
        """
        if not self.loopback:
            raise InvalidInput(
                "host", self.host, "a loopback address with --dev", "leave --dev out and set the secrets"
            )
        changed = self.model_copy()
        changed._secrets, changed._development = dict(self._secrets), True
        return changed

    @property
    def open_reads(self) -> bool:
        """Whether published numbers may be read without a key."""
        return self.development if self.public_reads is None else self.public_reads

    def secret(self, name: str) -> str:
        """A secret of the environment, or its development stand-in.

        Raises:
          InvalidInput: there is no proper one, and stand-ins were not asked for.
        """
        found = self._found(name)
        if found is None:
            raise self._weak(name)
        return found

    def _found(self, name: str) -> str | None:
        """A secret, or None if it was not given at all."""
        variable, stand_in = ENVIRONMENT[name]
        given = self._secrets.get(name) or from_environment(variable)
        if self.development:
            if not given and name not in OPTIONAL:
                warnings.warn(DevelopmentSecrets(variable), stacklevel=3)
            return given or stand_in
        if given and not self._proper(name):
            raise self._weak(name)
        return given or None

    def _weak(self, name: str) -> InvalidInput:
        """The error for a secret, which names all others that are missing too: one attempt should do."""
        lacking = [
            other for other in ENVIRONMENT if other == name or (other not in OPTIONAL and not self._proper(other))
        ]
        variables = " and ".join(", ".join(ENVIRONMENT[other][0] for other in lacking).rsplit(", ", 1))
        return InvalidInput(
            variables if len(lacking) == 1 else f"each of {variables}",
            "missing or weak", f"at least {SECRET_LENGTH} characters, and not a well-known one",
            f"set {'it' if len(lacking) == 1 else 'each'} to what `openssl rand -hex {SECRET_LENGTH}` prints, "
            "or try things out with --dev",
        )  # fmt: skip

    def _proper(self, name: str) -> bool:
        """Whether a secret is given and long enough."""
        variable, stand_in = ENVIRONMENT[name]
        given = self._secrets.get(name) or from_environment(variable)
        return given is not None and given != stand_in and len(given) >= SECRET_LENGTH

    def with_secrets(self, **secrets: str) -> Settings:
        """The same settings with these secrets instead of the environment's, for tests and embedding."""
        changed = self.model_copy()
        changed._secrets, changed._development = {**self._secrets, **secrets}, self._development
        return changed

    def key_hashes(self, role: Role) -> tuple[str, ...]:
        """SHA-256 of every accepted key of a role. Keys are long random strings, so a slow hash would add nothing."""
        name = f"{role}_key"
        given = self._found(name) if name in OPTIONAL else self.secret(name)
        own = () if given is None else (hashlib.sha256(given.encode()).hexdigest(),)
        return (*own, *getattr(self, f"{role}_key_sha256"))


def from_environment(variable: str, environment: Mapping[str, str] | None = None) -> str | None:
    """A value of the environment, or the content of the file that ``<variable>_FILE`` names, as container secrets are.

    Raises:
      InvalidInput: both are set, or the file cannot be read.
    """
    environment = os.environ if environment is None else environment
    value, path = environment.get(variable), environment.get(f"{variable}_FILE")
    if value and path:
        raise InvalidInput(variable, f"set beside {variable}_FILE", "set once", "unset one of the two")
    if not path:
        return value
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise InvalidInput(f"{variable}_FILE", path, "a readable file", "check path and permissions") from None


def read_settings(
    path: Path,
    environment: Mapping[str, str] = os.environ,
    changed: Mapping[str, Any] | None = None,
    *,
    option: str = "--config",
) -> Settings:
    """The settings of a YAML file; ``RETICENT_DATABASE`` (or ``…_FILE``) overrides its database: it may carry a password.

    ``changed`` are settings that a command was told otherwise, ``option`` is the command's option that named the file.

    Raises:
      InvalidInput: the file is missing, is not YAML, or a setting is outside its domain.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as problem:
        raise unreadable_yaml(option, path, problem) from None
    if not isinstance(content, dict):
        raise InvalidInput(option, path, "a YAML mapping", "write lines of the form key: value")
    if database := from_environment("RETICENT_DATABASE", environment):
        content["database"] = database
    return make_settings({**content, **(changed or {})})


def make_settings(content: dict[str, Any]) -> Settings:
    """Settings from plain values.

    Raises:
      ReticentError: a setting is unknown, missing or outside its domain.
    """
    try:
        return Settings(**content)
    except ValidationError as problem:
        raise explained(problem, Settings, {"control": ControlShare}) from None
