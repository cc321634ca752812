# SPDX-License-Identifier: Apache-2.0
r"""What a counter really does, read off by feeding it unit impulses.

Counters are linear: the releases are :math:`y=Ax+Bz`. Probing gives A and B without trusting anything a counter says of
itself. If item t moves by a unit, all releases together move by :math:`Ae_t` inside noise of covariance
:math:`\sigma^2BB^\top`; the best test between the two has

.. math:: \mu_t/\sigma^{-1}=\sqrt{(Ae_t)^\top(BB^\top)^{-1}Ae_t},

which is :math:`\|Ce_t\|` for the strategy C of a factorization mechanism, and what ``counter.sensitivity`` must bound.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.optimize import linprog

from reticent.privacy.counters.counter import Counter
from reticent.runtime import double_precision, on_device

__all__ = ["Response", "probe"]


class Response:
    """A ``(n, n)`` and B ``(n, n, p)`` of a counter of n rounds that asks for p draws a round."""

    def __init__(self, items: np.ndarray, noise: np.ndarray) -> None:
        self.items, self.noise = items, noise

    @property
    def rounds(self) -> int:
        return len(self.items)

    @functools.cached_property
    def filters(self) -> np.ndarray:
        """:math:`(BB^\top)^{-1}A`, ``(n, n)``: column t is the matched filter over releases for item t."""
        flat = self.noise.reshape(self.rounds, -1)
        return np.asarray(np.linalg.pinv(flat @ flat.T, rcond=1e-13, hermitian=True) @ self.items)

    @functools.cached_property
    def gram(self) -> np.ndarray:
        r""":math:`A^\top(BB^\top)^{-1}A`, ``(n, n)``: what items of several rounds cost together, as inner products."""
        gram = self.items.T @ self.filters
        return np.asarray((gram + gram.T) / 2)

    @functools.cached_property
    def exposures(self) -> np.ndarray:
        """The μ that releasing everything costs item t, per unit of movement and of σ; infinite without noise."""
        power = np.einsum("ti,ti->i", self.items, self.filters)
        flat = self.noise.reshape(self.rounds, -1)
        # What the noise does not reach is seen exactly.
        missed = self.items - flat @ np.linalg.pinv(flat, rcond=1e-13) @ self.items
        bare = np.abs(missed).max(axis=0) > 1e-9 * np.abs(self.items).max()
        return np.where(bare, np.inf, np.sqrt(np.maximum(power, 0.0)))

    @functools.cached_property
    def pure_exposures(self) -> np.ndarray:
        """The 1-norm of the least noise that hides a unit of item t in all releases; infinite where none does.

        What item t costs in ε per unit of movement and of the scale b, where the noise is Laplace.
        """
        flat = self.noise.reshape(self.rounds, -1)
        if flat.shape[0] == flat.shape[1] and np.linalg.matrix_rank(flat) == self.rounds:
            return np.asarray(np.abs(np.linalg.solve(flat, self.items)).sum(axis=0))
        # z = p - q with p, q >= 0: the 1-norm is linear in them.
        draws = flat.shape[1]
        solved = [
            linprog(np.ones(2 * draws), A_eq=np.hstack([flat, -flat]), b_eq=self.items[:, t], bounds=(0, None))
            for t in range(self.rounds)
        ]
        return np.array([result.fun if result.success else np.inf for result in solved])

    def hiding(self, rounds: int, moved: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """Noise of round ``rounds`` (0-based) that hides items moved by ``moved`` ``(rounds + 1, ...)``.

        ``hidden`` ``(rounds, p, ...)`` is what was added to the noise of the earlier rounds for the same purpose. The
        result ``(p, ...)`` is causal: it depends on items up to this round only.
        """
        t = rounds
        wanted = np.tensordot(self.items[t, : t + 1], moved, axes=1)
        wanted = wanted - np.einsum("sp,sp...->...", self.noise[t, :t], hidden)
        own = self.noise[t, t]
        power = float(own @ own)
        if power == 0.0:  # no noise of this round reaches this release: nothing can be hidden
            return np.zeros((own.size, *wanted.shape))
        return np.asarray(own.reshape(-1, *[1] * wanted.ndim) * wanted / power)


@double_precision
def probe(counter: Counter) -> Response:
    """Measure a counter's response over all its rounds (sizes to some hundreds)."""
    rounds, prefix = counter.rounds, tuple(getattr(counter, "noise_shape_prefix", ()))
    draws = math.prod(prefix)
    columns = rounds * (1 + draws)
    items, noise = np.zeros((rounds, columns)), np.zeros((rounds, draws, columns))
    items[np.arange(rounds), np.arange(rounds)] = 1.0
    noise.reshape(rounds * draws, columns)[np.arange(rounds * draws), rounds + np.arange(rounds * draws)] = 1.0

    def a_round(state: Any, at: tuple[Array, Array]) -> tuple[Any, Array]:
        state = counter.close(state, at[0], at[1].reshape(*prefix, columns))
        return state, counter.release(state)

    start = counter.init((columns,), jnp.float64)
    seen = np.asarray(jax.lax.scan(a_round, start, (on_device(items), on_device(noise)))[1])
    return Response(seen[:, :rounds], seen[:, rounds:].reshape(rounds, rounds, draws))
