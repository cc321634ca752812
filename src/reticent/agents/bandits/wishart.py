# SPDX-License-Identifier: Apache-2.0
r"""Wishart noise: a Gram matrix hidden by the Gram matrix of people who do not exist (Sheffet 2019).

A user of a bandit contributes :math:`zz^\top` with :math:`z=(x,y)\in\mathbb R^p`, p = d + 1, :math:`\|z\|^2\le L^2`.
Each block of a binary tree gets one draw of :math:`W\sim\mathcal W_p(L^2I,k)`, the Gram matrix of k Gaussian vectors.
Noise that is positive definite needs no shift upwards; its mean :math:`kL^2I` is public and is subtracted.

**One block, exactly.** The density is :math:`f(W)\propto|W|^{(k-p-1)/2}e^{-\operatorname{tr}W/2L^2}`. With n = k − p
+ 1 and :math:`a=\|z\|^2/L^2\le1`, :math:`z^\top W^{-1}z=a/X` for an :math:`X\sim\chi^2_n`, and by the matrix
determinant lemma the privacy loss of taking z out or putting it in is a function of X alone:

.. math:: \ell_-(X)=-\tfrac{n-2}2\ln\big(1-\tfrac aX\big)-\tfrac a2,\qquad
          \ell_+(X)=-\tfrac{n-2}2\ln\big(1+\tfrac aX\big)+\tfrac a2 .

Exchanging z for v costs at most :math:`\ell_+(X_z)+\ell_-(X_v)`: the second determinant is taken at
:math:`W+zz^\top\succeq W`, whose inverse is smaller.

**Theorem.** Let m blocks contain the user, τ > 1 and :math:`\delta_1=m\,P(\chi^2_n\le\tau)`. With a = 1,
:math:`M_+(s)=E\,e^{s\ell_+}` and :math:`M_-(s)=E[1_{X>\tau}e^{s\ell_-}]`, let M(s) be the largest of 1,
:math:`M_+(s)` and :math:`M_-(s)` under zero-out, and :math:`\sqrt{\max(1,M_+(2s))\max(1,M_-(2s))}` under replace.
Then for every α = 1 + s > 1 the release of all blocks is (ε, δ)-DP with

.. math:: \delta=\delta_1+\tfrac1\alpha\big(1-\tfrac1\alpha\big)^{\alpha-1}e^{-s\varepsilon}M(s)^m .

Proof. As in :mod:`reticent.privacy.accounting.binomial`, :math:`E[(1-e^{\varepsilon-\ell})_+]` is split by the event
that every X that a removal needs is above τ (its complement has probability at most δ₁), and
:math:`(1-e^{-t})_+\le\alpha^{-1}(1-1/\alpha)^{\alpha-1}e^{st}`. Given earlier releases, a block's factor is at most
M(s) whatever z and v are: both losses are convex in a, so the moments are convex in a and largest at a = 0, where
they are at most 1, or at a = 1; Cauchy and Schwarz part the two of an exchange. ∎

Sheffet's own condition is :math:`k\ge d+\lceil28\varepsilon_0^{-2}\ln(4/\delta_0)\rceil` for one release, with
:math:`\varepsilon_0=\varepsilon/\sqrt{8m\ln(2/\delta)}` and :math:`\delta_0=\delta/2m` in the tree: that is 668 526
where the theorem above needs k = 158 (d = 5, m = 15, ε = 1, δ = 1e-5, zero-out; 498 under replace).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.optimize import minimize_scalar
from scipy.stats import chi2

from reticent.agents.linear_mixture.privatizer import Privatizer
from reticent.errors import InvalidInput
from reticent.privacy.accounting.account import Cost, gaussian_strength
from reticent.privacy.packing import pack_symmetric
from reticent.privacy.sensitivity import Adjacency

__all__ = ["WishartAccount", "WishartPrivatizer", "degrees_of_freedom", "sheffet_degrees", "wishart_epsilon"]

TAIL_SHARE = 0.1
"""δ₁ as a share of δ."""

NODES = 16001
MARGIN = 1e-8
"""Of the logarithm of a moment: above the error of its quadrature (2e-9 at the most where ε is of use)."""


@functools.lru_cache(maxsize=4096)
def wishart_epsilon(degrees: int, dimension: int, levels: int, delta: float, adjacency: Adjacency) -> float:
    """An ε for which ``levels`` blocks with ``degrees`` k of ``dimension`` p are together (ε, ``delta``)-DP; may be ∞."""
    n = degrees - dimension + 1
    tail = TAIL_SHARE * delta
    cut = float(chi2.ppf(tail / levels, n)) if n > 2 else 0.0
    if cut <= 1.0:
        return math.inf
    kept = math.log(delta - tail)

    def bound(log_s: float) -> float:
        s = math.exp(log_s)
        constant = s * math.log(s / (1 + s)) - math.log1p(s)
        return (levels * _log_moment(n, s, cut, adjacency) + constant - kept) / s

    # Near the Gaussian's best order, √(2 ln(1/δ))/μ with μ² = m/2n; every order gives a valid bound.
    centre = math.log(math.sqrt(4 * n * math.log(1 / delta) / levels))
    best = minimize_scalar(bound, bounds=(centre - 4, centre + 2), method="bounded", options={"xatol": 1e-6})
    return max(0.0, float(best.fun))


def degrees_of_freedom(epsilon: float, delta: float, levels: int, dimension: int, adjacency: Adjacency) -> int:
    """The fewest degrees of freedom that keep (ε, δ) in a tree of ``levels`` levels."""

    def keeps(degrees: int) -> bool:
        return wishart_epsilon(degrees, dimension, levels, delta, adjacency) <= epsilon

    high = dimension + 4
    while not keeps(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def sheffet_degrees(epsilon: float, delta: float, levels: int, features: int) -> int:
    """k of Shariff and Sheffet (2018), by advanced composition over the tree's levels; zero-out adjacency."""
    each = epsilon / math.sqrt(8 * levels * math.log(2 / delta))
    return features + 1 + math.ceil(28 * each**-2 * math.log(8 * levels / delta))


