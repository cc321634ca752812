# SPDX-License-Identifier: Apache-2.0
r"""In which coordinates a blend is learned: only directions that can change anything, each with its prior.

A parameter is :math:`\theta=c+B\eta` with an orthonormal basis B of the directions along which every row keeps the sum one.
For a blend that is :math:`\sum\theta=1`, c its centre and B a basis of the sum-zero vectors. Nothing is spent on the
direction that is public, and constants drop out of values: :math:`B^\top\phi_1=0`.

The prior of η has the mean 0 and a variance matched to what is declared: of Dirichlet(1) for weights on a simplex, of rows
that are Dirichlet(1) on their support elsewhere, and :math:`N(\tfrac12,\tfrac14)` for free reward weights.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.runtime import on_device
from reticent.worlds.models.model import Model


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Coordinates:
    """θ = centre + basis·η for one family of parameters.

    Attributes:
      centre: c, ``(d,)``. basis: B, ``(d, k)``. variance: of every coordinate of η a priori.
      total: the sum of nonnegative weights where that is declared (the simplex, scaled); else None. It is a number of the
        agent and not of its program, so that worlds which differ in it share one compiled program.
    """

    centre: Array
    basis: Array
    variance: Array
    total: Array | None

    @property
    def size(self) -> int:
        """k."""
        return int(self.basis.shape[1])

    def theta(self, eta: Array) -> Array:
        """The parameters ``(..., d)`` at η ``(..., k)``."""
        return self.centre + jnp.matmul(eta, self.basis.T, precision=jax.lax.Precision.HIGHEST)

    def eta(self, theta: Array) -> Array:
        """The coordinates ``(..., k)`` of parameters ``(..., d)``."""
        return jnp.matmul(theta - self.centre, self.basis, precision=jax.lax.Precision.HIGHEST)


def transition_coordinates(model: Model) -> Coordinates:
    """Of the transition parameters: sum-zero directions of a blend, elsewhere those that keep every row a distribution."""
    if model.sums_to_one:
        return simplex_coordinates(model.d1, 1.0)
    psi = np.asarray(model.transition_features)
    sums = psi.sum(axis=-1).reshape(model.d1, -1).T
    basis, centre = null_space(sums[np.abs(sums).sum(axis=1) > 0])
    rows = np.clip(np.einsum("d,dsan->san", centre, psi), 0, 1)
    support = (np.abs(psi).sum(axis=0) > 0).sum(axis=-1, keepdims=True)
    contrasts = np.einsum("dk,dsan->ksan", basis, psi)
    variance = float((rows * (1 - rows) / (support + 1)).sum() / max(float((contrasts**2).sum()), 1e-12))
    return Coordinates(on_device(centre), on_device(basis), jnp.asarray(variance), None)


def reward_coordinates(model: Model) -> Coordinates:
    """Of the reward parameters: contrasts where their sum is declared, themselves elsewhere, none where rewards are
    known."""
    if model.known_rewards is not None:
        return Coordinates(jnp.zeros(model.d2), jnp.zeros((model.d2, 0)), jnp.asarray(1.0), None)
    if model.reward_total is not None:
        return simplex_coordinates(model.d2, model.reward_total)
    return Coordinates(jnp.full(model.d2, 0.5), jnp.eye(model.d2), jnp.asarray(0.25), None)


def simplex_coordinates(dimension: int, total: float) -> Coordinates:
    """Of nonnegative weights with this sum, uniformly distributed a priori: Dirichlet(1) has the variance 1/d(d+1)."""
    basis, _ = null_space(np.ones((1, dimension)))
    variance = total**2 / (dimension * (dimension + 1))
    return Coordinates(
        jnp.full(dimension, total / dimension), on_device(basis), jnp.asarray(variance), jnp.asarray(float(total))
    )  # fmt: skip


def null_space(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis ``(d, k)`` of {x : rows·x = 0}, and the shortest x with rows·x = 1 in least squares."""
    values, vectors = np.linalg.eigh(rows.T @ rows)
    kept = values > 1e-9 * max(float(values[-1]), 1e-30)
    centre = vectors[:, kept] @ ((vectors[:, kept].T @ rows.sum(axis=0)) / values[kept])
    return vectors[:, ~kept], centre
