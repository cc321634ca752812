# SPDX-License-Identifier: Apache-2.0
r"""Plans over beliefs, for worlds in which asking or waiting tells something: point-based value iteration.

QMDP acts as if the user's kind became known after the action, so that it never pays for learning it. Here a plan has, for
every step h and state s, N vectors :math:`\alpha_i\in\mathbb R^Z`: what a course of action earns from (h, s) in each kind,
the blend among them. The device takes the first action of the largest :math:`\langle\alpha_i,b\rangle`.

The first Z vectors are the optimal plans of single kinds, evaluated in every kind. The others are made backwards at
*points*, beliefs b that simulated users reach: for every action the best vector after every reward and next state,

.. math:: \alpha_{b,a}(z)=r_z(s,a)+\sum_{r,s'}p_z(r,s'\mid s,a)\,\alpha_{i(b,a,r,s')}(z),\qquad
          i(b,a,r,s')=\arg\max_i\textstyle\sum_zb_zp_z(r,s'\mid s,a)\,\alpha_i(z),

and of these the one with the largest :math:`\langle\alpha_{b,a},b\rangle`.

Guarantee (docs/personal.md has the proof). Whatever the points are, a user who acts by the plan earns at least
:math:`\max_i\langle\alpha_i,b\rangle` in expectation over the kinds of b, from every step, state and belief: at least what
the optimal plan of any kind or of the blend earns there. With all beliefs that can be reached among the points, as much as
any policy. QMDP is no single course of action, and no such bound compares the two: :func:`better_plan` takes QMDP where
public simulated users earn more by it, so that what may be lost to it is what that comparison cannot tell.

Everything here is a function of public laws, published shares and public random numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.kinds.belief import Laws, told, with_blend
from reticent.errors import InvalidInput
from reticent.worlds import Model
from reticent.worlds.world import invert
from reticent_wire.forms.kinds import belief
from reticent_wire.forms.kinds_planned import planned

WALKS = 2048
"""Simulated episodes in which points are found, with an action at random in half of the steps."""

COMPARED = 4096
"""Simulated episodes by which a plan over beliefs and QMDP are compared."""

CLEARLY = 2.0
"""Standard errors of their mean difference by which QMDP must be better to be taken."""

MOST_NUMBERS = 2**17
"""Numbers of a plan, which every device fetches with every version."""

MOST_WORK = 2**32
"""Products of one plan; it is made anew for every version."""

Act = Callable[[Array, Array, Array], Array]
"""The action at a step, a state and a belief ``(Z,)``."""


class BeliefPlan(NamedTuple):
    """Vectors ``(H, S, N, Z)`` and the action that each begins with, ``(H, S, N)``."""

    vectors: Array
    choices: Array


class Published(NamedTuple):
    """What a plan is made of.

    Attributes:
      kinds: laws of the M kinds. blend: shares of the blend, ``(M,)``.
      tables: optimal tables of the kinds and, last, of the blend, ``(H, Z, S, A)``. shares: w, ``(Z,)``.
    """

    kinds: Laws
    blend: Array
    tables: Array
    shares: Array

    @property
    def laws(self) -> Laws:
        """Of the kinds and, last, of the blend."""
        return with_blend(self.kinds, self.blend)


def require_small(model: Model, points: int) -> None:
    """Refuse models of which a plan would be too large to publish or to make with every version.

    Raises:
      InvalidInput: it would.
    """
    kinds, (states, actions, entries) = model.d1 + 1, model.transition_features.shape[1:]
    vectors = model.horizon * states * (points + kinds)
    remedy = "use plan=qmdp, or lower points"
    if vectors * kinds > MOST_NUMBERS:
        raise InvalidInput("plan", f"point-based, of {vectors * kinds:,} numbers", f"at most {MOST_NUMBERS:,}", remedy)
    work = vectors * kinds * points * actions * 2 * entries
    if work > MOST_WORK:
        raise InvalidInput("plan", f"point-based, of {work:,} products", f"at most {MOST_WORK:,}", remedy)


def better_plan(known: Published, model: Model, points: int, key: Array) -> BeliefPlan:
    """The plan over beliefs, or QMDP in the same form if simulated users clearly earn more by that. The ``key`` is
    public."""
    found, compared = jax.random.split(key)
    made = plan_over_beliefs(known, model, reached(known, model, points, found))
    same = as_belief_plan(known.tables, made.choices.shape[-1])
    uniforms = _uniforms(compared, COMPARED, known, model)
    earned = [_walks(known, model, functools.partial(chosen, plan), uniforms)[2] for plan in (made, same)]
    lost = earned[1] - earned[0]
    worse = lost.mean() > CLEARLY * lost.std() / COMPARED**0.5
    return BeliefPlan(*(jnp.where(worse, *both) for both in zip(same, made, strict=True)))


def chosen(plan: BeliefPlan, step: Array | int, state: Array | int, chances: Array) -> Array:
    """The action at a belief ``(Z,)``."""
    action: Array = planned(chances, plan.vectors[step, state], plan.choices[step, state])
    return action


def of_actions(plan: BeliefPlan, shares: Array, actions: int) -> Array:
    """What the best vector of every action promises a new user, ``(H, S, A)``; without one the least of all."""
    promised = plan.vectors @ shares
    own = plan.choices[..., None] == jnp.arange(actions)
    least = promised.min(axis=-1, keepdims=True)
    return jnp.where(own, promised[..., None], least[..., None]).max(axis=-2)


def as_belief_plan(tables: Array, count: int) -> BeliefPlan:
    """QMDP as a plan: one vector for each action, its optimal values by kind, the last one repeated up to ``count``."""
    vectors = jnp.transpose(tables, (0, 2, 3, 1))
    order = jnp.minimum(jnp.arange(count), vectors.shape[2] - 1)
    return BeliefPlan(vectors[:, :, order], jnp.broadcast_to(order.astype(jnp.int32), (*vectors.shape[:2], count)))


def reached(known: Published, model: Model, points: int, key: Array) -> Array:
    """Beliefs ``(H, S, points, Z)`` that simulated users reach, as far from each other as can be; the published shares
    stand where a state has fewer."""

    def act(step: Array, state: Array, chances: Array) -> Array:
        return (chances @ known.tables[step, :, state]).argmax()

    states, beliefs, _ = _walks(known, model, act, _uniforms(key, WALKS, known, model), wander=True)

    def of_state(here: Array, seen: Array) -> Array:
        def farthest(distance: Array, _: None) -> tuple[Array, Array]:
            place = distance.argmax()
            point = jnp.where(here[place], seen[place], known.shares)
            # Rounded, so that it does not take the last bits of a belief to decide which of two is farther.
            away = jnp.round(jnp.abs(seen - point).sum(axis=-1), 6)
            return jnp.where(here, jnp.minimum(distance, away), -1.0), point

        start = jnp.where(here, jnp.inf, -1.0)
        return jax.lax.scan(farthest, start, None, length=points)[1]

    def of_step(at: tuple[Array, Array]) -> Array:
        return jax.vmap(of_state, in_axes=(0, None))(at[0] == jnp.arange(model.states)[:, None], at[1])

    found: Array = jax.lax.map(of_step, (states.T, jnp.swapaxes(beliefs, 0, 1)))
    return found


def plan_over_beliefs(known: Published, model: Model, points: Array) -> BeliefPlan:
    """The plan whose vectors are those of single kinds and those made at ``points`` ``(H, S, P, Z)``; where these are fewer
    than actions, the published shares are a point several times, so that QMDP has room for its own."""
    laws, kinds = known.laws, known.shares.size
    missing = max(0, model.actions - points.shape[2] - kinds)
    more = jnp.broadcast_to(known.shares, (*points.shape[:2], missing, kinds))
    points = jnp.concatenate([points, more], axis=2)
    greedy = known.tables.argmax(axis=-1)

    def backwards(after: Array, at: tuple[Array, Array]) -> tuple[Array, BeliefPlan]:
        beliefs, choices = at

        def of_state(state: Array) -> BeliefPlan:
            values, joint, following = _outcomes(laws, model, state, after)
            scores = jnp.einsum("pz,zarn,aniz->parni", beliefs[state], joint, following)
            best = scores.argmax(axis=-1)
            action, entry = jnp.arange(model.actions)[:, None, None], jnp.arange(following.shape[1])
            vectors = values + jnp.einsum("zarn,parnz->paz", joint, following[action, entry, best])
            taken = jnp.einsum("pz,paz->pa", beliefs[state], vectors).argmax(axis=-1)
            # Of the optimal plan of kind i, which goes on as its own vector i.
            single, number = choices[:, state], jnp.arange(kinds)
            own = following[single, :, number]
            plain = values[single] + jnp.einsum("zirn,inz->iz", joint[:, single], own)
            made = jnp.concatenate([plain, vectors[jnp.arange(taken.size), taken]])
            return BeliefPlan(made, jnp.concatenate([single, taken]).astype(jnp.int32))

        made: BeliefPlan = jax.lax.map(of_state, jnp.arange(model.states))
        return made.vectors, made

    end = jnp.zeros((model.states, points.shape[2] + kinds, kinds), points.dtype)
    plan: BeliefPlan = jax.lax.scan(backwards, end, (points, greedy), reverse=True)[1]
    return plan


def _outcomes(laws: Laws, model: Model, state: Array, after: Array) -> tuple[Array, Array, Array]:
    """Of a state: mean rewards ``(A, Z)``; chances of rewards and next states ``(Z, A, 2, n)``; vectors there
    ``(A, n, N, Z)``."""
    means, rows = laws.means[:, state], laws.rows[:, state]
    joint = jnp.stack([means, 1 - means], axis=-1)[..., None] * rows[:, :, None]
    if model.successors is None:
        following = jnp.broadcast_to(after, (model.actions, *after.shape))
    else:
        following = after[model.successors[state]]
    return means.T, joint, following


def _uniforms(key: Array, users: int, known: Published, model: Model) -> Array:
    return jax.random.uniform(key, (users, 2 + 4 * model.horizon), known.shares.dtype)


def _walks(
    known: Published, model: Model, act: Act, uniforms: Array, wander: bool = False
) -> tuple[Array, Array, Array]:
    """Episodes of users whose kinds have the published shares: states ``(N, H)``, beliefs ``(N, H, Z)`` before every step,
    and expected returns ``(N,)``. Those who ``wander`` take an action at random in half of the steps."""
    laws, shares = known.laws, known.shares
    cumulative, first = jnp.cumsum(laws.rows, axis=-1), jnp.cumsum(model.initial)

    def user(own: Array) -> tuple[Array, Array, Array]:
        kind = invert(jnp.cumsum(shares), own[0])

        def step(at: tuple[Array, Array], now: tuple[Array, Array]) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
            (state, told_so_far), (index, draw) = at, now
            chances = belief(shares, told_so_far, jnp)
            action = act(index, state, chances)
            if wander:
                action = jnp.where(draw[2] < 0.5, (draw[3] * model.actions).astype(action.dtype), action)
            following = invert(cumulative[kind, state, action], draw[0])
            if model.successors is not None:
                following = model.successors[state, action, following].astype(following.dtype)
            reward = (draw[1] < laws.means[kind, state, action]).astype(own.dtype)
            seen = told(known.kinds, known.blend, model.successors, state, action, reward, following)
            return (following, told_so_far + seen), (state, chances, laws.means[kind, state, action])

        numbered = jnp.arange(model.horizon), own[2:].reshape(model.horizon, 4)
        states, beliefs, earned = jax.lax.scan(step, (invert(first, own[1]), jnp.zeros_like(shares)), numbered)[1]
        return states, beliefs, earned.sum()

    found: tuple[Array, Array, Array] = jax.vmap(user)(uniforms)
    return found
