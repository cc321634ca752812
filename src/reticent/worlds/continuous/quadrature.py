# SPDX-License-Identifier: Apache-2.0
r"""Nodes and weights: how an integral over a box becomes a finite sum.

A :class:`Grid` is a set of nodes :math:`x_j\in\mathbb R^m` and weights :math:`w_j` with
:math:`\int f(x)\,dx\approx\sum_jw_jf(x_j)`. Grids are made from one-dimensional rules, either as their product
(:func:`tensor`: :math:`n^m` nodes) or by Smolyak's construction (:func:`sparse`: far fewer for the same degree, some of
them with negative weights). Which rule to take:

* :func:`legendre` is exact for polynomials of degree 2n − 1; the rule for smooth densities on a box.
* :func:`hermite` is exact for polynomials of degree 2n − 1 times a given Gaussian; for densities on the whole line.
* :func:`clenshaw_curtis` is exact for degree n − 1 only, but the nodes of n are among those of 2n − 1, which is what a
  sparse grid wants.
* :func:`trapezoid` is the equidistant rule one would write down first; kept to compare with.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from reticent.errors import InvalidInput


@dataclasses.dataclass(frozen=True)
class Grid:
    """Quadrature nodes ``(S, m)`` with weights ``(S,)`` and the box they fill, ``low`` to ``high``, each ``(m,)``."""

    nodes: np.ndarray
    weights: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def size(self) -> int:
        return int(self.weights.size)

    @property
    def dimension(self) -> int:
        return int(self.nodes.shape[1])

    @property
    def positive(self) -> bool:
        """Whether all weights are positive: then every normalised row is a distribution over the nodes."""
        return bool((self.weights > 0).all())

    def integrate(self, values: np.ndarray) -> np.ndarray:
        """The sum that stands for the integral of a function with these ``values`` at the nodes (last axis)."""
        return np.asarray(values @ self.weights)

    def probes(self, per_axis: int = 9) -> np.ndarray:
        """Equidistant points of the box, corners included, ``(n, m)``: where a property is checked off the nodes."""
        axes = [np.linspace(low, high, per_axis) for low, high in zip(self.low, self.high, strict=True)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.dimension)


# -- rules on an interval ---------------------------------------------------------------------------------------------


def legendre(size: int, low: float = -1.0, high: float = 1.0) -> Grid:
    """Gauss–Legendre on [``low``, ``high``].

    >>> rule = legendre(2, 0.0, 1.0)
    >>> round(float(rule.integrate(rule.nodes[:, 0] ** 3)), 12)
    0.25
    """
    _check_size(size)
    nodes, weights = np.polynomial.legendre.leggauss(size)
    return _on_interval(nodes, weights, low, high)


def trapezoid(size: int, low: float = -1.0, high: float = 1.0) -> Grid:
    """The trapezoid rule on [``low``, ``high``], end points included."""
    _check_size(size, least=2)
    weights = np.full(size, 2 / (size - 1))
    weights[[0, -1]] /= 2
    return _on_interval(np.linspace(-1, 1, size), weights, low, high)


def clenshaw_curtis(size: int, low: float = -1.0, high: float = 1.0) -> Grid:
    """Clenshaw–Curtis on [``low``, ``high``]: extrema of a Chebyshev polynomial; one node is the midpoint."""
    _check_size(size)
    if size == 1:
        return _on_interval(np.zeros(1), np.full(1, 2.0), low, high)
    angles = np.pi * np.arange(size) / (size - 1)
    even = np.arange(0, size, 2)
    # Weights integrate every Chebyshev polynomial of degree below n: ∫ T_k = 2 / (1 − k²) for even k, else 0.
    moments = np.zeros(size)
    moments[even] = 2 / (1 - even.astype(np.float64) ** 2)
    weights = np.linalg.solve(np.cos(np.outer(np.arange(size), angles)), moments)
    # The cosine of a right angle must come out as the same midpoint for every size, or grids would not be nested.
    return _on_interval(np.where(np.abs(np.cos(angles)) < 1e-15, 0.0, -np.cos(angles)), weights, low, high)


def hermite(size: int, centre: float = 0.0, scale: float = 1.0) -> Grid:
    r"""Gauss–Hermite on the line, for integrands of the form polynomial × normal density(``centre``, ``scale``).

    The Gaussian is divided out of the weights, so that the rule takes the integrand itself as all the others do. Its
    "box" is the hull of the nodes.
    """
    _check_size(size)
    if not scale > 0:
        raise InvalidInput("scale", scale, "above 0", "give the standard deviation of the Gaussian")
    nodes, weights = np.polynomial.hermite.hermgauss(size)
    weights = np.exp(np.log(weights) + nodes**2) * math.sqrt(2) * scale
    place = centre + math.sqrt(2) * scale * nodes
    return Grid(place[:, None], weights, place[:1], place[-1:])


def _on_interval(nodes: np.ndarray, weights: np.ndarray, low: float, high: float) -> Grid:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput("low, high", (low, high), "finite, with low below high", "give an interval")
    half = (high - low) / 2
    return Grid((low + half * (1 + nodes))[:, None], half * weights, np.array([float(low)]), np.array([float(high)]))


def _check_size(size: int, least: int = 1) -> None:
    if not (isinstance(size, int | np.integer) and size >= least):
        raise InvalidInput("size", size, f"a whole number of at least {least}", "give the number of nodes")


# -- grids on a box ---------------------------------------------------------------------------------------------------


def tensor(rules: Sequence[Grid]) -> Grid:
    """The product of one rule per coordinate; the last coordinate runs fastest."""
    if not rules:
        raise InvalidInput("rules", "none", "one per coordinate", "give at least one rule")
    places = itertools.product(*(rule.nodes for rule in rules))
    weights = rules[0].weights
    for rule in rules[1:]:
        weights = np.multiply.outer(weights, rule.weights).ravel()
    return Grid(
        np.array([np.concatenate(place) for place in places]),
        weights,
        np.concatenate([rule.low for rule in rules]),
        np.concatenate([rule.high for rule in rules]),
    )


def nested_size(level: int) -> int:
    """Nodes of the one-dimensional rule at ``level``: 1, 3, 5, 9, 17, …; each contains the one before."""
    return 1 if level == 0 else 2**level + 1


def sparse(
    level: int, low: Sequence[float], high: Sequence[float], rule: Callable[..., Grid] = clenshaw_curtis
) -> Grid:
    r"""Smolyak's sparse grid of ``level`` on a box, exact for polynomials of total degree 2·``level`` + 1.

    The combination of tensor products

    .. math:: \sum_{\ell-m<|\mathbf l|\le\ell}(-1)^{\ell-|\mathbf l|}\binom{m-1}{\ell-|\mathbf l|}
              \,U_{l_1}\otimes\dots\otimes U_{l_m}

    with rules :math:`U_l` of :func:`nested_size` nodes. It needs order :math:`2^\ell\ell^{m-1}` nodes instead of
    :math:`2^{\ell m}`, and pays with negative weights: rows on it need not be distributions.
    """
    if not (isinstance(level, int | np.integer) and level >= 0):
        raise InvalidInput("level", level, "a whole number of at least 0", "give the level of the sparse grid")
    dimension = len(low)
    found: dict[tuple[float, ...], float] = {}
    for levels in itertools.product(range(level + 1), repeat=dimension):
        short = level - sum(levels)
        if not 0 <= short < dimension:
            continue
        sign = (-1) ** short * math.comb(dimension - 1, short)
        part = tensor([rule(nested_size(each), a, b) for each, a, b in zip(levels, low, high, strict=True)])
        for node, weight in zip(part.nodes, part.weights, strict=True):
            key = tuple(np.round(node, 12) + 0.0)
            found[key] = found.get(key, 0.0) + sign * weight
    kept = {node: weight for node, weight in sorted(found.items()) if abs(weight) > 1e-14}
    return Grid(
        np.array(list(kept)),
        np.array(list(kept.values())),
        np.asarray(low, dtype=np.float64),
        np.asarray(high, dtype=np.float64),
    )
