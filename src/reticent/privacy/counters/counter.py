# SPDX-License-Identifier: Apache-2.0
r"""What a counter is: the continual release of a running sum.

A counter sees a stream of items :math:`x_1,\dots,x_n`, one per *round*, and after each round t releases a noisy version
of :math:`\sum_{i\le t} x_i`. All counters here are Gaussian *factorization mechanisms*: with a fixed strategy matrix C
(lower triangular) and independent noise :math:`z_t`, the releases are a function of :math:`Cx+z` alone. Hence the
privacy loss of one item of norm at most Δ, over *all* releases together and even if later items depend on earlier
releases, is that of one Gaussian mechanism with :math:`\mu=\Delta\,\|Ce_t\|_2/\sigma` (Denisov et al. 2022, for
adaptive streams).

A round may hold one user or a fixed public number of users; a user is in exactly one round.

Conventions:

* ``noise`` passed to :meth:`Counter.close` is the round's :math:`z_t`, independent over rounds and coordinates,
  *already at its final scale* σ (which may differ by coordinate). Counters only combine noise linearly, never draw it.
* ``sensitivity`` and ``release_std`` are stated per unit of Δ and σ.
* state is a pytree of arrays; ``close`` and ``release`` run under ``jit``, ``vmap`` and ``scan``.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from jax import Array

State = Any


class Counter(Protocol):
    """The interface every counter implements; see the module docstring for the meaning of each number."""

    @property
    def name(self) -> str:
        """The registered name, e.g. ``"tree"``."""
        ...

    @property
    def keeps_noisy_sums_only(self) -> bool:
        """Whether the state between rounds holds no sum without its noise: a look at it shows no more than releases do."""
        ...

    @property
    def integer_strategy(self) -> bool:
        """Whether all entries of C are 0 or 1: sums of integers stay integers, as exact discrete noise needs them, and an
        item is in ``sensitivity**2`` noised blocks, which is what Laplace noise is charged for."""
        ...

    @property
    def rounds(self) -> int:
        """n, the number of rounds whose sums are ever released. Rounds after that must not be closed."""
        ...

    @property
    def sensitivity(self) -> float:
        r""":math:`\max_t\|Ce_t\|_2`: how far one item of norm 1 moves everything the noise protects."""
        ...

    @property
    def memory(self) -> int:
        """How many arrays of the item's shape the state holds."""
        ...

    @property
    def noise_shape_prefix(self) -> tuple[int, ...]:
        """Leading axes of a round's noise before the item's shape: () unless a round closes several noisy blocks."""
        ...

    def release_std(self) -> np.ndarray:
        """Standard deviation of the noise in release t, for t = 1..n, per unit σ; shape ``(n,)``."""
        ...

    def exposure(self) -> np.ndarray:
        r"""The largest :math:`\|C_{1..t}\,e_i\|_2^2` over items i after release t, t = 1..n: the ledger's entries."""
        ...

    def strategy(self) -> np.ndarray:
        """C, ``(m, n)``: what the noise protects of the items of n rounds. For some hundreds of rounds; what users who
        return are charged for (:mod:`reticent.privacy.participation`)."""
        ...

    def weights(self) -> np.ndarray | None:
        """None for a plain running sum. Shape ``(n,)`` of per-round sizes if rounds are weighted (see ``epochs``)."""
        ...

    def init(self, shape: tuple[int, ...], dtype: Any) -> State:
        """The empty state for items of the given shape."""
        ...

    def close(self, state: State, item: Array, noise: Array) -> State:
        """End a round: ``item`` is the round's exact sum, ``noise`` its fresh noise."""
        ...

    def release(self, state: State) -> Array:
        """The noisy running sum after the last closed round (zero before the first)."""
        ...