@dataclasses.dataclass(frozen=True)
class WishartAccount:
    """Accounts for Wishart noise in a ledger whose μ² counts blocks: ``unit`` is the μ that one block is booked with."""

    degrees: int
    dimension: int
    adjacency: Adjacency
    unit: float
    excess: float = 1.0
    law: str = "Wishart"
    pure: bool = False

    def strength(self, costs: Sequence[Cost], exposure: float) -> float:
        """The μ that these blocks are booked with."""
        return gaussian_strength(costs, exposure)

    def epsilon_of(self, mu: float, delta: float) -> float:
        """The ε of as many blocks as ``mu`` stands for."""
        levels = round((mu / self.unit) ** 2)
        return wishart_epsilon(self.degrees, self.dimension, levels, delta, self.adjacency) if levels else 0.0

    def strength_of(self, epsilon: float, delta: float) -> float:
        """What the ledger may book: the μ of the most blocks that are (``epsilon``, ``delta``)-DP."""
        levels = 0
        while self.epsilon_of(self.unit * math.sqrt(levels + 1), delta) <= epsilon and levels < 64:
            levels += 1
        return self.unit * math.sqrt(levels)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class WishartPrivatizer(Privatizer):
    """A privatizer of one step whose reward sums carry centred Wishart noise; ``noise_scale`` is its standard deviation.

    Attributes:
      degrees: k of one block.
      length: L², the largest :math:`|x|^2+y^2`.
    """

    degrees: int = dataclasses.field(default=0, metadata={"static": True})
    length: float = dataclasses.field(default=2.0, metadata={"static": True})

    def _draw(self, key: Array, prefix: tuple[int, ...]) -> Array:
        if prefix:
            raise InvalidInput("counter", self.counter.name, "the plain tree with Wishart noise", "use counter=tree")
        dtype, p = self.noise_scale.dtype, self.d2 + 1
        # Compiled even where nothing else is (a replay): the draw sees no data, and its rejection loop would take seconds.
        with jax.disable_jit(False):
            drawn = bartlett(key, self.degrees, p)
        noise = (self.length * (drawn - self.degrees * jnp.eye(p))).astype(dtype)
        silent = jnp.zeros(self.noise_scale.shape[-1] - (p - 1) * (p + 2) // 2, dtype)
        packed = jnp.concatenate([silent, pack_symmetric(noise[:-1, :-1]), noise[:-1, -1]])
        return packed[None]


@functools.partial(jax.jit, static_argnums=(1, 2))
def bartlett(key: Array, degrees: int, dimension: int) -> Array:
    """One draw of the Wishart law with identity scale, by Bartlett's triangular factor."""
    normal, gamma = jax.random.split(key)
    lower = jnp.tril(jax.random.normal(normal, (dimension, dimension), jnp.float64), -1)
    squares = 2 * jax.random.gamma(gamma, (degrees - jnp.arange(dimension, dtype=jnp.float64)) / 2, dtype=jnp.float64)
    factor = lower + jnp.diag(jnp.sqrt(squares))
    return jnp.matmul(factor, factor.T, precision=jax.lax.Precision.HIGHEST)


def _log_moment(n: int, s: float, cut: float, adjacency: Adjacency) -> float:
    """ln M(s) of the theorem."""
    if adjacency == "zero-out":
        return max(0.0, _log_removal(n, s, cut), _log_insertion(n, s))
    return 0.5 * (max(0.0, _log_removal(n, 2 * s, cut)) + max(0.0, _log_insertion(n, 2 * s)))


def _log_removal(n: int, s: float, cut: float) -> float:
    """ln E[1{X > cut} e^{sℓ₋}]; the loss falls with X, so what is beyond the last node is at most that node's."""
    return _log_expectation(n, lambda x: s * (-(n - 2) / 2 * np.log1p(-1 / x) - 0.5), cut, beyond=None)


def _log_insertion(n: int, s: float) -> float:
    """ln E e^{sℓ₊}; the loss is at most 1/2, so what is beyond the last node is at most e^{s/2}."""
    return _log_expectation(n, lambda x: s * (-(n - 2) / 2 * np.log1p(1 / x) + 0.5), 0.0, beyond=s / 2)


def _log_expectation(n: int, exponent: Callable[[Any], Any], low: float, beyond: float | None) -> float:
    """ln E[1{X > low} e^{g(X)}] for X ~ χ²_n by Simpson's rule, 45 standard deviations far; the rest is bounded."""
    spread = math.sqrt(2 * n)
    start = max(low, n - 45 * spread, 1e-6)
    stop = n + 45 * spread + 2000
    x = np.linspace(start, stop, NODES)
    log_terms = exponent(x) + chi2.logpdf(x, n)
    weights = np.full(NODES, 2.0)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    top = float(log_terms.max())
    inside = float((weights * np.exp(log_terms - top)).sum()) * (x[1] - x[0]) / 3
    last = float(exponent(x[-1:])[0]) if beyond is None else beyond
    outside = math.exp(min(last + float(chi2.logsf(stop, n)) - top, 700.0))
    below = math.exp(min((beyond or 0.0) + float(chi2.logcdf(start, n)) - top, 700.0)) if start > low else 0.0
    return top + math.log(inside + outside + below) + MARGIN
