# SPDX-License-Identifier: Apache-2.0
r"""The blend and its residuals from one model: what the two blocks of a vector say of the blend together.

The blend's own block was read as if every row were a blend. Where rows leave it, that block tells about the blend *and*
about the residuals of the cells that users visited: by the model

.. math:: b_D = \Lambda_D\eta+\sum_qU_q\delta_q+N(0,\Lambda_D),\qquad \delta_q\sim N(0,\Sigma_0),

with :math:`U_q=\sum_eJ_e^\top\Sigma_e^{-1}G_{e,q}` (:mod:`reticent.agents.score.misfit`) and the same residuals in every
release. However many users there are, b_D therefore says no more of η than the residuals leave it: a blend that was bent
towards what users do in the cells that they visit is not believed elsewhere. The residual block says of every cell

.. math:: r_q=\Lambda_q(\Psi_q\eta+\delta_q)+N(0,\Lambda_q),

:math:`\Psi_q` the candidates' rows of q along Z and r_q the moment around the centre of the coordinates. With
:math:`C_q=(\Lambda_q+\Sigma_0^{-1})^{-1}` the residuals are integrated out exactly, and what is left are k×k matrices:

.. math:: E=\Lambda_D-\sum_qU_qC_q\Lambda_q\Psi_q,\quad T=\Lambda_D+\sum_qU_qC_qU_q^\top,\quad v=b_D-\sum_qU_qC_qr_q,

.. math:: \Lambda=\sum_q\Psi_q^\top\Sigma_0^{-1}C_q\Lambda_q\Psi_q+E^\top T^{-1}E,\qquad
          b=\sum_q\Psi_q^\top\Sigma_0^{-1}C_qr_q+E^\top T^{-1}v .

Where residuals are believed to be small (Σ₀ → 0) this is the sum of both blocks' information; where they are large, the
average over cells, each of which counts once it is known better than its residual.

All of it is post-processing of releases.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.dynamic_programming import HIGHEST
from reticent.agents.score.posterior import Posterior, symmetric
from reticent.agents.score.small_inverses import solved_transposed

LEAST = 1e-9
"""Added to T, relative to its trace, so that it can be inverted before anything is known."""


def conditional(information: Array, covariance: Array) -> tuple[Array, Array]:
    """C ``(Q, z, z)`` for Λ and Σ₀, and the root R with :math:`C=R^\\top R`."""
    half = jnp.linalg.cholesky(covariance)
    inner = jnp.matmul(half.T, jnp.matmul(information, half, precision=HIGHEST), precision=HIGHEST)
    factor = jnp.linalg.cholesky(symmetric(inner) + jnp.eye(half.shape[0], dtype=half.dtype))
    own = jnp.broadcast_to(half.T, information.shape)
    root = jax.lax.linalg.triangular_solve(factor, own, left_side=True, lower=True)
    return jnp.einsum("qji,qjk->qik", root, root, precision=HIGHEST), root


def joint_posterior(
    information: Array, moment: Array, slopes: Array, covariance: Array, own: Posterior, coupling: Array
) -> Posterior:
    """The likelihood of η after both blocks, for one group of steps.

    Args:
      information: Λ ``(P, z, z)``. moment: r ``(P, z)``. slopes: Ψ ``(P, z, k)``. covariance: Σ₀ ``(z, z)``.
      own: of the blend's block, Λ_D ``(k, k)`` and b_D ``(k,)``. coupling: U ``(P, k, z)``.
    """
    spread, _ = conditional(information, covariance)
    known = jnp.matmul(spread, information, precision=HIGHEST)  # C Λ
    precision = jnp.linalg.inv(covariance)
    weighed = jnp.einsum("qzk,zy,qyx->qkx", slopes, precision, spread, precision=HIGHEST)  # Ψᵀ Σ₀⁻¹ C
    told = jnp.einsum("qkx,qxy,qyl->kl", weighed, information, slopes, precision=HIGHEST)
    told_moment = jnp.einsum("qkx,qx->k", weighed, moment, precision=HIGHEST)
    moved = jnp.einsum("qkz,qzy->qky", coupling, spread, precision=HIGHEST)  # U C
    response = own.information - jnp.einsum("qkz,qzy,qyl->kl", coupling, known, slopes, precision=HIGHEST)
    noise = own.information + jnp.einsum("qky,qly->kl", moved, coupling, precision=HIGHEST)
    rest = own.moment - jnp.einsum("qky,qy->k", moved, moment, precision=HIGHEST)
    size = noise.shape[0]
    noise = symmetric(noise) + LEAST * (jnp.trace(noise) + 1.0) * jnp.eye(size, dtype=noise.dtype)
    solved = solved_transposed(noise[None], response[None])[0]  # Eᵀ T⁻¹
    return Posterior(
        symmetric(told + jnp.matmul(solved, response, precision=HIGHEST)),
        told_moment + jnp.matmul(solved, rest, precision=HIGHEST),
    )
