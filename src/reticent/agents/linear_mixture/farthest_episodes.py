# SPDX-License-Identifier: Apache-2.0
"""The two episodes of a world that the linear learners can tell apart best: what a real canary could do.

Possible episodes only: every transition has positive probability and every reward is in its support. For a fixed episode
the one farthest from it is found exactly, by dynamic programming over steps, since reports are sums over steps; the two
take turns until neither gains.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.linear_mixture.frame import LinOptPlan, framed_values
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.privatizer import Privatizer
from reticent.agents.linear_mixture.reward_coordinates import RewardCoordinates
from reticent.agents.linear_mixture.statistics import Observation, observe
from reticent.learning.plan import Plan
from reticent.privacy.neighbouring_datasets import Pair
from reticent.privacy.packing import pack_symmetric, packed_size
from reticent.runtime import double_precision, double_precision_methods
from reticent.worlds import Episode, World

STARTS = 8
"""Random episodes from which the two take turns."""


@double_precision
def farthest_episodes(
    agent: LinOptLearner, privatizer: Privatizer, world: World, nothing: Observation | None, seed: int
) -> Pair[Observation]:
    """The possible pair whose reports are farthest apart; against ``nothing`` where that is what a user is replaced by."""
    table = StepTable.of(privatizer, world, long_run_plan(agent, world), agent.rewards)
    origin = "trajectories of this world"
    if nothing is not None:
        return Pair(table.observation(table.farthest_from(None)[0]), nothing, origin)
    draw = np.random.default_rng(seed)
    reached = []
    for _ in range(STARTS):
        other = table.random(draw)
        path, gained = table.farthest_from(other)
        while True:
            other, value = table.farthest_from(path)
            path, again = table.farthest_from(other)
            if again <= max(gained, value) * (1 + 1e-12):
                break
            gained = again
        reached.append((gained, path, other))
    _, path, other = max(reached, key=lambda ends: ends[0])
    return Pair(table.observation(path), table.observation(other), origin)


def long_run_plan(agent: LinOptLearner, world: World) -> Plan[LinOptPlan]:
    """The plan that a long run would publish: the optimal values, in the agent's frame.

    An adversary may assume any public plan. The very first one is flat, and flat values say nothing of a transition.
    """
    model, best = world.model, world.optimal_action_values
    values = jnp.concatenate([best.max(axis=-1), jnp.zeros((1, model.states))])
    remaining = jnp.arange(model.horizon - 1, -1, -1).astype(values.dtype)
    frames = [agent.frame.features(model, v, left)[1:] for v, left in zip(values[1:], remaining, strict=True)]
    centres, scales = (jnp.asarray([frame[index] for frame in frames], values.dtype) for index in (0, 1))
    return Plan(best.argmax(axis=-1).astype(jnp.int32), values, LinOptPlan(centres, scales), best)


@double_precision_methods
@dataclasses.dataclass(frozen=True)
class StepTable:
    """Contributions of every possible step in units of noise: ``(H, S, A, S', p)`` and rewards' ``(H, S, A, R, q)``.

    Attributes:
      ends: the rewards that a pair may have, ``(H, S, A, R)``.
      possible: which transitions have positive probability.
      rewards: the coordinates in which rewards are learned.
    """

    world: World
    plan: Plan[LinOptPlan]
    transition: np.ndarray
    reward: np.ndarray
    ends: np.ndarray
    possible: np.ndarray
    rewards: RewardCoordinates | None

    @classmethod
    def of(
        cls, privatizer: Privatizer, world: World, plan: Plan[LinOptPlan], rewards: RewardCoordinates | None
    ) -> StepTable:
        model, scale = world.model, np.asarray(privatizer.noise_scale)
        framed = framed_values(plan)
        phi = np.moveaxis(np.asarray(jax.vmap(model.value_features)(framed)), 1, -1)
        pays = model.reward_features if rewards is None else rewards.features(model)
        varphi = np.moveaxis(np.asarray(pays), 0, -1)
        baseline = 0.0 if rewards is None else np.asarray(rewards.baseline(model))[..., None]
        d1, d2 = privatizer.d1, privatizer.d2
        cut = np.cumsum([0, packed_size(d1), d1, packed_size(d2), d2])

        def white(part: np.ndarray, block: int) -> np.ndarray:
            sigma = scale[:, cut[block] : cut[block + 1]]
            safe = np.where(sigma > 0, sigma, np.inf)
            return part / safe.reshape(len(safe), *[1] * (part.ndim - 2), -1)

        gram = white(np.asarray(_packed_products(phi)), 0)
        moment = white(phi[:, :, :, None, :] * np.asarray(framed)[:, None, None, :, None], 1)
        spread = np.broadcast_to(gram[:, :, :, None, :], (*moment.shape[:-1], gram.shape[-1]))
        transition = np.concatenate([spread, moment], axis=-1)
        if world.reward_kind == "bernoulli":
            ends = np.broadcast_to(np.array([0.0, 1.0]), (*world.mean_rewards.shape, 2))
        else:
            ends = np.asarray(world.mean_rewards)[..., None]
        every = np.broadcast_to(varphi, (model.horizon, *varphi.shape))
        gram_r = white(np.asarray(_packed_products(every)), 2)
        moment_r = white(every[:, :, :, None, :] * (ends - baseline)[..., None], 3)
        spread_r = np.broadcast_to(gram_r[:, :, :, None, :], (*moment_r.shape[:-1], gram_r.shape[-1]))
        reward = np.concatenate([spread_r, moment_r], axis=-1)
        return cls(world, plan, transition, reward, ends, np.asarray(world.transitions) > 0, rewards)

    def farthest_from(self, path: np.ndarray | None) -> tuple[np.ndarray, float]:
        """The episode ``(H, 4)`` of (state, action, next state, reward index) farthest from ``path``, and how far².

        None is the path of a user who contributes nothing.
        """
        horizon, states = self.possible.shape[:2]
        value = np.zeros(states)
        choices = []
        for h in range(horizon - 1, -1, -1):
            at, gain = (0.0, 0.0) if path is None else self._at(h, path[h])
            far_p = ((self.transition[h] - at) ** 2).sum(axis=-1)
            far_r = ((self.reward[h] - gain) ** 2).sum(axis=-1)
            total = np.where(self.possible[h], far_p + value, -np.inf) + far_r.max(axis=-1)[:, :, None]
            flat = total.reshape(states, -1)
            action, following = np.unravel_index(flat.argmax(axis=1), total.shape[1:])
            rows = np.arange(states)
            choices.append((action, following, far_r[rows, action].argmax(axis=-1)))
            value = flat.max(axis=1)
        start = np.where(np.asarray(self.world.initial) > 0, value, -np.inf)
        state, steps = int(start.argmax()), []
        for action, following, reward in reversed(choices):
            steps.append((state, action[state], following[state], reward[state]))
            state = int(following[state])
        return np.array(steps), float(start.max())

    def random(self, draw: np.random.Generator) -> np.ndarray:
        """A possible episode with random actions, as :meth:`farthest_from` writes them."""
        steps = []
        state = int(draw.choice(np.flatnonzero(np.asarray(self.world.initial) > 0)))
        for h in range(len(self.possible)):
            action = int(draw.integers(self.possible.shape[2]))
            following = int(draw.choice(np.flatnonzero(self.possible[h, state, action])))
            steps.append((state, action, following, int(draw.integers(self.ends.shape[-1]))))
            state = following
        return np.array(steps)

    def observation(self, path: np.ndarray) -> Observation:
        """The path as an episode, observed by the library's own function."""
        rewards = self.ends[np.arange(len(path)), path[:, 0], path[:, 1], path[:, 3]]
        states = np.concatenate([path[:, 0], path[-1:, 2]])
        episode = Episode(jnp.asarray(states), jnp.asarray(path[:, 1]), jnp.asarray(rewards))
        return observe(self.world.model, framed_values(self.plan), episode, coordinates=self.rewards)

    def _at(self, h: int, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        state, action, following, reward = step
        return self.transition[h, state, action, following], self.reward[h, state, action, reward]


@jax.jit
def _packed_products(features: Array) -> Array:
    return pack_symmetric(features[..., :, None] * features[..., None, :])
