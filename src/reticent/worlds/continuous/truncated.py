# SPDX-License-Identifier: Apache-2.0
r"""Normal distributions cut off at the walls of a box: density and sampler of one coordinate, from the same formula.

With :math:`a=\frac{\text{low}-\mu}{\sigma}`, :math:`b=\frac{\text{high}-\mu}{\sigma}` and Φ the normal distribution
function, the density is :math:`\frac{\varphi((x-\mu)/\sigma)}{\sigma(\Phi(b)-\Phi(a))}` on the interval, and
:math:`\mu+\sigma\,\Phi^{-1}\big(\Phi(a)+u(\Phi(b)-\Phi(a))\big)` has it if u is uniform. Both are smooth in x and μ,
which is what Gauss quadrature thrives on. Means outside the interval are allowed up to a few σ; farther out the two tails
of Φ cancel in floating point.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import ndtr, ndtri


def density(x: Array, mean: Array, deviation: Array, low: Array, high: Array) -> Array:
    """The density at ``x`` (zero outside the interval); everything broadcasts."""
    standard = (x - mean) / deviation
    mass = ndtr((high - mean) / deviation) - ndtr((low - mean) / deviation)
    bell = jnp.exp(-(standard**2) / 2) / (jnp.sqrt(2 * jnp.pi) * deviation)
    return jnp.where((x >= low) & (x <= high), bell / mass, 0.0)


def sample(uniform: Array, mean: Array, deviation: Array, low: Array, high: Array) -> Array:
    """The draw that ``uniform`` in [0, 1) selects, never outside the interval; everything broadcasts."""
    least, most = ndtr((low - mean) / deviation), ndtr((high - mean) / deviation)
    return jnp.clip(mean + deviation * ndtri(least + uniform * (most - least)), low, high)
