# SPDX-License-Identifier: Apache-2.0
r"""What clipping does to the average vector, measured on replicas: users who are drawn from the public model.

Under the estimate a user's vector u has mean zero. Write the clipped vector of one block as
:math:`\mathrm{clip}(u)=a\,u+\rho` with a the matrix that makes ρ and u uncorrelated. Then to first order in the
distance of the truth from the estimate, :math:`E[\mathrm{clip}(u)]=a\,E[u]+E[\rho]`: the released sum is attenuated by
a and moved by an offset, and both are known from the model. They are averages over a few hundred replicas with public
random numbers, and how uncertain the offset is enters the posterior as noise. All of it is post-processing; no user is
in it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.dynamic_programming import HIGHEST, Estimate, chosen_rows, group_of
from reticent.agents.score.estimates import estimate_of
from reticent.agents.score.mixed_policies import MixedPolicies, served_as
from reticent.agents.score.residual_clip import Lengths
from reticent.agents.score.small_inverses import inverse
from reticent.agents.score.summed_reports import by_visited_cell
from reticent.learning.plan import Plan
from reticent.worlds import Episode
from reticent.worlds.episode import as_stay
from reticent.worlds.world import invert

if TYPE_CHECKING:
    from reticent.agents.score.learner import ScoreLearner
    from reticent.agents.score.round_plan import ScorePlan

REPLICAS = 200
"""Of each kind: explorers, and users of the greedy plan; or of each component of a round."""

MOST_ROWS = 2**17
"""Numbers of all rows beyond which replicas form the rows they meet, and not all of them beforehand."""

Blocks = tuple[tuple[int, int], tuple[int, int]]
"""Groups and size of the transition blocks, and of the reward blocks."""


class ClipEffect(NamedTuple):
    """Attenuation of the blocks, ``(T, k, k)`` and ``(G, r, r)``, the offset of one user ``(D,)``, and its variance."""

    transitions: Array
    rewards: Array
    offset: Array
    doubt: Array


def no_clip_effect(blocks: Blocks, dtype: Any) -> ClipEffect:
    """Of vectors that are not clipped."""
    identities = [jnp.broadcast_to(jnp.eye(size, dtype=dtype), (count, size, size)) for count, size in blocks]
    zero = jnp.zeros(sum(count * size for count, size in blocks), dtype)
    return ClipEffect(identities[0], identities[1], zero, zero)


def clip_effect(agent: ScoreLearner, plan: Plan[ScorePlan], key: Array, blocks: Blocks) -> ClipEffect:
    """The effect on a round's vectors; ``key`` is public."""
    # Compiled even where nothing else is (a replay): no user is in it, and one operation at a time it would take minutes.
    with jax.disable_jit(False):
        effect: ClipEffect = _clip_effect(agent, plan, key, blocks)
        return effect


@functools.partial(jax.jit, static_argnums=3)
def _clip_effect(agent: ScoreLearner, plan: Plan[ScorePlan], key: Array, blocks: Blocks) -> ClipEffect:
    agent, extension = agent.on_nodes(), plan.extension
    walk = _walk(agent, estimate_of(agent, extension))
    vectors, shares = _vectors(agent, plan, walk, key, agent.blend_vector)
    weights = jnp.repeat(shares / REPLICAS, REPLICAS)
    length = jnp.sqrt((vectors**2).sum(axis=1))
    kept = jnp.minimum(1.0, 1.0 / jnp.maximum(length, 1e-12))
    start, parts, offsets, doubts = 0, [], [], []
    for count, size in blocks:
        own = vectors[:, start : start + count * size].reshape(len(vectors), count, size)
        start += count * size
        attenuation, offset, doubt = _of_blocks(own, weights, kept)
        parts.append(attenuation)
        offsets.append(offset.ravel())
        doubts.append(doubt.ravel())
    radius = extension.reference.radius
    return ClipEffect(parts[0], parts[1], radius * jnp.concatenate(offsets), radius**2 * jnp.concatenate(doubts))


def residual_lengths(agent: ScoreLearner, plan: Plan[ScorePlan], key: Array) -> Lengths:
    """Lengths of the residuals of a round's users, in units of the plan's radius; ``key`` is public."""
    with jax.disable_jit(False):
        lengths: Lengths = _residual_lengths(agent, plan, key)
        return lengths


@jax.jit
def _residual_lengths(agent: ScoreLearner, plan: Plan[ScorePlan], key: Array) -> Lengths:
    walk = _walk(agent, estimate_of(agent, plan.extension))

    def square(served: Plan[ScorePlan], episode: Episode) -> Array:
        told, _ = by_visited_cell(served.extension.asked.reference, episode)
        return (told**2).sum()[None]

    squares, shares = _vectors(agent, plan, walk, key, square)
    return Lengths(squares[:, 0], jnp.repeat(shares / REPLICAS, REPLICAS))


