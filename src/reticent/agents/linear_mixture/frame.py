# SPDX-License-Identifier: Apache-2.0
r"""In which frame values enter the regression: centred, and measured against a range.

Since :math:`P` is a probability, :math:`P\,\frac{V-c}{\rho}=\langle\phi_{(V-c)/\rho},\theta\rangle` for any c and ρ that
are functions of V alone: the same θ explains the shifted and scaled pair, and the planner gets
:math:`PV=c+\rho\langle\phi_{(V-c)/\rho},\theta\rangle` back. The paper's choice is c = 0, ρ = 1 with the bound V ∈ [0, H].
Other frames cost nothing (V is public) and shrink the features' norm, hence the sensitivity that privacy must cover.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.worlds import Model
from reticent.worlds.models.model import Sizes

if TYPE_CHECKING:
    from reticent.agents.linear_mixture.off_grid import Between
    from reticent.learning.plan import Plan

Span = Literal["horizon", "step", "seen"]


@dataclasses.dataclass(frozen=True)
class Frame:
    """How V_{h+1} is shifted and scaled before it is used as feature and target.

    Attributes:
      centred: subtract the middle of the span instead of nothing.
      span: which range of values is assumed. ``"horizon"``: [0, H], the paper's. ``"step"``: [0, H−h], which is all that
        remains after step h. ``"seen"``: the range that the published V really has, with features and targets divided by
        their largest public norm, so that both lie in the unit ball whatever V is.
    """

    centred: bool = False
    span: Span = "horizon"

    @property
    def zero_at_the_end(self) -> bool:
        """Whether V_{H+1} = 0 has features 0, centre 0 and scale 1: not if all steps are centred at H/2."""
        return not (self.centred and self.span == "horizon")

    def features(self, model: Model, following: Array, remaining: Array) -> tuple[Array, Array, Array]:
        """All features of V_{h+1} in its frame, ``(d1, S, A)``, with the frame's c and ρ.

        ``following`` is V_{h+1} ``(S,)``; ``remaining`` is H−h, the number of steps left after this one.
        """
        centre = self.centre(model, following, remaining)
        features = model.value_features(following - centre)
        scale = self.scale(following - centre, (features**2).sum(axis=0).max())
        return features / scale, centre, scale

    def centre(self, model: Sizes, following: Array, remaining: Array) -> Array:
        """c, from V_{h+1} ``(S,)`` and the number of steps left after this one."""
        if self.span == "seen":
            low, high = following.min(), following.max()
            return (low + high) / 2 if self.centred else low
        ceiling = remaining if self.span == "step" else jnp.full_like(remaining, model.horizon)
        return ceiling / 2 if self.centred else jnp.zeros_like(ceiling)

    def scale(self, shifted: Array, longest: Array) -> Array:
        """ρ, from V_{h+1} − c ``(S,)`` and the largest squared norm of its features."""
        one = jnp.ones((), shifted.dtype)
        if self.span != "seen":
            return one
        reach = jnp.maximum(jnp.sqrt(longest), jnp.abs(shifted).max())
        # A constant V carries no information (its features are zero); any positive scale will do.
        return jnp.where(reach > 1e-6, reach, one)

    def bounds(self, model: Sizes) -> FrameBounds:
        """Declared bounds on features and targets at every step, for radii, sensitivities and clipping."""
        horizon = model.horizon
        remaining = np.arange(horizon - 1, -1, -1, dtype=np.float64)
        if self.span == "seen":
            active = (remaining > 0).astype(np.float64)
            return FrameBounds(feature=active, low=-active if self.centred else 0 * active, high=active)
        width = remaining if self.span == "step" else np.full(horizon, float(horizon))
        high = width / 2 if self.centred else width
        return FrameBounds(feature=model.transition_bound * high, low=-high if self.centred else 0 * high, high=high)


@dataclasses.dataclass(frozen=True)
class FrameBounds:
    """Per step ``(H,)``: features have norm at most ``feature``, targets lie in [``low``, ``high``]."""

    feature: np.ndarray
    low: np.ndarray
    high: np.ndarray


class LinOptPlan(NamedTuple):
    """What a plan of the paper's learner says beyond its tables.

    Attributes:
      centres, scales: the frame (c, ρ) of V_{h+1} at each step, ``(H,)``.
      features: the framed values' features of all pairs ``(H, d1, S, A)``, where many users are served the same plan and
        it pays to compute them once (:meth:`~reticent.learning.learner.Learner.for_many`); else None.
      off_grid: how the plan goes on between the nodes of a continuous model
        (:mod:`reticent.agents.linear_mixture.off_grid`); None where states are finitely many.
    """

    centres: Array
    scales: Array
    features: Array | None = None
    off_grid: Between | None = None

    @property
    def between(self) -> Between:
        """How the plan goes on between the nodes, of a model that has some."""
        assert self.off_grid is not None
        return self.off_grid


def framed_values(plan: Plan[LinOptPlan]) -> Array:
    """V_{h+1} in its frame, ``(H, S)``: what features and targets of this plan's users are made of."""
    frame = plan.extension
    return (plan.values[1:] - frame.centres[:, None]) / frame.scales[:, None]


PAPER_FRAME = Frame(centred=False, span="horizon")
