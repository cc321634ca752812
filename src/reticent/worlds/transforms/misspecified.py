# SPDX-License-Identifier: Apache-2.0
r"""Worlds whose truth is off the span of their features, by a stated amount.

A model is *misspecified by ζ* if some parameter θ explains every transition only up to ζ in total variation,

.. math:: \tfrac12\sum_{s'}\big|P_h(s'\mid s,a)-\langle\psi(s'\mid s,a),\theta_{h,p}\rangle\big|\le\zeta
          \quad\text{for all }h,s,a,

and the mean rewards up to :math:`\zeta_r`. :func:`misspecified` makes such a world from one in its span. In every pair
(s, a) the mass ζ moves *up*, from the worst successors to the best one, or *down*, from the best to the worst one, in the
order of the optimal values: nothing of this size changes an expected value by more. Which of the two is

* ``adversarial``: down for the action that is best by the model, up for all others. What the learner would choose is worse
  than it can believe, and what it would not choose is better.
* ``random``: a coin for every pair, which is nothing that d weights can explain.

Mass moves only among states that some candidate allows, and a pair that has less than ζ to move moves what it has.

The learner keeps the model, and believes in it; :attr:`World.transition_theta` is still the parameter next to which the
truth lies, and :func:`distance` measures how far.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np

from reticent.errors import InvalidInput
from reticent.runtime import double_precision
from reticent.worlds.models.model import Model
from reticent.worlds.world import World, checked_truth

Kind = Literal["adversarial", "random"]


@double_precision
def misspecified(
    world: World, amount: float, seed: int = 0, *, kind: Kind = "adversarial", reward_amount: float = 0.0
) -> World:
    """The same model with a truth that is ``amount`` off it: see the module.

    Args:
      world: a world in the span of its features; it is left as it is.
      amount: ζ, the total variation by which rows are moved, in [0, 1].
      seed: of the coins of ``random``.
      kind: ``adversarial`` or ``random``.
      reward_amount: ζ_r, by which mean rewards go up and down with the rows, within [0, 1].

    Raises:
      InvalidInput: an amount is outside [0, 1], the seed is negative, or there is no such kind.

    >>> from reticent.worlds import make_world
    >>> world = make_world("random-blend")
    >>> [round(measured, 12) for measured in distance(misspecified(world, 0.05))]
    [0.05, 0.0]
    """
    for field, value in (("amount", amount), ("reward_amount", reward_amount)):
        if not 0 <= value <= 1:
            raise InvalidInput(field, value, "in [0, 1]", "give a total variation, or a change of a mean reward")
    if seed < 0:
        raise InvalidInput("seed", seed, "not negative", "give a seed of at least 0")
    if kind not in ("adversarial", "random"):
        raise InvalidInput("kind", kind, "'adversarial' or 'random'", "choose one of the two")
    rows, means = np.asarray(world.rows), np.asarray(world.reward_means)
    table = np.asarray(world.optimal_action_values)
    following = np.concatenate([table.max(axis=-1)[1:], np.zeros((1, world.model.states))])
    if len(rows) == len(means) == 1:  # one truth for all steps: one direction for all, by the mean over them
        table, following = table.mean(axis=0, keepdims=True), following.mean(axis=0, keepdims=True)
    if kind == "adversarial":
        direction = np.where(np.arange(table.shape[-1]) == table.argmax(axis=-1)[..., None], -1.0, 1.0)
    else:
        direction = np.random.default_rng(seed).choice([-1.0, 1.0], size=table.shape)

    allowed, steps = _allowed(world.model), len(table)
    moved = [
        _moved(row, sign[..., None] * _of_successors(world.model, values), allowed, amount)
        for row, sign, values in zip(np.broadcast_to(rows, (steps, *rows.shape[1:])), direction, following, strict=True)
    ]
    shifted = np.clip(means + reward_amount * direction, 0, 1)
    name = f"{world.name}, off by {amount:g}" + (f" and {reward_amount:g}" if reward_amount else "")
    return dataclasses.replace(world, **checked_truth(np.stack(moved), shifted), name=name)


@double_precision
def distance(world: World) -> tuple[float, float]:
    """How far the truth is from ⟨ψ, θ⟩ and ⟨ϕ, θ⟩: largest total variation of a row, largest error of a mean reward."""
    model = world.model
    rows, rewards = 0.0, 0.0
    for step in range(model.horizon):
        believed = np.tensordot(np.asarray(world.transition_theta[step]), np.asarray(model.transition_features), axes=1)
        promised = np.tensordot(np.asarray(world.reward_theta[step]), np.asarray(model.reward_features), axes=1)
        true = np.asarray(world.rows[min(step, len(world.rows) - 1)])
        paid = np.asarray(world.reward_means[min(step, len(world.reward_means) - 1)])
        rows = max(rows, float(np.abs(true - believed).sum(axis=-1).max()) / 2)
        rewards = max(rewards, float(np.abs(paid - promised).max()))
    return rows, rewards


def _moved(row: np.ndarray, appeal: np.ndarray, allowed: np.ndarray, amount: float) -> np.ndarray:
    """Rows ``(S, A, n)`` with ``amount`` moved from the allowed entries of least ``appeal`` to that of most."""
    order = np.argsort(np.where(allowed, appeal, -np.inf), axis=-1)
    ranked = np.take_along_axis(row, order, axis=-1)
    before = np.cumsum(ranked, axis=-1) - ranked
    given = np.clip(amount - before, 0, ranked)
    given[..., -1] = 0
    ranked -= given
    ranked[..., -1] += given.sum(axis=-1)
    moved = np.empty_like(ranked)
    np.put_along_axis(moved, order, ranked, axis=-1)
    return moved


def _allowed(model: Model) -> np.ndarray:
    """Which entries ``(S, A, n)`` some candidate gives weight."""
    found = np.zeros(model.transition_features.shape[1:], bool)
    for feature in np.asarray(model.transition_features):
        found |= feature != 0
    return found


def _of_successors(model: Model, values: np.ndarray) -> np.ndarray:
    """``values`` ``(S,)`` of each pair's successors, ``(S, A, n)``, or ``(S,)`` where all states follow."""
    return values if model.successors is None else values[np.asarray(model.successors)]
