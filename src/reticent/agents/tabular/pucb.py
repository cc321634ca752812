# SPDX-License-Identifier: Apache-2.0
"""PUCB (Vietri, Balle, Krishnamurthy and Wu 2020): the first jointly private tabular learner, under pure ε.

The paper splits ε over three private counters per cell and charges every user 2H of them through binary trees of log K
levels: ``counter=tree``. The default here is epochs, in which a user is charged once, with the same pure guarantee.
"""

from __future__ import annotations

from reticent.agents.tabular.count_plan import CountOptions
from reticent.agents.tabular.counting import Recipe, register
from reticent.agents.tabular.rules import PlainRatios

PUCB = Recipe(
    PlainRatios(),
    "value-iteration",
    CountOptions(law="laplace", bonus_scale=0.003, shift_scale=0.01),
    frozenset({"trust"}),
)

register(
    "pucb", "PUCB (Vietri et al. 2020): tabular value iteration under joint privacy, with pure ε by default.", PUCB
)
