# SPDX-License-Identifier: Apache-2.0
r"""Private LinUCB (Shariff and Sheffet 2018), and its shuffle and local relatives.

The learner is LinUCB over noisy sums :math:`\sum\varphi\varphi^\top+N` and :math:`\sum r\varphi+n` that a binary tree
releases after every user, shifted so that the Gram stays positive definite. At H = 1 this is Private-LinOpt-VI
without a transition part (values after the last step are 0, so its features are 0, no noise is spent on them, and all
of the budget goes to the rewards): the same code with another default counter. ``trust=shuffle`` adds up batches
behind a shuffler with the protocol of :mod:`reticent_wire.shuffling` (the setting of Chowdhury and Zhou 2022),
``trust=local`` has every user noise their own report (that of Zheng et al. 2020); both act on growing batches.

What is different from the papers: σ comes from exact accounting of the joint release [Gram, moment] under the named
adjacency, not from advanced composition; ``shift_scale`` and ``bonus_scale`` below 1 leave the theory, not the
privacy.

``noise=wishart`` is the other half of Shariff and Sheffet: noise that is a Gram matrix itself
(:mod:`reticent.agents.bandits.wishart`).
"""

from __future__ import annotations

from typing import Any, Literal

from reticent.agents.bandits.linucb import require_bandit
from reticent.agents.bandits.wishart_plan import make_wishart
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.privacy_plan import PrivateOptions
from reticent.agents.linear_mixture.private_linopt import make_private
from reticent.agents.registry import AGENTS
from reticent.privacy.counters import CounterName
from reticent.privacy.sensitivity import Adjacency
from reticent.privacy.trust import TrustName, trust_named
from reticent.worlds import Model

NAME = "private-linucb"

NoiseLaw = Literal["gaussian", "wishart"]


@AGENTS.register(NAME)
def private_linucb(
    model: Model,
    episodes: int,
    *,
    trust: TrustName = "joint",
    epsilon: float = 1.0,
    delta: float = 1e-5,
    noise: NoiseLaw = "gaussian",
    counter: CounterName | None = None,
    adjacency: Adjacency = "replace",
    bonus_scale: float = 0.1,
    shift_scale: float = 0.5,
    alpha: float = 0.05,
    final_release: bool = True,
    moment_share: float = 1.0,
    first: int | None = None,
    growth: float | None = None,
    honest: float = 1.0,
) -> LinOptLearner:
    """Private LinUCB (Shariff and Sheffet 2018): a linear contextual bandit (H = 1) under joint, shuffle or local privacy.

    ``counter`` is the paper's ``tree`` unless another one is named, and ``noise`` its ``gaussian`` or, with joint trust and
    the tree, its ``wishart`` noise; the other options are those of ``private-linopt-vi``.
    """
    require_bandit(NAME, model)
    options = bandit_options(
        trust=trust, epsilon=epsilon, delta=delta, counter=counter, adjacency=adjacency, bonus_scale=bonus_scale,
        shift_scale=shift_scale, alpha=alpha, final_release=final_release, moment_share=moment_share, first=first,
        growth=growth, honest=honest,
    )  # fmt: skip
    if noise == "wishart":
        return make_wishart(model, episodes, options)
    return make_private(model, episodes, "value-iteration", options)


def bandit_options(*, trust: TrustName = "joint", counter: CounterName | None = None, **given: Any) -> PrivateOptions:
    """The options of Private-LinOpt-VI that are this agent: the paper's tree where the server is trusted, its features."""
    chosen = counter or (None if trust_named(trust).grouped else "tree")
    return PrivateOptions(trust=trust, counter=chosen, contrasts=False, **given)
