# SPDX-License-Identifier: Apache-2.0
"""DP-UCBVI (Qiao and Wang 2023): valid private counts that over-estimate, and a Bernstein bonus computed from them."""

from __future__ import annotations

from reticent.agents.tabular.count_plan import CountOptions
from reticent.agents.tabular.counting import Recipe, register
from reticent.agents.tabular.rules import PrivateBernstein

DP_UCBVI = Recipe(PrivateBernstein(), "value-iteration", CountOptions(bonus_scale=0.0003, shift_scale=0.01))

register(
    "dp-ucbvi",
    "DP-UCBVI (Qiao and Wang 2023): tabular value iteration with a private Bernstein bonus, joint or local privacy.",
    DP_UCBVI,
)
