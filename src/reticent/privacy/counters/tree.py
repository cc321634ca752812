# SPDX-License-Identifier: Apache-2.0
"""The binary counting mechanism: noisy sums of dyadic blocks, the counter of the paper's section 6.1."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.privacy.counters.checks import check_floating, check_rounds
from reticent.privacy.counters.registry import register_counter


class TreeState(NamedTuple):
    r"""Rounds closed, the last release, the noise in it, and the noise of an earlier release for every level.

    The live blocks after round t are one for each set bit of t, and dropping the lowest bit drops the youngest block. So
    the noise in release t is :math:`N_t=N_{t'}+z_t` with t' = t without its lowest set bit, and all that later rounds
    need is, per level, the noise of the last release whose lowest bit it was: one row read and one written in a round.
    """

    t: Array
    released: Array
    noise: Array
    past: Array


class ReducedTreeState(NamedTuple):
    """Rounds closed, and per level the live block's exact sum and its estimate from all noisy sums inside it.

    A block of level k is live after round t if bit k of t is set (zero where it is not); live blocks partition 1..t.
    """

    t: Array
    exact: Array
    noisy: Array


@dataclasses.dataclass(frozen=True)
class TreeCounter:
    r"""Sums of dyadic blocks, each noised once; a release adds the blocks that partition 1..t.

    When round t closes, and i is its lowest set bit, the block of length :math:`2^i` that ends at t completes: its
    exact sum is the item plus the live exact sums of all lower levels, which are then dropped. Release t sums the live
    noisy blocks, one for each set bit of t. (How that is kept in memory is another matter: :class:`TreeState`.)

    With ``estimate="plain"`` (Algorithm 2 of Chan, Shi and Song, as in the paper) only that one block is noised in a
    round. With ``estimate="reduced"`` all i+1 blocks that end at t are, one of each level 0..i, and a block's estimate
    is

    .. math:: e_k=v_k\,(\text{own noisy sum})+(1-v_k)\,(e_{\text{left}}+e_{\text{right}}),\qquad
              v_k=\Bigl(1+\tfrac1{2v_{k-1}}\Bigr)^{-1}=\frac{2^k}{2^{k+1}-1},

    the inverse-variance weighting of the two independent estimates it has; its variance is :math:`v_k\sigma^2`. Then
    ``noise`` carries one array per level (:attr:`noise_shape_prefix`), of which the first i+1 are used.

    **Formal guarantee.** All releases are a function of the noisy block sums. An item is in at most one noised block
    of each level, and item 1 is in one of every level, so with :math:`m=\lfloor\log_2 n\rfloor+1` levels, noise of
    scale σ and items of norm at most Δ the transcript is μ-Gaussian-DP with :math:`\mu=\sqrt m\,\Delta/\sigma`, for
    either estimate (the reduced one post-processes), also when items depend on earlier releases: a block's noise is
    first used when its last item is in. For prefixes up to n = K-1, m is the paper's :math:`\lceil\log_2 K\rceil`.
    Release t has noise variance :math:`\sigma^2` times the number of set bits of t; reduced, times the sum of
    :math:`v_k` over them.

    References: Chan, Shi and Song, "Private and continual release of statistics", TISSEC 2011; Honaker, "Efficient use
    of differentially private binary trees", 2015, online as in Kairouz et al., arXiv 2103.00039; adaptivity: Denisov
    et al., arXiv 2202.08312.

    Rounds closed after the last are ignored.
    """

    rounds: int
    estimate: Literal["plain", "reduced"] = "plain"

    keeps_noisy_sums_only = False
    integer_strategy = True

    def __post_init__(self) -> None:
        check_rounds(self.rounds)
        if self.estimate not in ("plain", "reduced"):
            raise InvalidInput("estimate", self.estimate, "'plain' or 'reduced'", "choose one of the two")

    @property
    def name(self) -> str:
        return "tree" if self.estimate == "plain" else "tree-reduced"

    @property
    def levels(self) -> int:
        r""":math:`m=\lfloor\log_2 n\rfloor+1`."""
        return int(self.rounds).bit_length()

    @property
    def sensitivity(self) -> float:
        return math.sqrt(self.levels)

    @property
    def memory(self) -> int:
        return 2 * self.levels if self.estimate == "reduced" else self.levels + 2

    @property
    def noise_shape_prefix(self) -> tuple[int, ...]:
        """Leading axes of the round's noise before the item's shape: one array per level if reduced."""
        return () if self.estimate == "plain" else (self.levels,)

    def release_std(self) -> np.ndarray:
        t = np.arange(1, self.rounds + 1)
        variance = np.zeros(self.rounds)
        for level, of_block in enumerate(self._block_variances()):
            variance += of_block * (t >> level & 1)
        return np.sqrt(variance)

    def exposure(self) -> np.ndarray:
        # The exponent that frexp returns for a whole t is the number of its bits.
        return np.frexp(np.arange(1, self.rounds + 1, dtype=np.float64))[1].astype(np.float64)

    def strategy(self) -> np.ndarray:
        """One row for every block that is complete within n rounds."""
        rounds = np.arange(self.rounds)
        return np.concatenate(
            [
                (rounds >> level == block).astype(np.float64)[None]
                for level in range(self.levels)
                for block in range(self.rounds >> level)
            ]
        )

    def weights(self) -> np.ndarray | None:
        return None

    def init(self, shape: tuple[int, ...], dtype: Any) -> TreeState | ReducedTreeState:
        empty = jnp.zeros((self.levels, *shape), dtype)
        if self.estimate == "reduced":
            check_floating(self.name, dtype)
            return ReducedTreeState(jnp.int32(0), empty, empty)
        return TreeState(jnp.int32(0), jnp.zeros(shape, dtype), jnp.zeros(shape, dtype), empty)

    def close(self, state: Any, item: Array, noise: Array) -> TreeState | ReducedTreeState:
        if self.estimate == "reduced":
            return self._close_reduced(state, item, noise)
        return self._close_plain(state, item, noise)

    def release(self, state: Any) -> Array:
        released: Array = state.noisy.sum(axis=0) if self.estimate == "reduced" else state.released
        return released

    def _close_plain(self, state: TreeState, item: Array, noise: Array) -> TreeState:
        is_open = state.t < self.rounds
        t = jnp.where(is_open, state.t + 1, state.t)
        block = self._block_lengths(item.ndim)
        before = t & (t - 1)  # t without its lowest bit: the release whose blocks are still live
        row = jax.lax.population_count((before & -before) - 1)
        older = jnp.where(before > 0, state.past[jnp.minimum(row, self.levels - 1)], 0)
        within = older + noise
        released = (state.released - state.noise) + (item + within)
        past = jnp.where((block == (t & -t)) & is_open, within, state.past)
        return TreeState(t, jnp.where(is_open, released, state.released), jnp.where(is_open, within, state.noise), past)

    def _close_reduced(self, state: ReducedTreeState, item: Array, noise: Array) -> ReducedTreeState:
        is_open = state.t < self.rounds
        t = jnp.where(is_open, state.t + 1, state.t)
        block = self._block_lengths(item.ndim)
        length = jnp.where(is_open, t & -t, 0)
        completes, inside = block == length, block < length
        exact, noisy = self._nested_blocks(state, item, noise)

        def replace(live: Array, new: Array) -> Array:
            return jnp.where(completes, new, jnp.where(inside, 0, live))

        return ReducedTreeState(t, replace(state.exact, exact), replace(state.noisy, noisy))

    def _block_lengths(self, dimensions: int) -> np.ndarray:
        lengths = np.left_shift(np.int32(1), np.arange(self.levels, dtype=np.int32))
        return lengths.reshape(-1, *([1] * dimensions))

    def _block_variances(self) -> np.ndarray:
        if self.estimate == "plain":
            return np.ones(self.levels)
        powers = 2.0 ** np.arange(self.levels)
        return np.asarray(powers / (2 * powers - 1))

    def _nested_blocks(self, state: ReducedTreeState, item: Array, noise: Array) -> tuple[Array, Array]:
        """Exact sum and estimate of the block of each level that would end now; meaningful where it completes."""
        leaf = item, item + noise[0]
        own_weight = jnp.asarray(self._block_variances()[1:], state.noisy.dtype)
        _, above = jax.lax.scan(_parent, leaf, (state.exact[:-1], state.noisy[:-1], noise[1:], own_weight))
        exact, estimate = (jnp.concatenate([first[None], rest]) for first, rest in zip(leaf, above, strict=True))
        return exact, estimate


def _parent(right: tuple[Array, Array], level: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Exact sum and estimate of a block from those of its right and left half, its fresh noise and its own weight."""
    exact_left, estimate_left, fresh, own = level
    exact = exact_left + right[0]
    block = exact, own * (exact + fresh) + (1 - own) * (estimate_left + right[1])
    return block, block


@register_counter("tree")
def tree(sizes: tuple[int, ...]) -> TreeCounter:
    """The paper's binary counting mechanism."""
    return TreeCounter(len(sizes))


@register_counter("tree-reduced")
def reduced_tree(sizes: tuple[int, ...]) -> TreeCounter:
    """The binary tree with Honaker's estimate, which uses all of a block's noisy parts."""
    return TreeCounter(len(sizes), "reduced")
