# SPDX-License-Identifier: Apache-2.0
r"""Worst-case neighbours of the linear learners: pairs of observations as far apart as the code lets them be.

An observation is what the regressions see of an episode: features and targets of every step. Pairs are proposed from what
the proof suggests to what an attacker tries:

* **corners**: the pair at which the proof of :func:`~reticent.privacy.sensitivity.joint_sensitivity` is tight, in all
  steps and both regressions at once, its variations, and turned in feature space;
* **hostile** observations: far outside the declared bounds, infinite, or not numbers;
* **random** ones, in and out of bounds.

The pair that a world can produce is found in :mod:`reticent.agents.linear_mixture.farthest_episodes`.
"""

from __future__ import annotations

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.linear_mixture.farthest_episodes import farthest_episodes
from reticent.agents.linear_mixture.learner import LinOptLearner, OffGridLearner
from reticent.agents.linear_mixture.privatizer import Privatizer
from reticent.agents.linear_mixture.statistics import Observation
from reticent.errors import InvalidInput
from reticent.privacy.guarantee import guarantee_of
from reticent.privacy.neighbouring_datasets import Pair, against, cost_of, realised_strengths, report_of
from reticent.privacy.packing import packed_size
from reticent.runtime import double_precision_methods
from reticent.worlds import Episode, World
from reticent.worlds.continuous.world import ContinuousWorld

FAR, HUGE = 1e3, 1e160
"""How far hostile observations are out of bounds: once within the range of squares, once beyond it."""

TRIES = 24
"""Episodes drawn where a world's episodes cannot be enumerated; the farthest two are the canary and their replacement."""


