"""Every agent by name. Importing this package registers them."""

from reticent.agents import bandits, fixed, ldp_ucrl_vtr, linear_mdp, policy_evaluation, private, tabular
from reticent.agents.registry import AGENTS, agent_rows, make_agent

__all__ = [
    "AGENTS",
    "agent_rows",
    "bandits",
    "fixed",
    "ldp_ucrl_vtr",
    "linear_mdp",
    "make_agent",
    "policy_evaluation",
    "private",
    "tabular",
]
