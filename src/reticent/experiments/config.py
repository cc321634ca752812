# SPDX-License-Identifier: Apache-2.0
"""What a run is, with nothing left open: the world, every option of every agent, the episodes and the seeds.

A resolved configuration is written beside the results, and is enough to run them again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from reticent.agents import AGENTS, make_agent
from reticent.errors import InvalidInput, UnknownName
from reticent.learning.learner import AnyLearner
from reticent.naming import join, split
from reticent.privacy.trust import TRUSTS
from reticent.worlds import Model, World, default_episodes, make_world

DEFAULT_WORLD = "mobile-health"
DEFAULT_SEEDS = 16
FAIR = "centred=True,span=seen,pool=default,normalize=default,contrasts=default"
"""What the private linear learners use of a model's declarations; without it a comparison understates the price of
privacy."""

NOT_PRIVATE = {
    "private-score-vi": "score-vi",
    "private-linopt-vi": f"ucrl-vtr:{FAIR}",
    "private-linopt-po": f"oppo:{FAIR}",
    "private-linucb": "linucb",
    "ldp-ucrl-vtr": "ucrl-vtr",
    "private-lsvi-ucb": "lsvi-ucb",
    "private-ucb-vi": "ucbvi",
    "dp-ucbvi": "ucbvi",
    "pucb": "ucbvi",
    "ldp-obi": "ucbvi",
}
"""Each private agent's non-private learner, which is always run beside it: the price of privacy is the difference."""

NO_TRUST = "none"
"""As a run's trust model: the non-private learner is run in a private agent's place."""

PRECISIONS = ("float64", "float32")
"""Floating-point precisions of a simulation. Single precision is for accelerators; see docs/performance.md."""

PRIVACY_OPTIONS = ("trust", "epsilon", "delta", "counter", "calibration")
"""Options that a run may give once for all agents that have them."""


@dataclasses.dataclass(frozen=True)
class AgentConfig:
    """One agent of a run.

    Attributes:
      label: as the user wrote it; the agent's name in results and pictures.
      name: as registered.
      options: every option of the agent with the value in force.
    """

    label: str
    name: str
    options: Mapping[str, Any]

    @property
    def spec(self) -> str:
        """The name that says everything, ``name:key=value,...`` with every key."""
        return join(self.name, self.options)

    def make(self, model: Model, episodes: int) -> AnyLearner:
        """Build the agent; its ``name`` is the full spec."""
        return make_agent(self.spec, model, episodes)


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """A run with every choice made."""

    world: str
    agents: tuple[AgentConfig, ...]
    episodes: int
    seeds: tuple[int, ...]
    theory: bool = False
    precision: str = "float64"

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for YAML and JSON."""
        return {
            "world": self.world,
            "agents": [
                {"label": agent.label, "agent": agent.name, "options": dict(agent.options)} for agent in self.agents
            ],
            "episodes": self.episodes,
            "seeds": list(self.seeds),
            "theory": self.theory,
            "precision": self.precision,
        }


def default_agents() -> list[str]:
    """The agents of a run that names none; a private one brings its non-private companion."""
    return ["private-score-vi"]


def resolve_agent(spec: str, flags: Mapping[str, Any]) -> AgentConfig:
    """Fix every option of one agent: what its spec says, else the run's flags, else the agent's default.

    Flags that the agent has no option for are ignored; None means not given.

    Raises:
      UnknownName: no such agent, option or choice.
      InvalidInput: a value that cannot be read.
    """
    name, raw = split(spec)
    entry = AGENTS.find(name)
    options = {key: parameter.default for key, parameter in entry.options.items()}
    given = {key: str(value) for key, value in flags.items() if value is not None and key in options}
    return AgentConfig(spec, name, options | entry.read(given) | entry.read(raw))


def resolve(
    world: str | World = DEFAULT_WORLD,
    agents: Sequence[str] | None = None,
    episodes: int | None = None,
    seeds: int | Sequence[int] = DEFAULT_SEEDS,
    flags: Mapping[str, Any] | None = None,
    *,
    companions: bool = True,
) -> tuple[RunConfig, World]:
    """Make every choice of a run and check it, before anything is computed. ``seeds`` is a number or the seeds.

    With ``companions``, private agents bring their non-private learners (:data:`NOT_PRIVATE`) along.

    Raises:
      ReticentError: names the field, and what it may be.
    """
    flags = dict(flags or {})
    _check_flags(flags)
    built = make_world(world) if isinstance(world, str) else world
    if episodes is None:
        if not isinstance(world, str):
            raise InvalidInput("episodes", None, "given for a world without a name", "say how many users there are")
        episodes = default_episodes(world)
    if episodes < 1:
        raise InvalidInput("episodes", episodes, "at least 1", "give the number of users K")
    numbers = _seed_numbers(seeds)
    specs = list(agents if agents is not None else default_agents())
    if flags.get("trust") == NO_TRUST:
        specs = [_without_privacy(spec) for spec in specs]
        del flags["trust"]
    specs = list(dict.fromkeys(specs))
    if not specs:
        raise InvalidInput("agents", "empty", "at least one agent", "name one, such as 'ucrl-vtr'")
    chosen = [resolve_agent(spec, flags) for spec in specs]
    for agent in tuple(chosen):
        beside = NOT_PRIVATE.get(agent.name)
        if companions and beside is not None and split(beside)[0] not in {other.name for other in chosen}:
            chosen.append(resolve_agent(beside, flags))
    return RunConfig(built.name, tuple(chosen), int(episodes), numbers), built


def without_effect(config: RunConfig, flags: Mapping[str, Any]) -> list[str]:
    """The flags that no agent of the run has an option for; a user who gave one should hear of it."""
    had = {key for agent in config.agents for key in agent.options}
    return [key for key, value in flags.items() if value not in (None, NO_TRUST) and key not in had]


def _seed_numbers(seeds: int | Sequence[int]) -> tuple[int, ...]:
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(int(seed) for seed in seeds)
    if not numbers:
        given = seeds if isinstance(seeds, int) else "empty"
        raise InvalidInput("seeds", given, "at least 1", "give the number of independent repetitions")
    if min(numbers) < 0 or max(numbers) >= 2**32 or len(set(numbers)) < len(numbers):
        raise InvalidInput("seeds", f"from {min(numbers)} to {max(numbers)}", "different, from 0 to 2³²−1", "renumber")
    return numbers


def _without_privacy(spec: str) -> str:
    """The non-private learner of a private agent; an agent that states its own trust model stays as it is."""
    name, raw = split(spec)
    return spec if "trust" in raw else NOT_PRIVATE.get(name, spec)


def _check_flags(flags: Mapping[str, Any]) -> None:
    """Refuse what no agent can mean, even if the run has no private agent to refuse it."""
    for key in flags:
        if key not in PRIVACY_OPTIONS:
            raise UnknownName("option of a run", key, list(PRIVACY_OPTIONS))
    trust = flags.get("trust")
    if trust is not None and trust not in (NO_TRUST, *TRUSTS):
        raise UnknownName("trust model", trust, [NO_TRUST, *TRUSTS])
    epsilon, delta = flags.get("epsilon"), flags.get("delta")
    if epsilon is not None and not 0 < epsilon < float("inf"):
        raise InvalidInput(
            "epsilon", epsilon, "a finite number above 0", "1 is a common choice; smaller is more private"
        )
    if delta is not None and not 0 < delta < 1:
        raise InvalidInput("delta", delta, "above 0 and below 1", "take less than one over the number of users")
