# SPDX-License-Identifier: Apache-2.0
"""The comparison: run the field, rank it within each trust model, and recommend.

Agents are ranked by regret, the return that all users together lost while it learned, at the first ε and at equal δ. A
private agent is *recommended* for its trust model if it has the least mean regret there; the runner-up is told with the
paired difference over seeds, so that a win by chance is not called one.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reticent.errors import InvalidInput
from reticent.experiments.compare.field import Absent, Contestant, gather, trusted_parties
from reticent.experiments.compare.pace import PARTS, Told, pace_of, who_fits
from reticent.experiments.reach import median_users_until
from reticent.experiments.result import AgentRun, RunResult
from reticent.experiments.run import run
from reticent.reports.progress import Progress
from reticent.worlds import default_episodes, make_world

CLEARLY = 2.0
"""Standard errors of a paired difference beyond which a lead is called clear."""


@dataclasses.dataclass(frozen=True)
class Standing:
    """How one contestant did: regret and final gap over the seeds at the first ε, and final gaps by ε."""

    contestant: Contestant
    regret: np.ndarray
    gap: np.ndarray
    gaps: dict[float, np.ndarray]
    run: AgentRun

    @property
    def mean_regret(self) -> float:
        return float(self.regret.mean())

    @property
    def regret_error(self) -> float | None:
        return float(self.regret.std(ddof=1) / math.sqrt(len(self.regret))) if len(self.regret) > 1 else None


@dataclasses.dataclass(frozen=True)
class Advice:
    """The contestant of least regret under a trust model; ``lead`` over ``second`` in regret, with its standard error."""

    trust: str
    best: Standing
    second: Standing | None
    lead: float
    lead_error: float | None

    @property
    def clear(self) -> bool:
        return self.second is not None and self.lead_error is not None and self.lead > CLEARLY * self.lead_error

    @property
    def words(self) -> str:
        """A sentence for people."""
        chosen = f"{self.best.contestant.label} (regret {self.best.mean_regret:,.0f})"
        if self.second is None:
            return f"{self.trust}: {chosen} is the only one."
        error = "" if self.lead_error is None else f" ± {self.lead_error:,.0f}"
        second = f"{self.second.contestant.label} by {self.lead:,.0f}{error}"
        return f"{self.trust}: {chosen} {'beats' if self.clear else 'leads, not clearly,'} {second}."


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found."""

    result: RunResult
    epsilons: tuple[float, ...]
    delta: float
    standings: tuple[Standing, ...]
    absent: tuple[Absent, ...]
    left_out: tuple[Absent, ...] = ()
    """Who applies but was too slow for the time that was given."""

    @property
    def by_trust(self) -> dict[str, list[Standing]]:
        """The standings under each trust model that has one, least regret first."""
        groups = {
            trust: [one for one in self.standings if one.contestant.trust == trust] for trust in trusted_parties()
        }
        return {trust: sorted(group, key=_by_regret) for trust, group in groups.items() if group}

    @property
    def advice(self) -> list[Advice]:
        """One per trust model that has a contestant, from the least to the most trusting."""
        found = []
        for trust, ranked in reversed(self.by_trust.items()):
            best, second = ranked[0], ranked[1] if len(ranked) > 1 else None
            lead, error = 0.0, None
            if second is not None:
                difference = second.regret - best.regret
                lead = float(difference.mean())
                if len(difference) > 1:
                    error = float(difference.std(ddof=1) / math.sqrt(len(difference)))
            found.append(Advice(trust, best, second, lead, error))
        return found

    def users_until(self, one: Standing) -> float | None:
        """The median number of users until a contestant's gap stays below 5 % of what acting at random loses."""
        curves = one.run.curves
        return median_users_until(curves.episodes, curves.value, self.result.optimal_value, self.result.scale)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        scale = self.result.scale
        return {
            "world": self.result.config.world,
            "episodes": self.result.config.episodes,
            "seeds": len(self.result.config.seeds),
            "epsilons": list(self.epsilons),
            "delta": self.delta,
            "interrupted": self.result.interrupted,
            "standings": [
                {
                    "agent": one.contestant.label,
                    "trust": one.contestant.trust,
                    "trusted": one.contestant.trusted,
                    "kind": one.contestant.kind,
                    **{
                        field: getattr(one.contestant.guarantee, field, None)
                        for field in ("epsilon", "delta", "adjacency")
                    },
                    "promise": one.contestant.promise.sentence(),
                    "regret_mean": one.mean_regret,
                    "regret_stderr": one.regret_error,
                    "final_gap_share": float(one.gap.mean()) / scale if scale > 0 else None,
                    "users_until_5_percent": self.users_until(one),
                    "final_gap_share_by_epsilon": {
                        f"{epsilon:g}": float(gap.mean()) / scale if scale > 0 else None
                        for epsilon, gap in one.gaps.items()
                    },
                }
                for one in self.standings
            ],
            "recommended": {one.trust: one.best.contestant.label for one in self.advice},
            "advice": [one.words for one in self.advice],
            "absent": [dataclasses.asdict(one) for one in self.absent],
            "left_out": [dataclasses.asdict(one) for one in self.left_out],
        }


