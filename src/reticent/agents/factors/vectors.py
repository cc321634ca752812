# SPDX-License-Identifier: Apache-2.0
"""Sums of users' vectors about tastes, each clipped to the unit ball: the only thing of users that is ever released.

Formal guarantee. Whatever a user's episode, belief and items are, the vector that reaches the round's sum (or leaves the
device, in the local model) has 2-norm at most 1. A user is in one round, so replacing their data moves everything that is
ever released by at most 2 in 2-norm, in one round; setting the contribution to zero moves it by at most 1
(:mod:`reticent.agents.score.calibration`). The mean, whitening and radius that a vector is formed with are functions of
earlier releases and of public numbers, so releases compose adaptively as one mechanism. *Proof*: docs/tastes.md.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.learning.plan import Plan
from reticent.privacy.counters.counter import Counter
from reticent.privacy.sums import PrivateSums, SumState
from reticent.privacy.trust import Law, Trust
from reticent_wire.clipping import clip_norm
from reticent_wire.forms.factors import Items

if TYPE_CHECKING:
    from reticent.agents.factors.learner import FactorsPlan


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TasteVectors(PrivateSums):
    """Noisy sums of clipped vectors, one row ``(1, m)``; see the module docstring.

    Attributes:
      items, bonus: how devices act and form vectors (:mod:`reticent_wire.forms.factors`).
    """

    noise_scale: Array
    grid: Array
    items: Items
    bonus: Array
    counter: Counter = dataclasses.field(metadata={"static": True})
    trust: Trust = dataclasses.field(metadata={"static": True})
    law: Law = dataclasses.field(default="gaussian", metadata={"static": True})

    def report(self, seen: Array, noise: Array | None) -> Array:
        """One user's contribution ``(1, m)``: clipped always, and noised in the local model."""
        return self.send(clip_norm(seen, 1.0, jnp)[None], noise)

    @property
    def contribution_bound(self) -> np.ndarray:
        return np.ones(self.noise_scale.shape)

    @property
    def device_rules(self) -> dict[str, Any]:
        return {"form": "factors", **self.items._asdict(), "bonus": self.bonus}

    def version_rules(self, plan: Plan[FactorsPlan]) -> dict[str, Array]:
        extension = plan.extension
        return {"mean": extension.mean, "whiten": extension.rule.whiten, "radius": extension.rule.radius}

    def released(self, state: SumState) -> Array:
        """The noisy sum ``(m,)`` of the last closed round."""
        return self.released_sums(state)[0]
