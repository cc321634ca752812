# SPDX-License-Identifier: Apache-2.0
r"""Sums of users' vectors, each clipped as a whole to the unit ball: the only thing of users that is ever released.

Formal guarantee. Whatever a user's episode is, the vector that reaches the round's sum (or leaves their device, in the
local model) has 2-norm at most 1: it is scaled down if it is longer, and what is not a number counts as zero. A user is
in one round. Replacing them therefore moves everything that is ever released by at most 2 in 2-norm, in one round;
setting them contribution to zero by at most 1 (:mod:`reticent.agents.score.calibration`). The matrices and the radius
that the vector was formed with are functions of earlier releases and of public numbers, so releases compose adaptively
as one mechanism.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.score.dynamic_programming import frame
from reticent.learning.aggregator import Noise
from reticent.learning.plan import Plan
from reticent.privacy.counters.counter import Counter
from reticent.privacy.sums import PrivateSums, SumState
from reticent.privacy.trust import Law, Trust
from reticent_wire.forms.score import clipped
from reticent_wire.forms.score_residual import FIELD
from reticent_wire.forms.score_start import with_start

if TYPE_CHECKING:
    from reticent.agents.score.round_plan import ScorePlan


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class UnitBall(PrivateSums):
    """Noisy sums of clipped vectors, one row ``(1, D)``; see the module docstring.

    Attributes:
      noise_scale: standard deviation of the noise per coordinate, ``(1, D)``.
      grid: spacing to which vectors are rounded in deployment and by shuffled users; 0 keeps them as they are.
      basis, reward_basis, pooled, likelihood: how vectors are formed, for devices
      (:mod:`reticent_wire.forms.score`).
      starts: S where the model does not declare where users begin, else 0: the last S numbers are then the indicator of
        them first state. start_share: τ, the share of the squared length that is theirs
        (:mod:`reticent_wire.forms.score_start`); what comes before them is clipped as a whole to the rest.
      directions: m where vectors have a residual block (:mod:`reticent_wire.forms.score_residual`), else None. The block is
        part of the vector that is clipped as a whole.
      rounded: whether there is a grid.
    """

    noise_scale: Array
    grid: Array
    basis: Array
    reward_basis: Array
    counter: Counter = dataclasses.field(metadata={"static": True})
    trust: Trust = dataclasses.field(metadata={"static": True})
    law: Law = dataclasses.field(default="gaussian", metadata={"static": True})
    pooled: bool = dataclasses.field(default=True, metadata={"static": True})
    likelihood: bool = dataclasses.field(default=False, metadata={"static": True})
    starts: int = dataclasses.field(default=0, metadata={"static": True})
    start_share: float = dataclasses.field(default=0.0, metadata={"static": True})
    directions: int | None = dataclasses.field(default=None, metadata={"static": True})
    rounded: bool = dataclasses.field(default=False, metadata={"static": True})

    # -- the user's side ----------------------------------------------------------------------------------------------

    def clip(self, seen: Array) -> Array:
        """The vector ``(D,)`` inside the unit ball: as it is if it was there, or its two parts, each within its share."""
        if self.starts:
            return jnp.asarray(with_start(seen[: -self.starts], seen[-self.starts :], self.start_share, jnp))
        return jnp.asarray(clipped(seen, jnp))

    def report(self, seen: Array, noise: Array | None) -> Array:
        """One user's contribution ``(1, D)``: clipped always, and noised in the local model."""
        return self.send(self.clip(seen)[None], noise)

    @property
    def contribution_bound(self) -> np.ndarray:
        return np.ones(self.noise_scale.shape)

    @property
    def device_rules(self) -> dict[str, Any]:
        form: dict[str, Any] = {"form": "score"}
        if self.starts:
            form = {"form": "score-start", "start_share": self.start_share}
        if self.directions is not None:
            form = {"form": "score-residual", "directions": float(self.directions)}
        return {
            **form, "basis": self.basis, "reward_basis": self.reward_basis,
            "pooled": self.pooled, "likelihood": self.likelihood,
        }  # fmt: skip

    def version_rules(self, plan: Plan[ScorePlan]) -> dict[str, Array]:
        extension = plan.extension
        reference, residual = extension.reference, extension.residual
        asked = {} if residual is None else residual.reference._asdict()
        return {
            "curious": extension.curious.astype(self.noise_scale.dtype),
            "framed_values": frame(plan.values[1:])[0],
            "framed_hopes": frame(extension.hoped[1:])[0],
            "explorers": extension.explorers.astype(self.noise_scale.dtype),
            "at_random": extension.at_random.astype(self.noise_scale.dtype),
            **reference._asdict(),
            **{FIELD + name: value for name, value in asked.items()},
        }

    # -- the server's side --------------------------------------------------------------------------------------------

    def released(self, state: SumState) -> Array:
        """The noisy sum ``(D,)`` of the last closed round."""
        return self.released_sums(state)[0]


class PlainState(NamedTuple):
    """The open round's sum and the last closed round's, ``(D,)`` each."""

    open: Array
    last: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PlainVectors:
    """Sums of vectors as they are, for the learner without privacy: no clip, no noise, no promise."""

    zero: Array

    def init(self) -> PlainState:
        return PlainState(self.zero, self.zero)

    def report(self, seen: Array, noise: Noise) -> Array:
        del noise
        return seen

    def absorb(self, state: PlainState, report: Array) -> PlainState:
        return state._replace(open=state.open + report)

    def close(self, state: PlainState, noise: Noise) -> PlainState:
        del noise
        return PlainState(self.zero, state.open)

    def released(self, state: PlainState) -> Array:
        return state.last

    def simulate_user_noise(self, key: Array) -> None:
        del key

    def simulate_round_noise(self, key: Array) -> None:
        del key
