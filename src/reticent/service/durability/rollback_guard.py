# SPDX-License-Identifier: Apache-2.0
"""The rollback guard (setting ``rollback_guard``): it notices a database that is older than it was.

A small file outside the database holds which deployment it is, how many releases were published, and the last one's digest.
It is written after a release is committed and *before* it is published, so that nothing is public which the rollback
guard has not seen. A store that has fewer releases than its rollback guard, or another one in the last place, was
rolled back: what it would release next has been shown with other noise already, and two noises on one sum can be averaged.

Beside it is the *journal* (:mod:`reticent.service.durability.journal`): what was published and who had come by then,
sealed, for `reticent restore`. Its length is in the guard, so that an entry counts from the moment the guard says so.

Keep both on another disk than the database, and in no backup that could be restored together with it. All workers share
them. They carry a mark of the deployment's secret, so that access to the database alone is not enough to write them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hmac
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from reticent.errors import InvalidInput, ReticentError
from reticent.service.durability.encrypted_log import sync_directory
from reticent.service.secrets import Secrets

T = TypeVar("T")


class RolledBack(ReticentError):
    """The store is not what it was."""


@dataclasses.dataclass(frozen=True)
class Seen:
    """What a rollback guard holds: ``releases`` that were published by ``deployment``, the last one's digest, and why
    it was halted, if it was; how many ``restores`` there were; and the journal's ``length`` in bytes and ``admitted``
    users."""

    deployment: str
    releases: int = 0
    digest: str | None = None
    halted: str | None = None
    restores: int = 0
    length: int = 0
    admitted: int = 0


class RollbackGuard:
    """The rollback guard at ``path``; see the module docstring."""

    def __init__(self, path: Path, secrets: Secrets) -> None:
        self.path, self._secrets = path, secrets

    def begin(self, deployment: str) -> None:
        """Begin to record.

        Raises:
          InvalidInput: there is a rollback guard already.
        """
        with self._alone():
            if self.path.exists():
                raise InvalidInput(
                    "database", "empty", f"the store that the rollback guard {self.path} knows of",
                    "bring that store back; never begin again for the same users under the same promise",
                )  # fmt: skip
            self._write(Seen(deployment))

    def read(self) -> Seen:
        """What it holds.

        Raises:
          InvalidInput: it is missing, or another secret's.
        """
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            mark = content.pop("mark")
            seen = Seen(**content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise InvalidInput(
                "rollback_guard", "missing or unreadable", f"the file {self.path} that `reticent init` made",
                "bring it back: without it there is no record of what this deployment has released",
            ) from None  # fmt: skip
        if not hmac.compare_digest(mark, self._secrets.mark(_bytes(seen))):
            raise InvalidInput(
                "rollback_guard", "of another secret", "of this deployment's", "check RETICENT_USER_SECRET"
            )
        return seen

    def require_current(self, deployment: str, releases: int, digest: str | None) -> None:
        """Compare a store that has made ``releases`` releases, the last with ``digest``, with what was seen.

        Raises:
          RolledBack: the store is older than it was, or has another past.
        """
        require_same_past(self.read(), deployment, releases, digest)

    def record(
        self, deployment: str, releases: int, digest: str, journal: Callable[[Seen], tuple[int, int]] | None = None
    ) -> None:
        """Take note of a release that is about to be published; again is no harm.

        ``journal`` writes the publication down after what was seen, and says the new length and the users admitted.

        Raises:
          RolledBack: it was published before with other content, or is not the next.
        """
        with self._alone():
            self.require_current(deployment, releases, digest)
            seen = self.read()
            if (seen.releases, seen.digest) == (releases, digest):
                return
            length, admitted = (seen.length, seen.admitted) if journal is None else journal(seen)
            self._write(
                dataclasses.replace(seen, releases=releases, digest=digest, length=length, admitted=admitted)
            )  # fmt: skip

    def halt(self, reason: str) -> None:
        """Remember why the deployment must not go on, whatever store is put in the place of this one."""
        with self._alone():
            self._write(dataclasses.replace(self.read(), halted=reason))

    def begin_restore(self, seen: Seen, halted: str) -> Seen:
        """Note over ``seen`` that the store is being replaced, and ``halted`` until :meth:`end_restore`."""
        with self._alone():
            begun = dataclasses.replace(seen, halted=halted, restores=seen.restores + 1)
            self._write(begun)
            return begun

    def end_restore(self, halted: str | None) -> None:
        """The store has been replaced, or left as it was; ``halted`` says why it must not learn, if it must not."""
        with self._alone():
            self._write(dataclasses.replace(self.read(), halted=halted))

    def extend_journal(self, journal: Callable[[Seen], tuple[int, int]], change: Callable[[], T]) -> T:
        """Append to the journal, whose new length and users ``journal`` says; then ``change`` the store as it foretells.

        No other process writes the journal meanwhile, so that no copy has the change without the word of it."""
        with self._alone():
            seen = self.read()
            length, admitted = journal(seen)
            self._write(dataclasses.replace(seen, length=length, admitted=admitted))
            return change()

    def record_admissions(self, journal: Callable[[Seen], tuple[int, int]]) -> None:
        """Have users appended to the journal who came since it was last written; ``journal`` says its new length and the
        users admitted. A deployment that was halted admits no user, and has nothing to add."""
        with self._alone():
            seen = self.read()
            if seen.halted is None:
                length, admitted = journal(seen)
                self._write(dataclasses.replace(seen, length=length, admitted=admitted))

    def rewrite_journal(self, journal: Callable[[Seen], tuple[int, int]]) -> None:
        """Have the journal written anew; killed in the middle, there is none until the next publication writes it."""
        with self._alone():
            emptied = dataclasses.replace(self.read(), length=0, admitted=0)
            self._write(emptied)
            length, admitted = journal(emptied)
            self._write(dataclasses.replace(emptied, length=length, admitted=admitted))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with self.path.with_name(f"{self.path.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write(self, seen: Seen) -> None:
        """Write it so that after a power cut there is the old or the new one, whole."""
        content = json.dumps({**dataclasses.asdict(seen), "mark": self._secrets.mark(_bytes(seen))})
        new = self.path.with_name(f"{self.path.name}.new")
        with new.open("w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path)
        sync_directory(self.path)


def require_same_past(seen: Seen, deployment: str, releases: int, digest: str | None) -> None:
    """Compare a store that has made ``releases`` releases, the last with ``digest``, with what was seen before that.

    Raises:
      RolledBack: the store is older than it was, or has another past.
    """
    if seen.deployment != deployment:
        raise RolledBack("the rollback guard is of another deployment than the store")
    if seen.halted is not None:
        raise RolledBack(seen.halted)
    if seen.releases > releases:
        raise RolledBack(f"{seen.releases} rounds were released, but the store knows of {releases}: it was rolled back")
    if seen.releases == releases and seen.digest != digest:
        raise RolledBack(f"release {releases} was another one than the store's: it was rolled back or changed")


def _bytes(seen: Seen) -> bytes:
    """What is marked. A rollback guard of before there were journals says nothing of them, and keeps its mark."""
    content = dataclasses.astuple(seen)
    return json.dumps(content if any(content[4:]) else content[:4]).encode()
