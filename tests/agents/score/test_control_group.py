# SPDX-License-Identifier: Apache-2.0
"""Two plans in one round: the moments are the mixture of both, and a learner that takes all for one plan's users is off."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.score import replicas
from reticent.agents.score.arms import Arms, arms_of
from reticent.agents.score.beliefs import summarize
from reticent.agents.score.learner import ScoreLearner
from reticent.learning.control import ControlPlaces
from reticent.learning.learner import AgentState
from reticent.learning.plan import ControlGroup, Plan
from reticent.runtime import double_precision
from reticent.simulation.rollout import episode_uniforms, rollout
from reticent.worlds.registry import make_world_from

WORLD = make_world_from("random-blend:states=6,actions=4,horizon=5,d=3")
MODEL = WORLD.model
USERS = 60_000
PLACES = ControlPlaces(USERS, USERS // 2, 1)


class Mixed:
    """A second round, half of whose users are served the first plan: its sum without noise, and three ways to end it."""

    def __init__(self, spec: str) -> None:
        self.agent = make_agent(spec, MODEL, 10 * USERS)
        assert isinstance(self.agent, ScoreLearner)
        self.start = self.agent.init()
        self.first = self.agent.plan(self.start)
        self.state = self._after_first()
        self.second = self.agent.plan(self.state)
        self.total = self._total(self.second, PLACES, 7)

    def _total(self, reference: Plan, places: ControlPlaces, seed: int) -> Any:
        """The sum of what a round's users send, each by her own place; nothing of it knows of arms."""
        agent, first = self.agent, self.first

        def one(place: Any) -> Any:
            control = places.before(place + 1) > places.before(place)
            plan = jax.tree.map(lambda old, new: jnp.where(control, old, new), first, reference)
            uniforms = episode_uniforms(jax.random.key(seed), place, MODEL.horizon)
            episode = rollout(agent, WORLD, agent.served(plan, place), uniforms)
            return agent.report(agent.served(reference, place), episode)

        return jax.jit(lambda: jax.lax.map(one, jnp.arange(places.size), batch_size=5_000).sum(axis=0))()

    def _after_first(self) -> AgentState:
        size = int(self.agent.schedule.round_sizes[0])
        nobody = ControlPlaces(size, 0, 0)
        return self.closed(self.start, self.first, self._total(self.first, nobody, 3), size)

    def closed(self, state: AgentState, plan: Plan, total: Any, users: int = USERS) -> AgentState:
        noise = None if not self.agent.clipped else jnp.zeros_like(self.agent.aggregator.noise_scale)
        return jax.jit(lambda: self.agent.close(self.agent.absorb(state, total), plan, users, noise))()

    def error(self, plan: Plan) -> float:
        """How far the posterior mean of transitions and rewards is from the truth if the second round alone is learned
        from, with ``plan``."""
        fresh = self.state._replace(past=self.start.past)
        beliefs = self.closed(fresh, plan, self.total).past
        agent = self.agent
        found = np.concatenate(
            [
                np.ravel(summarize(coordinates, belief).mean - coordinates.eta(truth))
                for coordinates, belief, truth in (
                    (agent.coordinates, beliefs.transitions, WORLD.transition_theta[: agent.groups]),
                    (agent.reward_coordinates, beliefs.rewards, WORLD.reward_theta[: agent.groups]),
                )
            ]
        )
        return float(np.abs(found).max())

    def referred(self, control: ControlGroup | None) -> Plan:
        return jax.jit(lambda: self.agent.refer(self.second, self.second, USERS, control))()


@functools.cache
@double_precision
def mixed(spec: str) -> Mixed:
    return Mixed(spec)


@pytest.mark.parametrize("spec", ["score-vi", "private-score-vi:epsilon=20"])
@double_precision
def test_told_of_the_control_share_the_learner_finds_the_truth(spec: str) -> None:
    case = mixed(spec)
    told = case.error(case.referred(ControlGroup(case.first, PLACES)))
    ignoring = case.error(case.second)
    only_controls = case.error(case.referred(ControlGroup(case.first, ControlPlaces(USERS, USERS, 0))))
    print(spec, told, ignoring, only_controls)
    assert told < 0.03
    assert ignoring > 3 * told
    assert only_controls > 3 * told
