# SPDX-License-Identifier: Apache-2.0
"""Worlds as Gymnasium environments."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from reticent.errors import InvalidInput, UnknownName
from reticent.gymnasium_ids import ENVIRONMENTS
from reticent.worlds import Names, make_world, tabular
from reticent.worlds.gymnasium_env import WorldEnv, check_matches
from reticent.worlds.models.model import About


@pytest.mark.verify
@pytest.mark.parametrize("identifier", ENVIRONMENTS)
def test_registered_environments_pass_gymnasiums_checker(identifier):
    """Warnings are errors here (pyproject), so the checker must also have nothing to remark."""
    env = gymnasium.make(identifier)
    check_env(env.unwrapped)
    check_matches(env, make_world(ENVIRONMENTS[identifier]).model)


def test_any_world_is_an_environment():
    check_env(WorldEnv(tabular(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), 3)), skip_render_check=True)


def test_gymnasium_can_import_the_module_and_pass_options():
    env = gymnasium.make("reticent.worlds.gymnasium_env:reticent/RiverSwim-v0", states=4)
    assert env.observation_space == gymnasium.spaces.Discrete(4)
    with pytest.raises(UnknownName, match="'state'"):
        gymnasium.make("reticent/RiverSwim-v0", state=4)


def test_an_episode_terminates_at_the_horizon_and_counts_its_steps():
    env = gymnasium.make("reticent/RiverSwim-v0", states=3)
    state, info = env.reset(seed=1)
    assert (state, info) == (0, {"step": 0, "state": "place 1"})
    for step in range(1, 13):
        state, reward, terminated, truncated, info = env.step(1)
        assert info == {"step": step, "state": f"place {state + 1}"}
        assert (terminated, truncated) == (step == 12, False)
        assert reward in (0.0, 1.0)
    with pytest.raises(InvalidInput, match="step is 12, but must be below the horizon 12"):
        env.unwrapped.step(1)
    env.reset()
    env.step(0)


def test_seeds_fix_the_episode():
    env = WorldEnv("mobile-health")

    def play(seed):
        env.reset(seed=seed)
        return [env.step(action)[:2] for action in (2, 1, 0, 1, 2, 0)]

    assert play(3) == play(3)
    assert any(play(3) != play(seed) for seed in range(4, 8))


def test_misuse_is_answered_clearly():
    env = WorldEnv("riverswim")
    with pytest.raises(InvalidInput, match=r"call reset\(\)"):
        env.step(0)
    with pytest.raises(InvalidInput, match="reset options"):
        env.reset(options={"state": 3})
    env.reset(seed=0)
    with pytest.raises(InvalidInput, match="action is 2, but must be an integer from 0 to 1"):
        env.step(2)
    with pytest.raises(InvalidInput, match="render_mode"):
        WorldEnv("riverswim", render_mode="human")
    with pytest.raises(InvalidInput, match="empty when a World is given"):
        WorldEnv(make_world("riverswim"), states=4)


def test_environments_that_do_not_match_a_model_are_refused():
    model = make_world("riverswim").model
    with pytest.raises(InvalidInput, match=r"observation_space is Discrete\(16\), but must be Discrete\(6\)"):
        check_matches(WorldEnv("mobile-health"), model)
    env = WorldEnv("riverswim")
    env.action_space = gymnasium.spaces.Discrete(2, start=1)
    with pytest.raises(InvalidInput, match=r"action_space is Discrete\(2, start=1\), but must be Discrete\(2\)"):
        check_matches(env, model)
    env.action_space = gymnasium.spaces.Box(0, 1)
    with pytest.raises(InvalidInput, match="action_space is Box"):
        check_matches(env, model)


@pytest.mark.parametrize(
    "program",
    [
        "import gymnasium, reticent; gymnasium.make('reticent/RiverSwim-v0')",
        "import reticent.worlds, gymnasium; gymnasium.make('reticent/RiverSwim-v0')",
        "import gymnasium; gymnasium.make('reticent:reticent/RiverSwim-v0')",
    ],
)
def test_the_ids_are_known_as_soon_as_the_library_is(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_states_are_called_by_their_names() -> None:
    world = make_world("random-blend:states=3,actions=2,horizon=2,d=2")
    named = dataclasses.replace(world.model, about=About(Names(("low", "fair", "high"), ("rest", "walk"))))
    env = WorldEnv(dataclasses.replace(world, model=named))
    assert env.metadata["action_names"] == ("rest", "walk")
    assert env.metadata["state_names"] == ("low", "fair", "high")
    assert WorldEnv(world).metadata == WorldEnv.metadata == {"render_modes": []}
    state, info = env.reset(seed=1)
    assert info == {"step": 0, "state": named.names.states[state]}
    following, *_, info = env.step(1)
    assert info == {"step": 1, "state": named.names.states[following]}
