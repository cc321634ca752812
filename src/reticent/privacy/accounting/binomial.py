# SPDX-License-Identifier: Apache-2.0
r"""What binomial noise is worth: the privacy of sums that are hidden by other people's coin flips.

The release is :math:`x+Y`, on integers, with :math:`Y_i\sim\mathrm{Bin}(N_i,\tfrac12)-N_i/2` independent over the D
coordinates. One user moves x by an integer vector k. Write :math:`c_i=(N_i+1)/2`, :math:`\sigma_i^2=c_i/2` and
:math:`\mu^2=\sum_ik_i^2/\sigma_i^2`.

**Theorem.** Let :math:`a_i=\sqrt{N_i\ln(2D/\delta_1)/2}`, :math:`|k_i|\le\kappa_i`, :math:`u_i=(a_i+\kappa_i)/c_i<1` and
:math:`q_i=\tfrac23u_i^3/(1-u_i^2)`. If Proposition 12 of Canonne, Kamath and Steinke (2020) turns
:math:`\mu^2/2`-concentrated DP into (ε, δ)-DP, then the release is :math:`(\varepsilon+r,\,\delta+\delta_1)`-DP with
:math:`r=\mu\,(\sum_i\sigma_i^2q_i^2)^{1/2}`.

Proof. (1) *The loss.* With p the law of one :math:`Y_i`, :math:`p(y)/p(y-1)=(N/2-y+1)/(N/2+y)=(c-t)/(c+t)` for
:math:`t=y-\tfrac12`, whose logarithm is :math:`-2\,\mathrm{artanh}(t/c)`. The loss :math:`\ln p(y)/p(y-k)` is a sum of
:math:`|k|` such terms, with :math:`t_j=y-j-\tfrac12`, j < k, for k > 0 (and by symmetry for k < 0). As
:math:`|\mathrm{artanh}(u)-u|\le|u|^3/3(1-u^2)` and :math:`-\tfrac2c\sum_jt_j=-\tfrac2c(ky-k^2/2)`, the loss of the
vector is

.. math:: L(y)=\Lambda(y)+R(y),\qquad\Lambda(y)=\tfrac{\mu^2}2-\sum_i\frac{k_iy_i}{\sigma_i^2},\qquad
          |R(y)|\le\sum_i\sum_{j<|k_i|}\tfrac23\,\frac{|t_{ij}/c_i|^3}{1-(t_{ij}/c_i)^2}.

Λ is the loss of a Gaussian mechanism with the same σ.

(2) *The bulk.* Let G be the event that :math:`|Y_i|\le a_i` for all i. By Hoeffding
:math:`P(|Y_i|>a_i)\le2e^{-2a_i^2/N_i}=\delta_1/D`, so :math:`P(G^c)\le\delta_1`. On G every
:math:`|t_{ij}|\le a_i+\kappa_i=u_ic_i`, hence L is finite and
:math:`|R|\le\sum_i|k_i|q_i\le\mu(\sum_i\sigma_i^2q_i^2)^{1/2}=r` by Cauchy and Schwarz.

(3) *No conditioning.* The least δ for ε + r is :math:`E[(1-e^{\varepsilon+r-L})_+]`, whose integrand is in [0, 1] and grows
with L. Split by G, it is at most :math:`P(G^c)+E[1_G(1-e^{\varepsilon-\Lambda})_+]`, and dropping :math:`1_G` only adds.

(4) *Moments.* For α > 1 and all z, :math:`(1-e^{-z})_+\le\alpha^{-1}(1-1/\alpha)^{\alpha-1}e^{(\alpha-1)z}`. And
:math:`E\,e^{-sk_iY_i/\sigma_i^2}=\cosh(sk_i/2\sigma_i^2)^{N_i}\le e^{s^2k_i^2N_i/8\sigma_i^4}\le e^{s^2k_i^2/2\sigma_i^2}`,
because :math:`N_i\le4\sigma_i^2`. So with s = α − 1, :math:`E\,e^{s\Lambda}\le e^{s(s+1)\mu^2/2}`: no more than a
Gaussian mechanism's, which is all that Proposition 12 uses. ∎

The price against exact Gaussian accounting is that proposition (8% more noise at ε = 1, δ = 1e-5); r is a small share of ε
at the grids that rounding asks for anyway.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidInput
from reticent.privacy.accounting.account import Cost, gaussian_strength
from reticent.privacy.accounting.gaussian import mu_of, zcdp_epsilon, zcdp_of

__all__ = ["TAIL_SHARE", "BinomialAccount", "account_of"]

TAIL_SHARE = 0.1
"""δ₁ as a share of δ: what the event that some coordinate's noise is extreme may cost."""


@dataclasses.dataclass(frozen=True)
class BinomialAccount:
    """The two numbers of the module's theorem that do not depend on the user.

    Attributes:
      tail: δ₁, taken out of the promised δ.
      slope: :math:`(\\sum_i\\sigma_i^2q_i^2)^{1/2}`, so that r = slope · μ.
      excess: standard deviation of the noise if every user flips all coins, over that of the coins counted on here; above
        1 where only a share of the users is relied upon (:mod:`reticent_wire.shuffling`).
    """

    tail: float
    slope: float
    excess: float = 1.0
    law: str = "binomial"
    pure: bool = False

    def strength(self, costs: Sequence[Cost], exposure: float) -> float:
        """μ of a Gaussian mechanism with the same sensitivities and standard deviations."""
        return gaussian_strength(costs, exposure)

    def epsilon_of(self, mu: float, delta: float) -> float:
        """An ε for which noise of strength ``mu`` is (ε, ``delta``)-DP."""
        if mu == 0.0:
            return 0.0
        return zcdp_epsilon(zcdp_of(mu), delta - self.tail) + self.slope * mu

    def strength_of(self, epsilon: float, delta: float) -> float:
        """The largest μ (to twelve digits, from below) that is (``epsilon``, ``delta``)-DP."""
        from scipy.optimize import brentq  # not at the top: see reticent.privacy.accounting.gaussian

        high = mu_of(epsilon, delta)  # a Gaussian mechanism's, which is never below
        found = brentq(lambda mu: self.epsilon_of(mu, delta) - epsilon, 1e-9 * high, high, xtol=1e-300, rtol=1e-13)
        return float(found) * (1 - 1e-12)


def account_of(coins: NDArray[np.int64], shift: NDArray[np.float64], tail: float) -> BinomialAccount:
    """The account of ``coins`` N per coordinate, for users who move coordinate i by at most ``shift`` κ steps.

    Raises:
      InvalidInput: so few coins that the noise does not cover the movement at all.
    """
    count, reach = np.asarray(coins, np.float64).ravel(), np.asarray(shift, np.float64).ravel()
    centre = (count + 1) / 2
    bulk = np.sqrt(count * math.log(2 * count.size / tail) / 2) + reach
    ratio = bulk / centre
    if not (ratio < 1).all():
        worst = int(np.argmax(ratio))
        raise InvalidInput("coins", int(count[worst]), f"more, to cover {bulk[worst]:.4g} steps", "use a finer grid")
    remainder = 2 / 3 * ratio**3 / (1 - ratio**2)
    return BinomialAccount(tail, float(np.sqrt((centre / 2 * remainder**2).sum())))