def compare(
    world: str,
    epsilons: Sequence[float] = (1.0, 0.3, 3.0),
    *,
    delta: float = 1e-5,
    agents: Sequence[str] | None = None,
    trusts: Sequence[str] | None = None,
    episodes: int | None = None,
    seeds: int = 8,
    out: Path | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
    tell: Told | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Comparison:
    """Run every agent that applies to ``world`` under every trust model, at equal (ε, δ).

    Args:
      epsilons: the first is where regret is compared; the final gap is measured at all of them.
      agents, trusts: narrow the field; by default all there are.
      out: a directory for the runs; results that are there already are gone on with.
      seconds: about how long it may take. Every agent's speed is measured first (:mod:`.pace`), and slow ones are left out;
        None runs all to the end.
      tell: is told what each will take.

    Raises:
      ReticentError: a name or a number is wrong, or no agent is left to compare.
    """
    started = time.monotonic()
    built = make_world(world)
    users = default_episodes(world) if episodes is None else episodes
    contestants, absent = gather(built.model, users, epsilons, delta, agents=agents, trusts=trusts)
    if not contestants:
        reasons = "; ".join(f"{one.name}: {one.reason}" for one in absent)
        raise InvalidInput("agents", "none that applies", "at least one", f"choose others ({reasons})")
    left_out: list[Absent] = []
    if seconds is not None:
        contestants, left_out = who_fits(
            contestants,
            lambda one: pace_of(one, built, users, seeds),
            started + seconds - time.monotonic(),
            time.monotonic,
            tell or (lambda _: None),
        )
        if not contestants:
            raise InvalidInput("seconds", seconds, "enough for one agent", "allow more, or give fewer users or seeds")
    specs = list(dict.fromkeys(spec for one in contestants for spec in one.specs.values()))
    result = run(
        world,
        specs,
        users,
        seeds,
        out=None if out is None else out / "runs",
        companions=False,
        progress=progress,
        should_stop=should_stop,
        parts=PARTS,
    )
    done = {one.config.label: one for one in result.runs}
    standings = [
        _standing(one, done, epsilons)
        for one in contestants
        if all(spec in done and done[spec].curves.finished for spec in one.specs.values())
    ]
    standings.sort(key=_by_regret)
    return Comparison(result, tuple(epsilons), delta, tuple(standings), tuple(absent), tuple(left_out))


def _standing(one: Contestant, done: dict[str, AgentRun], epsilons: Sequence[float]) -> Standing:
    first = done[one.spec(epsilons[0])]
    gaps = {epsilon: done[one.spec(epsilon)].curves.tail_regret for epsilon in epsilons}
    return Standing(one, first.curves.regret[:, -1], first.curves.tail_regret, gaps, first)


def _by_regret(one: Standing) -> float:
    return one.mean_regret
