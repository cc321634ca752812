# SPDX-License-Identifier: Apache-2.0
"""Actions of users whose apps do not act by themselves. Nothing is stored."""

from __future__ import annotations

from reticent.errors import InvalidInput
from reticent.service.rounds.context import AnyContext
from reticent.service.secrets import EpisodeToken
from reticent_wire.boundary import Raw, Released
from reticent_wire.trajectory import clip_index


class Actions:
    """Chooses actions by published plans."""

    def __init__(self, context: AnyContext) -> None:
        self.context = context

    def act(self, pinned: EpisodeToken, step: int, state: int) -> int:
        """The action of the pinned version; the same whenever it is asked for."""
        action, _ = self.decide(pinned, step, Raw(state)).value
        return action

    def decide(self, pinned: EpisodeToken, step: int, state: Raw[int]) -> Released[tuple[int, float]]:
        """The action of the pinned version, and with what probability it was chosen: an answer to the user alone.

        The user's state is private: a state that does not exist is taken for the nearest one, as on a device and in what
        the user submits later. A refusal would show it.

        Raises:
          InvalidInput: there is no such step, or the episode is a stay, whose visits nothing may tell.
        """
        published = self.context.configuration.published
        if published.visits > 1:
            raise InvalidInput(
                "act", "by the service", "act='device' where users report a whole stay",
                "let the client act on the device: between visits nothing is sent",
            )  # fmt: skip
        if not 0 <= step < published.horizon:
            bound = f"an integer from 0 to {published.horizon - 1}"
            raise InvalidInput("step", "out of range", bound, "correct the request")
        board = self.context.plans.billboard(pinned.version)

        def chosen(here: int) -> tuple[int, float]:
            action = board.act(step, here, pinned.place, self.context.secrets.coin(pinned.episode, step))
            return action, board.published.probability(step, here, pinned.place, action)

        return state.clip(lambda given: int(clip_index(given, published.states))).release(chosen)