@double_precision_methods
@dataclasses.dataclass(frozen=True)
class LinearMixtureHooks:
    """What the audit must know of a linear learner (:mod:`reticent.audit.hooks`)."""

    agent: LinOptLearner

    @property
    def privatizer(self) -> Privatizer:
        if not isinstance(self.agent.aggregator, Privatizer):
            raise InvalidInput("agent", self.agent.name, "one with a privatizer", "this one adds no noise to its sums")
        return self.agent.aggregator

    @property
    def zero_out(self) -> bool:
        guarantee = guarantee_of(self.agent)
        return guarantee is not None and guarantee.adjacency == "zero-out"

    def nothing(self) -> Observation:
        """The observation that contributes nothing: what a user is replaced by under zero-out adjacency."""
        horizon, d1, d2 = self.privatizer.horizon, self.privatizer.d1, self.privatizer.d2
        return _observation(
            np.zeros((horizon, d1)), np.zeros(horizon), np.zeros((horizon, d2)), np.zeros(horizon)
        )  # fmt: skip

    def worst_cases(self, count: int, seed: int) -> list[Pair[Observation]]:
        """Corners, hostile observations, and ``count`` turned corners."""
        return [*self.corners(), *self.hostile(), *self.turned_corners(count, seed)]

    def random_pairs(self, count: int, seed: int) -> list[Pair[Observation]]:
        """Gaussian directions, lengths from inside to twice the bounds."""
        draw = np.random.default_rng(seed)
        privatizer = self.privatizer
        bound, high = (np.asarray(limit) for limit in (privatizer.feature_bound, privatizer.target_high))
        horizon = privatizer.horizon

        def drawn() -> Observation:
            x, y = draw.normal(size=(horizon, privatizer.d1)), draw.normal(size=(horizon, privatizer.d2))
            x *= (2 * draw.random() * bound / np.linalg.norm(x, axis=1))[:, None]
            y *= (2 * draw.random() * np.asarray(privatizer.reward_bound) / np.linalg.norm(y, axis=1))[:, None]
            y = np.abs(y) if privatizer.nonnegative_rewards and draw.random() < 0.75 else y
            targets, share = draw.uniform(-1.2, 1.2, horizon) * high, draw.uniform(-0.2, 1.2, horizon)
            rewards = np.asarray(privatizer.reward_low) * (1 - share) + np.asarray(privatizer.reward_high) * share
            return _observation(x, targets, y, rewards)

        return self._neighbours([Pair(drawn(), drawn(), f"random {index}") for index in range(count)])

    def possible_pair(self, world: World, seed: int) -> Pair[Observation]:
        """The two episodes of ``world`` whose reports are farthest apart, under the plan that a long run would publish."""
        return farthest_episodes(self.agent, self.privatizer, world, self.nothing() if self.zero_out else None, seed)

    # -- proposals ----------------------------------------------------------------------------------------------------

    def corners(self) -> list[Pair[Observation]]:
        """Unit features at the angle where the proof is tight, targets and rewards at the ends of their intervals."""
        privatizer, scale = self.privatizer, np.asarray(self.privatizer.noise_scale)
        horizon, d1, d2 = privatizer.horizon, privatizer.d1, privatizer.d2
        bound, low, high = (
            np.asarray(limit) for limit in (privatizer.feature_bound, privatizer.target_low, privatizer.target_high)
        )
        bare = np.ones(horizon)
        starts = np.cumsum([0, packed_size(d1), d1, packed_size(d2)])
        gram, moment, gram_r, moment_r = (scale[:, start] for start in starts)
        pays, floor, ceiling = (
            np.asarray(limit) for limit in (privatizer.reward_bound, privatizer.reward_low, privatizer.reward_high)
        )
        reward = np.where(np.abs(floor) > np.abs(ceiling), floor, ceiling)  # the end that is farther from 0
        tight_p, tight_r = _tight_angle(gram, moment, high, bound), _tight_angle(gram_r, moment_r, np.abs(reward), pays)
        # A feature with no noise has no place in a corner; it is left to the hostile pairs.
        pairs = []
        angles_p = {"proof": -tight_p, "same way": tight_p, "opposite": -bare, "orthogonal": 0 * bare, "equal": bare}
        angles_r = {"proof": -tight_r, "orthogonal": 0 * bare}
        for name_p, cosine_p in angles_p.items():
            for name_r, cosine_r in angles_r.items():
                x, y = _at_angle(horizon, d1, cosine_p)
                u, v = _at_angle(horizon, d2, cosine_r)
                canary = _observation(bound[:, None] * x, high, pays[:, None] * u, reward)
                for end, target in (("same", high), ("other", low)):
                    replacement = _observation(bound[:, None] * y, target, pays[:, None] * v, reward)
                    pairs.append(Pair(canary, replacement, f"corner: {name_p}/{name_r}, {end} end"))
        alone = against(pairs, self.nothing())
        return alone if self.zero_out else [*pairs, alone[0]]

    def hostile(self) -> list[Pair[Observation]]:
        """Corners far out of bounds, and numbers that are none: a clip that is assumed would show here."""
        corners, pairs = self.corners(), []
        for base in corners[:4]:
            for factor in (FAR, HUGE):
                far = [_times(side, factor) for side in (base.canary, base.replacement)]
                pairs.append(Pair(far[0], far[1], f"hostile: {base.origin}, times {factor:g}"))
            # One field at a time, so that no other clip can make up for a missing one.
            for field in Observation._fields:
                ten = [
                    side._replace(**{field: 10.0 * getattr(side, field)}) for side in (base.canary, base.replacement)
                ]
                pairs.append(Pair(ten[0], ten[1], f"hostile: ten times {field}"))
                sign = base.replacement._replace(**{field: -10.0 * getattr(base.canary, field)})
                pairs.append(Pair(base.canary, sign, f"hostile: minus ten times {field}"))
        base = corners[0]
        for bad in (np.nan, np.inf, -np.inf):
            every = Observation(*(jnp.full_like(leaf, bad) for leaf in base.canary))
            pairs.append(Pair(every, base.replacement, f"hostile: all {bad}"))
            spoiled = base.canary._replace(targets=every.targets, rewards=every.rewards)
            pairs.append(Pair(spoiled, base.replacement, f"hostile: targets and rewards {bad}"))
        # Features where the declared bound or the noise is zero.
        loud = Observation(*(jnp.ones_like(leaf) for leaf in base.canary))
        pairs.append(Pair(loud, _times(loud, -1.0), "hostile: ones everywhere"))
        return self._neighbours(pairs)

    def turned_corners(self, count: int, seed: int) -> list[Pair[Observation]]:
        """The worst corner turned in every step's feature space: as tight, but rounding falls differently each time."""
        draw = np.random.default_rng(seed)
        corners = self.corners()
        base = corners[int(np.argmax(realised_strengths(self.privatizer, corners)))]
        horizon, d1 = base.canary.value_features.shape
        pairs = []
        for index in range(count):
            turn = np.linalg.qr(draw.normal(size=(horizon, d1, d1)))[0]
            turned = [
                side._replace(value_features=jnp.einsum("hij,hj->hi", turn, side.value_features))
                for side in (base.canary, base.replacement)
            ]
            pairs.append(Pair(turned[0], turned[1], f"corner turned, {index}"))
        return pairs

    def _neighbours(self, pairs: list[Pair[Observation]]) -> list[Pair[Observation]]:
        return against(pairs, self.nothing()) if self.zero_out else pairs


