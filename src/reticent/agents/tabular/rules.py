# SPDX-License-Identifier: Apache-2.0
r"""How each paper turns counts into estimates and bonuses, as small frozen rules.

A rule is static: it holds no arrays, only which formula is meant. Given valid counts, the widths E of their noise and the
logarithm ι, ``estimate`` forms r̄, P̄ and the part of the bonus that does not depend on values, and ``bonus`` the rest.
Everything is the papers' at ``bonus_scale`` 1 unless a docstring says otherwise; H is the horizon, S the number of states.

Two departures are common to all. Rewards are learned too. And counts are made valid first
(:mod:`reticent.agents.tabular.valid_counts`): a transition count is then at most :math:`2E_2+E_1` from the truth instead
of :math:`E_2` (the true counts, scaled to the noisy total, are :math:`E_2+E_1` from the noisy ones, and the repair is the
least change), so that at scale 1 the papers' confidence sets hold with E three times as large.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Protocol

import jax.numpy as jnp
from jax import Array

from reticent.agents.tabular.counts import Counts
from reticent.agents.tabular.planning import Estimate, Widths


class Rule(Protocol):
    """What a tabular learner needs from a paper."""

    def logarithm(self, states: int, actions: int, steps: int, alpha: float) -> float:
        """ι for failure probability α and ``steps`` = KH interactions."""
        ...

    def estimate(self, counts: Counts, widths: Widths, iota: Array, horizon: int) -> Estimate:
        """Estimates and value-free doubts."""
        ...

    def bonus(self, step: Estimate, following: Array, iota: Array, horizon: int) -> Array:
        """The bonus of one step that depends on the next values, ``(S, A)``."""
        ...


@dataclasses.dataclass(frozen=True)
class Hoeffding:
    r"""UCBVI-CH (Azar, Osband and Munos 2017): :math:`b=7H\iota/\sqrt n` with :math:`\iota=\ln(5SAT/\alpha)`.

    Rewards, which the paper takes as known, are estimated and get :math:`\sqrt{\iota/2n}`. A pair never seen is unknown.
    """

    def logarithm(self, states: int, actions: int, steps: int, alpha: float) -> float:
        return math.log(5 * states * actions * steps / alpha)

    def estimate(self, counts: Counts, widths: Widths, iota: Array, horizon: int) -> Estimate:
        del widths
        visits = jnp.maximum(counts.visits, 1.0)
        doubt = jnp.sqrt(iota / (2 * visits)) + 7 * horizon * iota / jnp.sqrt(visits)
        return Estimate(*_ratios(counts, visits), visits, doubt, counts.visits > 0)

    def bonus(self, step: Estimate, following: Array, iota: Array, horizon: int) -> Array:
        del following, iota, horizon
        return jnp.zeros_like(step.visits)


@dataclasses.dataclass(frozen=True)
class Bernstein:
    r"""Empirical Bernstein in a form that keeps optimism without a correction for V's own error.

    .. math:: b=\max\big(2\sqrt2\sqrt{\mathrm{Var}_{\bar P}(V)\,\iota/n},\;8H\iota/n\big)+\sqrt{\iota/2n}.

    Since the second constant is the square of the first, :math:`\bar PV+b` does not decrease in V (Zhang, Ji and Du 2021),
    so an optimistic V stays optimistic through the backup; and the maximum is at least half the sum, hence at least the
    empirical Bernstein width of Maurer and Pontil (2009) for n ≥ 3. The constants are ours: UCBVI-BF of Azar et al. has
    larger ones and a third term, whose work the monotone form does.
    """

    def logarithm(self, states: int, actions: int, steps: int, alpha: float) -> float:
        return math.log(5 * states * actions * steps / alpha)

    def estimate(self, counts: Counts, widths: Widths, iota: Array, horizon: int) -> Estimate:
        del widths, horizon
        visits = jnp.maximum(counts.visits, 1.0)
        return Estimate(*_ratios(counts, visits), visits, jnp.sqrt(iota / (2 * visits)), counts.visits > 0)

    def bonus(self, step: Estimate, following: Array, iota: Array, horizon: int) -> Array:
        return _monotone_bernstein(step, following, iota, horizon)


@dataclasses.dataclass(frozen=True)
class Privatized:
    r"""Chowdhury and Zhou (2022): counts shifted up by their width E, and what that can have spoiled in the bonus.

    With :math:`\bar n=\max(n+E_1,1)`, :math:`\bar r=R/\bar n` and :math:`\bar P=N(s')/\bar n`,

    .. math:: b=\frac{\sqrt{2\iota}}{\sqrt{\bar n}}+\frac{3E_R}{\bar n}
              +H\Big(\frac{\sqrt{2\iota}}{\sqrt{\bar n}}+\frac{SE_2+2E_1}{\bar n}\Big),

    and for policy optimization (``whole_rows``) :math:`\sqrt{4S\iota}` in place of the second :math:`\sqrt{2\iota}`, as V
    is then no fixed function. The paper has one E for visits and rewards; here each table has its own.
    """

    whole_rows: bool = False

    def logarithm(self, states: int, actions: int, steps: int, alpha: float) -> float:
        return math.log(6 * states * actions * steps / alpha)

    def estimate(self, counts: Counts, widths: Widths, iota: Array, horizon: int) -> Estimate:
        states = counts.transitions.shape[-1]
        visits = jnp.maximum(counts.visits + widths.visits, 1.0)
        root = jnp.sqrt((4 * states if self.whole_rows else 2) * iota / visits)
        spoiled = (states * widths.transitions + 2 * widths.visits) / visits
        doubt = jnp.sqrt(2 * iota / visits) + 3 * widths.rewards / visits + horizon * (root + spoiled)
        return Estimate(*_ratios(counts, visits), visits, doubt, jnp.ones_like(visits, dtype=bool))

    def bonus(self, step: Estimate, following: Array, iota: Array, horizon: int) -> Array:
        del following, iota, horizon
        return jnp.zeros_like(step.visits)


@dataclasses.dataclass(frozen=True)
class PlainRatios:
    r"""PUCB (Vietri et al. 2020): plain ratios of noisy counts, and pairs seen less than twice the width are unknown.

    .. math:: b=(H+1)\Big(\sqrt{\frac{2\iota}{\max(n-E,1)}}+(1+SH)\big(\tfrac{3E}{n}+\tfrac{2E^2}{n^2}\big)\Big)
              \quad\text{where }n>2E ,

    with E the largest of the three tables' widths.
    """

    def logarithm(self, states: int, actions: int, steps: int, alpha: float) -> float:
        return math.log(6 * states * actions * steps / alpha)

    def estimate(self, counts: Counts, widths: Widths, iota: Array, horizon: int) -> Estimate:
        states = counts.transitions.shape[-1]
        width = jnp.maximum(jnp.maximum(widths.visits, widths.transitions), widths.rewards)
        visits = jnp.maximum(counts.visits, 1.0)
        share = width / visits
        root = jnp.sqrt(2 * iota / jnp.maximum(visits - width, 1.0))
        doubt = (horizon + 1) * (root + (1 + states * horizon) * (3 * share + 2 * share**2))
        return Estimate(*_ratios(counts, visits), visits, doubt, counts.visits > 2 * width)

    def bonus(self, step: Estimate, following: Array, iota: Array, horizon: int) -> Array:
        del following, iota, horizon
        return jnp.zeros_like(step.visits)


@dataclasses.dataclass(frozen=True)
class PrivateBernstein:
    r"""DP-UCBVI (Qiao and Wang 2023): valid counts lifted so that they over-estimate, and a Bernstein bonus.

    Every next state of a pair gets E/2S more, the pair E/2: then with high probability counts are never below the truth nor
    E above it, and :math:`\bar P` is a distribution. With :math:`\bar n=\max(n+E/2,1)`,

    .. math:: b=\max\big(2\sqrt2\sqrt{\mathrm{Var}_{\bar P}(V)\,\iota/\bar n},\;8H\iota/\bar n\big)
              +\sqrt{2\iota/\bar n}+\frac{20HSE\,\iota}{\bar n}.

    The last two terms are the paper's; its Bernstein part needs a bound on V's own error, for which the monotone form of
    :class:`Bernstein` stands in. E is twice the width of a transition count or of a visit, whichever is more.
    """

    def logarithm(self, states: int, actions: int, steps: int, alpha: float) -> float:
        return math.log(30 * states * actions * steps / alpha)

    def estimate(self, counts: Counts, widths: Widths, iota: Array, horizon: int) -> Estimate:
        states = counts.transitions.shape[-1]
        width = 2 * jnp.maximum(widths.visits, widths.transitions)
        visits = jnp.maximum(counts.visits + width / 2, 1.0)
        # Together they are the visits exactly: what is missing to 1 is spread as evenly as the width is.
        lifted = counts.transitions + ((visits - counts.visits) / states)[..., None]
        doubt = jnp.sqrt(2 * iota / visits) + (20 * horizon * states * width * iota + widths.rewards) / visits
        known = jnp.ones_like(visits, dtype=bool)
        return Estimate(counts.rewards / visits, lifted / visits[..., None], visits, doubt, known)

    def bonus(self, step: Estimate, following: Array, iota: Array, horizon: int) -> Array:
        return _monotone_bernstein(step, following, iota, horizon)


@dataclasses.dataclass(frozen=True)
class LocallyPrivatized:
    r"""LDP-OBI (Garcelon et al. 2020), with its parameter α = 2.

    With :math:`\bar n=\max(n+\alpha E_1,1)`,

    .. math:: b=\sqrt{\frac{2\iota}{\bar n}}+\frac{(\alpha+1)E_1+E_R}{\bar n}
              +H\Big(\sqrt{\frac{14S\iota}{\bar n}}+\frac{SE_2+(\alpha+1)E_1}{\bar n}\Big).
    """

    alpha: float = 2.0

    def logarithm(self, states: int, actions: int, steps: int, alpha: float) -> float:
        return math.log(4 * states * actions * steps / alpha)

    def estimate(self, counts: Counts, widths: Widths, iota: Array, horizon: int) -> Estimate:
        states = counts.transitions.shape[-1]
        visits = jnp.maximum(counts.visits + self.alpha * widths.visits, 1.0)
        missing = (self.alpha + 1) * widths.visits
        spoiled = jnp.sqrt(14 * states * iota / visits) + (states * widths.transitions + missing) / visits
        doubt = jnp.sqrt(2 * iota / visits) + (missing + widths.rewards) / visits + horizon * spoiled
        return Estimate(*_ratios(counts, visits), visits, doubt, jnp.ones_like(visits, dtype=bool))

    def bonus(self, step: Estimate, following: Array, iota: Array, horizon: int) -> Array:
        del following, iota, horizon
        return jnp.zeros_like(step.visits)


def _ratios(counts: Counts, visits: Array) -> tuple[Array, Array]:
    return counts.rewards / visits, counts.transitions / visits[..., None]


def _monotone_bernstein(step: Estimate, following: Array, iota: Array, horizon: int) -> Array:
    mean = (step.transitions * following).sum(axis=-1)
    variance = jnp.maximum((step.transitions * following**2).sum(axis=-1) - mean**2, 0.0)
    return jnp.maximum(jnp.sqrt(8 * variance * iota / step.visits), 8 * horizon * iota / step.visits)
