# SPDX-License-Identifier: Apache-2.0
"""LinUCB (OFUL; Abbasi-Yadkori, Pal and Szepesvari 2011): optimism over the ellipsoid of a ridge regression.

At H = 1 the optimistic value of a pair is
:math:`\\langle\\varphi,\\hat\\theta\\rangle+\\beta\\|\\varphi\\|_{\\Lambda^{-1}}`, there is no next state to value,
and UCRL-VTR is LinUCB, its reward radius β that of OFUL's Theorem 2 with rewards in [0, 1]. So this is that code,
with the words of bandits: nothing is written twice.
"""

from __future__ import annotations

from reticent.agents.linear_mixture.frame import Frame
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.linopt import FixedOptions, make_fixed
from reticent.agents.registry import AGENTS
from reticent.errors import InvalidInput
from reticent.learning.schedule import Replan
from reticent.worlds import Model
from reticent.worlds.models.model import Sizes


@AGENTS.register("linucb")
def linucb(
    model: Model,
    episodes: int,
    *,
    bonus_scale: float = 0.1,
    alpha: float = 0.05,
    regularization: float = 1.0,
    replan: Replan | None = None,
) -> LinOptLearner:
    """LinUCB (Abbasi-Yadkori et al. 2011): a linear contextual bandit (H = 1), no privacy.

    ``bonus_scale`` multiplies the theory's confidence radius; ``replan`` is after every episode or on a geometric
    public schedule of epochs, by default where a plan is large.
    """
    require_bandit("linucb", model)
    frame = Frame(centred=False, span="seen")
    options = FixedOptions(bonus_scale, alpha, regularization, replan, frame, pool=False, normalize=False)
    return make_fixed(model, episodes, "value-iteration", options)


def require_bandit(agent: str, model: Sizes) -> None:
    """Refuse worlds of more than one step."""
    if model.horizon != 1:
        raise InvalidInput(
            f"{agent}: horizon", model.horizon, "1, a bandit", "use ucrl-vtr or private-linopt-vi for longer episodes"
        )
