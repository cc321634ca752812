# SPDX-License-Identifier: Apache-2.0
r"""The form ``score-residual``: the vector of the form ``score``, and what the blend leaves unexplained in every pair.

A billboard of this form carries besides: m directions D ``(S, m)`` of next states, and for every cell q = (s, a) of the
model, or (h, s, a) where steps have parameters of their own, the expected direction :math:`D^\top\hat P(\cdot\mid q)` and
reward :math:`\hat r(q)`; two scales g_r and g_v; the radius R_r; and the share ρ. Every step of an episode at q adds

.. math:: u_q \mathrel{+}= \big(D_{s'}-D^\top\hat P(\cdot\mid q),\ g_r(r-\hat r(q)),\ g_v\big)\in\mathbb R^{m+2},

and with v the vector of ``score``, the contribution is

.. math:: \mathrm{clip}\big(\sqrt{1-\rho}\,\mathrm{clip}(v),\ \sqrt\rho\,\mathrm{clip}(u/R_r)\big).

Formal guarantee. Whatever model, billboard and trajectory are, the contribution has 2-norm at most 1: the whole of it is
clipped to the unit ball, last. Two users are therefore at most 2 apart, and :math:`g\sqrt D` more after rounding, as in the
form ``score``. No number on the billboard is relied upon: the inner clips and ρ divide the ball between the two blocks, and
since :math:`(1-\rho)+\rho=1` the outer clip changes nothing where they are as they should be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reticent_wire.clipping import Array, Namespace, clip_interval
from reticent_wire.errors import InvalidInput
from reticent_wire.forms.form import Bounds, Floats
from reticent_wire.forms.score import ScoreVector, clipped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reticent_wire.billboard import Billboard
    from reticent_wire.model import Dimensions, Model
    from reticent_wire.trajectory import Trajectory


class ResidualReference(NamedTuple):
    """What residuals of a round are measured against; G groups of steps (one where steps are pooled). Public.

    Attributes:
      directions: D, ``(S, m)``. expected: :math:`D^\\top\\hat P(\\cdot\\mid q)`, ``(G, S, A, m)``.
      rewards: :math:`\\hat r`, ``(G, S, A)``.
      reward_scale, count_scale: g_r and g_v. radius: R_r. share: ρ.
    """

    directions: Array
    expected: Array
    rewards: Array
    reward_scale: Array
    count_scale: Array
    radius: Array
    share: Array


FIELD = "residual_"
"""What the names of a billboard's arrays begin with, before the field of :class:`ResidualReference`."""


def residual_vector(reference: ResidualReference, seen: Any, xp: Namespace = np) -> Array:
    """u of an episode in units of its radius ``(..., G·S·A·(m + 2))``, not clipped."""
    groups, states, actions, _ = reference.expected.shape
    told, cell = told_by_step(reference, seen, xp)
    summed = _by_cell(told, cell, groups * states * actions, xp)
    return summed.reshape(*summed.shape[:-2], -1) / reference.radius


def told_by_step(reference: ResidualReference, seen: Any, xp: Namespace = np) -> tuple[Array, Array]:
    """What every step of an episode tells ``(..., H, m + 2)``, and its cell ``(..., H)``."""
    groups, states, actions, size = reference.expected.shape
    here, there, action = seen.states[..., :-1], seen.states[..., 1:], seen.actions
    group = xp.minimum(xp.arange(action.shape[-1]), groups - 1)
    cell = (group * states + here) * actions + action
    expected = reference.expected.reshape(-1, size)[cell]
    rewards = reference.rewards.reshape(-1)[cell]
    told = xp.concatenate(
        [
            reference.directions[there] - expected,
            (reference.reward_scale * (seen.rewards - rewards))[..., None],
            xp.zeros((*cell.shape, 1)) + reference.count_scale,
        ],
        axis=-1,
    )
    return told, cell


def _by_cell(told: Array, cell: Array, cells: int, xp: Namespace) -> Array:
    """What all steps ``(..., H, n)`` tell, added up by their cells ``(..., H)``: ``(..., cells, n)``."""
    sums = xp.zeros((*cell.shape[:-1], cells, told.shape[-1]), told.dtype)
    users = xp.indices(cell.shape)[:-1]
    if xp is np:
        np.add.at(sums, (*users, cell), told)
        return sums
    return sums.at[(*users, cell)].add(told)


def stacked(vector: Array, residual: Array, share: Array, xp: Namespace = np) -> Array:
    """The two blocks, each clipped and multiplied by the root of its share of the squared length: within the unit ball."""
    part = clip_interval(share, 0.0, 1.0, xp)
    return xp.concatenate(
        [xp.sqrt(1.0 - part) * clipped(vector, xp), xp.sqrt(part) * clipped(residual, xp)], axis=-1
    )  # fmt: skip


class ScoreResidual(ScoreVector):
    """See the module docstring. Its rules carry ``directions``, m, beside those of ``score``."""

    name = "score-residual"
    stays = False

    def bounds(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        return {**super().bounds(sizes), "directions": ()}

    def read_bounds(self, content: Mapping[str, Any], sizes: Dimensions) -> Bounds:
        bounds = super().read_bounds(content, sizes)
        count = float(bounds["directions"])
        if not (count >= 1 and count.is_integer()):
            raise InvalidInput("report.directions", count, "a whole number of at least 1", "ask the service's operator")
        return bounds

    def of_version(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        pairs = (-1, sizes.states, sizes.actions)
        shapes = ResidualReference((sizes.states, -1), (*pairs, -1), pairs, (), (), (), ())
        return {**super().of_version(sizes), **{FIELD + name: shape for name, shape in shapes._asdict().items()}}

    def _vectors(self, model: Model, billboard: Billboard, framed: Floats, seen: Trajectory) -> Floats:
        vector = super()._vectors(model, billboard, framed, seen)
        reference = ResidualReference(*(billboard.report[FIELD + name] for name in ResidualReference._fields))
        return np.asarray(clipped(stacked(vector, residual_vector(reference, seen), reference.share)))

    def dimension(self, sizes: Dimensions, bounds: Bounds) -> int:
        groups = 1 if bounds["pooled"] else sizes.horizon
        cells = groups * sizes.states * sizes.actions
        return super().dimension(sizes, bounds) + cells * (int(bounds["directions"]) + 2)
