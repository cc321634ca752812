# SPDX-License-Identifier: Apache-2.0
"""Who takes part in a comparison: every agent under every trust model it has, if it applies to the world."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from reticent.agents import AGENTS
from reticent.errors import ReticentError, UnknownName
from reticent.experiments.config import NO_TRUST, resolve_agent
from reticent.learning.promise import Promise
from reticent.naming import choices_of, join, split
from reticent.privacy.guarantee import Guarantee, check_promise
from reticent.privacy.trust import TRUSTS
from reticent.worlds import Model


def trusted_parties() -> dict[str, str]:
    """By trust model, who must be trusted; from the most to the least. Agents that promise nothing are under ``none``."""
    named = {name: trust.trusted for name, trust in TRUSTS.items()}
    return {NO_TRUST: "everyone who sees the policies or the data", **named}


@dataclasses.dataclass(frozen=True)
class Contestant:
    """An agent under one trust model.

    Attributes:
      name: as registered.
      given: the options that the user named it with.
      promise: at the comparison's first ε.
      specs: how it is run, by ε; one entry under None if it has no ε.
    """

    name: str
    given: dict[str, str]
    promise: Promise
    specs: dict[float | None, str]

    @property
    def guarantee(self) -> Guarantee | None:
        """What is promised to each user; None if nothing."""
        return self.promise if isinstance(self.promise, Guarantee) else None

    @property
    def trust(self) -> str:
        return NO_TRUST if self.guarantee is None else self.guarantee.trust.name

    @property
    def trusted(self) -> str:
        """Who must be trusted."""
        return trusted_parties()[self.trust]

    @property
    def kind(self) -> str:
        """``pure``, ``approximate`` or ``none``."""
        if self.guarantee is None:
            return "none"
        return "approximate" if self.guarantee.delta else "pure"

    @property
    def label(self) -> str:
        return join(self.name, self.given)

    def spec(self, epsilon: float) -> str:
        """How it is run where the comparison is at ``epsilon``."""
        return self.specs[epsilon if None not in self.specs else None]


@dataclasses.dataclass(frozen=True)
class Absent:
    """An agent that cannot be run here, and why."""

    name: str
    reason: str


def gather(
    model: Model,
    episodes: int,
    epsilons: Sequence[float],
    delta: float,
    *,
    agents: Sequence[str] | None = None,
    trusts: Sequence[str] | None = None,
) -> tuple[list[Contestant], list[Absent]]:
    """All contestants of a comparison, and who is absent. ``agents`` and ``trusts`` narrow the field.

    Raises:
      UnknownName: an agent or a trust model that there is not.
      InvalidInput: a promise that is none; agents must not be called absent for it.
    """
    for epsilon in epsilons:
        check_promise(epsilon, delta)
    for wanted in trusts or ():
        if wanted not in trusted_parties():
            raise UnknownName("trust model", wanted, list(trusted_parties()))
    found: list[Contestant] = []
    absent: list[Absent] = []
    for spec in agents if agents is not None else [entry.name for entry in AGENTS.entries()]:
        name, given = split(spec)
        for trust in _trust_models(name, given):
            if trusts is not None and trust is not None and trust not in trusts:
                continue
            try:
                one = _contestant(name, given, trust, model, episodes, epsilons, delta)
            except UnknownName:
                raise
            except ReticentError as problem:
                reason = str(problem).removeprefix(f"{name}: ")  # it is named already
                absent.append(Absent(join(name, given if trust is None else {**given, "trust": trust}), reason))
                continue
            if trusts is None or one.trust in trusts:
                found.append(one)
    return found, absent


def _trust_models(name: str, given: dict[str, str]) -> list[str | None]:
    """The trust models that an agent offers and its spec leaves open; [None] if it has no choice."""
    option = AGENTS.find(name).options.get("trust")
    if option is None or "trust" in given:
        return [None]
    return list(choices_of(option.annotation) or [])


def _contestant(
    name: str,
    given: dict[str, str],
    trust: str | None,
    model: Model,
    episodes: int,
    epsilons: Sequence[float],
    delta: float,
) -> Contestant:
    options = AGENTS.find(name).options
    fixed = {**given, **({} if trust is None else {"trust": trust})}
    if "delta" in options and "delta" not in given:
        fixed["delta"] = f"{delta:g}"
    has_epsilon = "epsilon" in options and "epsilon" not in given
    specs: dict[float | None, str] = {None: join(name, fixed)}
    if has_epsilon:
        specs = {epsilon: join(name, {**fixed, "epsilon": f"{epsilon:g}"}) for epsilon in epsilons}
    # Made once for every ε, so that what cannot be run is known before anything is.
    configs = [resolve_agent(spec, {}) for spec in specs.values()]
    made = [config.make(model, episodes) for config in configs]
    return Contestant(name, given, made[0].promise, specs)
