# SPDX-License-Identifier: Apache-2.0
r"""Exact discrete Gaussian noise on a device: integers in, integers out, no floating-point number on the way.

:math:`\mathcal N_{\mathbb Z}(0,s^2)`, :math:`P(k)\propto e^{-k^2/2s^2}`, by rejection from a discrete Laplace law, which
is itself made of coins of probability :math:`e^{-\gamma}` with rational γ (Canonne, Kamath and Steinke 2020, algorithms
1 to 3). Such a coin needs no value of :math:`e^{-\gamma}`: the number of successes in a row of coins γ/1, γ/2, γ/3, … is
even with exactly that probability.

Formal guarantee. Given uniform random integers, every law here is exact, not approximate: nothing is rounded, nothing is
cut off. Randomness is the operating system's, drawn when it is needed; there is no seed and no buffer, so there is
nothing to log, to restore, or to share after a ``fork``. Time does depend on the noise that is drawn (as in every
rejection sampler): who can time a device to the microsecond is not covered.

Why not OpenDP, which draws the service's noise: it is a compiled library of more than 20 MB with wheels for desktop
systems only, none for phones or browsers, and this client is to run wherever Python and NumPy do. The two samplers draw
the same law, to which tests hold both; the *rounding* before the noise has one implementation
(:mod:`reticent_wire.grid`).
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from reticent_wire.errors import InvalidInput
from reticent_wire.grid import LARGEST_SCALE

Uniform = Callable[[int], int]
"""A uniform integer from 0 to n − 1, given n."""


def draw(scale: NDArray[np.float64], grid: float) -> NDArray[np.int64]:
    """Independent integers of scale ``scale / grid``, coordinate by coordinate; 0 where the scale is 0.

    The quotient is exact: both numbers are fractions as they stand.

    Raises:
      InvalidInput: a scale is negative, not finite, or so large that noise might reach 2^53.
    """
    if not (np.isfinite(scale).all() and (scale >= 0).all() and 0 < grid < float("inf")):
        raise InvalidInput(
            "noise scale", "negative or not finite", "a finite number of at least 0", "ask the service's operator"
        )
    noise = np.zeros(scale.shape, np.int64)
    for value in np.unique(scale[scale > 0]):
        law = DiscreteGaussian.of(Fraction(float(value)) / Fraction(grid))
        places = scale == value
        noise[places] = [law.draw(secrets.randbelow) for _ in range(int(places.sum()))]
    return noise


@dataclasses.dataclass(frozen=True)
class DiscreteGaussian:
    """The law of scale s, with s² = ``numerator / denominator`` and proposals from a Laplace law of scale ``width``."""

    numerator: int
    denominator: int
    width: int

    @classmethod
    def of(cls, scale: Fraction) -> DiscreteGaussian:
        """The law of this scale; ``width`` is ⌊s⌋ + 1, which accepts about three proposals in four."""
        if not 0 < scale <= LARGEST_SCALE:
            raise InvalidInput(
                "noise scale", float(scale), f"above 0 and at most {LARGEST_SCALE} grid units", "use a coarser grid"
            )
        square = scale * scale
        return cls(square.numerator, square.denominator, int(scale) + 1)

    def draw(self, uniform: Uniform) -> int:
        r"""One draw: a proposal y is kept with probability :math:`\exp(-(|y|-s^2/t)^2/2s^2)`, t being the width."""
        square, unit, width = self.numerator, self.denominator, self.width
        # (|y| − s²/t)² / 2s² with s² = square/unit, over one denominator.
        below = 2 * square * unit * width * width
        while True:
            proposal = discrete_laplace(width, uniform)
            if exponential_coin((abs(proposal) * width * unit - square) ** 2, below, uniform):
                return proposal


def discrete_laplace(width: int, uniform: Uniform) -> int:
    r"""One draw of :math:`P(k)\propto e^{-|k|/t}`, t being ``width``.

    Its size is u + t·v: u among 0 … t − 1 is kept with probability :math:`e^{-u/t}`, v counts successes of
    :math:`e^{-1}` coins.
    """
    while True:
        fine = uniform(width)
        if not _short_coin(fine, width, uniform):
            continue
        coarse = 0
        while _short_coin(1, 1, uniform):
            coarse += 1
        size = fine + width * coarse
        if not uniform(2):
            return size
        if size:  # minus zero is zero again, and must not count twice
            return -size


def exponential_coin(above: int, below: int, uniform: Uniform) -> bool:
    r"""True with probability :math:`e^{-\gamma}`, γ = ``above / below`` ≥ 0: one coin per whole unit, one for the rest."""
    whole, rest = divmod(above, below)
    return all(_short_coin(1, 1, uniform) for _ in range(whole)) and _short_coin(rest, below, uniform)


def _short_coin(above: int, below: int, uniform: Uniform) -> bool:
    r"""True with probability :math:`e^{-\gamma}` for 0 ≤ γ ≤ 1.

    Coins γ/1, γ/2, … all succeed up to the k-th with probability :math:`\gamma^k/k!`, so their run is of even length
    with probability :math:`\sum_k(-\gamma)^k/k!=e^{-\gamma}`.
    """
    run = 0
    while uniform(below * (run + 1)) < above:
        run += 1
    return run % 2 == 0
