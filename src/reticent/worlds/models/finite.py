# SPDX-License-Identifier: Apache-2.0
r"""A finite MDP of any number of states, for learners that are told nothing about it, or a few candidates.

:func:`~reticent.worlds.tabular` writes "nothing is known" as one feature for every (s, a, s'): S²A features of S²A numbers
each, which is what the paper's algorithms need and ends at some fifty states. Here it is one uniform candidate beside the
true table, S²A numbers in all. Agents that count do not look at the candidate, and the residual block of ``score-vi`` and
``private-score-vi`` starts from it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent.errors import InvalidInput
from reticent.runtime import double_precision
from reticent.worlds.models.blend import blend, check_distributions, check_unit_interval
from reticent.worlds.models.names import Names
from reticent.worlds.models.sparse import gather
from reticent.worlds.world import RewardKind, World, checked_truth

LARGEST_DENSE = 50_000_000
"""Most entries S²A of a table without candidates: 400 MB in double precision."""


@double_precision
def finite_mdp(
    transitions: ArrayLike,
    rewards: ArrayLike,
    horizon: int,
    *,
    candidates: Sequence[Any] = (),
    reward_candidates: Sequence[Any] = (),
    initial: ArrayLike | None = None,
    name: str = "finite MDP",
    reward_kind: RewardKind = "bernoulli",
    names: Names | None = None,
) -> World:
    """Build the world of a table that is the same at every step.

    Args:
      transitions: ``(S, A, S)``, or a SciPy sparse matrix ``(S·A, S)`` whose row ``s·A + a`` is that of (s, a).
      rewards: mean rewards ``(S, A)`` in [0, 1].
      horizon: number of steps H.
      candidates: tables that agents are told of, in the form of ``transitions``; without any they are told nothing.
      reward_candidates: a table ``(S, A)`` for each candidate. Where all are the same, rewards count as known.
      initial: first state or its distribution (default: state 0).
      name: what the world is called in results.
      reward_kind: ``bernoulli`` or ``deterministic``.
      names: what states and actions are called.

    The truth need not be a blend of the candidates; :func:`reticent.worlds.transforms.misspecified.distance` says how far
    it is from the nearest one (in least squares).

    Raises:
      InvalidInput: a shape does not fit, a row is not a distribution, a reward leaves [0, 1], or a table without candidates
        has more than :data:`LARGEST_DENSE` entries.

    >>> import numpy as np
    >>> world = finite_mdp(np.full((60, 1, 60), 1 / 60), np.ones((60, 1)), 3)
    >>> world.model.d1, world.model.states, round(world.optimal_value, 9)
    (1, 60, 3.0)
    """
    means = np.asarray(rewards, dtype=np.float64)
    if means.ndim != 2 or 0 in means.shape:
        raise InvalidInput("rewards.shape", means.shape, "(S, A)", "give one mean per pair")
    states, actions = means.shape
    if len(candidates) != len(reward_candidates):
        raise InvalidInput(
            "reward_candidates",
            f"{len(reward_candidates)} tables",
            f"one for each of {len(candidates)} candidates",
            "give the rewards of every candidate",
        )
    check_unit_interval(means, "rewards", ("state", "action"))
    if not candidates:
        return _without_candidates(transitions, means, horizon, initial, name, reward_kind, names)

    tables = [_sparse(table, states, actions) for table in (transitions, *candidates)]
    successors, rows = gather(tables, states, actions)
    check_distributions(rows, "transitions or candidates", ("table", "state", "action"))
    weights = _nearest_blend(rows[0], rows[1:])
    paid = np.asarray(reward_candidates, dtype=np.float64)
    known = np.allclose(paid, means, rtol=0, atol=1e-12)
    world = blend(
        rows[1:],
        paid[:1] if known else paid,
        weights,
        [1.0] if known else weights,
        horizon,
        initial=initial,
        name=name,
        reward_kind=reward_kind,
        successors=successors,
        rewards_known=known,
        names=names,
    )
    return dataclasses.replace(world, **checked_truth(rows[:1], means[None]))


def _without_candidates(
    transitions: ArrayLike,
    means: np.ndarray,
    horizon: int,
    initial: ArrayLike | None,
    name: str,
    reward_kind: RewardKind,
    names: Names | None,
) -> World:
    states, actions = means.shape
    entries = states**2 * actions
    if entries > LARGEST_DENSE:
        raise InvalidInput(
            f"size S²A of the table for {states} states and {actions} actions",
            f"{entries:.3g}",
            f"at most {LARGEST_DENSE:.3g} without candidates",
            "give candidates, of which only successors are kept",
        )
    table = _sparse(transitions, states, actions).toarray().reshape(states, actions, states)
    check_distributions(table, "transitions", ("state", "action"))
    uniform = np.full((1, states, actions, states), 1 / states)
    world = blend(
        uniform,
        np.full((1, states, actions), 0.5),
        [1.0],
        [1.0],
        horizon,
        initial=initial,
        name=name,
        reward_kind=reward_kind,
        names=names,
    )
    return dataclasses.replace(world, **checked_truth(table[None], means[None]))


def _sparse(table: Any, states: int, actions: int) -> Any:
    """A table ``(S, A, S)`` or ``(S·A, S)`` as a sparse matrix of the latter shape."""
    import scipy.sparse  # not at the top: few worlds need it

    given: Any = table
    if scipy.sparse.issparse(table):
        return scipy.sparse.csr_array(given)
    dense = np.asarray(table, dtype=np.float64)
    if dense.shape != (states, actions, states):
        raise InvalidInput(
            "transitions.shape",
            dense.shape,
            f"({states}, {actions}, {states}), as the rewards say",
            "put the next state last",
        )
    return scipy.sparse.csr_array(dense.reshape(states * actions, states))


def _nearest_blend(truth: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Weights on the simplex whose blend is nearest to the truth, in least squares."""
    from scipy.optimize import nnls

    # The row of ones makes the weights sum to one: it weighs more than all that a table can say.
    flat = candidates.reshape(len(candidates), -1).T
    heavy = 1e4 * np.sqrt(len(flat))
    weights, _ = nnls(np.vstack([flat, np.full((1, len(candidates)), heavy)]), np.append(truth.ravel(), heavy))
    return np.asarray(weights / weights.sum())
