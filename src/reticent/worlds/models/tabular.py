# SPDX-License-Identifier: Apache-2.0
r"""Any finite MDP as its own linear mixture: one feature per (s, a, s') and one per (s, a).

:math:`\psi(s'\mid s,a)=e_{(s,a,s')}\in\mathbb R^{S^2A}` with :math:`\theta_{h,p}` the table of probabilities, and
:math:`\varphi(s,a)=e_{(s,a)}\in\mathbb R^{SA}` with :math:`\theta_{h,r}` the table of mean rewards. Norms:

* :math:`\|\phi_V(s,a)\|_2=\|V\|_2\le\sqrt S\,\|V\|_\infty`, since only the S coordinates of this (s, a) are not zero;
* :math:`\|\theta_{h,p}\|_2\le\sqrt{SA}`, since each of the SA rows is a distribution and has norm at most 1;
* :math:`\|\theta_{h,r}\|_2\le\sqrt{SA}=\sqrt{d_2}`.

The first two are far below the paper's :math:`\sqrt{d_1}=S\sqrt A`. ``bounds="tight"`` declares them (the sensitivity
of :math:`\phi\phi^\top` falls by the factor SA: 12 on RiverSwim-6); ``bounds="paper"`` keeps Assumption 1's constants.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from reticent.errors import InvalidInput
from reticent.worlds.models.blend import Bounds, check_bounds, check_distributions, check_unit_interval
from reticent.worlds.models.model import make_model
from reticent.worlds.models.names import Names
from reticent.worlds.world import RewardKind, World, world_from_parameters

LARGEST_FEATURES = 50_000_000
"""Most entries S⁴A² of the transition features: 400 MB in double precision."""


def tabular(
    transitions: ArrayLike,
    rewards: ArrayLike,
    horizon: int | None = None,
    *,
    initial: ArrayLike | None = None,
    name: str = "tabular",
    reward_kind: RewardKind = "bernoulli",
    bounds: Bounds = "paper",
    stationary: bool = False,
    names: Names | None = None,
) -> World:
    """Build a finite MDP with one-hot features: ``d1 = S²A`` and ``d2 = SA``.

    Args:
      transitions: ``(S, A, S)``, or ``(H, S, A, S)`` if they change with the step.
      rewards: mean rewards in [0, 1], ``(S, A)`` or ``(H, S, A)``.
      horizon: number of steps; may be left out if ``transitions`` or ``rewards`` has a step axis.
      initial: first state or its distribution (default: state 0).
      name: what the world is called in results.
      reward_kind: ``bernoulli`` or ``deterministic``.
      bounds: ``paper`` or ``tight``, see the module.
      stationary: declare that the table is the same at every step, so that agents may pool the steps. By default they are
        not told, as in the tabular literature, and learn every step by itself.
      names: what states and actions are called.

    Raises:
      InvalidInput: a shape does not fit, a row is not a distribution, a reward leaves [0, 1], the horizon is missing
        or contradicts a step axis, or the features would have more than :data:`LARGEST_FEATURES` entries.

    >>> import numpy as np
    >>> world = tabular(np.full((2, 1, 2), 0.5), [[0.0], [1.0]], 3)
    >>> world.model.d1, world.model.d2, world.optimal_value
    (4, 2, 1.0)
    """
    table = np.asarray(transitions, dtype=np.float64)
    means = np.asarray(rewards, dtype=np.float64)
    if table.ndim not in (3, 4) or table.shape[-1] != table.shape[-3] or 0 in table.shape:
        raise InvalidInput("transitions.shape", table.shape, "(S, A, S) or (H, S, A, S)", "put the next state last")
    states, actions = table.shape[-3:-1]
    if means.ndim not in (2, 3) or means.shape[-2:] != (states, actions):
        raise InvalidInput(
            "rewards.shape", means.shape, f"({states}, {actions}) or (H, {states}, {actions})", "give one mean per pair"
        )
    steps = _horizon(horizon, [array.shape[0] for array, axes in ((table, 4), (means, 3)) if array.ndim == axes])
    check_bounds(bounds)
    entries = states**4 * actions**2
    if entries > LARGEST_FEATURES:
        raise InvalidInput(
            f"size S⁴A² of the one-hot features for {states} states and {actions} actions",
            f"{entries:.3g}",
            f"at most {LARGEST_FEATURES:.3g}",
            "make it with reticent.worlds.finite_mdp, which counting agents (ucbvi, private-ucb-vi) and "
            "private-score-vi:residual=on learn, or describe it by candidate models (reticent.worlds.blend)",
        )
    check_distributions(table, "transitions", ("step", "state", "action")[-table.ndim + 1 :])
    check_unit_interval(means, "rewards", ("step", "state", "action")[-means.ndim :])

    d1, d2 = states * actions * states, states * actions
    tight = bounds == "tight"
    model = make_model(
        np.eye(d1).reshape(d1, states, actions, states),
        np.eye(d2).reshape(d2, states, actions),
        steps,
        initial=initial,
        transition_bound=math.sqrt(states) if tight else None,
        transition_theta_bound=math.sqrt(states * actions) if tight else None,
        stationary=stationary,
        names=names,
    )
    return world_from_parameters(
        model,
        np.broadcast_to(table, (steps, states, actions, states)).reshape(steps, d1),
        np.broadcast_to(means, (steps, states, actions)).reshape(steps, d2),
        name=name,
        reward_kind=reward_kind,
    )


def _horizon(horizon: int | None, axes: list[int]) -> int:
    named = [*axes] if horizon is None else [horizon, *axes]
    if not named:
        raise InvalidInput(
            "horizon", None, "given when neither transitions nor rewards has a step axis", "pass horizon=H"
        )
    if len(set(named)) > 1:
        raise InvalidInput("horizon", named[0], f"equal to every step axis (found {axes})", "make the lengths agree")
    return named[0]
