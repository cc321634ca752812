"""The device's side of the service: act by the published policy, send what the trust model allows. NumPy alone.

See docs/client.md of reticent. ::

    client = Client("https://service.example", key)
    with client.episode(user) as episode:
        state = first_state
        for _ in range(episode.horizon):
            reward, state = play(episode.act(state))
            episode.observe(reward, state)
"""

from reticent_client.budget import Budget
from reticent_client.client import Client
from reticent_client.connection import Connection
from reticent_client.episode import Episode, EpisodeAbandoned
from reticent_client.problems import ServiceError, Unreachable
from reticent_client.shuffler import Shuffler
from reticent_client.submission import Receipt, Submission
from reticent_client.wire import Billboard, InvalidInput, Model, ReticentError

__all__ = [
    "Billboard",
    "Budget",
    "Client",
    "Connection",
    "Episode",
    "EpisodeAbandoned",
    "InvalidInput",
    "Model",
    "Receipt",
    "ReticentError",
    "ServiceError",
    "Shuffler",
    "Submission",
    "Unreachable",
]
