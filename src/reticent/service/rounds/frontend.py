# SPDX-License-Identifier: Apache-2.0
"""The frontend of a deployment: its parts put together, as HTTP handlers, scheduler and operators call them. No agent here.

Each part has one job and a module of its own: :mod:`~reticent.service.rounds.admit`, :mod:`~reticent.service.rounds.act`,
:mod:`~reticent.service.rounds.submit`, :mod:`~reticent.service.rounds.shuffled_batches`,
:mod:`~reticent.service.rounds.close`. Rounds are sealed here; a *planner* releases them and makes plans: in this process
(:class:`reticent.service.rounds.deployment.Deployment`), or in one of its own that a worker asks
(:class:`reticent.service.processes.worker.WorkerDeployment`).
"""

from __future__ import annotations

from typing import Any, Protocol

from reticent.service.durability.rollback_guard import RollbackGuard
from reticent.service.public_configuration import PublicConfiguration
from reticent.service.rounds import integrity, set_up
from reticent.service.rounds.act import Actions
from reticent.service.rounds.admit import Admissions
from reticent.service.rounds.close import Closing
from reticent.service.rounds.context import AnyContext
from reticent.service.rounds.refusals import Refusal
from reticent.service.rounds.shuffled_batches import ShuffledBatches
from reticent.service.rounds.submit import Submissions
from reticent.service.secrets import Secrets
from reticent.service.store import records
from reticent.service.store.engine import Store


class Planner(Protocol):
    """What needs the agent."""

    def advance(self) -> int:
        """Have every sealed round released and its plan published; says how many."""
        ...

    def warm_up(self) -> None:
        """Have the programs of the next release and plan compiled."""
        ...

    def diagnostics(self, version: int) -> dict[str, Any]:
        """What a published version's release says about its signal and its value, as plain values.

        Raises:
          Refusal: it was never published.
        """
        ...

    def canary_status(self) -> dict[str, Any] | None:
        """The verdict on canaries as plain values; None without canaries."""
        ...


class Frontend:
    """One deployment as one process sees it: a context, the parts that share it, and a planner."""

    def __init__(self, context: AnyContext, planner: Planner) -> None:
        self.context, self.planner = context, planner
        self.advance, self.diagnostics, self.canary_status = (
            planner.advance, planner.diagnostics, planner.canary_status,
        )  # fmt: skip
        self.warm_up = planner.warm_up
        self.closing = Closing(context)
        self.finish, self.is_due, self.expire = self.closing.finish, self.closing.is_due, self.closing.expire
        self.admissions = Admissions(context, self.closing, planner.advance)
        self.admit, self.admit_all = self.admissions.admit, self.admissions.admit_all
        self.actions = Actions(context)
        self.act = self.actions.act
        self.submissions = Submissions(context)
        self.submit_trajectory, self.submit_empty, self.submit_report = (
            self.submissions.submit_trajectory, self.submissions.submit_empty, self.submissions.submit_report,
        )  # fmt: skip
        self.batches = ShuffledBatches(context, self.closing, planner.advance)
        self.submit_batch = self.batches.submit_batch
        self.billboard, self.clock = context.plans.billboard, context.clock

    @property
    def configuration(self) -> PublicConfiguration:
        return self.context.configuration

    @property
    def store(self) -> Store:
        return self.context.store

    @property
    def secrets(self) -> Secrets:
        return self.context.secrets

    @property
    def rollback_guard(self) -> RollbackGuard | None:
        return self.context.rollback_guard

    @property
    def identity(self) -> str:
        """Of the deployment, once it is set up."""
        return self.context.identity

    @property
    def users(self) -> int:
        """K."""
        return self.context.users

    @property
    def releases(self) -> int:
        return self.context.releases

    def set_up(self) -> None:
        """Check that the store is this deployment's.

        Raises:
          InvalidInput: the store is empty or belongs to another model, promise or secret, or the rollback guard is of
            another deployment; nothing was changed.
        """
        set_up.adopt(self.context, set_up.stored(self.context))

    def halt(self, reason: str) -> None:
        """Learn and release nothing more, and say why; the last policy is served on. No restart undoes it."""
        integrity.halt(self.context, reason)

    def examine(self) -> None:
        """Decrypt what is needed next: the sums of rounds that are not released, and the agent's state.

        Raises:
          Damaged: one of them cannot be decrypted.
        """
        integrity.examine(self.context)

    def open_round(self) -> tuple[int, int | None]:
        """Number and reference of the round that takes reports; no reference if no more rounds are released.

        Raises:
          Refusal: the next round is being prepared, which takes as long as planning does.
        """
        with self.store.read() as tx:
            number = int(records.deployment(tx).open_round)
            row = records.round_of(tx, number)
        if row is not None and row.reference is None:
            raise Refusal("unavailable", "the next round is being prepared; try again")
        return number, None if row is None else int(row.reference)
