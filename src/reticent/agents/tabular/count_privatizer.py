# SPDX-License-Identifier: Apache-2.0
"""The privatizer of visit counts: one user's cells, noise on every cell, and valid counts out of it.

A user adds to one cell of each of three tables per step: visits, transitions, rewards
(:mod:`reticent.agents.tabular.counts`). All of a step's cells, touched or not, get noise.

Formal guarantee. Whatever the trajectory, even one that names states that do not exist or rewards that are no numbers, the
array that reaches the counter (or leaves the user, in the local model) has at most one entry of 1 in the visits and one in
the transitions of every step, and at most one entry in the rewards, within [0, 1]: steps outside the tables are dropped and
rewards clipped by the wire's form ``counts``, which service and devices run too. Two users' arrays are therefore at
most 2 apart in the 1-norm and √2 in the 2-norm in each table of each step, and one user's is at most 1 away from
nothing in both (:mod:`reticent.agents.tabular.count_calibration`). Counts are made valid after their release, which
reads nothing else.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.tabular.counts import Counts, count_episode, over_steps, pack, unpack
from reticent.agents.tabular.valid_counts import make_valid
from reticent.privacy.counters.counter import Counter
from reticent.privacy.sums import PrivateSums, SumState
from reticent.privacy.trust import Law, Trust
from reticent.worlds import Episode
from reticent_wire.forms import counts as counts_form
from reticent_wire.forms.counts import table_slices

__all__ = ["CountPrivatizer", "nothing_seen", "table_slices"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CountPrivatizer(PrivateSums):
    """Noisy visit counts; see the module docstring.

    Attributes:
      noise_scale: scale of the noise per cell, ``(H, D)``: σ, or b of a Laplace law.
      grid: spacing that rewards are rounded to in a deployment; whole counts stay what they are. 0 is none.
      states, actions: S and A.
      pooled: add up the released counts of all steps, for models whose truth does not depend on the step.
    """

    noise_scale: Array
    grid: Array
    counter: Counter = dataclasses.field(metadata={"static": True})
    trust: Trust = dataclasses.field(metadata={"static": True})
    law: Law = dataclasses.field(metadata={"static": True})
    states: int = dataclasses.field(metadata={"static": True})
    actions: int = dataclasses.field(metadata={"static": True})
    pooled: bool = dataclasses.field(default=False, metadata={"static": True})

    # -- the user's side ----------------------------------------------------------------------------------------------

    def clip(self, seen: Episode) -> Episode:
        """The episode with rewards in [0, 1]; what is no number counts as 0."""
        clipped: Episode = counts_form.clip(seen, jnp)
        return clipped

    def report(self, seen: Episode, noise: Array | None) -> Array:
        """One user's counts ``(H, D)``: within bounds always, and noised in the local model."""
        counts = count_episode(self.clip(seen), self.states, self.actions, self.noise_scale.dtype)
        return self.send(pack(counts), noise)

    @property
    def contribution_bound(self) -> np.ndarray:
        return np.ones(self.noise_scale.shape)

    @property
    def device_rules(self) -> dict[str, Any]:
        return {"form": "counts"}

    # -- the server's side --------------------------------------------------------------------------------------------

    def released(self, state: SumState) -> Counts:
        """Valid counts after the last closed round, ``(H, ...)``, or ``(1, ...)`` where steps are pooled."""
        noisy = unpack(self.released_sums(state), self.states, self.actions)
        return make_valid(over_steps(noisy) if self.pooled else noisy)


def nothing_seen(horizon: int) -> Episode:
    """The episode that adds nothing: what a user is replaced by under zero-out adjacency."""
    outside = jnp.full(horizon + 1, -1, jnp.int32)
    return Episode(outside, outside[:-1], jnp.zeros(horizon))
