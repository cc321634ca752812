# SPDX-License-Identifier: Apache-2.0
r"""How far one user can move the statistics: sensitivities.

One step of one user's episode contributes a *matrix* :math:`xx^\top` and a *vector* :math:`vx`, where
:math:`\|x\|_2\le L` (``bound``) and :math:`|v|\le V` (``target``). Both bounds hold because
:mod:`reticent.privacy.clipping` enforces them, not because anyone assumes them. A release is the pair
:math:`[xx^\top,\,w\,vx]` summed over users, measured by the Frobenius norm and the 2-norm.

Two adjacencies, always named:

* ``"replace"``: one user's data are exchanged for another's. This is the paper's definition of neighbours, although its
  constants :math:`\Delta_{p,1}=d_1H^2` and :math:`\Delta_{p,2}=\sqrt{d_1}H^2` are those of the other one.
* ``"zero-out"``: one user's contribution is zero and their place is kept.

Formal guarantee. The gram, moment and joint sensitivities cannot be exceeded by any two neighbours in any dimension
and are attained in dimension 2 and above; each proof is in its function's docstring.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

from reticent.errors import InvalidInput, UnknownName
from reticent_wire.forms.regressions import pair_distance

__all__ = [
    "Adjacency",
    "accounted_moment_sensitivity",
    "gram_sensitivity",
    "joint_sensitivity",
    "moment_sensitivity",
]


Adjacency = Literal["replace", "zero-out"]
"""What may change about one user: everything, or the contribution is zero and the place is kept."""


def gram_sensitivity(bound: float, adjacency: Adjacency) -> float:
    r"""Of :math:`xx^\top` in Frobenius norm: :math:`\sqrt2\,L^2` under replace, :math:`L^2` under zero-out.

    Proof. :math:`\|xx^\top-yy^\top\|_F^2=\|x\|^4+\|y\|^4-2(x\cdot y)^2\le2L^4`, with equality for orthogonal x and y of
    norm L. With y = 0 only :math:`\|x\|^4\le L^4` is left. ∎

    >>> gram_sensitivity(2.0, "zero-out")
    4.0
    """
    square = _check("bound", bound) ** 2
    return math.sqrt(2.0) * square if _replaces(adjacency) else square


def moment_sensitivity(bound: float, target: float, adjacency: Adjacency, *, nonnegative: bool = False) -> float:
    r"""Of :math:`vx` in 2-norm: :math:`2LV` under replace, :math:`LV` under zero-out.

    ``nonnegative`` declares that :math:`x\cdot y\ge0` for every two features that can occur *and* v ≥ 0, both by
    construction (say, features with nonnegative entries and v clipped to [0, V]); then replace gives
    :math:`\sqrt2\,LV`. Centring V, or clipping v to a symmetric interval, breaks the condition.

    Proof. :math:`\|vx-v'y\|\le|v|\|x\|+|v'|\|y\|\le2LV`, with equality for :math:`x=y`, :math:`v=-v'` (or
    :math:`x=-y`, :math:`v=v'`: a sign condition on v alone is no help). If :math:`vv'\,x\cdot y\ge0` then
    :math:`\|vx-v'y\|^2\le v^2\|x\|^2+v'^2\|y\|^2\le2L^2V^2`, with equality for orthogonal x, y. With y = 0, LV. ∎
    """
    reach = _check("bound", bound) * _check("target", target)
    if not _replaces(adjacency):
        return reach
    return math.sqrt(2.0) * reach if nonnegative else 2.0 * reach


def joint_sensitivity(
    bound: float, target: float, weight: float, adjacency: Adjacency, *, nonnegative: bool = False
) -> float:
    r"""Of the pair :math:`[xx^\top, w\,vx]` in its 2-norm. With :math:`s=w^2V^2/L^2`:

    * replace: :math:`\sqrt2\,L^2(1+s/2)` if s ≤ 2, and :math:`2wLV=2L^2\sqrt s` beyond;
    * replace and ``nonnegative`` (see :func:`moment_sensitivity`): :math:`\sqrt2\,L^2\sqrt{1+s}`;
    * zero-out: :math:`L^2\sqrt{1+s}`.

    Proof, for replace. Write :math:`a=\|x\|,\ b=\|y\|,\ c=x\cdot y`. The squared distance is

    .. math:: f=a^4+b^4-2c^2+w^2\,\|vx-v'y\|^2 .

    It is convex in :math:`(v,v')`, so its maximum over the square is at a corner :math:`|v|=|v'|=V`; of these the best
    has :math:`vv'c\le0`, giving :math:`f=a^4+b^4-2c^2+w^2V^2(a^2+b^2+2|c|)`. At fixed :math:`|c|` this increases in a
    and b, and raising both to L keeps :math:`|c|\le ab` (in dimension 2 or more such x, y exist; in dimension 1,
    where :math:`|c|=ab`, the bound stays valid). So :math:`a=b=L` and, with :math:`|c|=tL^2`,

    .. math:: f\le 2L^4\,(1-t^2+s+s\,t),\qquad 0\le t\le1,

    concave in t with its peak at :math:`t=s/2`. If s ≤ 2 the peak is allowed and the value is
    :math:`2L^4(1+s/2)^2`. If s > 2 it is cut off at t = 1, where x and y coincide up to sign, the matrices cancel and
    :math:`f=4sL^4` is the vector alone. If :math:`c\ge0` and :math:`vv'\ge0` always, then t = 0 is the best:
    :math:`2L^4(1+s)`. With y = 0, :math:`f=a^4+w^2v^2a^2\le L^4(1+s)`. ∎

    One joint release costs less than two: for s ≤ 2, :math:`2(1+s/2)^2<2+4s`, and beyond, :math:`4s<2+4s`.
    """
    square = _check("bound", bound) ** 2
    ratio = (_check("weight", weight) * _check("target", target) / bound) ** 2
    if not _replaces(adjacency):
        return square * math.sqrt(1.0 + ratio)
    return pair_distance(bound, target, weight, nonnegative=nonnegative)


def accounted_moment_sensitivity(
    bound: float, target: float, weight: float, adjacency: Adjacency, *, nonnegative: bool = False
) -> float:
    r"""The vector's share of a joint release, so that a table with one row per counter recomposes exactly.

    Defined by :math:`\text{joint}^2=\text{gram}^2+w^2\,\text{accounted}^2`. The pair is released with one σ, which is
    noise σ on the matrix and σ/w on the vector, so the rows gram/σ and accounted/(σ/w) square and add up to joint²/σ².
    It is a share, *not* the sensitivity of the vector released alone: it lies below :func:`moment_sensitivity` because
    no pair of users moves the matrix and the vector to their limits at once.

    Subtracting in closed form: :math:`\sqrt2\,LV\sqrt{1+s/4}` if s ≤ 2 and :math:`\sqrt2\,LV\sqrt{2-1/s}` beyond, from
    :math:`\sqrt2\,LV` (w → 0) over :math:`\sqrt3\,LV` (s = 2) to :math:`2LV` (w → ∞); :math:`\sqrt2\,LV` if
    ``nonnegative``; LV under zero-out.
    """
    reach = _check("bound", bound) * _check("target", target)
    ratio = (_check("weight", weight) * target / bound) ** 2
    if not _replaces(adjacency):
        return reach
    if nonnegative:
        return math.sqrt(2.0) * reach
    return math.sqrt(2.0) * reach * math.sqrt(1.0 + ratio / 4.0 if ratio <= 2.0 else 2.0 - 1.0 / ratio)


def _replaces(adjacency: Adjacency) -> bool:
    if adjacency not in get_args(Adjacency):
        raise UnknownName("adjacency", adjacency, list(get_args(Adjacency)))
    return adjacency == "replace"


def _check(field: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0.0):
        raise InvalidInput(field, value, "finite and greater than 0", "declare the bound that clipping enforces")
    return float(value)
