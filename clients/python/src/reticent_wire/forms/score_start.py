# SPDX-License-Identifier: Apache-2.0
r"""The form ``score-start``: the vector of the form ``score``, and where the user began.

For deployments that do not know beforehand where users begin. With v the vector of ``score`` and :math:`e_{s_1}` the
indicator of their first state, a contribution is
:math:`(\sqrt{1-\tau}\,\mathrm{clip}(v),\ \sqrt\tau\,\mathrm{clip}(e_{s_1}))`, the rules carrying τ.

Formal guarantee. Both parts are clipped to the unit ball, so that the contribution has the squared norm
:math:`(1-\tau)\cdot1+\tau\cdot1=1` at the most, whatever model, billboard and trajectory are: two users are at most 2
apart, and :math:`g\sqrt D` more after rounding, as in the form ``score``. (The indicators of two states are :math:`\sqrt2`
apart; that they are not 2 is not made use of, since a hostile device may send any vector of the ball.)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from reticent_wire.clipping import Array, Namespace
from reticent_wire.errors import InvalidInput
from reticent_wire.forms.form import Bounds, Floats
from reticent_wire.forms.score import ScoreVector, clipped

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from reticent_wire.billboard import Billboard
    from reticent_wire.model import Dimensions, Model
    from reticent_wire.trajectory import Trajectory


def with_start(vector: Array, start: Array, share: float, xp: Namespace = np) -> Array:
    """The contribution ``(..., D + S)`` of a vector ``(..., D)`` and the indicator of a first state ``(..., S)``, whatever
    the two are; ``share`` is τ."""
    parts = (math.sqrt(1 - share) * clipped(vector, xp), math.sqrt(share) * clipped(start, xp))
    return xp.concatenate(parts, axis=-1)


class ScoreStart(ScoreVector):
    """See the module docstring. Its rules carry ``start_share``, τ, beside those of ``score``."""

    name = "score-start"
    stays = False

    def bounds(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        return {**super().bounds(sizes), "start_share": ()}

    def read_bounds(self, content: Mapping[str, Any], sizes: Dimensions) -> Bounds:
        bounds = super().read_bounds(content, sizes)
        share = float(bounds["start_share"])
        if not 0 < share < 1:
            raise InvalidInput("report.start_share", share, "in (0, 1)", "ask the service's operator")
        return bounds

    def _vectors(self, model: Model, billboard: Billboard, framed: Floats, seen: Trajectory) -> Floats:
        start = (np.arange(model.states) == seen.states[..., :1]).astype(np.float64)
        share = float(model.rules.bounds["start_share"])
        return np.asarray(with_start(super()._vectors(model, billboard, framed, seen), start, share))

    def dimension(self, sizes: Dimensions, bounds: Bounds) -> int:
        return super().dimension(sizes, bounds) + sizes.states
