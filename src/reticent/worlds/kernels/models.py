# SPDX-License-Identifier: Apache-2.0
r"""Models from a kernel over (s, a, s′): for who has no candidate models, only smoothness.

In a kernelized MDP the transition law is a function of :math:`z=(s,a,s')` in an RKHS; with finite features of the kernel it
is :math:`P(s'\mid s,a)=\langle\phi(z),\theta\rangle` up to their error, a linear mixture MDP with :math:`\psi=\phi`. States
(and next states) are scaled to [0, 1]. Actions are either points of their own, coordinates of z, or *separate*: every
action gets its own copy of the features, as the product with the kernel :math:`1[a=b]` does.

**The declared bound.** :math:`\phi_V(s,a)=\sum_jw_j\,\phi(s,a,x_j)V(x_j)`, and
:math:`\|\phi_V\|^2\le\sum_{jk}w_jw_k|\phi(s,a,x_j)^\top\phi(s,a,x_k)|\,\|V\|_\infty^2`. For Fourier features the inner
product depends on :math:`x_j-x_k` alone, so the bound is the same at every (s, a), real states included; with weights that
sum to the volume of the (unscaled) box it is at most that volume. It is computed, and declared as ``transition_bound``.

Features of a kernel are not distributions: ``sums_to_one`` is not declared, and a mixture that is one exactly need not
exist. :func:`fit_theta` says how near the features come to a given law.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial
from numpy.typing import ArrayLike

from reticent.errors import InvalidInput
from reticent.runtime import double_precision, on_device
from reticent.worlds.continuous.model import ContinuousModel, Rewards, largest_value_feature, make_continuous_model
from reticent.worlds.continuous.quadrature import Grid
from reticent.worlds.kernels.features import FeatureMap
from reticent.worlds.models.model import Model, make_model


@double_precision
def kernel_model(
    features: FeatureMap,
    states: ArrayLike,
    reward_features: ArrayLike,
    horizon: int,
    *,
    weights: ArrayLike | None = None,
    action_points: ArrayLike | None = None,
    initial: ArrayLike | None = None,
    transition_theta_bound: float | None = None,
    stationary: bool = True,
) -> Model:
    r"""A finite :class:`~reticent.worlds.Model` whose transition features are those of a kernel.

    Args:
      features: a map for z = (s, s′) if actions are separate, or for (s, a, s′) with ``action_points``.
      states: where the S states are, ``(S, m)``, scaled to about [0, 1].
      reward_features: ``(d2, S, A)``, of norm at most 1.
      horizon: number of steps H.
      weights: the volume that each state stands for, ``(S,)``, where states are unevenly spread: probabilities are a smooth
        density times these. Default 1.
      action_points: where the A actions are, ``(A, p)``; None makes them separate.
      initial, transition_theta_bound, stationary: as in :func:`reticent.worlds.make_model`.

    ``transition_bound`` is the bound of the module's docstring.
    """
    places = jnp.asarray(states, dtype=jnp.float64)
    actions = int(np.shape(reward_features)[2])
    of = _Join.make(
        features, places.shape[1], actions, action_points, np.zeros(places.shape[1]), np.ones(places.shape[1])
    )

    volumes = jnp.ones(len(places)) if weights is None else jnp.asarray(weights, dtype=jnp.float64)

    def row(here: Array, action: Array) -> Array:
        return jax.vmap(of, in_axes=(None, None, 0), out_axes=1)(here, action, places) * volumes

    psi = np.asarray(
        jax.jit(jax.vmap(jax.vmap(row, in_axes=(None, 0)), in_axes=(0, None)))(places, jnp.arange(actions))
    )
    bound = largest_value_feature(psi)
    by_feature = psi.transpose(2, 0, 1, 3)
    model = make_model(
        by_feature,
        reward_features,
        horizon,
        initial=initial,
        transition_bound=float(np.sqrt((np.abs(by_feature).sum(axis=3) ** 2).sum(axis=0)).max()),
        transition_theta_bound=transition_theta_bound,
        stationary=stationary,
    )
    # make_model knows an easier but larger bound; the smaller one is what is declared.
    return dataclasses.replace(model, transition_bound=bound)


@double_precision
def continuous_kernel_model(
    features: FeatureMap,
    rewards: Rewards,
    grid: Grid,
    actions: int,
    horizon: int,
    *,
    initial: Callable[[Array], Array],
    action_points: ArrayLike | None = None,
    transition_theta_bound: float | None = None,
    stationary: bool = True,
) -> ContinuousModel:
    """A :class:`~reticent.worlds.continuous.ContinuousModel` whose "densities" are the features of a kernel.

    States are scaled from the grid's box to [0, 1] before they enter ``features``; see :func:`kernel_model` for the rest.
    Rows are not normalised.
    """
    joined = _Join.make(features, grid.dimension, actions, action_points, grid.low, grid.high)
    return make_continuous_model(
        Partial(_apply, joined),
        rewards,
        grid,
        actions,
        horizon,
        initial=initial,
        normalise=False,
        transition_theta_bound=transition_theta_bound,
        sums_to_one=False,
        stationary=stationary,
    )


@dataclasses.dataclass(frozen=True)
class Fit:
    """The best blend of a model's features for a known law, and how far it is from it.

    Attributes:
      theta: the weights ``(d1,)``.
      norm: their length, which ``transition_theta_bound`` should cover.
      largest_error: the largest Σ_{s'} |P(s'|s,a) − ⟨ψ(s'|s,a), θ⟩| over (s, a): twice a total variation.
      mean_error: its mean over (s, a).
    """

    theta: np.ndarray
    norm: float
    largest_error: float
    mean_error: float


@double_precision
def fit_theta(model: Model, transitions: ArrayLike, *, ridge: float = 1e-8) -> Fit:
    """Least-squares weights for transition probabilities ``(S, A, S)``: what the kernel can say of them at best."""
    psi = np.asarray(model.transition_features).reshape(model.d1, -1)
    truth = np.asarray(transitions, dtype=np.float64)
    if truth.shape != (model.states, model.actions, model.states):
        wanted = f"({model.states}, {model.actions}, {model.states})"
        raise InvalidInput("transitions.shape", truth.shape, wanted, "give one row per state and action")
    gram = psi @ psi.T
    theta = np.linalg.solve(gram + ridge * np.trace(gram) / model.d1 * np.eye(model.d1), psi @ truth.ravel())
    error = np.abs(truth.ravel() - theta @ psi).reshape(truth.shape).sum(axis=-1)
    return Fit(theta, float(np.linalg.norm(theta)), float(error.max()), float(error.mean()))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Join:
    """Features of (s, a, s′) from a map of their joint coordinates; ``points`` are the actions', None if separate."""

    features: FeatureMap
    points: Array | None
    low: Array
    high: Array
    actions: int = dataclasses.field(metadata={"static": True})

    @classmethod
    def make(
        cls,
        features: FeatureMap,
        dimension: int,
        actions: int,
        points: ArrayLike | None,
        low: np.ndarray,
        high: np.ndarray,
    ) -> _Join:
        placed = None if points is None else on_device(np.asarray(points, dtype=np.float64))
        if placed is not None and (placed.ndim != 2 or placed.shape[0] != actions):
            raise InvalidInput("action_points.shape", placed.shape, f"({actions}, p)", "give one point per action")
        size = 2 * dimension + (0 if placed is None else placed.shape[1])
        if features.dimension != size:
            raise InvalidInput(
                "features: dimension", features.dimension, f"{size}, that of (s, a, s′)", "make a map of that dimension"
            )
        return cls(features, placed, jnp.asarray(low), jnp.asarray(high), actions)

    def __call__(self, state: Array, action: Array, following: Array) -> Array:
        here, there = ((place - self.low) / (self.high - self.low) for place in (state, following))
        if self.points is not None:
            return self.features(jnp.concatenate([here, self.points[action], there]))
        found = self.features(jnp.concatenate([here, there]))
        return (jax.nn.one_hot(action, self.actions, dtype=found.dtype)[:, None] * found).ravel()


def _apply(joined: _Join, state: Array, action: Array, following: Array) -> Array:
    return joined(state, action, following)
