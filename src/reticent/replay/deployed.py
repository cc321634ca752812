# SPDX-License-Identifier: Apache-2.0
"""The deployed agent meets recorded people one by one, before launch: real noise, real rounds, the real contribution path.

What happens is what would happen in the service: each person is served by their place, their episode is clipped,
rounded and summed as an integer, and the operating system's noise covers every release.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reticent.replay.logs import RandomisedUsers, Replayable
from reticent.service.embedded import DeployedAgent
from reticent.worlds import Episode
from reticent.worlds.people.recorded import RecordedUsers
from reticent_wire.trajectory import reward_within

SPOKEN = 1_000
"""After how many records the caller is told."""


def meet_deployed(
    agent: DeployedAgent,
    users: Replayable,
    order: np.ndarray,
    random: np.random.Generator,
    progress: Callable[[int], None] | None = None,
) -> np.ndarray:
    """The returns of those that the agent met, in order; of randomised records only those are met that are accepted.

    ``order`` lists indices of users; ``random`` decides where policies or acceptance are random.
    """
    ordered = users.subset(order)
    meet = _exactly(ordered) if isinstance(ordered, RecordedUsers) else _if_accepted(ordered)
    kept: list[float] = []
    for number in range(ordered.users):
        if agent.finished:
            break
        episode = meet(agent, number, random)
        if episode is not None:
            local = agent.guarantee.trust.noised_reports
            agent.submit(number, agent.report(episode) if local else episode)
            kept.append(float(np.asarray(episode.rewards).sum()))
        if progress is not None and (number + 1) % SPOKEN == 0:
            progress(number + 1)
    return np.asarray(kept)


Meeting = Callable[[DeployedAgent, int, np.random.Generator], Episode | None]
"""One recorded user's episode with the agent; None if the record cannot tell what would have happened."""


def _exactly(users: RecordedUsers) -> Meeting:
    def meet(agent: DeployedAgent, number: int, random: np.random.Generator) -> Episode:
        person = {key: column[number] for key, column in users.answers.items()}
        state = np.asarray(users.first(person))
        states, actions, rewards = [int(state)], [], []
        belief = agent.belief()
        for step, draw in enumerate(random.random(users.horizon)):
            action = agent.act(step, states[-1], float(draw)) if belief is None else belief.act(step, states[-1])
            state, reward = users.respond(person, step, state, np.asarray(action))
            if belief is not None:
                belief.observe(states[-1], action, reward_within(reward), int(state))
            states.append(int(state))
            actions.append(action)
            rewards.append(float(reward))
        return Episode(np.asarray(states), np.asarray(actions), np.asarray(rewards))  # type: ignore[arg-type]

    return meet


def _if_accepted(users: RandomisedUsers) -> Meeting:
    coins = users.coins

    def meet(agent: DeployedAgent, number: int, random: np.random.Generator) -> Episode | None:
        states, recorded, free = users.states[number], users.actions[number], users.free[number]
        draws, falls = random.random((2, users.horizon))
        actions = []
        belief = agent.belief()
        for step in range(users.horizon):
            here = int(states[step])
            action = agent.act(step, here, float(draws[step])) if belief is None else belief.act(step, here)
            if belief is not None:
                belief.observe(here, action, reward_within(users.rewards[number][step]), int(states[step + 1]))
            if not (free[step] or (action == recorded[step] and falls[step] < coins[number, step])):
                return None
            actions.append(action)
        return Episode(states, np.asarray(actions), users.rewards[number])  # type: ignore[arg-type]

    return meet
