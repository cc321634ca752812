# SPDX-License-Identifier: Apache-2.0
r"""The sum of many simulated users' reports, at the price of what they visited.

A residual block has a place for every cell, and an episode of H steps fills at most H of them. A simulation that forms
every user's whole vector spends most of its time on zeros. Here the block is formed of the visited cells alone: a vector
with the same numbers at other places, and so with the same length, is clipped by the same functions, and only the sum of
all users has a place for every cell.

Formal guarantee. The sum is that of :meth:`~reticent.agents.score.learner.ScoreLearner.report` over the users who are
present, but for rounding in floating-point arithmetic. Nothing of it is deployed: a service forms every report by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.unit_ball import UnitBall
from reticent.learning.plan import Plan
from reticent.worlds import Episode
from reticent_wire.forms.score_residual import ResidualReference, told_by_step

if TYPE_CHECKING:
    from reticent.agents.score.learner import ScoreLearner
    from reticent.agents.score.round_plan import ScorePlan


def sums_at_once(agent: ScoreLearner) -> bool:
    """Whether reports are sums of what users visited: neither noised nor rounded one by one, and with residuals."""
    ball = agent.aggregator
    alone = isinstance(ball, UnitBall) and (ball.rounded or ball.trust.wire != "trajectory")
    return agent.residual is not None and not alone


def summed_reports(
    agent: ScoreLearner, plan: Plan[ScorePlan], places: Array, episodes: Episode, present: Array
) -> Array:
    """The sum of the reports ``(n, D)`` of users at these ``places`` ``(n,)``, as far as they are ``present`` ``(n,)``."""

    def one(place: Array, episode: Episode) -> tuple[Array, Array]:
        served = agent.served(plan, place)
        told, cells = by_visited_cell(served.extension.asked.reference, episode)
        seen = agent.stack(served, agent.blend_vector(served, episode), told.ravel(), episode)
        return (agent.aggregator.clip(seen) if isinstance(agent.aggregator, UnitBall) else seen), cells

    reports, cells = jax.vmap(one)(places, episodes)
    weight = present.astype(reports.dtype)
    cut, width = agent.score_dimension, agent.residual_dimension // agent.cells
    end = cut + cells.shape[1] * width
    outside = jnp.tensordot(weight, jnp.concatenate([reports[:, :cut], reports[:, end:]], axis=1), axes=1)
    told = (weight[:, None] * reports[:, cut:end]).reshape(-1, width)
    block = jnp.zeros((agent.cells, width), reports.dtype).at[cells.ravel()].add(told, mode="promise_in_bounds")
    summed = jnp.concatenate([outside[:cut], block.ravel(), outside[cut:]])
    return summed[None] if isinstance(agent.aggregator, UnitBall) else summed


def by_visited_cell(reference: ResidualReference, episode: Episode) -> tuple[Array, Array]:
    """The block in units of its radius at the cells of all steps, ``(H, m + 2)`` and ``(H,)``: at the first step of each
    cell, and zero at its later ones."""
    told, cells = told_by_step(reference, episode, jnp)
    same = cells[:, None] == cells[None]
    first = same.argmax(axis=1) == jnp.arange(cells.shape[0])
    return jnp.where(first[:, None], (same[:, :, None] * told[None]).sum(axis=1), 0.0) / reference.radius, cells
