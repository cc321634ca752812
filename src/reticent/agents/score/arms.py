# SPDX-License-Identifier: Apache-2.0
r"""Who acts how in a round whose users were served something else than the plan made for it: its *arms*.

A user's vector has the mean :math:`W F_a(\eta^*-\eta_0)`, where F is made of what she meets and of the values that her
vector is made of. Both follow from public numbers: how she acts from the version that she was served and her place
in it, the values from her place in the *reference*. Users who have both in common are an arm, and a round's moments
are the mixture of its arms' with their exact shares,

.. math:: \bar F=\sum_a\frac{n_a}{n}F_a,\qquad \bar C=\sum_a\frac{n_a}{n}C_a.

Of one version there are four arms: explorers or not, as many as the version says, with the explorers' values or not, as
many as the reference says. With a control group (:mod:`reticent.learning.control`) there are eight, some of which are
usually empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.sweeps import Estimate, Moments, Statistic, sweep_forward, sweep_uniform
from reticent.learning.control import ControlPlaces
from reticent.learning.plan import ControlGroup, Plan

if TYPE_CHECKING:
    from reticent.agents.score.learner import ScoreLearner


class Arms(NamedTuple):
    """The arms of a round, along a leading axis.

    Attributes:
      choices: ``(a, H, S)``. at_random: whether they act at random instead, ``(a,)``.
      hopeful: whether their vectors are made of the explorers' values, ``(a,)``.
      share: of the round's users, ``(a,)``; they add up to 1.
    """

    choices: Array
    at_random: Array
    hopeful: Array
    share: Array


def arms_of(served: Plan, reference: Plan, users: Array | int, control: ControlGroup | None) -> Arms:
    """The arms of a round of ``users``: those ``served`` a plan, and the ``control`` group, with the reference's values."""
    count = jnp.asarray(users, jnp.int64)
    nobody = ControlPlaces(count, jnp.zeros_like(count), jnp.zeros_like(count))
    places = nobody if control is None else ControlPlaces(count, *(jnp.asarray(one) for one in control.places[1:]))
    hopeful = jnp.minimum(reference.extension.explorers.astype(count.dtype), count)
    groups = [_of_version(served, hopeful, count, places, controls=False)]
    if control is not None:
        groups.append(_of_version(control.plan, hopeful, count, places, controls=True))
    arms: Arms = jax.tree.map(lambda *parts: jnp.concatenate(parts), *groups)
    return arms


def _of_version(plan: Plan, hopeful: Array, users: Array, places: ControlPlaces, *, controls: bool) -> Arms:
    """The four arms of those who were served ``plan``; the first ``hopeful`` places have the explorers' values."""
    extension = plan.extension
    exploring = jnp.minimum(extension.explorers.astype(users.dtype), users)

    def before(place: Array) -> Array:
        found: Array = places.before(place)
        return found if controls else place - found

    both, either = before(jnp.minimum(exploring, hopeful)), before(jnp.maximum(exploring, hopeful))
    numbers = both, before(exploring) - both, before(hopeful) - both, before(users) - either
    yes, no = jnp.asarray(True), jnp.asarray(False)
    return Arms(
        jnp.stack([extension.curious, extension.curious, plan.policy, plan.policy]),
        jnp.stack([extension.at_random, extension.at_random, no, no]),
        jnp.stack([yes, no, yes, no]),
        jnp.stack(numbers) / users,
    )


def moments_of(
    agent: ScoreLearner, arms: Arms, statistic: Statistic, estimate: Estimate, values: Array, hoped: Array
) -> Moments:
    """Of one user of the round, on average; ``values`` and ``hoped`` are the reference's, ``(H + 1, S)`` each."""

    def chosen(arm: Arms) -> Moments:
        own = jnp.where(arm.hopeful, hoped, values)
        return sweep_forward(agent.model, statistic, estimate, arm.choices, own, agent.score, agent.floor)

    def random(arm: Arms) -> Moments:
        return sweep_uniform(agent.model, statistic, estimate, jnp.where(arm.hopeful, hoped, values), agent.score)

    def nobody(arm: Arms) -> Moments:
        zero: Moments = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(chosen, arm))
        return zero

    def one(arm: Arms) -> Moments:
        acting = jnp.where(arm.at_random, 2, 1)
        moments: Moments = jax.lax.switch(jnp.where(arm.share > 0, acting, 0), (nobody, chosen, random), arm)
        return moments

    every = jax.lax.map(one, arms)
    mixed: Moments = jax.tree.map(lambda leaf: jnp.tensordot(arms.share, leaf, axes=1), every)
    return mixed


def served_as(plan: Plan, arm: Arms) -> Plan:
    """A plan as a user of one of its round's arms acts by it, and as her vector is formed under it."""
    extension = plan.extension
    return plan._replace(
        policy=arm.choices,
        values=jnp.where(arm.hopeful, extension.hoped, plan.values),
        extension=extension._replace(exploring=jnp.asarray(True), at_random=arm.at_random, arms=None),
    )
