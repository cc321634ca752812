# SPDX-License-Identifier: Apache-2.0
r"""What is believed of the residuals of all cells, given every release so far.

A release e says of a cell q, with N_q the visits of its users, :math:`\hat p_e` the row that they were measured against and
:math:`A_e` the round's directions,

.. math:: E[Y_q]=N_q\,A_eZ^\top(p^*_q-\hat p_{e,q}),\qquad
          \Sigma_q=\sigma_r^2I+N_q\,A_eZ^\top(\mathrm{diag}\,p-pp^\top)Z A_e^\top .

**Visits** are not known. The model's occupancies at the present estimate say :math:`\bar n_q`, and a noisy count
:math:`c_q` was released; with :math:`a=\bar n_q/2+0.005n` for how wrong the former may be and b the standard deviation of
the latter's noise, :math:`N_q=(a^2c_q+b^2\bar n_q)/(a^2+b^2)`, and 0 where no plan of the round takes q. Occupancies of
*all* rounds are computed anew whenever the estimate changes: early ones came from a wrong model.

**Posterior.** With the prior :math:`\delta_q\sim N(0,\tau^2I/S)` around the blend's row :math:`g_0=Z^\top P_{\hat\theta}`,

.. math:: \Lambda_q=\sum_eN^2A_e^\top\Sigma^{-1}A_e,\quad
          b_q=\sum_eNA_e^\top\Sigma^{-1}\big(Y_q+NA_eZ^\top\hat p_e\big)-\Lambda_qg_0,\quad
          \hat\delta_q=(\Lambda_q+\tfrac S{\tau^2}I)^{-1}b_q ;

rewards likewise, one number per cell, prior :math:`N(0,\tau_r^2/4)`.

**How wrong the blend is** is learned: τ² and τ_r² are posterior means over a grid under the marginal likelihood of all
cells (empirical Bayes), with a prior that thins out as :math:`\tau^{-2}` above 0.02. Where the blend is right τ stays
small, and with it δ and its bonus.

All of it is post-processing of releases.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.dynamic_programming import HIGHEST
from reticent.agents.score.posterior import project_on_simplex, symmetric
from reticent.agents.score.small_inverses import inverse

SCALES = (0.0005, 0.003, 0.01, 0.02, 0.04, 0.07, 0.12, 0.2, 0.35, 0.6, 1.0, 2.0, 4.0)
"""The grid of τ."""

USUAL = 0.02
"""τ₀: beyond it the prior of τ thins out; also what is believed before any release."""

VISITS_WRONG, VISITS_MISSED = 0.5, 0.005
"""How wrong the model's visits may be: relative to themselves, and to the round's users."""

MIXED = 0.01
"""Share of the uniform distribution in the rows that sampling noise is computed from: none is certain."""

REWARD_VARIANCE = 0.25

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


class ResidualEstimate(NamedTuple):
    """What is believed of the residuals.

    Attributes:
      delta: ``(G, S·A, z)``. root: of its covariance, ``(G, S·A, z, z)``.
      reward_shift, reward_deviation: ``(G, S·A)``.
      scale, reward_scale: τ and τ_r.
      rows: the estimate's rows as distributions, ``(G, S·A, S)``: at which visits are computed.
    """

    delta: Array
    root: Array
    reward_shift: Array
    reward_deviation: Array
    scale: Array
    reward_scale: Array
    rows: Array


class ResidualState(NamedTuple):
    """All releases, as many as there are rounds along a leading axis, and what is believed."""

    releases: Release | None
    estimate: ResidualEstimate


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


def no_residual(basis: Array, blend: Array) -> ResidualEstimate:
    """Before any release; ``blend`` are the blend's rows ``(G, S·A, S)``."""
    states, size = basis.shape
    cells, dtype = blend.shape[:2], blend.dtype
    scale = jnp.asarray(USUAL, dtype)
    root = scale / jnp.sqrt(float(states)) * jnp.eye(size, dtype=dtype)
    return ResidualEstimate(
        delta=jnp.zeros((*cells, size), dtype),
        root=jnp.broadcast_to(root, (*cells, size, size)),
        reward_shift=jnp.zeros(cells, dtype),
        reward_deviation=jnp.full(cells, USUAL * REWARD_VARIANCE**0.5, dtype),
        scale=scale,
        reward_scale=scale,
        rows=blend,
    )


class Blend(NamedTuple):
    """What residuals are residuals of: the blend's rows ``(G, S·A, S)`` and rewards ``(G, S·A)``; and the distribution of
    first states ``(S,)``."""

    rows: Array
    rewards: Array
    initial: Array


def believe(basis: Array, releases: Release, blend: Blend, before: ResidualEstimate, floor: float) -> ResidualEstimate:
    """The posterior of all cells, with visits at the rows that were believed in ``before``."""
    # Compiled even where nothing else is (a replay): it sees releases alone, and one operation at a time it takes minutes.
    with jax.disable_jit(False):
        estimate: ResidualEstimate = _believe(basis, releases, blend, before, floor)
        return estimate


