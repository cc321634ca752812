# SPDX-License-Identifier: Apache-2.0
r"""The bound of a learner as it is: its certificate, frame, rounds and pooling in the place of the paper's.

*Rounds.* A learner that replans only at the end of rounds uses an older Λ. For a round of n observations that adds
:math:`g=\ln\det` to the potential, :math:`\sum\min\{1,\|x\|^2\}\le\min\{n,\operatorname{tr}A\}\le\min\{n,e^g-1\}`, because
:math:`\ln\det(I+A)\ge\ln(1+\operatorname{tr}A)`; its concave envelope is :math:`n\,g/\ln(1+n)`. The worst distribution of
the total over the rounds is then a fractional knapsack (:func:`potential`). In the worst case one large epoch explores in
vain from its first to its last user: for geometric epochs the bound says little, and says so.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.agents.linear_mixture.bounds import Bound, Constants, check_sizes, po_martingale
from reticent.agents.linear_mixture.frame import PAPER_FRAME, Frame
from reticent.agents.linear_mixture.learner import LinOptLearner, Theory
from reticent.agents.linear_mixture.radius import radius
from reticent.agents.linear_mixture.regularizer import Certificate
from reticent.agents.linear_mixture.reward_coordinates import learned_sizes
from reticent.errors import InvalidInput
from reticent.learning.learner import Method
from reticent.learning.schedule import Schedule
from reticent.worlds.models.model import Sizes

Floats = NDArray[np.float64]


def certified(
    method: Method,
    sizes: Sizes,
    certificate: Certificate,
    episodes: int,
    alpha: float,
    *,
    until: int | None = None,
    actions: int | None = None,
    frame: Frame = PAPER_FRAME,
    schedule: Schedule | None = None,
    weighted: bool = False,
    pooled: bool = False,
    bonus_scale: float = 1.0,
    shift_scale: float = 1.0,
    ahead: float | None = None,
    rewards_known: bool = False,
) -> Bound:
    r"""The theorem for a learner as it is: its certificate (worst case over rounds), frame, schedule and pooling.

    In a frame, an error of the regression counts ρ_h times, where ρ_h bounds the frame's scale; T1 becomes
    :math:`\sum_h2\rho_h\beta_{p,h}\sqrt{K\,\Psi_h}` with the potential Ψ_h of :func:`potential`. In the paper's frame,
    with a round per user, this is the theorem to the letter.

    Args:
      episodes: K, for which radii were made; ``until`` ≤ K is where the bound is wanted (default K).
      actions: |A|, for policy optimization.
      schedule: when the learner replans; None is after every user.
      weighted: rounds are weighted by their size (counter ``epochs``).
      pooled: the sums of all steps are added up.
      bonus_scale, shift_scale: the learner's; other than 1 becomes a caveat, since the theorem is about 1.
      ahead: η of policy optimization whose steps are taken ahead of their rounds, for which (i) is H·ln\|A\|/η whatever η
        and the rounds are (:mod:`reticent.agents.linear_mixture.learner`); None is the paper's η and order.
      rewards_known: nothing is learned of rewards, and T2 is 0.
    """
    horizon = sizes.horizon
    check_sizes(horizon, episodes, sizes.d1, sizes.d2, alpha)
    until = episodes if until is None else until
    if not 1 <= until <= episodes:
        raise InvalidInput("until", until, f"from 1 to {episodes}", "ask for a part of the run")
    constants, bounds = Constants.of(certificate), frame.bounds(sizes)
    rounds = _round_sizes(schedule, until)
    releases = 1 if schedule is None else schedule.releases
    each = alpha / releases if weighted else alpha
    observations = episodes * (horizon if pooled else 1)
    steps = horizon if pooled else 1
    common: dict[str, Any] = {"episodes": observations, "horizon": horizon, "alpha": each}
    beta_p = radius(
        spread=bounds.high - bounds.low, feature_bound=bounds.feature, theta_bound=sizes.transition_theta_bound,
        dimension=sizes.d1, lambda_min=constants.lambda_min_p, lambda_max=constants.lambda_max_p, nu=constants.nu_p,
        **common,
    )  # fmt: skip
    beta_r = radius(
        spread=1.0, feature_bound=1.0, theta_bound=sizes.reward_theta_bound, dimension=sizes.d2,
        lambda_min=constants.lambda_min_r, lambda_max=constants.lambda_max_r, nu=constants.nu_r, **common,
    )  # fmt: skip
    learned = bounds.feature > 0
    reach = np.where(learned, np.maximum(_frame_scale(frame, sizes) * beta_p, horizon / 2), 0.0)
    potential_p = [
        potential(sizes.d1, float(feature), constants.lambda_min_p, rounds, steps, weighted)
        for feature in (bounds.feature.max(keepdims=True) if pooled else bounds.feature)
    ]
    potential_r = potential(sizes.d2, 0.0 if rewards_known else 1.0, constants.lambda_min_r, rounds, steps, weighted)
    reward = 2 * horizon * max(float(beta_r), 0.5)
    if pooled:
        first = 2 * float(reach.max()) * math.sqrt(until * horizon * potential_p[0])
        second = reward * math.sqrt(until * horizon * potential_r)
    else:
        first = float(np.sum(2 * reach * np.sqrt(until * np.array(potential_p))))
        second = reward * horizon * math.sqrt(until * potential_r)
    terms = {"T1, transition bonuses": first, "T2, reward bonuses": second}
    if method == "value-iteration":
        name = "Theorem VI"
        terms["T3, martingale"] = horizon * math.sqrt(2 * until * horizon * math.log(1 / alpha))
    else:
        if actions is None:
            raise InvalidInput("actions", None, "given for policy optimization", "pass the number of actions")
        name = "Theorem PO"
        spread = math.log(actions)
        eta = math.sqrt(2 * spread / (horizon * episodes * horizon))
        # A round of n users takes n steps with one Q, so within a round nothing is gained: n steps of size η are one
        # of size nη, whose second-order term is n times as large.
        steps_squared = float(np.sum(rounds.astype(np.float64) ** 2))
        afterwards = horizon * spread / eta + eta * steps_squared * horizon**3 / 2 if eta > 0 else 0.0
        terms["(i), mirror descent"] = afterwards if ahead is None else _mirror_ahead(horizon, spread, ahead)
        terms["(ii), martingale"] = po_martingale(horizon, until, alpha)
    caveats = []
    if bonus_scale != 1:
        caveats.append(f"The learner multiplies its bonuses by {bonus_scale:g}; the theorem is about 1.")
    if shift_scale != 1:
        caveats.append(f"The learner multiplies its shifts by {shift_scale:g}; the certificate is about 1.")
    return Bound(name, terms, horizon, until, 1 - 4 * alpha, tuple(caveats))


def bound_of(agent: LinOptLearner, theory: Theory, points: NDArray[np.int64]) -> tuple[Floats, Bound]:
    """The bound of a learner as it is, with what it does that the theorems do not cover among the caveats."""
    curve, bound = bound_curve(
        points, agent.method, learned_sizes(agent.model, agent.rewards), theory.certificate,
        agent.schedule.episodes, theory.alpha,
        actions=agent.model.actions, frame=agent.frame, schedule=agent.schedule, weighted=theory.weighted,
        pooled=agent.pooled, bonus_scale=theory.bonus_scale, shift_scale=theory.shift_scale,
        ahead=theory.learning_rate if theory.ahead else None,
        rewards_known=agent.rewards is not None and agent.rewards.bounds.bound == 0,
    )  # fmt: skip
    caveats = list(bound.caveats)
    if theory.learning_rate is not None and not theory.ahead:
        caveats.append(f"The learner's step is η = {theory.learning_rate:g}; the theorem is about the paper's.")
    if theory.misspecification > 0:
        caveats.append(
            f"The model may be wrong by {theory.misspecification:g} in total variation; the theorem is about a right one, "
            f"and leaves out up to {theory.misspecification:g}·H²·K that no estimate removes."
        )
    return curve, dataclasses.replace(bound, caveats=tuple(caveats))


def bound_curve(grid: Sequence[int] | NDArray[np.int64], *given: Any, **options: Any) -> tuple[Floats, Bound]:
    """:func:`certified` ``(*given, **options)`` at each number of episodes of ``grid``, and at the end with its remark.

    A curve for plots, for one learner whose radii are fixed: each point holds with probability 1−4α, not all at once.
    """
    curve = np.array([certified(*given, **{**options, "until": int(point)}).value for point in grid])
    return curve, certified(*given, **options)


def potential(
    dimension: int, feature: float, lambda_min: float, rounds: NDArray[np.int64], steps: int = 1, weighted: bool = False
) -> float:
    r"""A bound on :math:`\sum\min\{1,\|x\|^2_{\Lambda^{-1}}\}` over rounds of these numbers of users, ``steps`` pairs each.

    One pair per round: :math:`2d\ln(1+KL^2/(d\lambda_{\min}))`, the paper's. Otherwise the fractional knapsack of the
    module docstring with that total. With rounds weighted by their size n_t, :math:`W_t=\sum_in_iG_i+n_t\lambda_{\min}I`
    takes the place of Λ_t (:math:`\|x\|^2_{\Lambda_t^{-1}}=n_t\|x\|^2_{W_t^{-1}}`, and sizes do not decrease), so that
    the total is :math:`d\ln(n_T/n_1+\sum_tn_t^2L^2/(dn_1\lambda_{\min}))`.
    """
    if feature == 0:
        return 0.0
    sizes = rounds.astype(np.float64) * steps
    energy = feature**2 / (dimension * lambda_min)
    if (sizes == 1).all():
        return 2 * dimension * math.log1p(len(sizes) * energy)
    if weighted:
        users = np.maximum.accumulate(rounds.astype(np.float64))
        total = dimension * math.log(users[-1] / users[0] + float((users * sizes).sum()) * energy / users[0])
    else:
        total = dimension * math.log1p(float(sizes.sum()) * energy)
    # Largest rounds first: n/ln(1+n) increases with n.
    spent = found = 0.0
    for size in np.sort(sizes)[::-1]:
        cost = math.log1p(size)
        share = min(1.0, (total - spent) / cost)
        if share <= 0:
            break
        spent, found = spent + share * cost, found + share * float(size)
    return found


def _mirror_ahead(horizon: int, spread: float, eta: float) -> float:
    """H·ln|A|/η: what steps that are taken ahead lose against any fixed policy, at all steps of all users together."""
    if spread == 0:
        return 0.0
    return horizon * spread / eta if eta > 0 else math.inf


def _frame_scale(frame: Frame, sizes: Sizes) -> Floats:
    """The largest ρ_h of the frame: an error of 1 in the frame is an error of ρ_h in the value."""
    if frame.span != "seen":
        return np.ones(sizes.horizon)
    remaining = np.arange(sizes.horizon - 1, -1, -1, dtype=np.float64)
    return np.asarray(max(sizes.transition_bound, 1.0) * remaining / (2 if frame.centred else 1))


def _round_sizes(schedule: Schedule | None, until: int) -> NDArray[np.int64]:
    """The rounds of the first ``until`` users; the last one is cut off there."""
    if schedule is None or schedule.sizes is None:
        return np.ones(until, np.int64)
    ends = schedule.ends
    last = int(np.searchsorted(ends, until))
    sizes = schedule.round_sizes[: last + 1].copy()
    sizes[-1] = until - (int(ends[last - 1]) if last else 0)
    return np.asarray(sizes)
