# SPDX-License-Identifier: Apache-2.0
"""Planted bugs behind options that are off by default, where the server is not trusted with raw data.

The audits of shuffled and local agents run with these options off, and see none of them. Importing this registers them.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import semantic_examinations as meaning
from option_replay import SEEN, SEVERAL

from mutants import Patch, mutant
from reticent.agents.elimination.clipped_sums import ClippedSums
from reticent.agents.elimination.learner import EliminationLearner
from reticent.agents.kinds.learner import KindsLearner
from reticent.agents.kinds.vectors import KindVectors
from reticent.agents.score.learner import ScoreLearner
from reticent.agents.score.unit_ball import UnitBall
from reticent.privacy.sums import PrivateSums


def _of(agent: Any, trust: str) -> bool:
    return isinstance(agent.aggregator, PrivateSums) and agent.aggregator.trust.name == trust


def _unnoised(patch: Patch, sums: type[PrivateSums], columns: Any) -> None:
    """In the local model, the numbers in ``columns(sums)`` leave the device without noise."""
    real = sums.report

    def report(self: Any, seen: Any, noise: Any) -> Any:
        bare = columns(self) if self.trust.name == "local" else None
        return real(self, seen, noise if bare is None else noise.at[:, bare].set(0.0))

    patch.setattr(sums, "report", report)


@mutant("flagship, shuffle, alarm on: the alarm looks at the sum before its coins",
        meaning.option_replayed(SEVERAL, "shuffle"), SEEN)  # fmt: skip
def shuffled_alarm_looks_before_the_coins(patch: Patch) -> None:
    real = ScoreLearner.close

    def close(self: ScoreLearner, state: Any, plan: Any, users: Any, drawn: Any = None) -> Any:
        after = real(self, state, plan, users, drawn)
        if not math.isfinite(self.alarm) or not _of(self, "shuffle"):
            return after
        quiet = jnp.abs(state.aggregate.open).sum() < 0.1
        return after._replace(past=jax.tree.map(lambda leaf: jnp.where(quiet, 0 * leaf, leaf), after.past))

    patch.setattr(ScoreLearner, "close", close)


@mutant("flagship, local, unknown start: the first state leaves the device without noise",
        meaning.option_replayed(SEVERAL, "local"), SEEN)  # fmt: skip
def first_state_leaves_unnoised(patch: Patch) -> None:
    _unnoised(patch, UnitBall, lambda sums: slice(-sums.starts, None) if sums.starts else None)


@mutant("kinds, shuffle, control group: its share is weighed by what the round's users sent",
        meaning.option_replayed("kinds, control group", "shuffle"), SEEN)  # fmt: skip
def shuffled_kinds_weighed_by_raw_data(patch: Patch) -> None:
    real = KindsLearner.close

    def close(self: KindsLearner, state: Any, plan: Any, users: Any, noise: Any = None) -> Any:
        if _of(self, "shuffle"):
            rule = plan.extension.rule
            seen = 1 + jnp.abs(state.aggregate.open).sum()
            plan = plan._replace(extension=plan.extension._replace(rule=rule._replace(responses=rule.responses * seen)))
        return real(self, state, plan, users, noise)

    patch.setattr(KindsLearner, "close", close)


@mutant("kinds, local, contributions on: one number leaves without noise, as another visit's noise would hide it",
        meaning.option_replayed("kinds, contributions, control group", "local"), SEEN)  # fmt: skip
def returning_kind_leaves_a_number_unnoised(patch: Patch) -> None:
    _unnoised(patch, KindVectors, lambda sums: slice(0, 1))


@mutant("elimination, shuffle, unpooled: the candidate is tested on the sum before its coins",
        meaning.option_replayed("elimination, unpooled", "shuffle"), SEEN)  # fmt: skip
def candidate_tested_before_the_coins(patch: Patch) -> None:
    real = EliminationLearner.close

    def close(self: EliminationLearner, state: Any, plan: Any, users: Any, noise: Any = None) -> Any:
        after = real(self, state, plan, users, noise)
        if self.pool or not _of(self, "shuffle"):
            return after
        return after._replace(past=after.past._replace(catches=after.past.catches + (state.aggregate.open[0, -1] > 0)))

    patch.setattr(EliminationLearner, "close", close)


@mutant("elimination, local, lattice: the error of the served model leaves the device without noise",
        meaning.option_replayed("elimination, lattice", "local"), SEEN)  # fmt: skip
def error_leaves_unnoised(patch: Patch) -> None:
    _unnoised(patch, ClippedSums, lambda sums: slice(-1, None))
