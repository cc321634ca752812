# SPDX-License-Identifier: Apache-2.0
"""What a ledger needs to know of noise: how its costs add up, and what they are worth as (ε, δ).

The *strength* of a release is one number: μ of a Gaussian mechanism, or ε itself where noise is Laplace and there is no δ.
A law of noise is accounted for by one small class with the three functions of :class:`Account`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Protocol

from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import epsilon_of, mu_of
from reticent.privacy.noise import delta_for_gaussian


class Cost(Protocol):
    """One sum of one step: how far a user moves it, in the norm that its noise is charged in, and the noise's scale."""

    @property
    def sensitivity(self) -> float: ...
    @property
    def sigma(self) -> float: ...


class Account(Protocol):
    """How noise of one law is accounted for."""

    @property
    def law(self) -> str:
        """The law's name, for people."""
        ...

    @property
    def pure(self) -> bool:
        """Whether strengths are ε, without a δ."""
        ...

    @property
    def excess(self) -> float:
        """Standard deviation of the noise that is there, over that of the noise that is counted on."""
        ...

    def strength(self, costs: Sequence[Cost], exposure: float) -> float:
        """The strength of releasing all ``costs``, ``exposure`` being how often the most exposed item is charged."""
        ...

    def epsilon_of(self, strength: float, delta: float) -> float:
        """An ε that noise of this strength keeps at ``delta``."""
        ...

    def strength_of(self, epsilon: float, delta: float) -> float:
        """The largest strength that keeps (``epsilon``, ``delta``)."""
        ...


def gaussian_strength(costs: Sequence[Cost], exposure: float) -> float:
    r""":math:`\mu=\sqrt{\texttt{exposure}\cdot\sum_i(\Delta_i/\sigma_i)^2}`: squares add up."""
    return math.sqrt(exposure * sum((cost.sensitivity / cost.sigma) ** 2 for cost in costs))


def epsilon_spent(mu: float, delta: float, draws: int) -> float:
    r"""ε at ``delta`` of Gaussian noise of strength ``mu`` that is drawn on an integer grid: all that is ever called spent.

    Formal guarantee. A user who can touch N = ``draws`` draws of discrete noise
    (:func:`~reticent.privacy.noise.touched_draws`) is promised (ε, δ) if
    :math:`\delta_{Gauss}(\varepsilon;\mu)+\delta_{discrete}(\varepsilon;N)\le\delta`, by
    :func:`~reticent.privacy.noise.discretization_delta`. The ε returned satisfies that in floating point; it is infinite
    where none does. N = 0 is continuous noise.
    """
    found = epsilon_of(mu, delta)
    if not draws or not mu:
        return found
    while True:
        try:
            needed = epsilon_of(mu, delta_for_gaussian(delta, found, draws))
        except InvalidInput:
            return math.inf
        if needed <= found:
            return found
        found = needed * (1 + 1e-13)  # what discrete noise costs grows with ε, which is a little more then


@dataclasses.dataclass(frozen=True)
class GaussianAccount:
    """Gaussian noise, by the exact accountant of :mod:`reticent.privacy.accounting.gaussian`.

    ``draws`` is 0 for continuous noise, and for a deployment's, which is discrete, the draws that one user can touch: their
    share of δ is part of everything that is spent (:func:`epsilon_spent`).
    """

    law: str = "Gaussian"
    pure: bool = False
    excess: float = 1.0
    draws: int = 0

    def strength(self, costs: Sequence[Cost], exposure: float) -> float:
        return gaussian_strength(costs, exposure)

    def epsilon_of(self, strength: float, delta: float) -> float:
        return epsilon_spent(strength, delta, self.draws)

    def strength_of(self, epsilon: float, delta: float) -> float:
        return mu_of(epsilon, delta_for_gaussian(delta, epsilon, self.draws))

    def charged(self, factor: int) -> GaussianAccount:
        """The account of users who can touch ``factor`` times as many draws."""
        return dataclasses.replace(self, draws=factor * self.draws)


@dataclasses.dataclass(frozen=True)
class LaplaceAccount:
    r"""Laplace noise: ε adds up, and there is no δ.

    Releasing something that one user moves by at most :math:`\Delta_1` in the 1-norm with Laplace noise of scale b costs
    :math:`\varepsilon=\Delta_1/b`, and costs add (basic composition, also for adaptive releases). A counter with a strategy
    of zeros and ones puts a user's item into several noised blocks and charges each, so the exposure is the number of
    noised blocks that the most exposed item is in: for 0/1 strategies the same number that :meth:`Counter.exposure`
    gives for the squared 2-norm.
    """

    law: str = "Laplace"
    pure: bool = True
    excess: float = 1.0

    def strength(self, costs: Sequence[Cost], exposure: float) -> float:
        return exposure * sum(cost.sensitivity / cost.sigma for cost in costs)

    def epsilon_of(self, strength: float, delta: float) -> float:
        del delta
        return strength

    def strength_of(self, epsilon: float, delta: float) -> float:
        del delta
        return epsilon


GAUSSIAN = GaussianAccount()
LAPLACE = LaplaceAccount()
