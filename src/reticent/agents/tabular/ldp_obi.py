# SPDX-License-Identifier: Apache-2.0
"""LDP-OBI (Garcelon, Perchet, Pike-Burke and Pirotta 2020): every user noises the counts of their whole trajectory
themselves.

The paper offers several mechanisms for a report; here are its Laplace mechanism (``law=laplace``, pure ε, the default) and
its Gaussian one. Its randomised-response and bounded-noise mechanisms are not built.
"""

from __future__ import annotations

from reticent.agents.tabular.count_plan import CountOptions
from reticent.agents.tabular.counting import Recipe, register
from reticent.agents.tabular.rules import LocallyPrivatized

LDP_OBI = Recipe(
    LocallyPrivatized(), "value-iteration", CountOptions(trust="local", law="laplace"), frozenset({"trust", "counter"})
)

register("ldp-obi", "LDP-OBI (Garcelon et al. 2020): tabular value iteration under local privacy.", LDP_OBI)
