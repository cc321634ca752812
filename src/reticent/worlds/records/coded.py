# SPDX-License-Identifier: Apache-2.0
"""A log as it is computed with: numbers for users, steps, states, actions and rewards."""

from __future__ import annotations

import dataclasses

import numpy as np

from reticent.worlds.records.coding import Coding

UNKNOWN = -1
"""The state after a row whose successor was not recorded."""


@dataclasses.dataclass(frozen=True)
class Log:
    """A checked and coded table; rows are sorted by user and step.

    Attributes:
      coding: of states and actions.
      user: ``(N,)`` from 0, in order; ``step`` ``(N,)`` from 0 within each user.
      state, action: ``(N,)`` indices; ``following`` ``(N,)``, or :data:`UNKNOWN`; ``reward`` ``(N,)`` in [0, 1].
      group: ``(users,)`` index of each user's group; all 0 if there are no groups.
      group_names: of the groups; empty if there are none.
      probability: with which the recorded action was drawn, ``(N,)``; None if unknown.
      paid: what every action would have paid, ``(N, A)`` in [0, 1]; None if that was not recorded.
      source: what was read, for messages and the provenance.
      notes: what was changed on the way, such as users with gaps who were dropped.
      weight: how much each user counts, ``(users,)``, 1 on average; None where all count alike.
    """

    coding: Coding
    user: np.ndarray
    step: np.ndarray
    state: np.ndarray
    action: np.ndarray
    following: np.ndarray
    reward: np.ndarray
    group: np.ndarray
    group_names: tuple[str, ...]
    source: str
    probability: np.ndarray | None = None
    paid: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    weight: np.ndarray | None = None

    @property
    def users(self) -> int:
        return len(self.group)

    @property
    def rows(self) -> int:
        return len(self.user)

    @property
    def first(self) -> np.ndarray:
        """Whether a row is its user's first, ``(N,)``."""
        return np.asarray(self.step == 0)

    @property
    def entries(self) -> np.ndarray:
        """Shares of the first states, ``(S,)``, users weighted."""
        found = np.bincount(self.state[self.first], weights=self.weight, minlength=self.coding.states)
        return np.asarray(found / found.sum())
