# SPDX-License-Identifier: Apache-2.0
"""Any agent here against a Gymnasium environment for which a model is given.

The loop draws actions and simulated noise from the same streams as :mod:`reticent.simulation.simulate`; the
environment brings its own randomness.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import Array

from reticent.agents import make_agent
from reticent.errors import InvalidInput
from reticent.extras import require
from reticent.learning.capabilities import act_from, empty_memory, remember
from reticent.learning.learner import AgentState, AnyLearner
from reticent.learning.plan import AnyPlan
from reticent.runtime import double_precision
from reticent.short_repr import ShortRepr
from reticent.simulation.rollout import Streams, episode_uniforms, streams
from reticent.worlds import Episode, Model

if TYPE_CHECKING:
    import gymnasium


@dataclasses.dataclass(frozen=True)
class PlayResult(ShortRepr):
    """What happened between an agent and an environment.

    Attributes:
      returns: sum of rewards of each episode, ``(n,)``.
      episodes: all trajectories, every field with a leading axis of n.
      agent: the agent that played.
      state: its state afterwards.
      position: number of episodes behind that state.
    """

    returns: np.ndarray
    episodes: Episode
    agent: AnyLearner
    state: AgentState
    position: int


@double_precision
def play(
    env: gymnasium.Env[Any, Any],
    model: Model,
    agent: AnyLearner | str,
    episodes: int,
    seed: int = 0,
    *,
    state: AgentState | None = None,
    from_episode: int = 0,
) -> PlayResult:
    """Let ``agent`` meet ``episodes`` users of ``env``, learning as its schedule says.

    ``agent`` may be a name, which is then made for that many episodes. An agent planned for more can be played in
    parts: pass the ``state`` and ``position`` of the part before. (The environment's own randomness goes on only if
    it is the same object: it is seeded at episode 0 and not again.)

    Raises:
      InvalidInput: the spaces do not match the model, an episode is not H steps long, a reward is outside [0, 1], or
        there are more episodes than the agent was planned for.
    """
    require("gymnasium", "reticent.play")
    from reticent.worlds.gymnasium_env import check_matches

    check_matches(env, model)
    learner = make_agent(agent, model, episodes) if isinstance(agent, str) else agent
    planned, last = learner.schedule, from_episode + episodes
    _check(learner, model, state, from_episode, last)
    closing = {int(end): int(size) for end, size in zip(planned.ends, planned.round_sizes, strict=True)}
    if not planned.final_release:
        closing.pop(planned.episodes)
    keys = streams(seed)
    current = _init(learner) if state is None else state
    plan = _plan(learner, current)
    seen: list[Episode] = []
    for number in range(from_episode, last):
        first, _ = env.reset(seed=seed if number == 0 else None)
        draws = np.asarray(_uniforms(keys, number, model.horizon))[1::3]
        served = _served(learner, plan, planned.place_of(number))
        seen.append(_meet(env, learner, served, int(first), draws, number))
        current = _absorb(learner, current, served, seen[-1], keys, number)
        size = closing.get(number + 1)
        if size is not None:
            closed = int(current.rounds)
            current, plan = _close(learner, current, plan, size, keys, closed)
    together: Episode = jax.tree.map(lambda *fields: np.stack(fields), *seen)
    return PlayResult(np.asarray(together.rewards).sum(axis=1), together, learner, current, last)


def _check(agent: AnyLearner, model: Model, state: AgentState | None, first: int, last: int) -> None:
    if (agent.model.states, agent.model.actions, agent.model.horizon) != (model.states, model.actions, model.horizon):
        raise InvalidInput("agent's model", "another one", "the model given", "make the agent for this model")
    if first < 0 or (state is None) != (first == 0):
        raise InvalidInput(
            "from_episode", first, "0 without a state, above 0 with one", "pass the earlier part's position"
        )
    if not first < last <= agent.schedule.episodes:
        bound = f"above {first} and at most {agent.schedule.episodes}, for which the agent was planned"
        raise InvalidInput("episodes", last, bound, "make the agent for all episodes it will meet")


def _meet(
    env: gymnasium.Env[Any, Any], agent: AnyLearner, plan: AnyPlan, first: int, draws: np.ndarray, number: int
) -> Episode:
    """One user: H steps under the plan, checked as they come."""
    horizon = agent.model.horizon
    states, actions, rewards = [first], [], []
    memory = empty_memory(agent, plan)
    for step in range(horizon):
        action = int(_act(agent, plan, memory, step, states[-1], draws[step]))
        following, reward, terminated, truncated, _ = env.step(action)
        if not 0 <= float(reward) <= 1:  # written so that NaN fails
            raise InvalidInput(
                f"reward of episode {number} at step {step}", reward, "in [0, 1]", "rescale it with a RewardWrapper"
            )
        if (terminated or truncated) and step + 1 < horizon:
            raise InvalidInput(
                f"length of episode {number}",
                step + 1,
                f"the model's horizon {horizon}",
                "the environment ends earlier: declare a shorter horizon, or stay in an absorbing state until the end",
            )
        memory = _remember(agent, plan, memory, states[-1], action, float(reward), int(following))
        states.append(int(following))
        actions.append(action)
        rewards.append(float(reward))
    if not (terminated or truncated):
        raise InvalidInput(
            f"length of episode {number}",
            f"more than {horizon}",
            f"the model's horizon {horizon}",
            "the environment goes on: declare a longer horizon, or use gymnasium.wrappers.TimeLimit",
        )
    return Episode(np.asarray(states), np.asarray(actions), np.asarray(rewards))  # type: ignore[arg-type]


@jax.jit
def _init(agent: AnyLearner) -> AgentState:
    return agent.init()


@jax.jit
def _plan(agent: AnyLearner, state: AgentState) -> AnyPlan:
    return agent.plan(state)


@jax.jit
def _act(agent: AnyLearner, plan: AnyPlan, memory: Any, step: Array, state: Array, uniform: Array) -> Array:
    return act_from(agent, plan, memory, step, state, uniform)


def _remember(agent: AnyLearner, plan: AnyPlan, memory: Any, *step: Any) -> Any:
    """What the user's device remembers after a step; nothing is computed where nothing is."""
    return None if memory is None else _told(agent, plan, memory, *step)


_told = jax.jit(remember)


_uniforms = jax.jit(lambda keys, number, horizon: episode_uniforms(keys.users, number, horizon), static_argnums=2)


@jax.jit
def _served(agent: AnyLearner, plan: AnyPlan, place: Array) -> AnyPlan:
    return agent.served(plan, place)


@jax.jit
def _absorb(
    agent: AnyLearner, state: AgentState, plan: AnyPlan, episode: Episode, keys: Streams, number: Array
) -> AgentState:
    noise = agent.aggregator.simulate_user_noise(jax.random.fold_in(keys.user_noise, number))
    return agent.absorb(state, agent.report(plan, episode, noise))


@jax.jit
def _close(
    agent: AnyLearner, state: AgentState, plan: AnyPlan, users: Array, keys: Streams, number: Array
) -> tuple[AgentState, AnyPlan]:
    noise = agent.aggregator.simulate_round_noise(jax.random.fold_in(keys.round_noise, number))
    closed = agent.close(state, plan, users, noise)
    return closed, agent.plan(closed)
