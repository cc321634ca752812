# SPDX-License-Identifier: Apache-2.0
r"""The privatizer: counters assembled into a regularizer (section 6.1 of the paper).

A user's four products of every step travel as one array ``(H, D)``: the packed transition Gram, the transition moment,
the packed reward Gram, the reward moment. Packing is an isometry and all counters are linear, so one counter over that
array, with a noise scale per coordinate, *is* the paper's 4H counters.

Formal guarantee. Whatever the trajectories, the array that reaches the counter (or leaves the user, in the local model)
lies within the declared sensitivities: features are clipped to their norm, targets and rewards to their interval, by the
wire's form ``regressions`` (:mod:`reticent_wire.forms.regressions`), which service and devices run too, and
nowhere else. The regularized statistics are a function of the counter's releases; nothing else leaves this class
(:mod:`reticent.privacy.sums`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.linear_mixture.frame import LinOptPlan, framed_values
from reticent.agents.linear_mixture.regularizer import for_every_step
from reticent.agents.linear_mixture.statistics import Observation, Statistics, products
from reticent.learning.plan import Plan
from reticent.learning.small_matrices import raise_eigenvalues
from reticent.privacy.counters.counter import Counter
from reticent.privacy.packing import packed_size, unpack_symmetric
from reticent.privacy.sums import PrivateSums, SumState
from reticent.privacy.trust import Law, Trust
from reticent_wire.forms import regressions
from reticent_wire.forms.regressions import PairBounds


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Privatizer(PrivateSums):
    """A :class:`~reticent.agents.linear_mixture.regularizer.Regularizer` whose Z and z are shifted Gaussian noise.

    Attributes:
      noise_scale: σ per coordinate, ``(H, D)``.
      transition_shift, reward_shift: what is added to the Gram diagonals after t rounds, ``(rounds + 1, H)``.
      transition_floor, reward_floor: least eigenvalue of Λ after t rounds, ``(rounds + 1, H)``; with probability 1−α it
        is met without doing anything. Keeps Λ positive definite in the remaining cases.
      feature_bound, target_low, target_high: declared bounds of the transition regression per step, ``(H,)``.
      reward_bound, reward_low, reward_high: those of the reward regression.
      reward_basis, reward_centre: B ``(d2, k)`` and c ``(d2,)`` of the coordinates in which rewards are learned, for
        devices; d2 of this class is k.
      grid: spacing to which statistics are rounded in deployment and by shuffled users; 0 keeps them as they are.
      pooled: add the released sums of all steps up, for models whose parameters do not depend on the step.
      nonnegative_rewards: reward features are declared nonnegative, and clipped to that: their sensitivity rests on it.
    """

    noise_scale: Array
    transition_shift: Array
    reward_shift: Array
    transition_floor: Array
    reward_floor: Array
    feature_bound: Array
    target_low: Array
    target_high: Array
    reward_bound: Array
    reward_low: Array
    reward_high: Array
    reward_basis: Array
    reward_centre: Array
    grid: Array
    counter: Counter = dataclasses.field(metadata={"static": True})
    trust: Trust = dataclasses.field(metadata={"static": True})
    d1: int = dataclasses.field(metadata={"static": True})
    d2: int = dataclasses.field(metadata={"static": True})
    pooled: bool = dataclasses.field(default=False, metadata={"static": True})
    nonnegative_rewards: bool = dataclasses.field(default=False, metadata={"static": True})
    law: Law = dataclasses.field(default="gaussian", metadata={"static": True})

    # -- the user's side ----------------------------------------------------------------------------------------------

    @property
    def bounds(self) -> PairBounds:
        """What regression pairs are clipped to."""
        return PairBounds(
            self.feature_bound, self.target_low, self.target_high, self.reward_bound, self.reward_low,
            self.reward_high, self.nonnegative_rewards,
        )  # fmt: skip

    def clip(self, seen: Observation) -> Observation:
        """The observation within its declared bounds; unchanged if it was."""
        return regressions.clip(seen, self.bounds, jnp)

    def report(self, seen: Observation, noise: Array | None) -> Array:
        """One user's contribution ``(H, D)``: clipped always, and noised in the local model."""
        return self.send(self.pack(products(self.clip(seen))), noise)

    @property
    def contribution_bound(self) -> np.ndarray:
        return regressions.largest_products(self.bounds, self.d1, self.d2)

    @property
    def device_rules(self) -> dict[str, Any]:
        coordinates = {"reward_basis": self.reward_basis, "reward_centre": self.reward_centre}
        return {"form": "regressions", **self.bounds._asdict(), **coordinates}

    def version_rules(self, plan: Plan[LinOptPlan]) -> dict[str, Array]:
        return {"framed_values": framed_values(plan)}

    # -- the server's side --------------------------------------------------------------------------------------------

    def released(self, state: SumState) -> Statistics:
        sums = self.unpack(self.released_sums(state))
        # Pooled steps share one matrix: it is lifted once, and handed to every step.
        steps = slice(1) if self.pooled else slice(None)
        if self.pooled:
            sums = jax.tree.map(lambda leaf: leaf.sum(axis=0, keepdims=True), sums)
        row = jnp.minimum(state.rounds, self.transition_shift.shape[0] - 1)
        shift_p, floor_p, shift_r, floor_r = (
            table[row, steps]
            for table in (self.transition_shift, self.transition_floor, self.reward_shift, self.reward_floor)
        )
        lifted = sums._replace(
            transition_gram=lift(sums.transition_gram, shift_p, floor_p),
            reward_gram=lift(sums.reward_gram, shift_r, floor_r),
        )
        return for_every_step(lifted, self.horizon)

    # -- one array for the four products ------------------------------------------------------------------------------

    def pack(self, sums: Statistics) -> Array:
        """The four products as one array ``(H, D)``."""
        packed: Array = regressions.pack(sums, jnp)
        return packed

    def unpack(self, packed: Array) -> Statistics:
        """The inverse of :meth:`pack`."""
        ends = np.cumsum([packed_size(self.d1), self.d1, packed_size(self.d2)])
        gram_p, moment_p, gram_r, moment_r = jnp.split(packed, ends, axis=-1)
        return Statistics(unpack_symmetric(gram_p), moment_p, unpack_symmetric(gram_r), moment_r)


def lift(gram: Array, shift: Array, floor: Array) -> Array:
    """``gram + shift·I`` with eigenvalues raised to ``floor`` where they are below it; all batched over steps."""
    identity = jnp.eye(gram.shape[-1], dtype=gram.dtype)
    lifted: Array = raise_eigenvalues(gram + shift[..., None, None] * identity, floor)
    return lifted
