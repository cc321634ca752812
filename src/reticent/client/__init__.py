"""The device's side of the service: act by the published policy, send what the trust model allows. NumPy, no JAX.

See docs/client.md. ::

    client = Client("https://service.example", key)
    with client.episode(user) as episode:
        state = first_state
        for _ in range(episode.horizon):
            reward, state = play(episode.act(state))
            episode.observe(reward, state)
"""

from reticent.client.client import Client
from reticent.client.connection import Connection
from reticent.client.episode import Episode, EpisodeAbandoned, Receipt, Submission
from reticent.client.problems import ServiceError, Unreachable
from reticent.client.published import Billboard, Model
from reticent.client.shuffler import Shuffler

__all__ = [
    "Billboard",
    "Client",
    "Connection",
    "Episode",
    "EpisodeAbandoned",
    "Model",
    "Receipt",
    "ServiceError",
    "Shuffler",
    "Submission",
    "Unreachable",
]
