# SPDX-License-Identifier: Apache-2.0
"""The context of a deployment: what every part of it needs, made once and handed to each.

Parts (admission, submission, closing, release, ...) have one job each and keep no state that matters: that is in the store,
so that any number of processes may serve one deployment. Nothing here needs JAX.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from reticent.learning.control import Control, ControlPlaces
from reticent.service.durability.rollback_guard import RollbackGuard
from reticent.service.public_configuration import PublicConfiguration
from reticent.service.rounds.published_plans import PublishedPlans
from reticent.service.rounds.returning import Returning
from reticent.service.rounds.steady_time import SteadyTime
from reticent.service.secrets import Damaged, Secrets
from reticent.service.store import records
from reticent.service.store.engine import Store
from reticent_wire.boundary import Clipped

C_co = TypeVar("C_co", bound=PublicConfiguration, covariant=True)


@dataclasses.dataclass(eq=False)
class Context(Generic[C_co]):
    """What the parts of one deployment share in one process.

    Attributes:
      configuration: the public configuration; where the agent is, the whole :class:`~reticent.service.mechanism.Mechanism`.
      secrets: of the service until the deployment is set up, then the deployment's own.
      inline: whether a round is released and its plan published before the next user is admitted.
      ticket_lifetime: seconds for which an episode's report is waited for.
      finish_after: seconds for which the last round waits for reports.
      rollback_guard: the file outside the database that remembers what was released; None in tests only.
      canaries: canary rounds without data, released with each round.
      shadow: whether all users are served version 0 while plans are learned.
      control: the A/B share; None if there is none.
      now, steady: the wall clock, and one that cannot be set. expiry_time: what episodes expire by, of both.
      identity: of the deployment, once it is set up. restores: how often its store was restored, likewise.
      sealed: set when this process has sealed a round, for the thread that plans or wakes the planner.
      released: set when this process has released a round.
    """

    configuration: C_co
    store: Store
    secrets: Secrets
    _: dataclasses.KW_ONLY
    inline: bool = False
    ticket_lifetime: float = 86_400.0
    finish_after: float = 604_800.0
    rollback_guard: RollbackGuard | None = None
    canaries: int = 0
    shadow: bool = False
    control: Control | None = None
    now: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    identity: str = dataclasses.field(default="", init=False)
    restores: int = dataclasses.field(default=0, init=False)
    sealed: threading.Event = dataclasses.field(default_factory=threading.Event, init=False)
    released: threading.Event = dataclasses.field(default_factory=threading.Event, init=False)
    expiry_time: Callable[[], float] = dataclasses.field(init=False)
    plans: PublishedPlans = dataclasses.field(init=False)
    returning: Returning = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.expiry_time = SteadyTime(self.now, self.steady)
        self.plans = PublishedPlans(self.store, self.configuration, self._sign)
        self.returning = Returning(self.configuration.public_guarantee.participation)

    def _sign(self, content: bytes) -> bytes:
        """The signature of an entry of the ledger chain, with the secrets of now: they change when the store is set up."""
        return self.secrets.sign_entry(content)

    @property
    def contributions(self) -> int:
        """How often one user may contribute."""
        return self.returning.participation.contributions

    @property
    def users(self) -> int:
        """K."""
        return int(self.configuration.schedule.episodes)

    @property
    def releases(self) -> int:
        return int(self.configuration.schedule.releases)

    def control_places(self, number: int) -> ControlPlaces | None:
        """Which places of a round are controls'; None without an A/B share. A function of public numbers."""
        if self.control is None:
            return None
        return self.control.places(self.configuration.schedule, number, self.identity)

    # -- the sums of rounds, encrypted in the store ---------------------------------------------------------------------

    def total(self, number: int, sealed: bytes) -> Clipped[np.ndarray]:
        """The sum of an open round, decrypted."""
        return Clipped(self._array(self.secrets.unseal(sealed, f"round {number}")))

    def closed_total(self, number: int, sealed: bytes) -> Clipped[np.ndarray]:
        """The sum of a sealed round, decrypted, with all the noise that it gets before its release.

        The label says whether the second half is in. A store that an earlier version sealed a round in has it without, and
        it is added here: no round is released with less than its noise.
        """
        if not self.configuration.in_halves:
            return self.total(number, sealed)
        try:
            return Clipped(self._array(self.secrets.unseal(sealed, _closed(number))))
        except Damaged:
            return self.with_closing_half(self.total(number, sealed))

    def with_closing_half(self, total: Clipped[np.ndarray]) -> Clipped[np.ndarray]:
        """The sum of a round with the second half of its noise."""
        half = self.configuration.closing_half()
        return total.within(lambda exact: exact + half)

    def sealed_total(self, number: int, total: Clipped[np.ndarray]) -> bytes:
        """The sum of an open round, encrypted."""
        return total.release(lambda exact: self.secrets.seal(exact.tobytes(), f"round {number}")).value

    def sealed_closed_total(self, number: int, total: Clipped[np.ndarray]) -> bytes:
        """The sum of a sealed round that has all of its noise, encrypted."""
        return total.release(lambda noised: self.secrets.seal(noised.tobytes(), _closed(number))).value

    def _array(self, content: bytes) -> np.ndarray:
        return np.frombuffer(content, np.int64).reshape(self.configuration.noise_scale.shape)

    def clock(self) -> tuple[Any, int]:
        """The public clock's row, and the number of releases."""
        with self.store.read() as tx:
            return records.deployment(tx), records.learner_version(tx)


def _closed(number: int) -> str:
    """Label of the encrypted sum of a sealed round, once it has all of its noise."""
    return f"closed round {number}"


AnyContext = Context[PublicConfiguration]
"""Of parts that do without the agent."""
