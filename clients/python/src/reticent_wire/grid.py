# SPDX-License-Identifier: Apache-2.0
r"""The only rounding: numbers as whole multiples of a public power of two, on either side of the wire.

Each *user's* clipped statistics are rounded before anything is summed, so that all sums are exact and the order of
additions cannot show. Two things must hold for that, and both are checked when they matter, not assumed:

* **exact**: every integer stays below :data:`LARGEST_STEPS` = 2⁵³ grid steps, so that it is a floating-point number as it
  stands, and a sum times the grid loses nothing (:func:`whole`, :func:`require_exact`);
* **fine**: noise has a standard deviation of at least 2¹⁰ grid steps wherever there is any, from where on the discrete
  Gaussian's distance from the Gaussian is proven to be negligible (:func:`require_fine`).

Messages to a shuffler are on a coarse grid instead, whose noise is binomial and accounted for as such
(:mod:`reticent_wire.shuffling`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent_wire.clipping import Array, Namespace
from reticent_wire.errors import InvalidInput

Integers = NDArray[np.int64]

LARGEST_STEPS = 2**53
"""From here on, not every integer is a floating-point number."""

MINIMUM_BITS = 10
"""The coarsest grid accepted under Gaussian noise is σ/2^10."""

TAIL = 13.0
"""Standard deviations that noise stays within: exceeded with probability below 1e-37."""

LARGEST_SCALE = 2**49
"""The largest σ in grid steps: :data:`TAIL` of them are below :data:`LARGEST_STEPS`."""


def nearest(values: Array, grid: Array, xp: Namespace = np) -> Array:
    """Numbers in steps of ``grid``, rounded to the nearest whole one, ties to even; still floating-point numbers."""
    return xp.round(values / grid)


def dithered(values: Array, grid: Array, uniforms: Array, xp: Namespace = np) -> Array:
    r"""Numbers in steps of ``grid``, rounded down or up by chance: :math:`\lfloor x/g+v\rfloor`, v uniform on [0, 1).

    Right on average. A coarse grid makes this necessary: rounding to the nearest errs the same way for many users, and a
    sum over them would not forget it. The sensitivity is that of rounding to the nearest, :math:`\Delta+g\sqrt D`: v does
    not depend on the user's data, so neighbours may be compared at the same v (a mixture of mechanisms that are (ε, δ)-DP
    each is), and :math:`|\lfloor a+v\rfloor-\lfloor b+v\rfloor|<|a-b|+1`.
    """
    return xp.floor(values / grid + uniforms)


def whole(steps: ArrayLike) -> Integers:
    """Rounded steps as integers, exactly.

    Apply it to one user's *clipped* statistics. After clipping the error below cannot occur, so it says nothing about
    the user.

    Raises:
      InvalidInput: a number is not finite, or not below :data:`LARGEST_STEPS`.
    """
    numbers = np.asarray(steps, dtype=np.float64)
    if not (np.abs(numbers) < LARGEST_STEPS).all():  # also false for NaN
        raise InvalidInput("values", "out of range", "finite and below 2^53 grid steps", "clip before rounding")
    return numbers.astype(np.int64)


def quantize(values: ArrayLike, grid: float) -> Integers:
    """Whole multiples of ``grid``, the nearest: a deterministic function of each coordinate alone.

    Raises:
      InvalidInput: ``grid`` is no power of two, or a value is not finite, or too large for exact sums.
    """
    # Exact up to the rounding itself: a division by a power of two.
    return whole(nearest(np.asarray(values, dtype=np.float64), require_grid(grid)))


def round_at(values: ArrayLike, grid: float, uniforms: ArrayLike) -> Integers:
    """Whole multiples of ``grid``, by :func:`dithered` rounding."""
    return whole(dithered(np.asarray(values, np.float64), require_grid(grid), np.asarray(uniforms)))


def require_grid(grid: float) -> float:
    """``grid``, if it is a power of two.

    Raises:
      InvalidInput: it is not.
    """
    if not (math.isfinite(grid) and grid > 0.0 and math.frexp(grid)[0] == 0.5):
        raise InvalidInput("grid", grid, "a power of two", "use grid_for(sigma)")
    return float(grid)


def require_fine(scale: ArrayLike, grid: float) -> None:
    """Refuse a grid that is too coarse for the noise on it, or too fine for exact sums.

    ``scale`` are standard deviations; where one is 0 there is no noise, and nothing to hide.

    Raises:
      InvalidInput: a positive scale is below 2^10 grid steps, or above :data:`LARGEST_SCALE`.
    """
    scales = np.asarray(scale, dtype=np.float64)
    noisy = scales[scales > 0]
    if not (np.isfinite(scales).all() and (scales >= 0).all()):
        raise InvalidInput("noise scale", "negative or not finite", "finite and at least 0", "do not use these rules")
    least, most = (float(noisy.min()), float(noisy.max())) if noisy.size else (math.inf, 0.0)
    if least < grid * 2.0**MINIMUM_BITS:
        raise InvalidInput("grid", grid, f"at most {least * 2.0**-MINIMUM_BITS:g}", "use grid_for(sigma)")
    if most > grid * LARGEST_SCALE:
        raise InvalidInput("noise scale", most, f"at most {grid * LARGEST_SCALE:g}", "draw with one grid per counter")


def require_exact(most_steps: ArrayLike, users: int = 1) -> None:
    """Refuse sums of ``users`` contributions of up to ``most_steps`` grid steps that might reach 2^53: a public matter.

    Raises:
      InvalidInput: they might.
    """
    most = users * float(np.max(np.asarray(most_steps, dtype=np.float64), initial=0.0))
    if not most < LARGEST_STEPS:
        raise InvalidInput(
            "grid", f"so fine that a sum may have 2^{math.log2(most):.1f} steps", "so that all stay below 2^53",
            "serve fewer users, or a larger epsilon",
        )  # fmt: skip
