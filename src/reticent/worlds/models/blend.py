# SPDX-License-Identifier: Apache-2.0
r"""A world as a blend of candidate models: the everyday way to a linear mixture MDP.

You own :math:`d_1` candidate models :math:`P_i(s'\mid s,a)` (simulators, phenotypes, current strengths…) and
:math:`d_2` candidate reward tables :math:`r_j(s,a)`; the truth is an unknown mixture of each,

.. math:: P(s'\mid s,a)=\sum_i w_i P_i(s'\mid s,a),\qquad r(s,a)=\sum_j u_j r_j(s,a).

So :math:`\psi_i=P_i` and :math:`\theta_p=w`. Each candidate is a distribution, hence :math:`|\langle P_i(\cdot\mid
s,a),V\rangle|\le\|V\|_\infty` and :math:`\|\phi_V\|_2\le\sqrt{d_1}\|V\|_\infty`: the paper's Assumption 1 holds with
nothing to scale, and the bound is attained (take V constant).

Reward features must have norm at most 1. A column of tables in [0, 1] may be as long as :math:`\sqrt{d_2}`, so it is
divided by its largest norm :math:`L=\max_{s,a}\|(r_j(s,a))_j\|_2\le\sqrt{d_2}`: :math:`\varphi=r/L`,
:math:`\theta_r=Lu`. For weights in the unit ball (the simplex is inside it) :math:`\|\theta_r\|_2\le L\le\sqrt{d_2}`,
as Assumption 1 wants. Dividing by L rather than always by :math:`\sqrt{d_2}` keeps the features as long as they may
be, which is signal that privacy noise does not buy.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from reticent.errors import InvalidInput
from reticent.worlds.models.model import make_model
from reticent.worlds.models.names import Names
from reticent.worlds.world import RewardKind, World, world_from_parameters

Bounds = Literal["paper", "tight"]


def blend(
    candidates: Any,
    reward_candidates: ArrayLike,
    weights: ArrayLike,
    reward_weights: ArrayLike,
    horizon: int,
    *,
    initial: ArrayLike | None = None,
    name: str = "blend",
    reward_kind: RewardKind = "bernoulli",
    simplex: bool = True,
    bounds: Bounds = "paper",
    successors: ArrayLike | None = None,
    reward_simplex: bool | None = None,
    rewards_known: bool = False,
    names: Names | None = None,
) -> World:
    r"""Build the world that mixes ``candidates`` by ``weights`` and ``reward_candidates`` by ``reward_weights``.

    Args:
      candidates: ``(d1, S, A, S)``, the last axis being the next state; ``(d1, S, A, n)`` with ``successors``.
      reward_candidates: ``(d2, S, A)``, mean rewards in [0, 1].
      weights: hidden blend, ``(d1,)`` or one per step ``(H, d1)``.
      reward_weights: hidden blend of rewards, ``(d2,)`` or ``(H, d2)``; any weights of norm at most
        :math:`\sqrt{d_2}/L` whose mean rewards stay in [0, 1].
      horizon: number of steps H.
      initial: first state or its distribution (default: state 0).
      name: what the world is called in results.
      reward_kind: ``bernoulli`` draws 0/1 rewards with the given means, ``deterministic`` pays the means.
      simplex: if true, every candidate must be a distribution and the weights lie on the simplex. If false, the
        candidates may be any features and the weights any vector, as long as the *mixture* is a distribution
        (negative weights are how a model says "like this one, but less like that one").
      bounds: ``paper`` declares Assumption 1's :math:`\|\theta_p\|_2\le\sqrt{d_1}`; ``tight`` declares 1 instead, which
        is what the simplex guarantees, and shrinks the confidence radius.
      successors: for sparse candidates, the state that each of the n columns of a pair is, ``(S, A, n)``;
        :func:`reticent.worlds.sparse_blend` makes both from SciPy's sparse matrices.
      reward_simplex: declare that the reward weights lie on the simplex, so that agents may learn them as contrasts; by
        default where they do.
      rewards_known: the designer knows ``reward_weights``: agents learn nothing about rewards and spend nothing on them.
      names: what states and actions are called.

    Raises:
      InvalidInput: a shape does not fit, a candidate is not a distribution, the weights leave the simplex, a reward
        leaves [0, 1], or a declared bound is exceeded.

    >>> import numpy as np
    >>> stay, leave = np.eye(2)[:, None], np.eye(2)[::-1, None]
    >>> world = blend(np.stack([stay, leave]), [[[0.0], [1.0]]], [0.75, 0.25], [1.0], 3)
    >>> world.transitions[0, 0, 0].tolist(), world.optimal_value
    ([0.75, 0.25], 0.625)
    """
    psi = np.asarray(candidates, dtype=np.float64)
    tables = np.asarray(reward_candidates, dtype=np.float64)
    if psi.ndim != 4 or (successors is None and psi.shape[1] != psi.shape[3]) or 0 in psi.shape:
        wanted = "(d1, S, A, S)" if successors is None else "(d1, S, A, n)"
        raise InvalidInput("candidates.shape", psi.shape, wanted, "stack the candidate models along axis 0")
    if tables.ndim != 3 or tables.shape[1:] != psi.shape[1:3] or 0 in tables.shape:
        wanted = f"(d2, {psi.shape[1]}, {psi.shape[2]})"
        raise InvalidInput("reward_candidates.shape", tables.shape, wanted, "stack the tables along axis 0")
    check_bounds(bounds)
    if simplex:
        check_distributions(psi, "candidate", ("candidate", "state", "action"))
        _check_simplex(np.asarray(weights, dtype=np.float64), "weights")
    check_unit_interval(tables, "reward_candidates", ("candidate", "state", "action"))

    if reward_simplex is None:
        reward_simplex = _on_simplex(np.asarray(reward_weights, dtype=np.float64))
    elif reward_simplex:
        _check_simplex(np.asarray(reward_weights, dtype=np.float64), "reward_weights")
    known = None
    if rewards_known:
        if np.ndim(reward_weights) != 1:
            raise InvalidInput("rewards_known", True, "False where reward weights change by step", "give one vector")
        known = np.einsum("d,dsa->sa", np.asarray(reward_weights, dtype=np.float64), tables)
    longest = float(np.linalg.norm(tables, axis=0).max()) or 1.0
    model = make_model(
        psi,
        tables / longest,
        horizon,
        initial=initial,
        transition_theta_bound=1.0 if simplex and bounds == "tight" else None,
        sums_to_one=simplex,
        stationary=np.ndim(weights) == 1 and np.ndim(reward_weights) == 1,
        successors=successors,
        reward_total=longest if reward_simplex else None,
        known_rewards=known,
        names=names,
    )
    return world_from_parameters(
        model, weights, longest * np.asarray(reward_weights, dtype=np.float64), name=name, reward_kind=reward_kind
    )


def _on_simplex(weights: np.ndarray) -> bool:
    return bool((weights >= -1e-9).all() and (np.abs(weights.sum(axis=-1) - 1) <= 1e-9).all())


def check_bounds(bounds: str) -> None:
    """``bounds`` is one of the two ways to declare norms."""
    if bounds not in ("paper", "tight"):
        raise InvalidInput("bounds", bounds, "'paper' or 'tight'", "choose one of the two")


def check_distributions(array: np.ndarray, field: str, axes: tuple[str, ...]) -> None:
    """Every last-axis row of ``array`` is a probability distribution; the message says which one is not."""
    deviation = np.maximum(np.abs(array.sum(axis=-1) - 1), -array.min(axis=-1))
    if not (deviation <= 1e-9).all():  # written so that NaN fails
        worst = np.unravel_index(int(np.nan_to_num(deviation, nan=np.inf).argmax()), deviation.shape)
        raise InvalidInput(
            f"{field} row at {_place(axes, worst)}",
            f"sum {array[worst].sum():.6g}, least entry {array[worst].min():.3g}",
            "a probability distribution",
            "normalise it over the next states",
        )


def check_unit_interval(array: np.ndarray, field: str, axes: tuple[str, ...]) -> None:
    """Every entry of ``array`` is in [0, 1]; the message says which one is not."""
    excess = np.maximum(array - 1, -array)
    if not (excess <= 1e-9).all():  # written so that NaN fails
        worst = np.unravel_index(int(np.nan_to_num(excess, nan=np.inf).argmax()), excess.shape)
        raise InvalidInput(
            f"{field} at {_place(axes, worst)}", f"{array[worst]:.6g}", "in [0, 1]", "rescale the rewards to [0, 1]"
        )


def _check_simplex(weights: np.ndarray, field: str) -> None:
    if weights.ndim == 0 or weights.size == 0:
        raise InvalidInput(f"{field}.shape", weights.shape, "(d1,) or (H, d1)", "give one weight per candidate")
    sums = weights.sum(axis=-1)
    if not _on_simplex(weights):
        raise InvalidInput(
            field,
            f"sum {float(np.max(sums)):.6g}, least {float(weights.min()):.3g}",
            "on the simplex (not negative, sum 1)",
            "normalise the weights or pass simplex=False",
        )


def _place(axes: tuple[str, ...], index: tuple[Any, ...]) -> str:
    return ", ".join(f"{axis} {int(position)}" for axis, position in zip(axes, index, strict=True))
