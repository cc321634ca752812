# SPDX-License-Identifier: Apache-2.0
r"""The policies that a round's users followed, where they were not all served the plan made for the round.

A user's vector has the mean :math:`W F_a(\eta^*-\eta_0)`, where F depends on the states they visit and on the values
that the vector is formed with. Both are public: the policy follows from the served version and the user's place in it,
the values from their place in the *reference*. Users with the same policy and the same values are one component a, and
a round's moments are the mixture of its components' moments with their exact shares,

.. math:: \bar F=\sum_a\frac{n_a}{n}F_a,\qquad \bar C=\sum_a\frac{n_a}{n}C_a.

One version gives four components: explorers or not (by the version), with the explorers' values or not (by the
reference). A control group (:mod:`reticent.learning.control`) gives eight, some of them usually empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.dynamic_programming import Estimate, Moments, Statistic, forward_pass, forward_pass_uniform
from reticent.learning.control import ControlPlaces
from reticent.learning.plan import ControlGroup, Plan

if TYPE_CHECKING:
    from reticent.agents.score.learner import ScoreLearner
    from reticent.agents.score.round_plan import ScorePlan


class MixedPolicies(NamedTuple):
    """The components of a round, along a leading axis.

    Attributes:
      choices: ``(a, H, S)``. at_random: whether they act at random instead, ``(a,)``.
      hopeful: whether their vectors are made of the explorers' values, ``(a,)``.
      share: of the round's users, ``(a,)``; they add up to 1.
    """

    choices: Array
    at_random: Array
    hopeful: Array
    share: Array


def mix_policies(
    served: Plan[ScorePlan], reference: Plan[ScorePlan], users: Array | int, control: ControlGroup[ScorePlan] | None
) -> MixedPolicies:
    """The components of a round of ``users``: those ``served`` a plan, and the ``control`` group."""
    count = jnp.asarray(users, jnp.int64)
    none = ControlPlaces(count, jnp.zeros_like(count), jnp.zeros_like(count))
    places = none if control is None else ControlPlaces(count, *(jnp.asarray(one) for one in control.places[1:]))
    hopeful = jnp.minimum(reference.extension.explorers.astype(count.dtype), count)
    groups = [_of_version(served, hopeful, count, places, controls=False)]
    if control is not None:
        groups.append(_of_version(control.plan, hopeful, count, places, controls=True))
    mixed_policies: MixedPolicies = jax.tree.map(lambda *parts: jnp.concatenate(parts), *groups)
    return mixed_policies


def _of_version(
    plan: Plan[ScorePlan], hopeful: Array, users: Array, places: ControlPlaces, *, controls: bool
) -> MixedPolicies:
    """The four components of those who were served ``plan``; the first ``hopeful`` places have the explorers' values."""
    extension = plan.extension
    exploring = jnp.minimum(extension.explorers.astype(users.dtype), users)

    def before(place: Array) -> Array:
        found: Array = places.before(place)
        return found if controls else place - found

    both, either = before(jnp.minimum(exploring, hopeful)), before(jnp.maximum(exploring, hopeful))
    numbers = both, before(exploring) - both, before(hopeful) - both, before(users) - either
    yes, no = jnp.asarray(True), jnp.asarray(False)
    return MixedPolicies(
        jnp.stack([extension.curious, extension.curious, plan.policy, plan.policy]),
        jnp.stack([extension.at_random, extension.at_random, no, no]),
        jnp.stack([yes, no, yes, no]),
        jnp.stack(numbers) / users,
    )


def moments_of(
    agent: ScoreLearner,
    mixed_policies: MixedPolicies,
    statistic: Statistic,
    estimate: Estimate,
    values: Array,
    hoped: Array,
) -> Moments:
    """Of one user of the round, on average; ``values`` and ``hoped`` are the reference's, ``(H + 1, S)`` each."""

    def chosen(component: MixedPolicies) -> Moments:
        own = jnp.where(component.hopeful, hoped, values)
        return forward_pass(agent.model, statistic, estimate, component.choices, own, agent.score, agent.floor)

    def random(component: MixedPolicies) -> Moments:
        return forward_pass_uniform(
            agent.model, statistic, estimate, jnp.where(component.hopeful, hoped, values), agent.score
        )

    def no_user(component: MixedPolicies) -> Moments:
        zero: Moments = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(chosen, component))
        return zero

    def one(component: MixedPolicies) -> Moments:
        acting = jnp.where(component.at_random, 2, 1)
        moments: Moments = jax.lax.switch(
            jnp.where(component.share > 0, acting, 0), (no_user, chosen, random), component
        )
        return moments

    every = jax.lax.map(one, mixed_policies)
    mixed: Moments = jax.tree.map(lambda leaf: jnp.tensordot(mixed_policies.share, leaf, axes=1), every)
    return mixed.of_stay(agent.visits)


def served_as(plan: Plan[ScorePlan], component: MixedPolicies) -> Plan[ScorePlan]:
    """The plan as users of one component act by it, and as their vectors are formed under it."""
    extension = plan.extension
    return plan._replace(
        policy=component.choices,
        values=jnp.where(component.hopeful, extension.hoped, plan.values),
        extension=extension._replace(exploring=jnp.asarray(True), at_random=component.at_random, mixed_policies=None),
    )