def _vectors(
    agent: ScoreLearner,
    plan: Plan[ScorePlan],
    walk: Walk,
    key: Array,
    vector: Callable[[Plan[ScorePlan], Episode], Array],
) -> tuple[Array, Array]:
    """The ``vector`` of replicas, ``(m, D)``, as many of each kind, and the kinds' shares of the round's users."""

    def of_kind(served: Plan[ScorePlan], keys: Array) -> Array:
        return jax.vmap(lambda own: vector(served, _stay(agent, served, walk, own)))(keys)

    mixed_policies: MixedPolicies | None = plan.extension.mixed_policies
    if mixed_policies is None:
        keys, share = jax.random.split(key, (2, REPLICAS)), plan.extension.share
        kinds = agent.served(plan, -1), agent.served(plan, 2**30)
        vectors = jnp.concatenate([of_kind(served, own) for served, own in zip(kinds, keys, strict=True)])
        return vectors, jnp.stack([share, 1 - share])
    keys = jax.random.split(key, (mixed_policies.share.shape[0], REPLICAS))
    each = jax.lax.map(lambda each: of_kind(served_as(plan, each[0]), each[1]), (mixed_policies, keys))
    return each.reshape(-1, each.shape[-1]), mixed_policies.share


def _of_blocks(vectors: Array, weights: Array, kept: Array) -> tuple[Array, Array, Array]:
    """Attenuation ``(T, k, k)``, offset and its variance ``(T, k)`` of blocks ``(m, T, k)``."""
    _, count, size = vectors.shape
    identity = jnp.eye(size, dtype=vectors.dtype)
    if count * size == 0:
        empty = jnp.zeros((count, size), vectors.dtype)
        return jnp.zeros((count, size, size), vectors.dtype), empty, empty
    second = jnp.einsum("m,mti,mtj->tij", weights, vectors, vectors, precision=HIGHEST)
    level = jnp.maximum(jnp.trace(second, axis1=1, axis2=2), 1e-9) / size
    lost = jnp.einsum("m,mti,mtj->tij", weights * (1 - kept), vectors, vectors, precision=HIGHEST)
    attenuation = identity - jnp.matmul(
        lost, inverse(second + 1e-3 * level[:, None, None] * identity), precision=HIGHEST
    )
    rest = kept[:, None, None] * vectors - jnp.einsum("tij,mtj->mti", attenuation, vectors, precision=HIGHEST)
    offset = jnp.einsum("m,mti->ti", weights, rest)
    return attenuation, offset, jnp.einsum("m,mti->ti", weights**2, (rest - offset) ** 2)


class Walk(NamedTuple):
    """How replicas go on: the estimate, and cumulated rows of all pairs ``(G, S, A, n)`` where these are few enough."""

    estimate: Estimate
    cumulated: Array | None


def _walk(agent: ScoreLearner, estimate: Estimate) -> Walk:
    if estimate.rows is not None:
        return Walk(estimate, jnp.cumsum(estimate.rows, axis=-1))
    psi = agent.model.transition_features
    groups = estimate.theta.shape[0]
    if groups * psi[0].size > MOST_ROWS:
        return Walk(estimate, None)
    rows = jax.vmap(lambda theta: _cumulated(agent, psi, theta))(estimate.theta)
    return Walk(estimate, rows)


def _cumulated(agent: ScoreLearner, psi: Array, theta: Array) -> Array:
    """Distribution functions of the rows with features ``psi`` ``(d, …, n)``."""
    shape = psi.shape[1:]
    rows = chosen_rows(psi.reshape(psi.shape[0], -1, shape[-1]), theta, agent.coordinates.total is not None)
    # A blend's rows may be slightly negative after a Gaussian update; a distribution is needed here.
    rows = jnp.maximum(rows, 0.0)
    return (jnp.cumsum(rows, axis=-1) / jnp.maximum(rows.sum(axis=-1, keepdims=True), 1e-12)).reshape(shape)


def _stay(agent: ScoreLearner, plan: Plan[ScorePlan], walk: Walk, key: Array) -> Episode:
    """All visits of one user."""
    if agent.visits == 1:
        return _replica(agent, plan, walk, key)
    return as_stay(jax.vmap(lambda own: _replica(agent, plan, walk, own))(jax.random.split(key, agent.visits)))


def _replica(agent: ScoreLearner, plan: Plan[ScorePlan], walk: Walk, key: Array) -> Episode:
    """One user's episode under ``plan`` if the estimate behind it were the truth."""
    model, estimate = agent.model, walk.estimate
    groups = estimate.theta.shape[0]
    uniforms = jax.random.uniform(key, (1 + 3 * model.horizon,), estimate.rewards.dtype)
    draws = uniforms[1:].reshape(model.horizon, 3)

    def step(state: Array, at: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array, Array]]:
        index, draw = at
        group = group_of(groups, index)
        action = agent.act(plan, index, state, draw[0])
        if walk.cumulated is not None:
            row = walk.cumulated[group, state, action]
        else:
            row = _cumulated(agent, model.transition_features[:, state, action][:, None], estimate.theta[group])[0]
        slot = invert(row, draw[1])
        listed = None if estimate.rows is not None else model.successors
        following = slot if listed is None else listed[state, action, slot]
        reward = (draw[2] < estimate.rewards[group, state, action]).astype(draw.dtype)
        return following.astype(state.dtype), (state, action, reward)

    first = invert(jnp.cumsum(estimate.initial), uniforms[0]).astype(jnp.int32)
    last, (states, actions, rewards) = jax.lax.scan(step, first, (jnp.arange(model.horizon), draws))
    return Episode(jnp.concatenate([states, last[None]]), actions, rewards)
