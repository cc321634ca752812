# SPDX-License-Identifier: Apache-2.0
"""Worlds as Gymnasium environments, and for the way back a wrapper of fixed length and a check.

They are registered as ``reticent/MobileHealth-v0``, ``reticent/RandomBlend-v0`` and ``reticent/RiverSwim-v0``
(:mod:`reticent.gymnasium_ids`): ``gymnasium.make("reticent:reticent/RiverSwim-v0", states=4)``.

The end of an episode is reported as ``terminated``, not ``truncated``: the horizon H is part of the problem (values
are zero after it and the optimal policy depends on the step), so a learner must not bootstrap beyond it. The
observation is the state alone, as for every other learner of this library; the 0-based step to come is
``info["step"]``, and what the state is called, where the model has names, ``info["state"]``. Then all labels, in the order
of their numbers, are in the environment's ``metadata["state_names"]`` and ``metadata["action_names"]``.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import jax

from reticent.errors import InvalidInput
from reticent.gymnasium_ids import register
from reticent.worlds.from_gymnasium import RewardRange, read_table
from reticent.worlds.models.model import Model
from reticent.worlds.registry import make_world
from reticent.worlds.world import World

_start = jax.jit(World.start)
_step = jax.jit(World.step)


class WorldEnv(gymnasium.Env[int, int]):
    """Any :class:`~reticent.worlds.World` as an environment with ``Discrete`` states and actions.

    ``world`` is a world or its name, with further ``options`` of a named one. Randomness comes from Gymnasium's
    ``np_random``, and the same :meth:`World.step` that simulations scan turns it into states and rewards.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  (Gymnasium's own declaration)

    def __init__(self, world: World | str = "mobile-health", render_mode: str | None = None, **options: Any) -> None:
        if render_mode is not None:
            raise InvalidInput("render_mode", render_mode, "None", "these worlds have no pictures")
        if isinstance(world, World) and options:
            raise InvalidInput("options", sorted(options), "empty when a World is given", "name the world instead")
        self.world = make_world(world, **options) if isinstance(world, str) else world
        if not isinstance(self.world, World):
            raise InvalidInput("world", self.world.name, "one with a finite set of states", "leave out states=real")
        self.render_mode = None
        named = self.world.model.about.names
        if named is not None:
            self.metadata = {**self.metadata, "state_names": named.states, "action_names": named.actions}
        self.observation_space = gymnasium.spaces.Discrete(self.world.model.states)  # type: ignore[assignment]
        self.action_space = gymnasium.spaces.Discrete(self.world.model.actions)  # type: ignore[assignment]
        self._state: int | None = None
        self._taken = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Meet the next user: draw the first state. There are no reset options."""
        super().reset(seed=seed)
        if options:
            raise InvalidInput("reset options", sorted(options), "empty", "set options when making the environment")
        self._state, self._taken = int(_start(self.world, self.np_random.random())), 0
        return self._state, self._info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take one action; ``terminated`` after H of them."""
        if self._state is None:
            raise InvalidInput("environment", "not started", "reset before the first step", "call reset()")
        if self._taken >= self.world.model.horizon:
            raise InvalidInput("step", self._taken, f"below the horizon {self.world.model.horizon}", "call reset()")
        if not self.action_space.contains(action):
            raise InvalidInput(
                "action", action, f"an integer from 0 to {self.world.model.actions - 1}", "choose an existing action"
            )
        following, reward = _step(self.world, self._taken, self._state, int(action), self.np_random.random(2))
        self._state, self._taken = int(following), self._taken + 1
        return self._state, float(reward), self._taken == self.world.model.horizon, False, self._info()

    def _info(self) -> dict[str, Any]:
        """The step to come, and what the state is called where it has a name."""
        named = self.world.model.about.names
        return {"step": self._taken} | ({} if named is None else {"state": named.states[self._state or 0]})


class FixedHorizon(gymnasium.Wrapper[int, int, int, int]):
    """An environment whose every episode has ``horizon`` steps with rewards in [0, 1], as agents here expect.

    What ends earlier stays where it ended and is paid nothing until the horizon: in the terminal state, or in one more
    state, as :func:`reticent.from_gymnasium` has it. The last step is reported as ``terminated``.

    Args:
      env: an environment with ``Discrete`` observations and actions.
      horizon: number of steps H; at most the environment's own limit.
      reward_range: least and largest reward, mapped to 0 and 1. By default those of the environment's table, or (0, 1)
        where it keeps none.
      added_end: whether the end is one more state. By default as the environment's table says.

    Raises:
      InvalidInput: the environment cuts episodes before the horizon, or a reward is out of range.

    >>> env = FixedHorizon(gymnasium.make("CliffWalking-v1"), horizon=30)
    >>> _ = env.reset(seed=0)
    >>> [round(env.step(1)[1], 2) for _ in range(3)]  # into the cliff: -100 is 0 here, and back to the start
    [0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        env: gymnasium.Env[int, int],
        horizon: int,
        *,
        reward_range: RewardRange | None = None,
        added_end: bool | None = None,
    ) -> None:
        super().__init__(env)
        limit = None if env.spec is None else env.spec.max_episode_steps
        if horizon < 1 or (limit is not None and limit < horizon):
            raise InvalidInput(
                "horizon",
                horizon,
                f"from 1 to {limit}, the environment's own limit" if limit else "at least 1",
                "shorten it, or pass max_episode_steps to gymnasium.make",
            )
        table = read_table(env) if getattr(env.unwrapped, "P", None) is not None else None
        if reward_range is None:
            reward_range = (0.0, 1.0) if table is None else table.reward_range
        if added_end is None:
            added_end = table is not None and table.added_end
        self.horizon, self.reward_range = horizon, reward_range
        states = int(env.observation_space.n)  # type: ignore[attr-defined]
        self._end = states if added_end else None
        self.observation_space = gymnasium.spaces.Discrete(states + added_end)  # type: ignore[assignment]
        self._state, self._taken, self._over = 0, horizon, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Meet the next user."""
        state, info = self.env.reset(seed=seed, options=options)
        self._state, self._taken, self._over = int(state), 0, False
        return self._state, info

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take one action; after the end nothing happens and nothing is paid."""
        if self._taken >= self.horizon:
            raise InvalidInput("step", self._taken, f"below the horizon {self.horizon}", "call reset()")
        reward = 0.0
        info: dict[str, Any] = {}
        if not self._over:
            state, paid, self._over, cut, info = self.env.step(action)
            if cut and self._taken + 1 < self.horizon and not self._over:
                raise InvalidInput(
                    "steps of the episode",
                    self._taken + 1,
                    f"{self.horizon}",
                    "shorten horizon, or lift the time limit",
                )
            self._state = self._end if self._over and self._end is not None else int(state)
            reward = float(paid)
        self._taken += 1
        return self._state, self._scaled(reward), self._taken == self.horizon, False, info

    def _scaled(self, reward: float) -> float:
        low, high = self.reward_range
        if not low <= reward <= high:  # written so that NaN fails
            raise InvalidInput("reward", reward, f"in [{low:g}, {high:g}]", "pass reward_range=(least, most)")
        return (reward - low) / (high - low)


def check_matches(env: gymnasium.Env[Any, Any], model: Model) -> None:
    """Check that an environment speaks of the model's states and actions: ``Discrete(S)`` and ``Discrete(A)``, from 0.

    Raises:
      InvalidInput: names the space that differs and what the model expects.
    """
    spaces = (
        ("observation_space", env.observation_space, model.states),
        ("action_space", env.action_space, model.actions),
    )
    for field, space, size in spaces:
        if not isinstance(space, gymnasium.spaces.Discrete) or int(space.n) != size or int(space.start) != 0:
            raise InvalidInput(
                field, space, f"Discrete({size}), as the model has it", "use another model or wrap the environment"
            )


register()
