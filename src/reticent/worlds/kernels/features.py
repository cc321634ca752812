# SPDX-License-Identifier: Apache-2.0
r"""Finite features for a kernel: vectors :math:`\phi(z)\in\mathbb R^D` with :math:`\phi(z)^\top\phi(y)\approx k(z,y)`.

A learner in an RKHS becomes a linear one if the kernel has finite features, and the paper's discussion names the two ways:

* **Quadrature Fourier features** (Mutný & Krause 2018) for the squared-exponential kernel. By Bochner's theorem
  :math:`k(z,y)=\int\cos(\omega^\top(z-y))\,p(\omega)\,d\omega` with p Gaussian; Gauss–Hermite quadrature with n nodes per
  dimension turns the integral into a sum, and each node into a cosine and a sine. On a bounded set the error falls faster
  than exponentially in n, at the price of :math:`n^{\dim}` features.
* For the Matérn kernels p has heavy tails and quadrature fails. **Random Fourier features** draw ω from p, with an error of
  order :math:`1/\sqrt D`; **Nyström features** project on the span of k at D landmarks, and here the landmarks are chosen
  greedily from a *public* set of points. (Choosing them from users' states would release these, and a set that grows with
  the data would change D from round to round; a set that is fixed beforehand does neither.)

All maps have :math:`\|\phi(z)\|\le1`, since k(z, z) = 1. Inputs are meant to be scaled to about [0, 1], and
``lengthscale`` is in these units. :func:`approximation` measures what a map is worth.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

from reticent.errors import InvalidInput
from reticent.runtime import double_precision, double_precision_methods, on_device
from reticent.worlds.continuous.quadrature import hermite, tensor

# -- kernels ----------------------------------------------------------------------------------------------------------


@double_precision
def squared_exponential(lengthscale: float) -> Partial:
    r""":math:`k(z,y)=\exp(-\|z-y\|^2/2\ell^2)`."""
    return Partial(_squared_exponential, jnp.asarray(_positive(lengthscale)))


@double_precision
def matern(lengthscale: float, smoothness: float = 2.5) -> Partial:
    r"""The Matérn kernel of smoothness ν = 1/2, 3/2 or 5/2, the ones with elementary formulas."""
    if smoothness not in (0.5, 1.5, 2.5):
        raise InvalidInput("smoothness", smoothness, "0.5, 1.5 or 2.5", "choose one of the three")
    return Partial({0.5: _matern_1, 1.5: _matern_3, 2.5: _matern_5}[smoothness], jnp.asarray(_positive(lengthscale)))


def _squared_exponential(lengthscale: Array, z: Array, y: Array) -> Array:
    return jnp.exp(-(((z - y) / lengthscale) ** 2).sum() / 2)


def _matern_1(lengthscale: Array, z: Array, y: Array) -> Array:
    return jnp.exp(-_distance(z, y) / lengthscale)


def _matern_3(lengthscale: Array, z: Array, y: Array) -> Array:
    scaled = math.sqrt(3) * _distance(z, y) / lengthscale
    return (1 + scaled) * jnp.exp(-scaled)


def _matern_5(lengthscale: Array, z: Array, y: Array) -> Array:
    scaled = math.sqrt(5) * _distance(z, y) / lengthscale
    return (1 + scaled + scaled**2 / 3) * jnp.exp(-scaled)


def _distance(z: Array, y: Array) -> Array:
    return jnp.sqrt(((z - y) ** 2).sum())


# -- features ---------------------------------------------------------------------------------------------------------


@double_precision_methods
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Fourier:
    r"""Features :math:`\phi_j(z)=a_j\cos(\omega_j^\top z-\delta_j)`; a sine is a cosine with :math:`\delta=\pi/2`.

    ``frequencies`` is ``(D, p)``, ``phases`` and ``amplitudes`` are ``(D,)``.
    """

    frequencies: Array
    phases: Array
    amplitudes: Array

    @property
    def size(self) -> int:
        return int(self.phases.shape[0])

    @property
    def dimension(self) -> int:
        return int(self.frequencies.shape[1])

    def __call__(self, z: Array) -> Array:
        return self.amplitudes * jnp.cos(self.frequencies @ z - self.phases)


@double_precision_methods
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Nystrom:
    """Features ``whitening @ k(landmarks, z)`` with ``landmarks`` ``(D, p)`` and ``whitening`` ``(D, D)``."""

    landmarks: Array
    whitening: Array
    kernel: Partial

    @property
    def size(self) -> int:
        return int(self.landmarks.shape[0])

    @property
    def dimension(self) -> int:
        return int(self.landmarks.shape[1])

    def __call__(self, z: Array) -> Array:
        return jnp.dot(self.whitening, jax.vmap(self.kernel, in_axes=(0, None))(self.landmarks, z))


FeatureMap = Fourier | Nystrom


@double_precision
def quadrature_fourier(nodes: int, dimension: int, lengthscale: float) -> Fourier:
    r"""Quadrature Fourier features of the squared-exponential kernel: ``nodes ** dimension`` of them.

    The spectral density is normal with deviation :math:`1/\ell`. Opposite frequencies have the same cosine and the same
    sine up to sign, so one of each pair is kept with twice the weight; frequency zero has no sine.
    """
    _positive(lengthscale)
    grid = tensor([hermite(nodes, 0.0, 1 / lengthscale)] * dimension)
    # The rule integrates functions; what is wanted is the mean under the Gaussian, whose density is put back.
    bell = (
        np.exp(-(lengthscale**2) * (grid.nodes**2).sum(axis=1) / 2)
        * (lengthscale / math.sqrt(2 * math.pi)) ** dimension
    )
    mass = grid.weights * bell
    leading = _leading_sign(grid.nodes)
    return _cosines_and_sines(grid.nodes[leading >= 0], (mass * np.where(leading == 0, 1, 2))[leading >= 0])


@double_precision
def random_fourier(
    pairs: int, dimension: int, lengthscale: float, seed: int, smoothness: float | None = None
) -> Fourier:
    r"""Random Fourier features, a cosine and a sine for each of ``pairs`` frequencies.

    ``smoothness`` ν gives the Matérn kernel, whose spectral density is a Student distribution with 2ν degrees of freedom;
    None gives the squared-exponential one.
    """
    _positive(lengthscale)
    draw = np.random.default_rng(seed)
    frequencies = draw.standard_normal((pairs, dimension)) / lengthscale
    if smoothness is not None:
        frequencies *= np.sqrt(2 * smoothness / draw.chisquare(2 * smoothness, (pairs, 1)))
    return _cosines_and_sines(frequencies, np.full(pairs, 1 / pairs))


@double_precision
def nystrom(kernel: Partial, points: np.ndarray, size: int, *, tolerance: float = 1e-10) -> Nystrom:
    """Nyström features on at most ``size`` landmarks, chosen greedily from public ``points`` ``(n, p)``.

    Each landmark is the point that the ones before explain least (a pivoted Cholesky factorization), and none is taken
    that they explain up to ``tolerance``.
    """
    places = jnp.asarray(points)
    column = jax.jit(jax.vmap(kernel, in_axes=(0, None)))
    left = np.ones(len(points))  # k(z, z) = 1 for every kernel here
    chosen: list[int] = []
    factor = np.zeros((len(points), size))
    while len(chosen) < size and left.max() > tolerance:
        pivot = int(left.argmax())
        done = len(chosen)
        fresh = np.asarray(column(places, places[pivot])) - factor[:, :done] @ factor[pivot, :done]
        factor[:, done] = fresh / math.sqrt(left[pivot])
        left = np.maximum(left - factor[:, done] ** 2, 0)
        left[pivot] = 0
        chosen.append(pivot)
    triangle = np.tril(factor[chosen, : len(chosen)])
    return Nystrom(places[np.array(chosen)], jnp.asarray(np.linalg.inv(triangle)), kernel)


def _cosines_and_sines(frequencies: np.ndarray, mass: np.ndarray) -> Fourier:
    """Both features of each frequency, with squared amplitudes ``mass``; no sine of the zero frequency."""
    moving = np.flatnonzero((frequencies != 0).any(axis=1))
    return Fourier(
        frequencies=on_device(np.concatenate([frequencies, frequencies[moving]])),
        phases=on_device(np.concatenate([np.zeros(len(frequencies)), np.full(len(moving), np.pi / 2)])),
        amplitudes=jnp.asarray(np.sqrt(np.concatenate([mass, mass[moving]]))),
    )


def _leading_sign(nodes: np.ndarray) -> np.ndarray:
    """The sign of each row's first coordinate that is not zero (0 for the zero row): tells z from −z."""
    signs = np.sign(np.where(np.abs(nodes) < 1e-12, 0.0, nodes))
    first = np.argmax(signs != 0, axis=1)
    return np.asarray(signs[np.arange(len(nodes)), first])


