# SPDX-License-Identifier: Apache-2.0
r"""Effects of a treatment as one private release, and intervals that include its noise.

Of all users' contributions (:mod:`reticent.inference.contrast`) the sums of three blocks are released: residuals r/L,
numbers of decisions N, and squares (r/L)², each with Gaussian noise of its own scale.

**Formal guarantee.** Every block is in its unit ball, and the last two have no negative entry. Replacing a user moves
the first by at most 2 and each of the others by at most √2 (nonnegative vectors are never at an obtuse angle);
setting a person's blocks to zero moves each by at most 1. With :math:`\sigma_b=\Delta_b/\mu_b` and
:math:`\sum_b\mu_b^2=\mu^2(\varepsilon,\delta)` the release is one Gaussian mechanism, and (ε, δ)-differentially
private. It is a release *beside* the study's: for people who were in both, strengths add in squares
(:func:`total_guarantee`).

**Estimate.** :math:`\hat\beta_j=\beta_0+L\tilde r_j/(k\tilde N_j)`. By the mean of r,

.. math:: \hat\beta_j-\beta_j=\frac{\sum_i(r_{ij}-k(\beta_j-\beta_0)N_{ij})
          +\text{noise}_r-k(\beta_j-\beta_0)\,\text{noise}_N}{k\tilde N_j},

whose numerator has the variance :math:`\sum_i\mathrm{Var}(\cdot)+\sigma_r^2+k^2(\beta_j-\beta_0)^2\sigma_N^2`. The
sum is at most the expected sum of squares of r, of which the third block is a noisy value; the rest is known. Users
are independent given earlier releases and what they are served follows from those, so the numerator is a martingale
and near a Gaussian for many users. The interval is :math:`\hat\beta_j\pm z` standard deviations. Where the number of
decisions is not clear of its noise there is no estimate: its interval is everything.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from reticent.errors import InvalidInput
from reticent.inference.contrast import Contrast
from reticent.privacy.accounting.account import GAUSSIAN, GaussianAccount, epsilon_spent
from reticent.privacy.accounting.gaussian import compose
from reticent.privacy.guarantee import DeclaredGroup, Guarantee, check_promise, noisy_sums
from reticent.privacy.ledger import CounterShare, Ledger
from reticent.privacy.noise import SecureNoise, grid_for, quantize, touched_draws
from reticent.privacy.sensitivity import Adjacency
from reticent.privacy.trust import JOINT

BLOCKS = ("residuals", "decisions", "squares")
SHARES = (0.7, 0.1, 0.2)
"""Of μ²: what is divided by and what the interval is made of need less precision than what is estimated."""

MARGIN = 0.5
"""Standard deviations of its noise that are added to the sum of squares: an interval made of a variance that came out too
small by chance covers too seldom (88 % at ε = 30 and 100 people without it; docs/randomisation.md)."""

CLEAR = 3.0
"""How many standard deviations of its noise a number of decisions must have, or there is no estimate."""


@dataclasses.dataclass(frozen=True, eq=False)
class EffectsPlan:
    """How an analysis will be released; data-independent.

    Attributes:
      people: how many there are, each with one row of contributions.
      scales: standard deviations of the noise on the 3p numbers; all 0 without privacy, for comparisons in simulation.
      grid: spacing of contributions in a deployment; 0 is none. guarantee: what it promises; None without privacy.
    """

    contrast: Contrast
    people: int
    scales: np.ndarray
    grid: float = 0.0
    guarantee: Guarantee | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Effects:
    """What is known of the effects, by group ``(p,)``: all of it public.

    Attributes:
      estimate, low, high: the effect and its interval. deviation: its standard deviation, of which ``noise`` is the
      part that privacy adds. decisions: how many there were, as released.
    """

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    deviation: np.ndarray
    noise: np.ndarray
    decisions: np.ndarray


def plan_effects(
    contrast: Contrast,
    users: int,
    *,
    epsilon: float | None = 1.0,
    delta: float = 1e-5,
    adjacency: Adjacency = "replace",
    deployment: bool = False,
) -> EffectsPlan:
    """The least noise that (ε, δ) allows for an analysis of ``users`` people; ε = None is no privacy, for simulations.

    Raises:
      InvalidInput: a promise that is none.
    """
    size = contrast.size
    if epsilon is None:
        return EffectsPlan(contrast, users, np.zeros(3 * size))
    check_promise(epsilon, delta)
    account = GaussianAccount(draws=touched_draws(3 * size)) if deployment else GAUSSIAN
    mu = account.strength_of(epsilon, delta)
    moved = np.array([2.0, math.sqrt(2), math.sqrt(2)]) if adjacency == "replace" else np.ones(3)
    strengths = mu * np.sqrt(SHARES)
    grid = grid_for(float((moved / strengths).min())) if deployment else 0.0
    moved = moved + grid * math.sqrt(size)
    scales = moved / strengths
    shares = [CounterShare(*row) for row in zip(BLOCKS, (1, 1, 1), moved.tolist(), scales.tolist(), strict=True)]
    ledger = Ledger.of(shares, "once", np.ones(1), np.array([users]), epsilon=epsilon, delta=delta, account=account)
    groups = tuple(
        DeclaredGroup(name, 1, slice(place * size, (place + 1) * size), float(moved[place]))
        for place, name in enumerate(BLOCKS)
    )
    guarantee = Guarantee(
        trust=JOINT, adjacency=adjacency, epsilon=epsilon, delta=delta, ledger=ledger, sums=noisy_sums(shares, 1.0),
        groups=groups, remark="one analysis after the study",
    )  # fmt: skip
    return EffectsPlan(contrast, users, np.repeat(scales, size), grid, guarantee)


def release(plan: EffectsPlan, users: np.ndarray, noise: SecureNoise | np.random.Generator) -> np.ndarray:
    """The noisy sums ``(3p,)`` of contributions ``(n, 3p)``: to be done once, and kept.

    With a :class:`SecureNoise` in integers, as ``deployment`` calibrates for; with a generator as a simulation only.

    Raises:
      InvalidInput: not one row per person (a public number), or secure noise for a plan that is not for a deployment.
    """
    if users.shape != (plan.people, len(plan.scales)):
        raise InvalidInput(
            "users", users.shape, f"({plan.people}, {len(plan.scales)}), one row per person",
            "put all decisions of a person into one row: Contrast.over_days",
        )  # fmt: skip
    if isinstance(noise, np.random.Generator):
        return np.asarray(users.sum(axis=0) + noise.normal(size=plan.scales.shape) * plan.scales)
    if not plan.grid:
        raise InvalidInput("grid", plan.grid, "that of a deployment", "plan_effects(..., deployment=True)")
    total = quantize(users, plan.grid).sum(axis=0)
    drawn = noise.draw(plan.scales, grid=plan.grid)
    return np.asarray((total + drawn.integers) * plan.grid)


def estimate(plan: EffectsPlan, released: np.ndarray, *, confidence: float = 0.95) -> Effects:
    """Effects and intervals from released sums ``(..., 3p)``: post-processing, which spends nothing."""
    contrast = plan.contrast
    size, bound = contrast.size, contrast.residual_bound
    residuals, numbers, squares = (released[..., block * size : (block + 1) * size] for block in range(3))
    of_residuals, of_numbers = plan.scales[0] * bound, plan.scales[size] * contrast.count_bound
    decisions = numbers * contrast.count_bound
    clear = decisions > np.maximum(CLEAR * of_numbers, 1e-9)
    divisor = contrast.scale * np.where(clear, decisions, 1.0)
    moved = np.where(clear, residuals * bound / divisor, np.nan)
    beyond = (contrast.scale * np.nan_to_num(moved)) ** 2 * of_numbers**2
    sampling = (np.maximum(squares, 0.0) + MARGIN * plan.scales[2 * size]) * bound**2
    deviation = np.where(clear, np.sqrt(sampling + of_residuals**2 + beyond) / divisor, np.inf)
    noise = np.where(clear, np.sqrt(of_residuals**2 + beyond) / divisor, np.inf)
    centre = contrast.guess + moved
    reach = float(ndtri(0.5 + confidence / 2)) * deviation
    low, high = np.where(clear, centre - reach, -np.inf), np.where(clear, centre + reach, np.inf)
    return Effects(centre, low, high, deviation, noise, decisions)


def total_guarantee(guarantees: Sequence[Guarantee], delta: float) -> float:
    r"""ε at ``delta`` for a person who was in all of these: strengths of Gaussian mechanisms add in squares, draws add.

    Raises:
      InvalidInput: one of them has no μ, or another adjacency than the first.
    """
    strengths, draws = [], 0
    for one in guarantees:
        if one.mu is None or one.adjacency != guarantees[0].adjacency:
            raise InvalidInput("guarantee", one.adjacency, "Gaussian, of one adjacency", "account for it by itself")
        strengths.append(one.mu)
        account = one.ledger.account
        draws += account.draws if isinstance(account, GaussianAccount) else 0
    return epsilon_spent(compose(strengths), delta, draws)
