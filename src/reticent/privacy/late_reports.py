# SPDX-License-Identifier: Apache-2.0
r"""What it costs that reports arrive late, out of order, or never: nothing, and here is why.

The proof of the counters (:mod:`reticent.privacy.counters.counter`) has a user's item in *one* round that is known in
advance. With many users at once a report comes at any time, and *when* may depend on the user's data. Exchanging
the user for another then takes x out of round a and puts y into round b.

**Theorem.** Let a counter have the strategy columns :math:`c_1,\dots,c_n` with :math:`\langle c_a,c_b\rangle\ge0` and
:math:`\|c_t\|\le M`, and let items x, y of norm at most Z be at most R apart. Then for all rounds a, b, and if a report
never comes (x = 0 or y = 0),

.. math:: \|c_b\otimes y-c_a\otimes x\|\le M\,\max(R,\sqrt2\,Z).

Proof. The square is :math:`\|c_b\|^2\|y\|^2+\|c_a\|^2\|x\|^2-2\langle c_a,c_b\rangle\langle x,y\rangle`, where
:math:`0\le\langle c_a,c_b\rangle\le M^2`. If :math:`\langle x,y\rangle\ge0` the last term only helps, and
:math:`M^2(\|x\|^2+\|y\|^2)\le2M^2Z^2` is left. If :math:`\langle x,y\rangle<0` it is at most
:math:`M^2(\|x\|^2+\|y\|^2-2\langle x,y\rangle)=M^2\|x-y\|^2\le M^2R^2`. ∎

R is the sensitivity under ``replace`` and Z the one under ``zero-out``. Every pair in
:mod:`reticent.privacy.sensitivity` has :math:`R\ge\sqrt2\,Z`: with :math:`s=w^2V^2/L^2` the joint release has
:math:`R^2/2Z^2=(1+s/2)^2/(1+s)\ge1` for s ≤ 2, :math:`2s/(1+s)>1` beyond, and exactly 1 for nonnegative features. Groups
of sums (step, regression) add their squares, so the bound holds for all of them together. Under ``zero-out`` one of x
and y is 0 anyway.

The strategies of all counters have no negative entry — blocks of a tree are 0 or 1 (also of ``tree-reduced``, whose
estimate is post-processing), epochs are the identity, Toeplitz and BLT coefficients are positive — and hence no negative
inner product.

Formal guarantee. Noise whose :func:`late_report_ratio` is 1 keeps its (ε, δ) if every user contributes at most
once, to whichever round is open when the report comes, provided that rounds close on a public clock, that the report is
computed under the plan the user was served, and that other users' reports depend on that user only through the plans.
Later users may act on earlier releases, and arrivals may depend on anything that the user has seen: see ``docs/delays.md``.
"""

from __future__ import annotations

import math

from reticent.errors import InvalidInput
from reticent.privacy.sensitivity import Adjacency

__all__ = ["late_report_ratio"]


def late_report_ratio(replace: float, zero_out: float, adjacency: Adjacency = "replace") -> float:
    r"""By how much the noise must grow if reports may arrive at any time: :math:`\max(1,\sqrt2\,Z/R)`.

    ``replace`` is R and ``zero_out`` is Z of the module's theorem. The ratio is above 1 only where neighbours cannot move
    as far from each other as both can from zero, as with one nonnegative number:

    >>> late_report_ratio(2.0, 1.0)
    1.0
    >>> round(late_report_ratio(1.0, 1.0), 4)
    1.4142
    """
    for field, value in (("replace", replace), ("zero_out", zero_out)):
        if not (math.isfinite(value) and value > 0):
            raise InvalidInput(field, value, "a finite sensitivity above 0", "see reticent.privacy.sensitivity")
    ratio = math.sqrt(2.0) * zero_out / replace
    # Where the two bounds are equal on paper, rounding must not change the noise.
    return 1.0 if adjacency == "zero-out" or ratio <= 1.0 + 1e-12 else ratio
