# SPDX-License-Identifier: Apache-2.0
"""LinUCB (OFUL; Abbasi-Yadkori, Pal and Szepesvari 2011): optimism over the ellipsoid of a ridge regression.

At H = 1 the optimistic value of a pair is
:math:`\\langle\\varphi,\\hat\\theta\\rangle+\\beta\\|\\varphi\\|_{\\Lambda^{-1}}`, there is no next state to value,
and UCRL-VTR is LinUCB, its reward radius β that of OFUL's Theorem 2 with rewards in [0, 1]. So this is that code,
with the words of bandits: nothing is written twice.
"""

from __future__ import annotations

import dataclasses

from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.linopt import FixedOptions, RidgeOptions, make_fixed
from reticent.agents.registry import register_with_options
from reticent.errors import InvalidInput
from reticent.worlds import Model
from reticent.worlds.models.model import Sizes


def make_linucb(model: Model, episodes: int, options: RidgeOptions) -> LinOptLearner:
    """UCRL-VTR in a world of one step, its radius of the rewards that can be seen."""
    require_bandit("linucb", model)
    return make_fixed(model, episodes, "value-iteration", FixedOptions(**dataclasses.asdict(options), span="seen"))


def require_bandit(agent: str, model: Sizes) -> None:
    """Refuse worlds of more than one step."""
    if model.horizon != 1:
        raise InvalidInput(
            f"{agent}: horizon", model.horizon, "1, a bandit", "use ucrl-vtr or private-linopt-vi for longer episodes"
        )


register_with_options(
    "linucb",
    "LinUCB (Abbasi-Yadkori et al. 2011): a linear contextual bandit (H = 1), no privacy.",
    make_linucb,
    RidgeOptions(),
)
