# SPDX-License-Identifier: Apache-2.0
r"""Elimination with optimism on a public schedule of sweeps (docs/theory/elimination.md).

A sweep serves the most promising model that no release contradicts to n₀, 2n₀, 4n₀, … users. After each round the
released mean return is compared with what the model promised. If it is off by more than κ of its errors the model is
*caught*: the rest of the sweep is served the last model that passed a whole sweep, and the next sweep begins with a
new model. Every release also adds one linear constraint to what is left of the parameters.

Everything but the released sum is a function of earlier releases and of public numbers. Nothing here knows whether
the sum carries noise.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.elimination.constraint import Constraint
from reticent.agents.elimination.parameters import Parameters
from reticent.agents.elimination.search import Search
from reticent.agents.elimination.statistic import (
    Scales,
    certain_variance,
    expected_variance,
    feature_table,
    mean_of,
    scales_of,
    spans,
    user_vector,
)
from reticent.learning.aggregator import Noise
from reticent.learning.learner import AgentState, Learner
from reticent.learning.plan import Plan
from reticent.worlds import Episode

if TYPE_CHECKING:
    from reticent.agents.elimination.audit_hooks import EliminationHooks
    from reticent.agents.linear_mixture.bounds import Bound


class Evidence(NamedTuple):
    """Released vectors of one model added up ``(D + 1,)``, their users, and the variance of the noise on a coordinate."""

    summed: Array
    users: Array
    noise: Array


class Memory(NamedTuple):
    """What the learner knows between rounds: a function of releases.

    Attributes:
      search: the oracle's state. candidate, fallback: η of the model that is tested, and of the last one that passed
        a sweep.
      caught: whether this sweep has caught its model. catches: how many were caught in all.
      evidence: about the candidate.
    """

    search: Any
    candidate: Array
    fallback: Array
    caught: Array
    catches: Array
    evidence: Evidence


class EliminationPlan(NamedTuple):
    """What a round's plan says beyond its policy; all of it is published.

    Attributes:
      eta: η of the served model. testing: whether it is the candidate and not the fallback.
      scales: of users' vectors. table: features of all pairs ``(H, k + r, S, A)``.
      variance: s² of one user. bias: β.
    """

    eta: Array
    testing: Array
    scales: Scales
    table: Array
    variance: Array
    bias: Array


@dataclasses.dataclass(frozen=True)
class Theory:
    """What the theorem needs to bound the regret of a run; see :mod:`reticent.agents.elimination.theory`."""

    constants: Any
    noise: Any
    first: int
    failure: float
    bias: float


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class EliminationLearner(Learner[Array, Array, Array, EliminationPlan]):
    """See the module docstring.

    Attributes:
      parameters: coordinates of what is unknown. search: the planning oracle.
      noise_scale: σ of one coordinate, of a round's sum or, where reports are noised, of a report.
      rounding: variance that one user's rounding adds to a coordinate; 0 where users do not round.
      sweep_ends: after which rounds a sweep ends, ``(rounds,)``.
      level: ℓ. threshold: κ. reach: distance from the served parameter at which the test's width is taken (W or 0).
      certain: whether s² is the bound of Lemma 1 or the served model's own variance.
      pool: whether rounds of the same model are added up before they are tested.
      theory: the theorem's inputs; None where settings are not the theorem's.
    """

    parameters: Parameters
    search: Search
    noise_scale: Array
    rounding: Array
    sweep_ends: Array
    level: Array
    threshold: Array
    reach: Array
    certain: bool = dataclasses.field(metadata={"static": True})
    pool: bool = dataclasses.field(metadata={"static": True})
    noised_reports: bool = dataclasses.field(metadata={"static": True})
    theory: Theory | None = dataclasses.field(default=None, metadata={"static": True})
    seed: int = dataclasses.field(default=0, metadata={"static": True})

    @property
    def dimension(self) -> int:
        """The numbers of one vector: D features and the error."""
        return self.parameters.size + 1

    @property
    def starts(self) -> int:
        """The numbers of what is told about first states: none, the model declares their distribution."""
        return 0

    # -- the learner's interface --------------------------------------------------------------------------------------

    def init(self) -> AgentState:
        found = self.search.init()
        best = self.search.best(found)
        memory = Memory(
            found, best, best, jnp.zeros((), bool), jnp.zeros((), jnp.int32), self._no_evidence()
        )  # fmt: skip
        return AgentState(self.aggregator.init(), None, jnp.zeros((), jnp.int32), memory)

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan[EliminationPlan]:
        memory: Memory = state.past
        eta = jnp.where(memory.caught, memory.fallback, memory.candidate)
        solved = self.parameters.solve(self.model, eta)
        table = feature_table(self.model, self.parameters, solved.values)
        scales = scales_of(self.model, self.parameters, solved, table)
        if self.certain:
            variance = certain_variance(solved, scales)
        else:
            variance = expected_variance(self.model, self.parameters.estimate(self.model, eta), solved)
        moving, paying = self.search.biases
        bias = moving * spans(solved).sum() + paying * self.model.horizon
        extension = EliminationPlan(eta, ~memory.caught, scales, table, variance, bias)
        left = self.model.horizon - jnp.arange(self.model.horizon)
        hopes = jnp.clip(solved.action_values, 0, left[:, None, None]) if action_values else None
        return Plan(solved.choices, solved.values, extension, hopes)

    def statistic(self, plan: Plan[EliminationPlan], episode: Episode) -> Array:
        """The user's vector, not yet clipped."""
        extension = plan.extension
        return user_vector(self.parameters, extension.scales, extension.table, plan.values[0], episode)

    def close(
        self, state: AgentState, plan: Plan[EliminationPlan], users: Array | int, noise: Noise = None
    ) -> AgentState:
        """End the round: one constraint more, and the test of the candidate if it was served."""
        after = super().close(state, plan, users, noise)
        extension = plan.extension
        memory: Memory = state.past
        count = jnp.asarray(users, self.noise_scale.dtype)
        variance = self.noise_scale**2 * (count if self.noised_reports else 1.0) + self.rounding * count
        evidence = Evidence(self.aggregator.released(after.aggregate), count, variance)
        if self.pool:
            evidence = jax.tree.map(
                lambda own, earlier: own + jnp.where(extension.testing, earlier, 0.0), evidence, memory.evidence
            )
        constraint = self._constraint(extension, evidence)
        off = extension.testing & (jnp.abs(constraint.error) > self.threshold * constraint.width(self.reach))
        found = self.search.narrow(
            self.model, self.parameters, memory.search, constraint, off, self._public_key(state.rounds)
        )
        caught = memory.caught | off
        ends = self.sweep_ends[jnp.minimum(state.rounds, self.sweep_ends.shape[0] - 1)]
        kept: Evidence = jax.tree.map(lambda own: jnp.where(caught, 0.0, own), evidence)
        return after._replace(
            past=Memory(
                search=found,
                candidate=jnp.where(ends & caught, self.search.best(found), memory.candidate),
                fallback=jnp.where(ends & ~caught, memory.candidate, memory.fallback),
                caught=caught & ~ends,
                catches=memory.catches + off,
                evidence=kept,
            )
        )

    def regret_bound(self, points: np.ndarray) -> tuple[np.ndarray, Bound] | None:
        """The theorem at each of ``points`` and at the end; None where the settings are not the theorem's."""
        if self.theory is None:
            return None
        from reticent.agents.elimination.theory import regret_bound

        def at(users: int) -> Bound:
            own = self.theory
            assert own is not None
            return regret_bound(
                own.constants, own.noise, users, first=own.first, failure=own.failure, bias=own.bias,
                planned=self.schedule.episodes, exact=self.search.exact,
            )  # fmt: skip

        return np.array([at(int(users)).value for users in points]), at(self.schedule.episodes)

    def public_memory(self, state: AgentState) -> Memory:
        """All that is remembered is a function of releases."""
        memory: Memory = state.past
        return memory

    def audit_hooks(self) -> EliminationHooks:
        from reticent.agents.elimination.audit_hooks import EliminationHooks

        return EliminationHooks(self)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _public_key(self, rounds: Array) -> Array:
        return jax.random.fold_in(jax.random.key(self.seed), rounds)

    def _no_evidence(self) -> Evidence:
        dtype = self.noise_scale.dtype
        return Evidence(jnp.zeros(self.dimension, dtype), jnp.zeros((), dtype), jnp.zeros((), dtype))

    def _constraint(self, extension: EliminationPlan, evidence: Evidence) -> Constraint:
        """What the evidence about the served model says of all parameters."""
        scales, users = extension.scales, evidence.users
        features, error = mean_of(scales, evidence.summed, users)
        noise = evidence.noise / users**2
        return Constraint(
            features, error, extension.eta,
            extension.variance / users + noise * scales.error_factor**2,
            noise * scales.feature_factor**2,
            extension.bias, self.level,
        )  # fmt: skip
