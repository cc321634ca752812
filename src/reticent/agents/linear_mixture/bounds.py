# SPDX-License-Identifier: Apache-2.0
r"""Regret bounds with every constant written out: Theorem VI, Theorem PO and the private corollary.

The paper states them with :math:`O(\cdot)`; its proofs give, with probability at least 1−4α and T = KH,

.. math::

   \mathcal T_1 &= 2\beta_p\sqrt{KH}\,\sqrt{2Hd_1\ln(1+KH^2/\lambda_{\min,p})},\\
   \mathcal T_2 &= 2H\beta_r\sqrt{KH}\,\sqrt{2Hd_2\ln(1+K/(d_2\lambda_{\min,r}))},\\
   \mathcal T_3 &= H\sqrt{2KH\ln(1/\alpha)},

and :math:`R(T)\le\mathcal T_1+\mathcal T_2+\mathcal T_3` for LinOpt-VI-Reg. For LinOpt-PO-Reg the decomposition has
:math:`(i)=\sqrt{2H^3T\ln|A|}` (mirror descent) and :math:`(ii)=4H\sqrt{2T\ln(1/\alpha)}` (martingale) in the place of
:math:`\mathcal T_3`, and (iii) is :math:`\mathcal T_1+\mathcal T_2` again.

*The elliptical potential.* :math:`\sum_k\|x_k\|^2_{\Lambda_k^{-1}}\le2\ln\frac{\det\Lambda_{K+1}}{\det\Lambda_1}` needs
:math:`\lambda_{\min}\ge L^2`, which a fixed λ = 1 does not have. The proofs sum
:math:`\min\{1,\|x\|^2_{\Lambda^{-1}}\}` instead, for which the inequality holds for every λ_min > 0 (Abbasi-Yadkori et
al. 2011, Lemma 11). That minimum comes from :math:`\min\{H,2\beta\|x\|\}\le2\beta\min\{1,\|x\|\}`, true if 2β_p ≥ H and
2β_r ≥ 1, "by the definitions". Radii enter here as :math:`\max(\beta_p,H/2)` and :math:`\max(\beta_r,1/2)`, which is the
same for every α of use, and leaves nothing to check.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.agents.linear_mixture.calibration import paper_sigma
from reticent.agents.linear_mixture.radius import radius
from reticent.agents.linear_mixture.regularizer import Certificate
from reticent.agents.linear_mixture.spectrum import lemma_chi, lemma_operator_norm
from reticent.errors import InvalidInput
from reticent.privacy.guarantee import check_promise

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Constants:
    r"""λ_min, λ_max and ν of Assumption 2 for the transition (p) and the reward regression (r), over all k and h."""

    lambda_min_p: float
    lambda_max_p: float
    nu_p: float
    lambda_min_r: float
    lambda_max_r: float
    nu_r: float

    def __post_init__(self) -> None:
        for name in ("p", "r"):
            low, high, nu = (getattr(self, f"{field}_{name}") for field in ("lambda_min", "lambda_max", "nu"))
            if not 0 < low <= high < math.inf:
                bound = "0 < λ_min ≤ λ_max, finite"
                raise InvalidInput(f"lambda_{name}", f"({low}, {high})", bound, "take them from a certificate")
            if not 0 <= nu < math.inf:
                raise InvalidInput(f"nu_{name}", nu, "finite and at least 0", "take it from a certificate")

    @classmethod
    def of(cls, certificate: Certificate) -> Constants:
        """The worst case over the rounds and steps of a certificate."""
        return cls(
            float(np.min(certificate.transition_lambda_min)),
            float(np.max(certificate.transition_lambda_max)),
            float(np.max(certificate.transition_nu)),
            float(np.min(certificate.reward_lambda_min)),
            float(np.max(certificate.reward_lambda_max)),
            float(np.max(certificate.reward_nu)),
        )

    @classmethod
    def fixed(cls, regularization: float = 1.0) -> Constants:
        """Of a fixed regularizer λI: no noise, hence ν = 0."""
        return cls(regularization, regularization, 0.0, regularization, regularization, 0.0)

    @classmethod
    def paper(
        cls, *, epsilon: float, delta: float, horizon: int, episodes: int, d1: int, d2: int, alpha: float
    ) -> Constants:
        r"""Of the paper's privatizer (proof of the private corollary), m = ⌈log₂K⌉:
        λ_min = Σ, λ_max = 3Σ, :math:`\nu=\sigma_2\sqrt{m/\Sigma}(\sqrt d+\sqrt{2\ln(4KH/\alpha)})`."""
        check_promise(epsilon, delta)
        check_sizes(horizon, episodes, d1, d2, alpha)
        levels = max(1, math.ceil(math.log2(episodes)))
        probability = alpha / (4 * episodes * horizon)
        found: list[float] = []
        for dimension, gram, moment in ((d1, d1 * horizon**2, math.sqrt(d1) * horizon**2), (d2, 1.0, 1.0)):
            sigma_gram, sigma_moment = (
                float(paper_sigma(size, levels=levels, horizon=horizon, epsilon=epsilon, delta=delta))
                for size in (gram, moment)
            )
            norm = math.sqrt(levels) * lemma_operator_norm(dimension, sigma_gram, probability)
            nu = sigma_moment * math.sqrt(levels / norm) * lemma_chi(dimension, probability)
            found += [norm, 3 * norm, nu]
        return cls(*found)


@dataclasses.dataclass(frozen=True)
class Bound:
    """A bound on the regret of ``episodes`` users, term by term.

    Attributes:
      theorem: which one.
      terms: its parts, by the names of the proof; the bound is their sum.
      horizon, episodes: H and K.
      confidence: the probability with which it holds, 1−4α.
      caveats: what the learner at hand does that the theorem does not cover; empty if nothing.
    """

    theorem: str
    terms: Mapping[str, float]
    horizon: int
    episodes: int
    confidence: float
    caveats: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        return float(sum(self.terms.values()))

    @property
    def trivial(self) -> float:
        """KH, which no learner can exceed."""
        return trivial(self.horizon, self.episodes)

    @property
    def vacuous(self) -> bool:
        """Whether the bound says no more than that rewards lie in [0, 1]."""
        return self.value >= self.trivial

    @property
    def remark(self) -> str:
        """What the number is worth, in plain words: to be printed wherever it is drawn."""
        chance = f"with probability at least {max(self.confidence, 0.0):g}"
        head = f"{self.theorem}: regret at most {self.value:.4g} after {self.episodes} users, {chance}."
        if self.vacuous:
            worth = (
                f"It is {self.value / self.trivial:.3g} times the trivial bound KH = {self.trivial:g}, "
                "so here it says nothing: any policy whatever keeps it."
            )
        else:
            worth = f"The trivial bound is KH = {self.trivial:g}."
        return " ".join([head, worth, *self.caveats])


def trivial(horizon: int, episodes: int) -> float:
    """KH: rewards lie in [0, 1], so no learner can lose more."""
    return float(horizon) * float(episodes)


def theorem_vi(
    horizon: int, episodes: int, d1: int, d2: int, constants: Constants, alpha: float, *, planned: int | None = None
) -> Bound:
    r"""Theorem VI: T1 + T2 + T3 of its proof, for LinOpt-VI-Reg under Assumptions 1 and 2.

    ``planned`` is the K that the learner's radii were made for; by default ``episodes``, and more for a point inside a
    run's curve.

    >>> theorem_vi(5, 1000, 4, 4, Constants.fixed(), 0.05).vacuous
    True
    """
    check_sizes(horizon, episodes, d1, d2, alpha)
    terms = _optimism(horizon, episodes, d1, d2, constants, alpha, planned or episodes)
    terms["T3, martingale"] = horizon * math.sqrt(2 * episodes * horizon * math.log(1 / alpha))
    return Bound("Theorem VI", terms, horizon, episodes, 1 - 4 * alpha)


def theorem_po(
    horizon: int,
    episodes: int,
    d1: int,
    d2: int,
    actions: int,
    constants: Constants,
    alpha: float,
    *,
    planned: int | None = None,
) -> Bound:
    r"""Theorem PO: (i) + (ii) + (iii) of its proof, for LinOpt-PO-Reg with :math:`\eta=\sqrt{2\ln|A|/(HT)}`.

    (iii) is T1 + T2 of Theorem VI, (ii) stands in the place of its T3. With η made for ``planned`` episodes,
    (i) at k of them is :math:`H\ln|A|/\eta+\eta kH^3/2`, which is :math:`\sqrt{2H^3T\ln|A|}` at the end.
    """
    check_sizes(horizon, episodes, d1, d2, alpha)
    if actions < 1:
        raise InvalidInput("actions", actions, "at least 1", "give the number of actions")
    whole = planned or episodes
    spread = math.log(actions)
    eta = math.sqrt(2 * spread / (horizon * whole * horizon))
    mirror = horizon * spread / eta + eta * episodes * horizon**3 / 2 if eta > 0 else 0.0
    terms = _optimism(horizon, episodes, d1, d2, constants, alpha, whole)
    terms["(i), mirror descent"] = mirror
    terms["(ii), martingale"] = po_martingale(horizon, episodes, alpha)
    return Bound("Theorem PO", terms, horizon, episodes, 1 - 4 * alpha)


def private_corollary(
    epsilon: float,
    delta: float,
    horizon: int,
    episodes: int,
    d1: int,
    d2: int,
    alpha: float,
    *,
    actions: int | None = None,
    planned: int | None = None,
) -> Bound:
    """The private corollary (Theorem priv_regret): the theorem with the paper's privatizer constants.

    Theorem VI for Private-LinOpt-VI, or Theorem PO for Private-LinOpt-PO if ``actions`` is given.
    """
    constants = Constants.paper(
        epsilon=epsilon, delta=delta, horizon=horizon, episodes=planned or episodes, d1=d1, d2=d2, alpha=alpha
    )
    if actions is None:
        found = theorem_vi(horizon, episodes, d1, d2, constants, alpha, planned=planned)
    else:
        found = theorem_po(horizon, episodes, d1, d2, actions, constants, alpha, planned=planned)
    return dataclasses.replace(found, theorem=f"Private corollary of {found.theorem}")


def _optimism(
    horizon: int, episodes: int, d1: int, d2: int, constants: Constants, alpha: float, planned: int
) -> dict[str, float]:
    """T1 and T2 with the paper's radii for ``planned`` episodes."""
    common: dict[str, Any] = {"episodes": planned, "horizon": horizon, "alpha": alpha}
    beta_p = radius(
        spread=horizon, feature_bound=math.sqrt(d1) * horizon, theta_bound=math.sqrt(d1), dimension=d1,
        lambda_min=constants.lambda_min_p, lambda_max=constants.lambda_max_p, nu=constants.nu_p, **common,
    )  # fmt: skip
    beta_r = radius(
        spread=1.0, feature_bound=1.0, theta_bound=math.sqrt(d2), dimension=d2,
        lambda_min=constants.lambda_min_r, lambda_max=constants.lambda_max_r, nu=constants.nu_r, **common,
    )  # fmt: skip
    steps = math.sqrt(episodes * horizon)
    growth_p = math.log1p(episodes * horizon**2 / constants.lambda_min_p)
    growth_r = math.log1p(episodes / (d2 * constants.lambda_min_r))
    return {
        "T1, transition bonuses": 2 * max(float(beta_p), horizon / 2) * steps * math.sqrt(2 * horizon * d1 * growth_p),
        "T2, reward bonuses": 2 * horizon * max(float(beta_r), 0.5) * steps * math.sqrt(2 * horizon * d2 * growth_r),
    }


def po_martingale(horizon: int, episodes: int, alpha: float) -> float:
    return 4 * horizon * math.sqrt(2 * episodes * horizon * math.log(1 / alpha))


def check_sizes(horizon: int, episodes: int, d1: int, d2: int, alpha: float) -> None:
    for field, value in (("horizon", horizon), ("episodes", episodes), ("d1", d1), ("d2", d2)):
        if not (isinstance(value, int | np.integer) and value >= 1):
            raise InvalidInput(field, value, "a whole number of at least 1", "give the size of the problem")
    if not 0 < alpha <= 1:
        raise InvalidInput("alpha", alpha, "in (0, 1]", "use 0.05 if in doubt")
