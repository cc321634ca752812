# SPDX-License-Identifier: Apache-2.0
r"""Canary rounds without data, released with each round: their noise is public, and monitored all the time.

With every release of users' data the service makes ``count`` releases of *canary rounds*: the places of such a round are
empty, its sum is zero and known to be, and it goes through the functions that end users' rounds
(``first_sum``, ``closing_half``, ``round_noise``, ``close``) in the same process, at the same time and with the same
source of noise. What comes out is noise alone. It is published, and an e-process bets on it
(:mod:`reticent.audit.sequential`), in units of the *guarantee's* table of noise and not of the code that draws it.

**Formal guarantee.** While noise is at least as large as promised, an alarm is *ever* raised with probability at most α,
however many releases there are and however often they are read (Ville). Noise at 0.9 of its scale is found within
:data:`NUMBERS` numbers with probability above 0.99 at α = 0.001: within :attr:`Canaries.found_within` releases of users'
rounds. No user's data are in any of it, so that watching costs no privacy; nothing of the learner depends on it.

What canaries do not see: noise that is spoilt in users' rounds only. Those rounds hide their users, so they cannot be
examined.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from reticent.audit.distribution import promised_scales
from reticent.audit.monitoring import LAWS
from reticent.audit.sequential import DEFAULT_ALPHA, NoiseMonitor
from reticent.errors import InvalidInput
from reticent.privacy.guarantee import guarantee_of
from reticent.service.mechanism import Mechanism
from reticent.service.store.tables import CANARIES

NUMBERS = 3000
"""Numbers after which a tenth too little noise is found; see :class:`~reticent.audit.sequential.NoiseMonitor`."""


class Canaries:
    """``count`` canary rounds with every release of one mechanism; none if 0.

    Raises:
      InvalidInput: the service does not draw the noise of this trust model, or no monitor is fair to its law.
    """

    def __init__(self, mechanism: Mechanism, count: int = 0, alpha: float = DEFAULT_ALPHA) -> None:
        self._mechanism, self.count, self._alpha = mechanism, count, alpha
        if count and mechanism.wire != "trajectory":
            raise InvalidInput(
                "canaries", count, f"0 with trust={mechanism.guarantee.trust.name}",
                "noise is drawn on users' devices there, which a service cannot watch",
            )  # fmt: skip
        if count and LAWS.get(mechanism.guarantee.ledger.account.law) is None:
            raise InvalidInput("canaries", count, "0 with this law of noise", "no monitor is fair to it")

    @functools.cached_property
    def _promised(self) -> np.ndarray:
        """The scale of every number ``(H, D)`` by the guarantee; 0 where there is no noise."""
        guarantee = guarantee_of(self._mechanism.agent)
        assert guarantee is not None  # a mechanism has one
        return promised_scales(guarantee, self._mechanism.noise_scale.shape)

    @functools.cached_property
    def _beginning(self) -> tuple[Any, Any]:
        """The agent's state before the first round, and its plan: what a canary round is the end of."""
        state = self._mechanism.agent.init()
        return state, self._mechanism.billboard(0, state)

    @property
    def found_within(self) -> int:
        """Within how many releases a tenth too little noise is found."""
        return math.ceil(NUMBERS / (self.count * int((self._promised > 0).sum())))

    def release(self) -> np.ndarray:
        """The noise of fresh canary rounds in units of its promised scale, ``(count, numbers)``."""
        mechanism, (state, plan), active = self._mechanism, self._beginning, self._promised > 0
        rows = [np.zeros((0, int(active.sum())))]
        for _ in range(self.count):
            empty = mechanism.first_sum() + mechanism.closing_half()
            _, released = mechanism.close(0, state, plan, empty, mechanism.round_noise())
            rows.append((released[active] / self._promised[active])[None])
        return np.concatenate(rows)

    def note(self, tx: Connection, number: int, noise: np.ndarray) -> None:
        """Store what the canaries of round ``number`` showed, and what follows from it; with the round's own release."""
        if self.count:
            after = self.monitor(tx).observe(noise)
            content = np.ascontiguousarray(noise, "<f8").tobytes()
            state = json.dumps(dataclasses.asdict(after))
            tx.execute(sa.insert(CANARIES).values(round=number, noise=content, monitor=state))

    def monitor(self, tx: Connection) -> NoiseMonitor:
        """The monitor as it stands after the newest release."""
        last = sa.select(CANARIES.c.monitor).order_by(CANARIES.c.round.desc()).limit(1)
        found = tx.execute(last).scalar_one_or_none()
        if found is not None:
            state = json.loads(found)
            return NoiseMonitor(**{**state, "stakes": tuple(state["stakes"])})
        resolution = self._mechanism.grid / float(self._promised[self._promised > 0].min())
        return NoiseMonitor(self._alpha, LAWS[self._mechanism.guarantee.ledger.account.law], resolution)

    def status(self, tx: Connection) -> dict[str, Any] | None:
        """The verdict as plain values; None without canaries."""
        if not self.count:
            return None
        now = self.monitor(tx)
        return {
            "alarm": now.alarm,
            "log_e_value": now.log_capital,
            "alpha": now.alpha,
            "releases": now.releases,
            "numbers": now.numbers,
            "found_within": self.found_within,
        }
