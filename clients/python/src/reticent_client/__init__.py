# SPDX-License-Identifier: Apache-2.0
"""The device's side of the service: act by the published policy, send what the trust model allows. NumPy alone.

See docs/client.md of reticent. ::

    client = Client("https://service.example", key)
    with client.episode(user) as episode:
        state = first_state
        for _ in range(episode.horizon):
            reward, state = play(episode.act(state))
            episode.observe(reward, state)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reticent_client.budget import Budget, BudgetSpent
    from reticent_client.client import Client
    from reticent_client.connection import Connection
    from reticent_client.decisions import Decision, DecisionLog
    from reticent_client.episode import Episode, EpisodeAbandoned
    from reticent_client.group import Group
    from reticent_client.memory import BeliefMemory
    from reticent_client.micro_batching import MicroBatching
    from reticent_client.names import Names
    from reticent_client.problems import ServiceError, Unreachable
    from reticent_client.shuffler import Shuffler
    from reticent_client.stays import StayExpired, StayFile, StayNotKept
    from reticent_client.submission import Receipt, Submission
    from reticent_client.tickets import Ticket
    from reticent_wire import Billboard, InvalidInput, Model, ReticentError

# Imported when first used: who needs the errors alone, as a command's help does, does not wait for NumPy.
_HOMES = {
    "BeliefMemory": "reticent_client.memory",
    "Billboard": "reticent_wire",
    "Budget": "reticent_client.budget",
    "BudgetSpent": "reticent_client.budget",
    "Client": "reticent_client.client",
    "Connection": "reticent_client.connection",
    "Decision": "reticent_client.decisions",
    "DecisionLog": "reticent_client.decisions",
    "Episode": "reticent_client.episode",
    "EpisodeAbandoned": "reticent_client.episode",
    "MicroBatching": "reticent_client.micro_batching",
    "Group": "reticent_client.group",
    "InvalidInput": "reticent_wire",
    "Model": "reticent_wire",
    "Names": "reticent_client.names",
    "Receipt": "reticent_client.submission",
    "ReticentError": "reticent_wire",
    "ServiceError": "reticent_client.problems",
    "Shuffler": "reticent_client.shuffler",
    "StayExpired": "reticent_client.stays",
    "StayFile": "reticent_client.stays",
    "StayNotKept": "reticent_client.stays",
    "Submission": "reticent_client.submission",
    "Ticket": "reticent_client.tickets",
    "Unreachable": "reticent_client.problems",
}

__all__ = [
    "BeliefMemory",
    "Billboard",
    "Budget",
    "BudgetSpent",
    "Client",
    "Connection",
    "Decision",
    "DecisionLog",
    "Episode",
    "EpisodeAbandoned",
    "Group",
    "InvalidInput",
    "MicroBatching",
    "Model",
    "Names",
    "Receipt",
    "ReticentError",
    "ServiceError",
    "Shuffler",
    "StayExpired",
    "StayFile",
    "StayNotKept",
    "Submission",
    "Ticket",
    "Unreachable",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
