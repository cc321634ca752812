# SPDX-License-Identifier: Apache-2.0
"""What a run is, with nothing left open: the world, every option of every agent, the episodes and the seeds.

A resolved configuration is written beside the results, and is enough to run them again.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from reticent.agents import AGENTS, AgentOptions, make_agent
from reticent.errors import InvalidInput, UnknownName
from reticent.learning.learner import AnyLearner, Learner
from reticent.naming import join, split
from reticent.privacy.trust import TRUSTS
from reticent.worlds import WORLDS, Model, World, default_episodes, make_world

AgentFactory: TypeAlias = Callable[[Model, int], AnyLearner]
"""Makes an agent for so many users of a model."""

Agent: TypeAlias = str | AgentOptions | AnyLearner | AgentFactory
"""What a run takes as an agent: a name, typed options, the agent itself, or a function that makes it."""

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

FAIR_LABEL = "(fair)"
"""What the label of a non-private learner has in the place of :data:`FAIR`'s options."""

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
      label: as the user wrote it, and short for a comparator; the agent's name in results and pictures.
      name: as registered.
      options: every option of the agent with the value in force.
      given: the agent itself, or what makes it, where it was not named; it has no options here then.
    """

    label: str
    name: str
    options: Mapping[str, Any]
    given: AnyLearner | AgentFactory | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def comparator(self) -> bool:
        """Whether this is the non-private learner that a private one is compared with, options and all."""
        return self.label in {comparator_label(spec) for spec in NOT_PRIVATE.values()}

    @property
    def spec(self) -> str:
        """The name that says everything, ``name:key=value,...`` with every key."""
        return join(self.name, self.options)

    def make(self, model: Model, episodes: int) -> AnyLearner:
        """Build the agent; its ``name`` is the full spec.

        Raises:
          InvalidInput: an agent that was given is not one for these users.
        """
        if self.given is None:
            return make_agent(self.spec, model, episodes)
        agent = self.given if isinstance(self.given, Learner) else self.given(model, episodes)
        if not isinstance(agent, Learner):
            raise InvalidInput(f"agent {self.label}", type(agent).__name__, "a Learner", "return one from the factory")
        for size in ("states", "actions", "horizon"):
            if getattr(agent.model, size) != getattr(model, size):
                raise InvalidInput(
                    f"agent {self.label}: {size}",
                    getattr(agent.model, size),
                    f"{getattr(model, size)}, as the world's",
                    "make it for world.model",
                )
        if agent.schedule.episodes != episodes:
            raise InvalidInput(
                f"agent {self.label}: episodes",
                agent.schedule.episodes,
                f"{episodes}, as the run's",
                "make it for as many users, or leave the run's episodes out",
            )
        return agent


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


def given_agent(agent: AnyLearner | AgentFactory, taken: Collection[str]) -> AgentConfig:
    """The configuration of an agent that was not named: its label is its own name, numbered if that is ``taken``."""
    name = agent.name if isinstance(agent, Learner) else getattr(agent, "__name__", type(agent).__name__)
    numbered = itertools.chain([name], (f"{name} ({number})" for number in itertools.count(2)))
    label = next(text for text in numbered if text not in taken)
    return AgentConfig(label, name.partition(":")[0], {}, agent)


def resolve_agent(spec: str | AgentOptions, flags: Mapping[str, Any]) -> AgentConfig:
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
    return AgentConfig(str(spec), name, options | entry.read(given) | entry.read(raw))


def resolve(
    world: str | World = DEFAULT_WORLD,
    agents: Sequence[Agent] | None = None,
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
    given = list(agents if agents is not None else default_agents())
    if episodes is None:
        episodes = _users(built.name if isinstance(world, World) else world, given)
    if episodes < 1:
        raise InvalidInput("episodes", episodes, "at least 1", "give the number of users K")
    numbers = _seed_numbers(seeds)
    if not given:
        raise InvalidInput("agents", "empty", "at least one agent", "name one, such as 'ucrl-vtr'")
    unprivate = flags.get("trust") == NO_TRUST
    if unprivate:
        del flags["trust"]
    chosen: list[AgentConfig] = []
    for agent in given:
        taken = {other.label for other in chosen}
        if not isinstance(agent, str | AgentOptions):
            chosen.append(given_agent(agent, taken))
            continue
        spec = _without_privacy(str(agent)) if unprivate else str(agent)
        found = _comparator(spec, flags) if spec != str(agent) else resolve_agent(spec, flags)
        if found.label not in taken:
            chosen.append(found)
    for named in tuple(chosen):
        beside = NOT_PRIVATE.get(named.name)
        if companions and beside is not None and split(beside)[0] not in {other.name for other in chosen}:
            chosen.append(_comparator(beside, flags))
    return RunConfig(built.name, tuple(chosen), int(episodes), numbers), built


def _users(world: str, agents: Sequence[Agent]) -> int:
    """How many users a run has that does not say so: as many as an agent was made for, else the world's default."""
    made_for = [agent.schedule.episodes for agent in agents if isinstance(agent, Learner)]
    if made_for:
        return made_for[0]
    if split(world)[0] not in WORLDS:
        raise InvalidInput("episodes", None, "given for a world without a name", "say how many users there are")
    return default_episodes(world)


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


def comparator_label(spec: str) -> str:
    """A short name for a non-private learner.

    >>> comparator_label(NOT_PRIVATE["private-linopt-vi"])
    'ucrl-vtr (fair)'
    """
    name, options = split(spec)
    return f"{name} {FAIR_LABEL}" if options else name


def _comparator(spec: str, flags: Mapping[str, Any]) -> AgentConfig:
    return dataclasses.replace(resolve_agent(spec, flags), label=comparator_label(spec))


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