def rows_by(basis: Array, releases: Release, blend: Blend, before: ResidualEstimate, floor: float) -> ResidualEstimate:
    """What was believed ``before`` with the rows that releases give at its scales: a first guess, at half the price."""
    with jax.disable_jit(False):
        estimate: ResidualEstimate = _rows_by(basis, releases, blend, before, floor)
        return estimate


@functools.partial(jax.jit, static_argnums=4)
def _rows_by(basis: Array, releases: Release, blend: Blend, before: ResidualEstimate, floor: float) -> ResidualEstimate:
    groups, pairs, states = blend.rows.shape
    information, moment, reward_information, reward_moment = _likelihood(basis, releases, blend, before.rows, floor)
    prior = states / before.scale**2 * jnp.eye(basis.shape[1], dtype=moment.dtype)
    factor = jnp.linalg.cholesky(symmetric(information) + prior)
    half = jax.lax.linalg.triangular_solve(factor, moment[..., None], left_side=True, lower=True)
    delta = jax.lax.linalg.triangular_solve(factor, half, left_side=True, lower=True, transpose_a=True)[..., 0]
    known = REWARD_VARIANCE * before.reward_scale**2
    shift = known / (1 + known * reward_information) * reward_moment
    linear = blend.rows + jnp.matmul(delta, basis.T, precision=HIGHEST).reshape(blend.rows.shape)
    return before._replace(
        delta=delta.reshape(groups, pairs, -1), reward_shift=shift.reshape(groups, pairs),
        rows=project_on_simplex(linear, 1.0),
    )  # fmt: skip


def _likelihood(
    basis: Array, releases: Release, blend: Blend, rows: Array, floor: float
) -> tuple[Array, Array, Array, Array]:
    """Λ ``(Q, z, z)`` and b ``(Q, z)`` of rows around the blend's, and the same of rewards ``(Q,)``."""
    groups, pairs, states = rows.shape
    size, cells = basis.shape[1], groups * pairs
    mixed = ((1 - MIXED) * rows + MIXED / states).reshape(cells, states)

    def add(sums: tuple[Array, ...], several: Release) -> tuple[tuple[Array, ...], None]:
        visits = jax.vmap(lambda release: visits_of(release, rows, blend.initial, floor))(several)  # (e, Q)
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
    centre = jnp.matmul(blend.rows.reshape(cells, states), basis, precision=HIGHEST)
    moment = moment - jnp.einsum("qij,qj->qi", information, centre, precision=HIGHEST)
    return information, moment, reward_information, reward_moment - reward_information * blend.rewards.ravel()


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


@functools.partial(jax.jit, static_argnums=4)
def _believe(basis: Array, releases: Release, blend: Blend, before: ResidualEstimate, floor: float) -> ResidualEstimate:
    groups, pairs, states = blend.rows.shape
    size = basis.shape[1]
    information, moment, reward_information, reward_moment = _likelihood(basis, releases, blend, before.rows, floor)
    found, vectors = jnp.linalg.eigh(symmetric(information) / states)
    found = jnp.maximum(found, 0.0)
    turned = jnp.einsum("qij,qi->qj", vectors, moment, precision=HIGHEST) / states**0.5
    square = scale_of(found.ravel(), (turned**2).ravel())
    kept = square / (1 + square * found)
    delta = jnp.einsum("qij,qj->qi", vectors, kept * turned, precision=HIGHEST) / states**0.5
    root = vectors * jnp.sqrt(kept / states)[:, None, :]

    reward_square = scale_of(REWARD_VARIANCE * reward_information, REWARD_VARIANCE * reward_moment**2)
    prior = REWARD_VARIANCE * reward_square
    reward_variance = prior / (1 + prior * reward_information)
    linear = blend.rows + jnp.matmul(delta, basis.T, precision=HIGHEST).reshape(blend.rows.shape)
    return ResidualEstimate(
        delta=delta.reshape(groups, pairs, size),
        root=root.reshape(groups, pairs, size, size),
        reward_shift=(reward_variance * reward_moment).reshape(groups, pairs),
        reward_deviation=jnp.sqrt(reward_variance).reshape(groups, pairs),
        scale=jnp.sqrt(square),
        reward_scale=jnp.sqrt(reward_square),
        rows=project_on_simplex(linear, 1.0),
    )


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


def scale_of(information: Array, squares: Array) -> Array:
    """τ² by empirical Bayes: its posterior mean over the grid.

    ``information`` and ``squares`` ``(n,)`` are of independent numbers of prior variance τ²: the eigenvalues of what is
    known of them, and the squared moments along these.
    """
    grid = jnp.asarray(SCALES, information.dtype)
    variance = grid[:, None] ** 2
    shrunk = 1 + variance * information
    likelihood = (0.5 * variance * squares / shrunk - 0.5 * jnp.log(shrunk)).sum(axis=1)
    weight = jax.nn.softmax(likelihood - jnp.log1p((grid / USUAL) ** 2))
    return (weight * grid**2).sum()
