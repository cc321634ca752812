# SPDX-License-Identifier: Apache-2.0
r"""What a promise is worth against an attacker who guesses: exact answers from the Gaussian trade-off curve.

The attacker knows everything about all other users, sees everything that is published, and must say which of two stories
about one user is true: they did this or that (or, they came or did not). Of all mechanisms of Gaussian strength μ
none lets an attacker do better than telling a normal number of mean 0 from one of mean μ; the best test accuses when it is
large (Neyman and Pearson), so that of false alarms at rate α it catches at most

.. math:: 1-G_\mu(\alpha)=\Phi\bigl(\Phi^{-1}(\alpha)+\mu\bigr)

(Dong, Roth and Su 2022, on Gaussian differential privacy).

Formal guarantee. :func:`right_guesses` and :func:`caught` are upper bounds for every attacker, whatever he knows and
computes, against whatever is accounted for by μ; they are attained by the Gaussian mechanism itself. :func:`right_at_most`
and :func:`caught_at_most` are the like for a mechanism of which only (ε, δ) is known (Kairouz, Oh and Viswanath 2015), and
never less.
"""

from __future__ import annotations

import math

from scipy.special import ndtr, ndtri

from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import delta_of

__all__ = ["caught", "caught_at_most", "right_at_most", "right_guesses"]


def right_guesses(mu: float, prior: float = 0.5) -> float:
    r"""The largest probability with which an attacker guesses right, if the story has probability ``prior`` beforehand.

    He gains nothing where he is sure already: the answer is at least ``max(prior, 1 − prior)``, what the best guess is
    worth without any release. With even odds it is :math:`\Phi(\mu/2)`.

    >>> round(right_guesses(0.2680, 0.5), 3)
    0.553
    """
    _check_share("prior", prior)
    if mu == 0.0:
        return max(prior, 1.0 - prior)
    if prior == 0.5:
        return 0.5 + delta_of(mu, 0.0) / 2.0
    odds = math.log(prior / (1.0 - prior)) / mu
    found = prior * float(ndtr(mu / 2.0 + odds)) + (1.0 - prior) * float(ndtr(mu / 2.0 - odds))
    return max(found, prior, 1.0 - prior)


def caught(mu: float, false_alarms: float) -> float:
    r"""The largest share of true stories that an attacker finds, if he accuses ``false_alarms`` of the innocent.

    >>> round(caught(0.2680, 0.05), 3)
    0.084
    """
    _check_share("false_alarms", false_alarms)
    return float(ndtr(ndtri(false_alarms) + mu))


def right_at_most(epsilon: float, delta: float) -> float:
    r"""The most that (ε, δ) alone lets an attacker guess right who has even odds.

    It is :math:`(e^\varepsilon+\delta)/(1+e^\varepsilon)`.

    >>> round(right_at_most(1.0, 1e-5), 3)
    0.731
    """
    return 1.0 / (1.0 + math.exp(-epsilon)) + delta / (1.0 + math.exp(min(epsilon, 700.0)))


def caught_at_most(epsilon: float, delta: float, false_alarms: float) -> float:
    r"""The most true stories that (ε, δ) alone lets an attacker find who accuses ``false_alarms`` α of the innocent.

    It is :math:`\min\{e^\varepsilon\alpha+\delta,\;1-e^{-\varepsilon}(1-\delta-\alpha)\}`, and at most 1.

    >>> round(caught_at_most(1.0, 1e-5, 0.05), 3)
    0.136
    """
    _check_share("false_alarms", false_alarms)
    steep = math.exp(min(epsilon, 700.0)) * false_alarms + delta
    return min(steep, 1.0 - math.exp(-epsilon) * (1.0 - delta - false_alarms), 1.0)


def _check_share(field: str, value: float) -> None:
    if not 0.0 < value < 1.0:
        raise InvalidInput(field, value, "strictly between 0 and 1", "give a share such as 0.5")
