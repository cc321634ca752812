# SPDX-License-Identifier: Apache-2.0
r"""What all releases together say of the rows and rewards of every cell: a Gaussian likelihood.

A release e says of a cell q, with N_q the visits of its users, :math:`\hat p_e` the row that they were measured against and
:math:`A_e` the round's directions,

.. math:: E[Y_q]=N_q\,A_eZ^\top(p^*_q-\hat p_{e,q}),\qquad
          \Sigma_q=\sigma_r^2I+N_q\,A_eZ^\top(\mathrm{diag}\,p-pp^\top)Z A_e^\top .

**Visits** are not known. The model's occupancies at the present estimate say :math:`\bar n_q`, and a noisy count
:math:`c_q` was released; with :math:`a=\bar n_q/2+0.005n` for how wrong the former may be and b the standard deviation of
the latter's noise, :math:`N_q=(a^2c_q+b^2\bar n_q)/(a^2+b^2)`, and 0 where no plan of the round takes q. Occupancies of
*all* rounds are computed anew whenever the estimate changes: early ones came from a wrong model.

**The likelihood** of :math:`Z^\top p^*_q` is Gaussian with

.. math:: \Lambda_q=\sum_eN^2A_e^\top\Sigma^{-1}A_e,\quad b_q=\sum_eNA_e^\top\Sigma^{-1}\big(Y_q+NA_eZ^\top\hat p_e\big);

rewards likewise, one number per cell.

All of it is post-processing of releases.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.dynamic_programming import HIGHEST
from reticent.agents.score.model_moments import REWARD_VARIANCE
from reticent.agents.score.posterior import symmetric
from reticent.agents.score.small_inverses import inverse

VISITS_WRONG, VISITS_MISSED = 0.5, 0.005
"""How wrong the model's visits may be: relative to themselves, and to the round's users."""

MIXED = 0.01
"""Share of the uniform distribution in the rows that sampling noise is computed from: none is certain."""

MOST_TOGETHER = 2**18
"""Numbers of a part of the releases that is worked on at once."""


class Release(NamedTuple):
    """One round's residual block as it was released, in its own units; Q cells, m directions.

    Attributes:
      choices: of the policies that the round's users followed, ``(C, H, S)``. at_random: ``(C,)``. users: ``(C,)``.
      tilt: A, ``(m, z)``. expected: :math:`AZ^\\top\\hat p`, ``(Q, m)``. expected_rewards: ``(Q,)``.
      moved: the released transitions, ``(Q, m)``. rewards: ``(Q,)``, in units of ``reward_scale``. counts: of visits,
        ``(Q,)``, in units of 1, with noise of standard deviation ``count_noise``.
      variance: of the noise on ``moved`` and ``rewards``.
      weight: how much it counts still; 0 is not at all.
    """

    choices: Array
    at_random: Array
    users: Array
    tilt: Array
    expected: Array
    expected_rewards: Array
    moved: Array
    rewards: Array
    counts: Array
    reward_scale: Array
    count_noise: Array
    variance: Array
    weight: Array


class Likelihood(NamedTuple):
    """Λ ``(Q, z, z)`` and b ``(Q, z)`` of rows along Z, and the same of mean rewards, ``(Q,)`` each."""

    information: Array
    moment: Array
    reward_information: Array
    reward_moment: Array


def no_releases(rounds: int, choices: tuple[int, int, int], cells: int, tilt: tuple[int, int], dtype: Any) -> Release:
    """Before any release; ``choices`` and ``tilt`` are shapes."""
    one, cell, moved = (jnp.zeros((rounds, *shape), dtype) for shape in ((), (cells,), (cells, tilt[0])))
    return Release(
        choices=jnp.zeros((rounds, *choices), jnp.int32),
        at_random=jnp.zeros((rounds, choices[0]), bool),
        users=jnp.zeros((rounds, choices[0]), dtype),
        tilt=jnp.zeros((rounds, *tilt), dtype),
        expected=moved,
        expected_rewards=cell,
        moved=moved,
        rewards=cell,
        counts=cell,
        reward_scale=one,
        count_noise=one + 1,
        variance=one + 1,
        weight=one,
    )


def faded(releases: Release, kept: Array) -> Release:
    """Releases that count ``kept`` of what they did."""
    return releases._replace(weight=kept * releases.weight)


def remembered(releases: Release, newest: Release, index: Array) -> Release:
    """With one more release at ``index``; nothing where there is no such index."""
    added: Release = jax.tree.map(
        lambda every, one: every.at[index].set(one.astype(every.dtype), mode="drop"), releases, newest
    )
    return added


def likelihood_of(basis: Array, releases: Release, rows: Array, initial: Array, floor: float) -> Likelihood:
    """What all releases say, with the visits that follow from these ``rows`` ``(G, S·A, S)`` and first states."""
    groups, pairs, states = rows.shape
    size, cells = basis.shape[1], groups * pairs
    mixed = ((1 - MIXED) * rows + MIXED / states).reshape(cells, states)

    def add(sums: tuple[Array, ...], several: Release) -> tuple[tuple[Array, ...], None]:
        visits = jax.vmap(lambda release: visits_of(release, rows, initial, floor))(several)  # (e, Q)
        tilt, variance = several.tilt, several.variance[:, None] + 1e-9
        directions = jnp.einsum("sz,emz->esm", basis, tilt, precision=HIGHEST)
        products = directions[..., :, None] * directions[..., None, :]
        mean = jnp.einsum("qs,esm->meq", mixed, directions, precision=HIGHEST)
        spread = jnp.einsum("qs,esmn->mneq", mixed, products, precision=HIGHEST) - mean[:, None] * mean[None]
        identity = jnp.eye(tilt.shape[1], dtype=tilt.dtype)[:, :, None, None]
        # Entries of all matrices side by side: what is written out entry by entry then reads memory in order.
        noise = jnp.moveaxis(variance * identity + visits * spread, (0, 1), (-2, -1))
        weight = several.weight[:, None] * visits
        gained = jnp.einsum("eqmn,enz->eqmz", weight[..., None, None] * inverse(noise), tilt, precision=HIGHEST)
        told = several.moved + visits[..., None] * several.expected
        scale = several.reward_scale[:, None]
        paid = weight * scale / (variance + REWARD_VARIANCE * scale**2 * visits)
        added = (
            jnp.einsum("emy,eqmz->qyz", tilt, visits[..., None, None] * gained, precision=HIGHEST),
            jnp.einsum("eqm,eqmz->qz", told, gained, precision=HIGHEST),
            (paid * visits * scale).sum(axis=0),
            (paid * (several.rewards + visits * scale * several.expected_rewards)).sum(axis=0),
        )
        return tuple(own + more for own, more in zip(sums, added, strict=True)), None

    start = tuple(jnp.zeros((cells, *shape), rows.dtype) for shape in ((size, size), (size,), (), ()))
    (information, moment, reward_information, reward_moment), _ = jax.lax.scan(add, start, _in_parts(releases, size))
    return Likelihood(symmetric(information), moment, reward_information, reward_moment)


def _in_parts(releases: Release, size: int) -> Release:
    """Releases in parts that are worked on at once, along a leading axis; the last one is filled up with empty ones."""
    rounds, cells, directions = releases.moved.shape
    together = max(1, min(rounds, MOST_TOGETHER // (cells * directions * size)))
    missing = -rounds % together

    def cut(leaf: Array) -> Array:
        # An empty release is the last one again, with the weight 0.
        filled = jnp.concatenate([leaf, jnp.repeat(leaf[-1:], missing, axis=0)]) if missing else leaf
        return filled.reshape(-1, together, *leaf.shape[1:])

    parts: Release = jax.tree.map(cut, releases)
    counted = (jnp.arange(rounds + missing) < rounds).reshape(-1, together)
    return parts._replace(weight=jnp.where(counted, parts.weight, 0.0))


def visits_of(release: Release, rows: Array, initial: Array, floor: float) -> Array:
    """N ``(Q,)``: visits of all cells by a round's users, from the model's occupancies and the noisy counts."""
    groups, pairs, states = rows.shape
    actions, horizon = pairs // states, release.choices.shape[-2]
    policy = floor + (1 - actions * floor) * jax.nn.one_hot(release.choices, actions, dtype=rows.dtype)
    policy = jnp.where(release.at_random[:, None, None, None], 1 / actions, policy)

    def step(occupancy: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
        index, chances = at
        acting = (occupancy[:, :, None] * chances).reshape(-1, pairs)
        return jnp.matmul(acting, rows[jnp.minimum(index, groups - 1)], precision=HIGHEST), acting

    start = release.users[:, None] * initial
    _, acting = jax.lax.scan(step, start, (jnp.arange(horizon), jnp.swapaxes(policy, 0, 1)))
    by_step = acting.sum(axis=1)
    modelled = (by_step.sum(axis=0, keepdims=True) if groups == 1 else by_step).ravel()
    taken = ((policy > 0) & (release.users > 0)[:, None, None, None]).any(axis=0).reshape(horizon, pairs)
    possible = (taken.any(axis=0, keepdims=True) if groups == 1 else taken).ravel()
    wrong = (VISITS_WRONG * modelled + VISITS_MISSED * release.users.sum()) ** 2
    noise = release.count_noise**2
    visits = (wrong * release.counts + noise * modelled) / jnp.maximum(wrong + noise, 1e-12)
    return jnp.where(possible, jnp.maximum(visits, 0.0), 0.0)
