# SPDX-License-Identifier: Apache-2.0
"""Private-UCB-VI and Private-UCB-PO (Chowdhury and Zhou 2022): tabular value iteration and policy optimization.

The paper privatizes counts with Laplace noise through binary trees (joint) or on every report (local). Its theorem needs a
noise that grows with H and log K; the simulations published with it leave both out, and draw fresh noise for every episode.
Here the noise is what the promise needs, whichever law and counter are chosen: Gaussian noise through ``blt`` by default,
the paper's as ``law=laplace,counter=tree``.
"""

from __future__ import annotations

from reticent.agents.tabular.count_plan import CountOptions
from reticent.agents.tabular.counting import Recipe, register
from reticent.agents.tabular.rules import Privatized

PRIVATE_UCB_VI = Recipe(Privatized(), "value-iteration", CountOptions())
PRIVATE_UCB_PO = Recipe(
    Privatized(whole_rows=True),
    "policy-optimization",
    # The theorem's η is far too careful on riverswim: 34 000 regret at 0.001, 18 000 at 0.1 (K = 20 000, ε = 1).
    CountOptions(bonus_scale=0.03, learning_rate=0.1),
)

register(
    "private-ucb-vi",
    "Private-UCB-VI (Chowdhury and Zhou 2022): tabular value iteration under joint or local privacy.",
    PRIVATE_UCB_VI,
)
register(
    "private-ucb-po",
    "Private-UCB-PO (Chowdhury and Zhou 2022): tabular policy optimization under joint or local privacy.",
    PRIVATE_UCB_PO,
)
