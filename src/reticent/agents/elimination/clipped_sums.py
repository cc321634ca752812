# SPDX-License-Identifier: Apache-2.0
r"""Noisy sums of users' vectors, each clipped as a whole to the unit ball.

Formal guarantee (Lemma 0). Whatever a user's episode is, their vector has 2-norm at most 1 when it reaches the
round's sum (or leaves the device, in the local model), and what is not a number counts as zero. A user is in one
round. Replacing a user therefore moves everything that is ever released by at most 2 in 2-norm, in one round; setting
the contribution to zero moves it by at most 1. The scales that the vector was formed with are functions of earlier
releases, so that rounds compose adaptively as one Gaussian mechanism.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.privacy.counters.counter import Counter
from reticent.privacy.sums import PrivateSums, SumState
from reticent.privacy.trust import Law, Trust
from reticent_wire.forms.score import clipped


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ClippedSums(PrivateSums):
    """See the module docstring; a contribution is one row ``(1, D + 1)``.

    Attributes:
      noise_scale: standard deviation of the noise per coordinate, ``(1, D + 1)``.
      grid: spacing to which shuffled users round; 0 keeps vectors as they are.
    """

    noise_scale: Array
    grid: Array
    counter: Counter = dataclasses.field(metadata={"static": True})
    trust: Trust = dataclasses.field(metadata={"static": True})
    law: Law = dataclasses.field(default="gaussian", metadata={"static": True})

    def report(self, seen: Array, noise: Array | None) -> Array:
        """One user's contribution: clipped always, and noised in the local model."""
        return self.send(jnp.asarray(clipped(seen, jnp))[None], noise)

    @property
    def contribution_bound(self) -> np.ndarray:
        return np.ones(self.noise_scale.shape)

    def released(self, state: SumState) -> Array:
        """The noisy sum ``(D + 1,)`` of the last closed round."""
        return self.released_sums(state)[0]
