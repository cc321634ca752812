"""Every agent by name. Importing this package registers them."""

from reticent.agents import fixed, private
from reticent.agents.registry import AGENTS, agent_rows, make_agent

__all__ = ["AGENTS", "agent_rows", "fixed", "make_agent", "private"]
