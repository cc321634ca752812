# SPDX-License-Identifier: Apache-2.0
r"""Which logs can be met again by another policy, and how: never by asking what the log cannot say.

* **Exact**: actions do not change what comes next (H = 1, or declared), and what *every* action would have paid was
  recorded. A user's whole episode under any policy is then known (:class:`~reticent.worlds.people.recorded.RecordedUsers`).
* **Rejection sampling**: actions were drawn with known probabilities :math:`p_h(a\mid s)`. A recorded episode is kept
  if the policy's action is the recorded one at every step and, besides, a coin of probability :math:`\underline
  p/p_h(a_h\mid s_h)` falls well each time, :math:`\underline p` being the least recorded probability. Then
  :math:`P(\text{kept},\tau)=\prod_hP(s_{h+1}\mid s_h,a_h)\,p_h\,1[a_h=\pi_h(s_h)]\,\underline p/p_h=\underline p^H
  P^\pi(\tau)`: the users that the agent meets are distributed exactly as under its own actions, whatever it has learned
  from those before, and one in :math:`\underline p^{-H}` records is met (Li, Chu, Langford and Wang 2011 for H = 1).
* Anything else is **refused**, with the reason.

**Too few.** How many records will be met is known before the first one (:attr:`RandomisedUsers.expected_met`).
:func:`require_enough` refuses a replay that would meet too few to tell a plan that earns twice what was logged from one
that earns the same (level 5 %, power 80 %: :mod:`reticent.worlds.records.evidence`).

A replay's figures are computed from the recorded people without noise: they are for the owner of the log, and not released.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from reticent.errors import InvalidInput
from reticent.worlds.people.recorded import Estimate, RecordedUsers, mean_of
from reticent.worlds.records.coded import UNKNOWN, Log
from reticent.worlds.records.evidence import rows_to_tell, two_digits


@dataclasses.dataclass(frozen=True)
class RandomisedUsers:
    """Recorded episodes whose actions were drawn with known probabilities.

    Attributes:
      states: ``(n, H + 1)``. actions, rewards, probabilities: ``(n, H)``; a moment after the user left has probability 1.
      free: moments at which any action is as good as the recorded one, because the user had left, ``(n, H)``.
      actions_count: A.
      why: why this is unbiased, in one sentence.
    """

    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    probabilities: np.ndarray
    free: np.ndarray
    actions_count: int
    why: str

    @property
    def users(self) -> int:
        return len(self.states)

    @property
    def horizon(self) -> int:
        return int(self.actions.shape[1])

    @property
    def coins(self) -> np.ndarray:
        """With which probability a matching moment is kept, ``(n, H)``."""
        least = self.probabilities[~self.free].min(initial=1.0)
        return np.where(self.free, 1.0, least / self.probabilities)

    @property
    def expected_met(self) -> float:
        """How many records a policy will meet, whatever it does: :math:`\\underline p` for every moment of a user."""
        least = self.probabilities[~self.free].min(initial=1.0)
        return float((least ** (~self.free).sum(axis=1)).sum())

    def subset(self, chosen: np.ndarray) -> RandomisedUsers:
        """Some of the users, in the order of ``chosen``."""
        fields = ("states", "actions", "rewards", "probabilities", "free")
        changed: Any = {field: getattr(self, field)[chosen] for field in fields}
        return dataclasses.replace(self, **changed)

    def value(self, policy: np.ndarray) -> Estimate:
        """An unbiased estimate of the mean return of choices ``(H, S)``, by weighting all records."""
        steps = np.arange(self.horizon)
        match = (policy[steps, self.states[:, :-1]] == self.actions) | self.free
        ratio = np.where(self.free, 1.0, match / self.probabilities)
        return mean_of((np.cumprod(ratio, axis=1) * self.rewards).sum(axis=1))


Replayable = RecordedUsers | RandomisedUsers
"""Records that can be met again."""


def replayable(log: Log, horizon: int, *, states_unaffected: bool = False) -> Replayable:
    """The users of a log as they can be met again; see the module.

    ``states_unaffected`` declares that actions do not change what comes next.

    Raises:
      InvalidInput: the log allows neither an exact nor an unbiased replay; the message says what is missing.
    """
    if log.paid is not None and (states_unaffected or horizon == 1):
        episodes = _Episodes(log, horizon)
        why = "every action's reward was recorded" + (
            "" if horizon == 1 else ", and actions are declared not to change what comes next"
        )
        return RecordedUsers(
            {"states": episodes.states, "paid": episodes.take(log.paid, 0.0)},
            _first, _respond, log.coding.states, log.coding.actions, horizon, why,
        )  # fmt: skip
    if log.probability is not None:
        episodes = _Episodes(log, horizon)
        return RandomisedUsers(
            episodes.states,
            episodes.take(log.action, 0),
            episodes.take(log.reward, 0.0),
            episodes.take(log.probability, 1.0),
            ~episodes.present,
            log.coding.actions,
            "actions were drawn with known probabilities: an episode is met if the agent would have acted as recorded",
        )
    if log.paid is not None:
        raise InvalidInput(
            f"replay of {log.source}", "several steps, and nothing said of whether actions change what comes next",
            "declared with --states-unaffected, or randomised with recorded probabilities (--probability COLUMN)",
            "it is unknown what these users would have done after other actions",
        )  # fmt: skip
    raise InvalidInput(
        f"replay of {log.source}", "neither every action's reward nor the probability of the recorded action is recorded",
        "one of the two (--rewards-of PREFIX or --probability COLUMN)",
        "it is unknown what these users would have done after other actions; randomise some, or rehearse instead",
    )  # fmt: skip


def require_enough(users: Replayable, logged: np.ndarray, source: str) -> None:
    """Refuse a replay that would meet too few; see the module. ``logged``: the users' returns as logged, ``(n,)``.

    Raises:
      InvalidInput: it would, with how many records would do.
    """
    if isinstance(users, RecordedUsers):
        return
    _, needed = rows_to_tell(logged / users.horizon)
    met = users.expected_met
    if met >= needed:
        return
    remedy = "use fewer actions or steps" if needed == np.inf else (
        f"give {two_digits(users.users * needed / met):,} records like these, or use fewer actions or steps"
    )  # fmt: skip
    raise InvalidInput(
        f"records of {source} that would be met", f"about {met:,.0f} of {users.users:,}",
        f"at least {needed:,.0f}, to tell a plan that earns twice as much from what was logged", remedy,
    )  # fmt: skip


class _Episodes:
    """The first H rows of every user as a table; those who have left early stay in ``over``."""

    def __init__(self, log: Log, horizon: int) -> None:
        self._log = log
        length = np.minimum(np.bincount(log.user, minlength=log.users), horizon)
        if (length < horizon).any() and not log.coding.over:
            short = int((length < horizon).sum())
            raise InvalidInput(
                f"users of {log.source} with fewer than {horizon} rows", short, "0 where no user may leave",
                "fit the model with --leaves, which gives those who left a state of their own, or remove these users",
            )  # fmt: skip
        self._start = np.flatnonzero(log.first)
        self.present = np.arange(horizon) < length[:, None]
        over = log.coding.states - 1
        self.states = np.full((log.users, horizon + 1), over, np.int64)
        self.states[:, :-1] = self.take(log.state, over)
        last = self._start + length - 1
        after = log.following[last]
        # What follows the last recorded moment matters to no return; a learner is told that nothing changed.
        self.states[np.arange(log.users), length] = np.where(after == UNKNOWN, log.state[last], after)

    def take(self, column: np.ndarray, missing: Any) -> np.ndarray:
        """A column of the log as ``(users, H, …)``, with ``missing`` where a user had left."""
        place = np.minimum(self._start[:, None] + np.arange(self.present.shape[1]), self._log.rows - 1)
        found: np.ndarray = column[place]
        found[~self.present] = missing
        return found


def _first(answers: Mapping[str, Any]) -> Any:
    return answers["states"][..., 0]


def _respond(answers: Mapping[str, Any], step: Any, state: Any, action: Any) -> tuple[Any, Any]:
    del state
    paid = answers["paid"][..., step, :]
    chosen = np.arange(paid.shape[-1]) == action[..., None]
    return answers["states"][..., step + 1], (paid * chosen).sum(axis=-1)