@double_precision_methods
@dataclasses.dataclass(frozen=True)
class OffGridHooks(LinearMixtureHooks):
    """The same where states are real vectors: a world's episodes can be drawn, not enumerated."""

    agent: OffGridLearner

    def possible_pair(self, world: World | ContinuousWorld, seed: int) -> Pair[Observation]:
        """The best of many pairs of episodes with random actions, under the first plan."""
        plan = jax.jit(lambda agent: agent.plan(agent.init()))(self.agent)

        @jax.jit
        def observed(key: Array) -> tuple[Observation, Array]:
            seen = self.agent.statistic(plan, _random_episode(world, key))
            return seen, report_of(self.privatizer, seen)

        drawn = [observed(key) for key in jax.random.split(jax.random.key(seed), TRIES)]
        nothing = self.nothing()
        others = [(nothing, report_of(self.privatizer, nothing))] if self.zero_out else drawn
        pairs = itertools.product(drawn, others)
        (canary, _), (replacement, _) = max(
            pairs, key=lambda sides: cost_of(self.privatizer, np.asarray(sides[0][1] - sides[1][1]))
        )
        return Pair(canary, replacement, "trajectories of this world")


def _random_episode(world: World | ContinuousWorld, key: Array) -> Episode:
    model = world.model
    draws = jax.random.uniform(key, (world.start_draws + model.horizon * world.step_draws,))
    state = world.start(draws[: world.start_draws])
    chosen = jax.random.randint(jax.random.fold_in(key, 1), (model.horizon,), 0, model.actions)
    states, rewards = [state], []
    for h in range(model.horizon):
        first = world.start_draws + h * world.step_draws
        state, reward = world.step(jnp.asarray(h), state, chosen[h], draws[first : first + world.step_draws])
        states.append(state)
        rewards.append(reward)
    return Episode(jnp.stack(states), chosen, jnp.stack(rewards))


def _tight_angle(gram: np.ndarray, moment: np.ndarray, target: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """t = min(s/2, 1) of the proof, s = w²V²/L² and w the ratio of the noises; 0 where nothing is learned."""
    with np.errstate(all="ignore"):
        s = np.where((gram > 0) & (bound > 0), (gram / moment * target / bound) ** 2, 0.0)
    return np.minimum(np.nan_to_num(s) / 2, 1.0)


def _at_angle(horizon: int, dimension: int, cosine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two unit vectors per step at the given angle; in one dimension the nearer of ±1."""
    x, y = np.zeros((horizon, dimension)), np.zeros((horizon, dimension))
    x[:, 0] = 1.0
    if dimension == 1:
        y[:, 0] = np.where(cosine < 0, -1.0, np.where(cosine > 0, 1.0, 0.0))
        return x, y
    y[:, 0], y[:, 1] = cosine, np.sqrt(np.maximum(1 - cosine**2, 0.0))
    return x, y


def _observation(*fields: np.ndarray) -> Observation:
    return Observation(*(jnp.asarray(np.asarray(field, float)) for field in fields))


def _times(seen: Observation, factor: float) -> Observation:
    return Observation(*(leaf * factor for leaf in seen))
