# SPDX-License-Identifier: Apache-2.0
"""``reticent.run`` takes worlds, agents and options as objects; names are their short form, and results do not differ."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import reticent
from reticent.agents import AGENTS, AgentOptions, PrivateLinOptVI, PrivateScoreVI
from reticent.errors import InvalidInput
from reticent.learning.learner import AgentState, Learner
from reticent.learning.plan import Plan
from reticent.learning.schedule import Schedule
from reticent.worlds import Episode

WORLD = "random-blend:states=3,actions=2,horizon=2,d=2"
TYPED = [kind for kind in vars(reticent.agents).values() if isinstance(kind, type) and issubclass(kind, AgentOptions)]
TYPED.remove(AgentOptions)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class NothingKept:
    """An aggregator that throws everything away; it has no arrays."""

    def init(self) -> Array:
        return jnp.zeros(())

    def report(self, statistic: Array, noise: object = None) -> Array:
        return statistic

    def absorb(self, state: Array, report: Array) -> Array:
        return state + 0 * report

    def close(self, state: Array, noise: object = None) -> Array:
        return state

    def simulate_user_noise(self, key: Array) -> None:
        return None

    def simulate_round_noise(self, key: Array) -> None:
        return None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class AlwaysFirst(Learner[Array, Array, Array, None]):
    """Takes the first action everywhere, and learns nothing: a learner without a single array but its model's."""

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan:
        steps, states = self.model.horizon, self.model.states
        values = jnp.zeros((steps + 1, states))
        return Plan(jnp.zeros((steps, states), int), values, None)

    def statistic(self, plan: Plan, episode: Episode) -> Array:
        return episode.rewards.sum()


def always_first(model, episodes: int) -> AlwaysFirst:
    return AlwaysFirst(
        model=model, aggregator=NothingKept(), schedule=Schedule(episodes, None, True), method="value-iteration",
        name="always-first",
    )  # fmt: skip


def test_objects_and_names_give_the_same_numbers() -> None:
    world = reticent.make_world(WORLD)
    options = {"episodes": 60, "seeds": 2, "companions": False}
    named = reticent.run(WORLD, ["private-score-vi:trust=local,epsilon=3", "ucbvi"], **options)
    agent = reticent.make_agent("ucbvi", world.model, 60)
    given = reticent.run(world, [PrivateScoreVI(epsilon=3, trust="local"), agent], **options)
    assert list(given.curves) == list(named.curves)
    for label, curves in named.curves.items():
        np.testing.assert_array_equal(given.curves[label].regret, curves.regret)


def test_a_factory_or_a_learner_without_arrays_is_run_beside_named_ones(tmp_path) -> None:
    world = reticent.make_world(WORLD)
    result = reticent.run(
        world, [always_first, always_first(world.model, 40), "ucbvi"], episodes=40, seeds=3, out=tmp_path
    )  # fmt: skip
    assert list(result.curves) == ["always_first", "always-first", "ucbvi"]
    choices = np.zeros((world.model.horizon, world.model.states), int)
    expected = 40 * (world.optimal_value - float(world.policy_value(jnp.asarray(choices))))
    for label in ("always_first", "always-first"):
        np.testing.assert_allclose(result.curves[label].regret[:, -1], expected, rtol=1e-12)
    assert "always-first" in (tmp_path / "report.html").read_text()


def test_the_number_of_users_is_an_agents_own_unless_said() -> None:
    world = reticent.make_world(WORLD)
    agent = always_first(world.model, 25)
    assert reticent.run(world, [agent], seeds=1).config.episodes == 25
    with pytest.raises(InvalidInput, match="agent always-first: episodes is 25, but must be 30, as the run's"):
        reticent.run(world, [agent], episodes=30)
    with pytest.raises(InvalidInput, match="agent always-first: states is 3, but must be 6"):
        reticent.run("riverswim", [agent])
    with pytest.raises(InvalidInput, match="given for a world without a name"):
        reticent.run(dataclasses.replace(world, name="of my own"), ["ucbvi"])


def test_two_agents_of_one_name_are_told_apart() -> None:
    world = reticent.make_world(WORLD)
    agents = [reticent.make_agent("ucbvi", world.model, 20), reticent.make_agent("ucbvi", world.model, 20)]
    assert list(reticent.run(world, agents, seeds=1).curves) == ["ucbvi", "ucbvi (2)"]


@pytest.mark.parametrize("kind", TYPED, ids=lambda kind: kind.__name__)
def test_typed_options_have_the_agents_defaults(kind: type[AgentOptions]) -> None:
    default = kind()
    assert str(default) == kind.agent
    for name, option in AGENTS.find(kind.agent).options.items():
        assert getattr(default, name) == option.default, name


def test_typed_options_are_accepted_where_names_are() -> None:
    model = reticent.make_world(WORLD).model
    options = PrivateScoreVI(epsilon=2, trust="local")
    assert repr(options) == "PrivateScoreVI(trust='local', epsilon=2)"
    assert reticent.make_agent(options, model, 50).name == str(options) == "private-score-vi:trust=local,epsilon=2"
    assert reticent.DeployedAgent(options, model, 50).guarantee.epsilon == 2
    with pytest.raises(
        InvalidInput, match=r"learning_rate is 0\.5, but must be left out: private-linopt-vi has no such"
    ):
        PrivateLinOptVI(learning_rate=0.5)
