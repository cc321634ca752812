# SPDX-License-Identifier: Apache-2.0
r"""Rehearse a deployment: the agents that apply, over hundreds of truths drawn from a public prior.

**Privacy.** Candidates are public before the first user, and so is the prior over their weights
(:mod:`reticent.worlds.models.prior`); every number here is a function of these and of random numbers. No user's data enter,
so nothing is spent, however often and with whatever settings a rehearsal is repeated, and what is chosen by it (agent,
trust, K) is public.

**What a band says.** Each truth is simulated with noise and users of its own. The band of a number is its 5 % and 95 %
quantile over truths: if the deployed population is a draw from the prior, what will be measured lies in the band with
probability 0.9, up to the error of n quantiles (by exchangeability, :math:`0.9\pm O(1/n)`). A population that no blend
meets lies outside that promise: ``reticent fit`` measures how far recorded people are from their blend.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from reticent.agents.registry import AGENTS, make_agent
from reticent.errors import InvalidInput, ReticentError
from reticent.experiments.rehearsal.belief import PRIVATE, TRUTHS, WorthOfBelief, worth_of_belief
from reticent.experiments.rehearsal.outcome import Outcome, Spread
from reticent.learning.learner import AnyLearner
from reticent.naming import join, split
from reticent.privacy.guarantee import guarantee_of
from reticent.privacy.trust import TRUSTS, trust_named
from reticent.reports.progress import Progress, Silence
from reticent.runtime import double_precision
from reticent.simulation.simulate import Curves, simulate
from reticent.simulation.world_batch import stack_worlds
from reticent.worlds import Model, World
from reticent.worlds.models.prior import RewardWeights, draw_truths
from reticent.worlds.transforms.misspecified import misspecified

AGENT = "private-score-vi"
FLOOR = "score-vi"
MOST_BYTES = 2**30
"""Memory that the truths of one call of the program may take; more of them are more calls of the same program."""


class Absent(NamedTuple):
    """An agent that does not apply, and why."""

    agent: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """What a rehearsal found.

    Attributes:
      name: of the model. model: itself. users: K. truths: how many were drawn. delta: of all promises.
      target: the gap to reach, as a share of what acting at random loses.
      outcomes: one per agent, trust and ε, in the order asked for; the last one promises nothing and is the floor.
      absent: what does not apply.
      optimal, scale: best value, and what acting at random loses, of every truth.
      unlearned: what one plan for all truths (the best of their mean) loses per user in every truth: no learning at all.
      interrupted: whether it was stopped before all outcomes were there.
      belief: what a belief about the own user earns where users are of kinds, if ``private-kinds`` was asked for.
    """

    name: str
    model: Model
    users: int
    truths: int
    delta: float
    target: float
    outcomes: tuple[Outcome, ...]
    absent: tuple[Absent, ...]
    optimal: np.ndarray
    scale: np.ndarray
    unlearned: np.ndarray
    interrupted: bool = False
    belief: WorthOfBelief | None = None

    @property
    def private(self) -> tuple[Outcome, ...]:
        """The outcomes of agents that promise something."""
        return tuple(outcome for outcome in self.outcomes if outcome.epsilon is not None)

    @property
    def unlearned_regret(self) -> Spread:
        """Regret of all users together without learning."""
        return Spread.of(self.users * self.unlearned)

    @property
    def unlearned_gap(self) -> Spread:
        """The gap without learning, as a share of what acting at random loses; 0 where that is nothing."""
        return Spread.of(np.where(self.scale > 1e-9, self.unlearned / np.maximum(self.scale, 1e-9), 0.0))

    @property
    def chosen(self) -> Outcome | None:
        """What to deploy: at the first ε that was asked for, the trust that asks least of users among those that reach the
        target in nine of ten truths, and else the least regret in the 90 % quantile; None if nothing private was run.

        A trust model that needs a shuffler is chosen only if no other was asked for: a service alone cannot serve it."""
        asked = self._at_first_epsilon
        return _best([outcome for outcome in asked if not outcome.needs_shuffler] or asked, self.target)

    @property
    def with_shuffler(self) -> Outcome | None:
        """What asks less of users than :attr:`chosen` and reaches the target too, but needs a shuffler; None if nothing."""
        best, chosen = _best(self._at_first_epsilon, self.target), self.chosen
        return best if best is not chosen and best is not None and best.needs_shuffler else None

    @property
    def _at_first_epsilon(self) -> list[Outcome]:
        return [outcome for outcome in self.private if outcome.epsilon == self.private[0].epsilon]

    def to_dict(self) -> dict[str, Any]:
        """For a JSON document."""
        chosen = self.chosen
        return {
            "model": self.name,
            "users": self.users,
            "truths": self.truths,
            "delta": self.delta,
            "target": self.target,
            "random_loses": float(self.scale.mean()),
            "without_learning": {
                "regret": self.unlearned_regret.to_dict(),
                "gap": self.unlearned_gap.to_dict(),
            },
            "outcomes": [outcome.row(self.target) for outcome in self.outcomes],
            "does_not_apply": [absent._asdict() for absent in self.absent],
            "chosen": None if chosen is None else chosen.agent,
            "interrupted": self.interrupted,
            "belief": None if self.belief is None else self.belief.to_dict(),
        }


def _best(outcomes: Sequence[Outcome], target: float) -> Outcome | None:
    """The trust that asks least among those that reach the target in nine of ten truths, else the least regret."""
    good = [outcome for outcome in outcomes if outcome.end.high <= target]
    if good:
        return min(good, key=lambda outcome: (-list(TRUSTS).index(outcome.trust), outcome.total_regret.high))
    return min(outcomes, key=lambda outcome: outcome.total_regret.high, default=None)


@double_precision
def rehearse(
    model: Model,
    *,
    users: int,
    epsilons: Sequence[float] = (1.0, 0.3, 3.0),
    trusts: Sequence[str] = tuple(TRUSTS),
    agents: Sequence[str] = (AGENT,),
    truths: int | Sequence[World] = 200,
    delta: float = 1e-5,
    target: float = 0.05,
    concentration: float = 1.0,
    rewards: RewardWeights = "own",
    off: float = 0.0,
    floor: bool = True,
    seed: int = 0,
    name: str = "model",
    progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Rehearsal:
    """Simulate what a deployment of ``model`` would be like; see the module.

    Args:
      model: what the deployment will know before the first user.
      users: K. epsilons, trusts, delta: the promises to compare; the first ε is the one to deploy.
      agents: private agents with options, without ε, δ and trust.
      truths: how many to draw, or worlds of the model to take instead.
      target: the gap to reach, as a share of what acting at random loses.
      concentration, rewards: of the prior, as in :func:`reticent.worlds.models.prior.draw_truths`.
      off: ζ, how far a truth is off every blend: rows of every pair are moved by so much, up or down by a coin
        (:func:`~reticent.worlds.transforms.misspecified.misspecified`); candidates are never quite right.
      floor: also run the same learner without privacy.
      seed: of truths, users and noise.
      name: what the model is called.

    Raises:
      InvalidInput: a number is out of range, an agent promises nothing, or the model has no public prior.
    """
    _check(users, epsilons, trusts, target)
    asked = [_spec(agent, trust, epsilon, delta) for epsilon in epsilons for trust in trusts for agent in agents]
    drawn = (
        draw_truths(model, truths, seed=seed, concentration=concentration, rewards=rewards)
        if isinstance(truths, int)
        else list(truths)
    )
    if off:
        drawn = [misspecified(truth, off, seed + number, kind="random") for number, truth in enumerate(drawn)]
    place = stack_worlds(drawn)
    optimal = np.asarray(place.optimal_policy_value())
    scale = optimal - np.asarray(place.uniform_value())
    unlearned = optimal - np.asarray(place.policy_value(place.one_plan()))
    progress = progress or Silence()
    outcomes: list[Outcome] = []
    absent: list[Absent] = []
    stopped = False

    def stop() -> bool:
        nonlocal stopped
        stopped = stopped or (should_stop is not None and should_stop())
        return stopped

    try:
        for spec in [*asked, *([FLOOR] if floor else [])]:
            if stop():
                break
            try:
                agent = make_agent(spec, model, users)
            except ReticentError as problem:
                absent.append(Absent(spec, str(problem)))
                continue
            progress.start(spec, users, len(drawn))
            curves = _simulated(agent, drawn, seed, progress, stop)
            progress.finish()
            if curves is None:
                break
            guarantee = guarantee_of(agent)
            if guarantee is None:
                trust, epsilon, sentence = "none", None, None
            else:
                trust, epsilon, sentence = guarantee.trust.name, guarantee.epsilon, guarantee.sentence()
            outcomes.append(Outcome.measured(spec, trust, epsilon, sentence, curves, optimal, scale))
        acting = next((one.agent for one in outcomes if split(one.agent)[0] == PRIVATE), None)
        belief = None
        if acting is not None and not stop():
            belief = worth_of_belief(
                model, acting, users, truths=min(TRUTHS, len(drawn)), seed=seed, concentration=concentration
            )
    finally:
        progress.close()
    return Rehearsal(
        name,
        model,
        users,
        len(drawn),
        delta,
        target,
        tuple(outcomes),
        tuple(absent),
        optimal,
        scale,
        unlearned,
        stopped,
        belief,
    )


def _simulated(
    agent: AnyLearner, drawn: Sequence[World], seed: int, progress: Progress, stop: Callable[[], bool]
) -> Curves | None:
    """All truths, one seed each, in as few calls of one program as fit into memory; None if stopped."""
    room = max(1, MOST_BYTES // max(1, 2 * drawn[0].rows.nbytes))
    calls = -(-len(drawn) // room)
    size = -(-len(drawn) // calls)
    parts: list[Curves] = []
    for start in range(0, len(drawn), size):
        # The last call is filled up, so that all are one program; what fills it is not read.
        numbers = np.minimum(np.arange(start, start + size), len(drawn) - 1)
        part = simulate(
            agent,
            stack_worlds([drawn[number] for number in numbers]),
            (seed * 1_000_003 + numbers).tolist(),
            progress=progress.advance,
            should_stop=stop,
        )
        if not part.finished:
            return None
        parts.append(part)
    kept = len(drawn)
    return dataclasses.replace(
        parts[-1],
        seeds=np.concatenate([part.seeds for part in parts])[:kept],
        regret=np.concatenate([part.regret for part in parts])[:kept],
        value=np.concatenate([part.value for part in parts])[:kept],
        tail_regret=np.concatenate([part.tail_regret for part in parts])[:kept],
        seconds=sum(part.seconds for part in parts),
        compile_seconds=sum(part.compile_seconds for part in parts),
    )


def _spec(agent: str, trust: str, epsilon: float, delta: float) -> str:
    """The agent's name with this promise, where it does not name one itself."""
    import reticent.agents  # noqa: F401  (registers every agent)

    name, given = split(agent)
    options = AGENTS.find(name).options
    if "epsilon" not in options:
        raise InvalidInput(
            "agent", name, "one with a promise to rehearse",
            f"name a private one, such as {AGENT}; a learner without privacy runs beside it anyway",
        )  # fmt: skip
    promise = {"trust": trust, "epsilon": f"{epsilon:g}", "delta": f"{delta:g}"}
    return join(name, {**{key: value for key, value in promise.items() if key in options}, **given})


def _check(users: int, epsilons: Sequence[float], trusts: Sequence[str], target: float) -> None:
    if users < 2:
        raise InvalidInput("users", users, "at least 2", "give the number of users of the deployment")
    if not epsilons or any(not epsilon > 0 for epsilon in epsilons):
        raise InvalidInput("epsilon", list(epsilons), "positive numbers", "1 is a common promise")
    if not trusts:
        raise InvalidInput("trust", "none", f"some of {', '.join(TRUSTS)}", "name at least one")
    for trust in trusts:
        trust_named(trust)
    if not 0 < target < 1:
        raise InvalidInput("target", target, "between 0 and 1", "0.05 is a gap of 5 %")
