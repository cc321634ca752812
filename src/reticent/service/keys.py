# SPDX-License-Identifier: Apache-2.0
"""Who holds which key: hashes by role, of the settings and of a file that is read again whenever it changes.

A role is what a key is good for and nothing more (:data:`reticent.service.http.security.ALLOWED`). One string may not be
the key of two roles, nor a key the deployment's secret: a holder of the lesser would have the greater.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from reticent.errors import InvalidInput
from reticent.service.config import ROLES, Role, Settings

LOG = logging.getLogger("reticent.service")
LOOK = 1.0
"""Seconds between looks at the file."""

Hashes = Mapping[Role, tuple[str, ...]]


class Keys:
    """The accepted keys of a service, as hashes.

    Raises:
      InvalidInput: a key is missing or weak, serves two roles, or the file cannot be read.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._fixed: dict[Role, tuple[str, ...]] = {role: settings.key_hashes(role) for role in ROLES}
        self._secret = hashlib.sha256(settings.secret("user_secret").encode()).hexdigest()
        self._file, self._clock = settings.keys_file, clock
        self._lock = threading.Lock()
        self._looked, self._seen = clock(), _mark(self._file)
        self._roles = self._read()
        self.current = True
        """Whether the file, if there is one, could be read when it last changed; the keys before stay valid if not."""

    def role_of(self, key: str) -> Role | None:
        """The role of a caller with this key, or None; takes as long whichever it is."""
        self._look()
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        found: Role | None = None
        for role, hashes in self._roles.items():
            for known in hashes:
                if hmac.compare_digest(digest, known):
                    found = role
        return found

    def has(self, role: Role) -> bool:
        """Whether any key has this role."""
        return bool(self._roles[role])

    def _look(self) -> None:
        """Read the file again if it has changed."""
        if self._file is None or self._clock() - self._looked < LOOK:
            return
        with self._lock:
            self._looked = self._clock()
            mark = _mark(self._file)
            if mark == self._seen:
                return
            self._seen = mark
            try:
                self._roles = self._read()
                self.current = True
                LOG.warning("keys were read again")
            except InvalidInput as problem:
                self.current = False
                LOG.error("the keys file is not used as it is now: %s", problem)

    def _read(self) -> Hashes:
        further = {} if self._file is None else read_keys(self._file)
        together = {role: (*self._fixed[role], *further.get(role, ())) for role in ROLES}
        require_distinct(together, self._secret)
        return together


def read_keys(path: Path) -> dict[Role, tuple[str, ...]]:
    """The hashes in a file of lists by role.

    Raises:
      InvalidInput: it is not such a file.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError, UnicodeDecodeError):
        raise InvalidInput("keys_file", path, "a readable YAML file", "write it whole, then move it in place") from None
    found: dict[Role, tuple[str, ...]] = {}
    if not isinstance(content, dict) or not set(content) <= set(ROLES):
        raise InvalidInput("keys_file", path, f"lists by role: {', '.join(ROLES)}", "see docs/service.md")
    for role in ROLES:
        hashes = content.get(role) or []
        if not isinstance(hashes, list) or not all(re.fullmatch("[0-9a-f]{64}", str(one)) for one in hashes):
            raise InvalidInput(
                f"keys_file: {role}", "something else", "a list of SHA-256 digests", "printf %s KEY | sha256sum"
            )
        found[role] = tuple(str(one) for one in hashes)
    return found


def require_distinct(roles: Hashes, secret: str) -> None:
    """Refuse a key of two roles, and a key that is the deployment's secret."""
    owner: dict[str, str] = {secret: "the deployment's secret"}
    for role, hashes in roles.items():
        for one in set(hashes):
            if one in owner:
                raise InvalidInput(
                    f"the {role} key", f"the same string as {owner[one]}", "a string of its own for every role",
                    "draw another one",
                )  # fmt: skip
            owner[one] = f"the {role} key"


def _mark(path: Path | None) -> tuple[int, int, int] | None:
    """What changes when a file does; None if there is none."""
    try:
        found = None if path is None else path.stat()
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)
