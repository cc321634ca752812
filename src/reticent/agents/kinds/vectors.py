# SPDX-License-Identifier: Apache-2.0
"""Sums of users' vectors about kinds, each clipped to the unit ball: the only thing of users that is ever released.

Formal guarantee. Whatever a user's episode, belief and actions are, the vector that reaches the round's sum (or leaves the
device, in the local model) has 2-norm at most 1. A user is in one round, so replacing their data moves everything that is
ever released by at most 2 in 2-norm, in one round; setting the contribution to zero moves it by at most 1
(:mod:`reticent.agents.score.calibration`). What the vector is formed with is a function of earlier releases and of public
numbers, so releases compose adaptively as one mechanism.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.score.unit_ball import PlainVectors
from reticent.learning.aggregator import Noise
from reticent.learning.plan import Plan
from reticent.privacy.counters.counter import Counter
from reticent.privacy.sums import PrivateSums, SumState
from reticent.privacy.trust import Law, Trust
from reticent_wire.clipping import clip_norm

if TYPE_CHECKING:
    from reticent.agents.kinds.learner import KindsPlan


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class KindVectors(PrivateSums):
    """Noisy sums of clipped vectors, one row ``(1, k)``; see the module docstring.

    Attributes:
      basis, tables, reward_total: how devices act and form vectors (:mod:`reticent_wire.forms.kinds`).
      planned: whether they act by a plan over beliefs instead of the tables (:mod:`reticent_wire.forms.kinds_planned`).
    """

    noise_scale: Array
    grid: Array
    basis: Array
    tables: Array
    reward_total: Array
    counter: Counter = dataclasses.field(metadata={"static": True})
    trust: Trust = dataclasses.field(metadata={"static": True})
    law: Law = dataclasses.field(default="gaussian", metadata={"static": True})
    planned: bool = dataclasses.field(default=False, metadata={"static": True})

    def report(self, seen: Array, noise: Array | None) -> Array:
        """One user's contribution ``(1, k)``: clipped always, and noised in the local model."""
        return self.send(clip_norm(seen, 1.0, jnp)[None], noise)

    @property
    def contribution_bound(self) -> np.ndarray:
        return np.ones(self.noise_scale.shape)

    @property
    def device_rules(self) -> dict[str, Any]:
        rules = {"basis": self.basis, "reward_total": self.reward_total}
        return {"form": "kinds-planned", **rules} if self.planned else {"form": "kinds", "tables": self.tables, **rules}

    def version_rules(self, plan: Plan[KindsPlan]) -> dict[str, Array]:
        extension = plan.extension
        rule, course = extension.rule, extension.course
        acting = {"blend_table": extension.blend_table} if course is None else course._asdict()
        return {
            "shares": extension.shares, "blend": extension.blend, "whiten": rule.whiten, "radius": rule.radius,
            **{name: table.astype(float) for name, table in acting.items()},
        }  # fmt: skip

    def released(self, state: SumState) -> Array:
        """The noisy sum ``(k,)`` of the last closed round."""
        return self.released_sums(state)[0]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PlainKindVectors(PlainVectors):
    """Sums of clipped vectors without noise, for the learner without privacy: the clip is part of the estimator."""

    def report(self, seen: Array, noise: Noise) -> Array:
        del noise
        return jnp.asarray(clip_norm(seen, 1.0, jnp))
