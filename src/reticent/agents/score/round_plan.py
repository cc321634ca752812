# SPDX-License-Identifier: Apache-2.0
"""What a round's plan says beyond its greedy policy, and how the users of the round act on it.

The first places of a round explore, at random in the first one; the others are served the greedy plan. A user's place is
public and follows from the order of admissions, never from data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.dynamic_programming import Moments
from reticent.agents.score.mixed_policies import MixedPolicies
from reticent.agents.score.vector import Reference, VectorTables
from reticent.learning.plan import Plan

if TYPE_CHECKING:
    from reticent.agents.score.off_grid import Between
    from reticent.agents.score.residual_block import ResidualPlan


class ScorePlan(NamedTuple):
    """What a round's plan says beyond its greedy policy; all of it is published.

    Attributes:
      curious, hoped: the explorers' choices ``(H, S)`` and values ``(H + 1, S)``.
      explorers, share: how many of the round's first places explore, and which share of its users that is.
      at_random: whether they act at random (the first round).
      reference: what vectors are made of.
      eta, reward_eta: coordinates of the reference, ``(G, k)`` and ``(G, r)``.
      moments: of one user of the round, by the estimate before it.
      tables: of all pairs under the greedy and the curious values, where it pays to compute them once; else None.
      exploring: in a plan as one user is served it, whether they explore.
      initial: where users are believed to begin, ``(S,)``; None where the model declares it.
      between: how the plans go on between the nodes of a model with real states; None for others.
      mixed_policies: the policies of the round's users, where they were served another plan; None in what is published.
      residual: what residuals are measured against, where they are learned; else None.
    """

    curious: Array
    hoped: Array
    explorers: Array
    share: Array
    at_random: Array
    reference: Reference
    eta: Array
    reward_eta: Array
    moments: Moments
    hopes: Array | None = None
    tables: tuple[VectorTables, VectorTables] | None = None
    exploring: Array | None = None
    initial: Array | None = None
    between: Between | None = None
    mixed_policies: MixedPolicies | None = None
    residual: ResidualPlan | None = None

    @property
    def asked(self) -> ResidualPlan:
        """What is asked about residuals, of a learner that learns them."""
        assert self.residual is not None
        return self.residual


def serve(plan: Plan[ScorePlan], place: Array | int) -> Plan[ScorePlan]:
    """What the user at this 0-based place of the round is served of its plan."""
    extension = plan.extension
    exploring = jnp.asarray(place) < extension.explorers
    tables = extension.tables
    if tables is not None:
        chosen = jax.tree.map(lambda own, other: jnp.where(exploring, other, own), *tables)
        tables = (chosen, chosen)
    return plan._replace(
        policy=jnp.where(exploring, extension.curious, plan.policy),
        values=jnp.where(exploring, extension.hoped, plan.values),
        extension=extension._replace(exploring=exploring, tables=tables),
    )


def choose(
    plan: Plan[ScorePlan], step: Array | int, state: Array | int, uniform: Array | float, actions: int, floor: float
) -> Array:
    """The action at 0-based ``step`` under a plan as one user is served it; no action is rarer than ``floor``."""
    return taken(plan.extension, plan.policy[step, state], uniform, actions, floor)


def taken(extension: ScorePlan, chosen: Array, uniform: Array | float, actions: int, floor: float) -> Array:
    """The action of a user whose plan has ``chosen`` one: another one at times, and any in the first round."""
    if floor:
        drawn = jnp.minimum((jnp.asarray(uniform) / floor).astype(jnp.int32), actions - 1)
        chosen = jnp.where(jnp.asarray(uniform) < actions * floor, drawn, chosen)
    if extension.exploring is None:
        return chosen
    drawn = jnp.minimum((jnp.asarray(uniform) * actions).astype(jnp.int32), actions - 1)
    return jnp.where(extension.exploring & extension.at_random, drawn, chosen)


def probabilities(plan: Plan[ScorePlan], actions: int, floor: float, dtype: Any) -> Array:
    """With what probabilities :func:`choose` takes each action, ``(H, S, A)``.

    They depend on releases and on their place, never on their data: what a device logs with every decision, and what an
    analysis after the study divides by (:mod:`reticent.inference`).
    """
    extension = plan.extension
    mixed = randomised(plan.policy, actions, floor, dtype)
    if extension.exploring is None:
        return mixed
    return jnp.where(extension.exploring & extension.at_random, 1 / actions, mixed)


def randomised(choices: Array, actions: int, floor: float, dtype: Any) -> Array:
    """Choices ``(H, S)`` as probabilities ``(H, S, A)``, none of them below the floor."""
    certain = jax.nn.one_hot(choices, actions, dtype=dtype)
    return floor + (1 - actions * floor) * certain
