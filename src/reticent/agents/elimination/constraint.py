# SPDX-License-Identifier: Apache-2.0
r"""What one release says of the parameters: a strip :math:`|\hat e-\langle\hat X,\eta-\tilde\eta\rangle|\le b`.

The width follows from sampling and from the noise of both parts of the release,
:math:`b(\eta)=\beta+\sqrt{2\ell\,(v_0+v_1\|\eta-\tilde\eta\|^2)}`; for the fixed true η it holds with the probability
of Lemma 1 (i), for the radius W in the place of the distance it is b(n) of (2). A release is one strip, whichever model
was served and whether or not it was caught: each one keeps the truth.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from reticent.agents.score.dynamic_programming import HIGHEST


class Constraint(NamedTuple):
    """One strip, or several along leading axes.

    Attributes:
      features: X̂ ``(D,)``. error: ê. served: η̃ ``(D,)``.
      fixed: v₀, variance that does not depend on η. slope: v₁, variance per squared distance from η̃.
      bias: β. level: ℓ.
    """

    features: Array
    error: Array
    served: Array
    fixed: Array
    slope: Array
    bias: Array
    level: Array

    def width(self, distance: Array | float) -> Array:
        """b at this distance from the served parameter."""
        return self.bias + jnp.sqrt(2 * self.level * (self.fixed + self.slope * distance**2))


def violations(constraint: Constraint, eta: Array) -> Array:
    """The misfit over the width, ``(N,)``, of parameters ``(N, D)``: at most 1 inside the strip."""
    away = eta - constraint.served
    misfit = constraint.error - jnp.matmul(away, constraint.features, precision=HIGHEST)
    return jnp.abs(misfit) / constraint.width(jnp.sqrt((away**2).sum(axis=-1)))


def no_constraint(size: int, dtype: jnp.dtype) -> Constraint:
    """A strip that contains everything."""
    zeros, zero, one = jnp.zeros(size, dtype), jnp.zeros((), dtype), jnp.ones((), dtype)
    return Constraint(zeros, zero, zeros, one, zero, zero, one)