def _positive(lengthscale: float) -> float:
    if not (math.isfinite(lengthscale) and lengthscale > 0):
        raise InvalidInput("lengthscale", lengthscale, "finite and above 0", "give a length in the inputs' units")
    return float(lengthscale)


# -- what an approximation is worth -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Approximation:
    """How well features reproduce a kernel on a set of points.

    Attributes:
      features: D, the number of features.
      points: how many points were tried, in all pairs.
      largest: the largest |k(z, y) − ϕ(z)ᵀϕ(y)| among them.
      mean: its mean.
    """

    features: int
    points: int
    largest: float
    mean: float


@double_precision
def approximation(features: FeatureMap, kernel: Partial, points: np.ndarray) -> Approximation:
    """Compare ``features`` with ``kernel`` on all pairs of ``points`` ``(n, p)``."""
    error = np.asarray(_errors(features, kernel, jnp.asarray(points)))
    return Approximation(features.size, len(points), float(error.max()), float(error.mean()))


@jax.jit
def _errors(features: FeatureMap, kernel: Partial, points: Array) -> Array:
    vectors = jax.vmap(features)(points)
    exact = jax.vmap(jax.vmap(kernel, in_axes=(None, 0)), in_axes=(0, None))(points, points)
    return jnp.abs(exact - vectors @ vectors.T)
