# SPDX-License-Identifier: Apache-2.0
"""The device's own budget: how often each user may report from here, whatever a service says.

A service decides which users it asks for a report, and may forget, be restored from a backup, or lie. So the device
keeps count
itself, in a file: a report is charged *before* it is formed, and the charge is on the disk before any of it can leave. A
user whose budget is spent is served on and reports no more. In the local model there is always one: the proof counts
reports, and nothing but the device can.

Formal guarantee. Let one report be (ε, δ)-private in the local model. Then all that leaves this device about a user in a
``scope`` is what ``reports`` such reports reveal, for any behaviour of the service, any crash of the device, and any number
of processes that share the file. The scope is the app's to choose, never the service's. It rests on the file: if it is
deleted or restored from a backup, the count begins again from what it says.

A *pattern* (``per_round``, ``gap``) is kept as well, by the rounds in which the service says that the user has places. A
service can lie about rounds, so that with a server that is trusted anyway it guards against mistakes, and in the local
model, where every report has noise of its own, the promise needs ``reports`` alone.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from reticent_client.budget_storage import Content, File, Memory, Storage, default_path
from reticent_wire.errors import InvalidInput
from reticent_wire.participation import may_contribute


class BudgetSpent(InvalidInput):
    """One more report of this user may not leave: nothing was charged, and nothing was formed."""


class Budget:
    """A budget that outlives the process; may be shared between threads.

    Args:
      path: of the file; its directory is made if it is missing.
      reports: how many reports of a user may leave in all.
      per_round: how many of them for one round; by default any number. gap: by how many rounds theirs differ at least.
      scope: what the budget is for, such as the name of a study; other scopes have budgets of their own.
    """

    def __init__(
        self, path: str | Path, *, reports: int = 1, per_round: int | None = None, gap: int = 1, scope: str = ""
    ) -> None:
        self._set(File(Path(path)), reports, per_round, gap, scope)

    @classmethod
    def default(cls, *, scope: str, reports: int = 1) -> Budget:
        """The budget that a :class:`~reticent_client.client.Client` keeps in the local model if it is given none.

        It is the file of :func:`~reticent_client.budget_storage.default_path`.
        """
        return cls(default_path(), reports=reports, scope=scope)

    @classmethod
    def in_memory(cls, *, reports: int = 1, per_round: int | None = None, gap: int = 1, scope: str = "") -> Budget:
        """A budget that is forgotten when the process ends: for simulated users and tests, not for people.

        Formal guarantee. That of the module, while this process runs; after a restart nothing.
        """
        made = cls.__new__(cls)
        made._set(Memory(), reports, per_round, gap, scope)
        return made

    def _set(self, storage: Storage, reports: int, per_round: int | None, gap: int, scope: str) -> None:
        if reports < 0:
            raise InvalidInput("reports", reports, "at least 0", "1 is the default")
        for field, value in (("per_round", per_round), ("gap", gap)):
            if value is not None and value < 1:
                raise InvalidInput(field, value, "at least 1", "leave it at its default")
        self._storage, self.reports, self._scope = storage, reports, scope
        self._per_round, self._gap = reports if per_round is None else per_round, gap

    def require_usable(self) -> None:
        """Check its place before a user is named to a service.

        Raises:
          InvalidInput: it cannot be written, or what it says cannot be read.
        """
        with self._storage.alone():
            self._storage.read()

    def left(self, user: str) -> int:
        """How many more reports of ``user`` may leave."""
        with self._storage.alone():
            content = self._storage.read()
            return max(0, self.reports - int(content["spent"].get(self._name(content, user), 0)))

    def allows(self, user: str, number: int) -> bool:
        """Whether one more report of ``user`` may leave, for round ``number``."""
        with self._storage.alone():
            content = self._storage.read()
            return self._allows(content, self._name(content, user), number)

    def spend(self, user: str, number: int | None = None) -> None:
        """Charge one report of ``user``, for round ``number``; when this returns, the charge is on the disk.

        Raises:
          BudgetSpent: the budget is spent, or the round is too near to another of theirs.
          InvalidInput: the file cannot be used. In either case nothing was changed, and nothing may be formed.
        """
        with self._storage.alone():
            content = self._storage.read()
            name = self._name(content, user)
            spent = int(content["spent"].get(name, 0))
            if spent >= self.reports:
                raise BudgetSpent(
                    "reports of this user", spent + 1, f"at most {self.reports} from this device",
                    "serve the user without a report",
                )  # fmt: skip
            if number is not None:
                if not self._allows(content, name, number):
                    raise BudgetSpent(
                        "round of this report", number, f"at most {self._per_round} in one, {self._gap} or more apart",
                        "serve the user without a report",
                    )  # fmt: skip
                content["rounds"].setdefault(name, []).append(number)
            content["spent"][name] = spent + 1
            self._storage.write(content)

    def _allows(self, content: Content, name: str, number: int) -> bool:
        spent, rounds = int(content["spent"].get(name, 0)), list(content["rounds"].get(name, []))
        return spent < self.reports and may_contribute(self.reports, self._per_round, self._gap, rounds, number)

    def _name(self, content: Content, user: str) -> str:
        """A user as the file knows them: with a salt of its own, so that two devices' files cannot be matched."""
        salted = json.dumps([content["salt"], self._scope, user]).encode()
        return hashlib.sha256(salted).hexdigest()
