# SPDX-License-Identifier: Apache-2.0
"""rlberry's UCBVI and LSVI-UCB on a world given as arrays; prints episodes per second as JSON.

    python benchmarks/rlberry_peer.py world.npz --ucbvi 300 --lsvi 20

A program of its own, run by ``benchmarks/opponents.py --rlberry PYTHON``: rlberry 0.7 needs Gymnasium below 0.30 and cannot
be imported beside this library. The world is ``transitions`` ``(S, A, S)``, ``mean_rewards`` ``(S, A)``, ``initial``
``(S,)`` and ``horizon``, stepped by the few lines below and not by JAX, whose calls would cost more than the learner.

Neither learner is private, and neither evaluates its policies, so both do less than those they are compared with. UCBVI
estimates one model for all steps. LSVI-UCB has one feature per (s, a), and looks at all the past in every episode: its
rate falls with their number, so only the first few are timed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

warnings.simplefilter("ignore")

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
import rlberry  # noqa: E402
from rlberry import spaces  # noqa: E402
from rlberry_scool.agents import LSVIUCBAgent, UCBVIAgent  # noqa: E402
from rlberry_scool.agents.features import FeatureMap  # noqa: E402


class ArrayWorld(gymnasium.Env):
    """A stationary finite MDP with rewards of 0 or 1."""

    reward_range = (0.0, 1.0)

    def __init__(self, transitions: np.ndarray, mean_rewards: np.ndarray, initial: np.ndarray, horizon: int) -> None:
        self.cumulative, self.first = np.cumsum(transitions, axis=-1), np.cumsum(initial)
        self.mean_rewards, self.horizon = mean_rewards, horizon
        self.observation_space = spaces.Discrete(len(initial))
        self.action_space = spaces.Discrete(mean_rewards.shape[1])
        self.last = len(initial) - 1

    def reset(self, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.taken = 0
        self.state = min(int(self.first.searchsorted(self.np_random.random(), side="right")), self.last)
        return self.state, {}

    def step(self, action):
        moves, pays = self.np_random.random(2)
        reward = float(pays < self.mean_rewards[self.state, action])
        row = self.cumulative[self.state, action]
        self.state = min(int(row.searchsorted(moves, side="right")), self.last)
        self.taken += 1
        return self.state, reward, self.taken == self.horizon, False, {}


class OneHot(FeatureMap):
    """One feature per (s, a)."""

    def __init__(self, states: int, actions: int) -> None:
        super().__init__()
        self.actions, self.shape = actions, (states * actions,)

    def map(self, observation, action):
        feature = np.zeros(self.shape)
        feature[observation * self.actions + action] = 1
        return feature


def timed(agent, episodes: int) -> float:
    """Episodes per second of ``agent.fit``."""
    started = time.perf_counter()
    agent.fit(episodes)
    return episodes / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("world")
    parser.add_argument("--ucbvi", type=int, default=300, help="episodes of UCBVI")
    parser.add_argument("--lsvi", type=int, default=20, help="episodes of LSVI-UCB")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    rlberry.logger.setLevel("ERROR")
    with np.load(given.world) as arrays:
        horizon = int(arrays["horizon"])
        env = ArrayWorld(arrays["transitions"], arrays["mean_rewards"], arrays["initial"], horizon)
    states, actions = int(env.observation_space.n), int(env.action_space.n)

    contestants = {
        "UCBVI": (given.ucbvi, lambda: UCBVIAgent(env, horizon=horizon)),
        "LSVI-UCB": (given.lsvi, lambda: LSVIUCBAgent(env, horizon, lambda _: OneHot(states, actions), gamma=1.0)),
    }
    rows = [
        {"name": name, "episodes": episodes, "rates": [timed(make(), episodes) for _ in range(given.repeats)]}
        for name, (episodes, make) in contestants.items()
    ]
    print(json.dumps({"version": rlberry.__version__, "rows": rows}))


if __name__ == "__main__":
    main()
