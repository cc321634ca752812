# SPDX-License-Identifier: Apache-2.0
"""Every agent by name, one folder per family. Importing this package registers them."""

from reticent.agents import bandits, elimination, evaluation, factors, kinds, linear_mdp, linear_mixture, score, tabular
from reticent.agents.registry import AGENTS, agent_rows, make_agent
from reticent.agents.typed import (
    DPUCBVI,
    AgentOptions,
    PrivateLinOptPO,
    PrivateLinOptVI,
    PrivateLSVIUCB,
    PrivateScoreVI,
    PrivateUCBPO,
    PrivateUCBVI,
    ScoreVI,
)

__all__ = [
    "AGENTS",
    "DPUCBVI",
    "AgentOptions",
    "PrivateLSVIUCB",
    "PrivateLinOptPO",
    "PrivateLinOptVI",
    "PrivateScoreVI",
    "PrivateUCBPO",
    "PrivateUCBVI",
    "ScoreVI",
    "agent_rows",
    "bandits",
    "elimination",
    "evaluation",
    "factors",
    "kinds",
    "linear_mdp",
    "linear_mixture",
    "make_agent",
    "score",
    "tabular",
]
