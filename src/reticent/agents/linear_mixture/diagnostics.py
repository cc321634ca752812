# SPDX-License-Identifier: Apache-2.0
r"""What released sums say about themselves: how far they rise above their noise, and what the policy seems to be worth.

Formal guarantee. Everything here is a function of one release :math:`\hat s` (the noisy sums, ``(H, D)``), of the published
policy, which is a function of releases, and of numbers fixed before the first user: post-processing, which spends nothing.
No function takes an agent's state, in which exact sums may lie.

**Signal to noise.** The released Gram of a step is :math:`\hat G=G+N`. Packing is an isometry, so
:math:`\mathbb E\|N\|_F^2` is the sum of its packed coordinates' variances, and the figure is
:math:`\|\hat G\|_F/\sqrt{\mathbb E\|N\|_F^2}`: about 1 if there is nothing but noise, large if users are heard.

**Value.** The agent's own planner evaluates the published policy for a user who starts now, with the bonus as it is
(optimistic), none (the estimate) and subtracted (cautious). The agent's bonus is usually smaller than the theory's, so
these are its working doubts and no confidence interval. The *proven* interval has the theory's shift and radii: where the
model holds it contains the policy's true value with probability 1−3α, for all releases at once (Lemma 3.1), since
:math:`|\langle\phi_V,\hat\theta-\theta\rangle|\le\beta\|\phi_V\|_{\Lambda^{-1}}` holds for every V.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.agents.linear_mixture.certificate import regularize
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.privacy_plan import PrivacyPlan
from reticent.agents.linear_mixture.privatizer import Privatizer
from reticent.learning.diagnostics import Diagnostics, Signal, StartValue
from reticent.learning.learner import AgentState
from reticent.privacy.counters.running_sum import RunningSum, RunningSumState
from reticent.privacy.packing import packed_size
from reticent.privacy.sums import SumState

FAILURES = 3
"""Times α that the proven interval may fail: noise outside its bounds, transitions or rewards outside their ellipsoids."""


def diagnostics_of(agent: LinOptLearner, released: np.ndarray, version: int, policy: np.ndarray) -> Diagnostics | None:
    """What the sums ``(H, D)`` released as ``version`` say, and what its policy is worth by them; None without privacy."""
    if agent.theory is None or agent.theory.privacy is None:
        return None
    plan, signal = agent.theory.privacy, None
    if version:
        noise = noise_in_release(plan, np.asarray(_privatizer(agent).noise_scale), version)
        signal = signal_to_noise(released, noise, plan.d1, plan.d2)
    value = start_value(agent, plan, released, version, policy)
    confidence = max(0.0, 1 - FAILURES * plan.options.alpha)
    return Diagnostics(signal, value, agent.pooled, plan.options.bonus_scale, confidence)


def _privatizer(agent: LinOptLearner) -> Privatizer:
    assert isinstance(agent.aggregator, Privatizer)
    return agent.aggregator


def noise_in_release(plan: PrivacyPlan, noise_scale: np.ndarray, version: int) -> np.ndarray:
    """Standard deviation of the noise in the sums released as ``version``, ``(H, D)``; a public number.

    In the local model it is that of all admitted users' reports. Lost reports reduce it; that is not disclosed, since
    it depends on data.
    """
    ends = plan.schedule.ends[: plan.schedule.releases]
    std = plan.calibration.trust.release_std(plan.calibration.counter, ends)
    return np.asarray(noise_scale * std[version - 1])


def signal_to_noise(released: np.ndarray, noise: np.ndarray, d1: int, d2: int) -> Signal:
    """How far the released Grams rise above their noise, whose standard deviations are ``noise``, both ``(H, D)``."""
    transition = slice(packed_size(d1))
    reward = slice(packed_size(d1) + d1, packed_size(d1) + d1 + packed_size(d2))

    def figures(part: slice) -> tuple[np.ndarray, float]:
        sums, deviations = released[:, part], noise[:, part]
        each = _ratio(np.linalg.norm(sums, axis=1), np.linalg.norm(deviations, axis=1))
        together = _ratio(np.linalg.norm(sums.sum(axis=0)), np.linalg.norm(deviations))
        return each, float(together)

    (each_p, together_p), (each_r, together_r) = figures(transition), figures(reward)
    return Signal(each_p, each_r, together_p, together_r)


def _ratio(signal: Any, noise: Any) -> np.ndarray:
    """``signal / noise``, NaN where there is no noise: then nothing is released either."""
    signal, noise = np.asarray(signal), np.asarray(noise)
    return np.asarray(np.divide(signal, noise, out=np.full(noise.shape, math.nan), where=noise > 0))


def with_theory(agent: LinOptLearner, plan: PrivacyPlan) -> LinOptLearner:
    """The agent with the shift and the bonus that the theory asks for, whatever its options made of them."""
    options, ends = plan.options, plan.schedule.ends[: plan.schedule.releases]
    tables = regularize(
        plan.calibration, ends, d1=plan.d1, d2=plan.d2, alpha=options.alpha, shift_scale=1.0,
        pooled=bool(options.pool),
    )  # fmt: skip
    privatizer = dataclasses.replace(
        _privatizer(agent),
        transition_shift=jnp.asarray(tables.transition_shift),
        reward_shift=jnp.asarray(tables.reward_shift),
        transition_floor=jnp.asarray(tables.transition_floor),
        reward_floor=jnp.asarray(tables.reward_floor),
    )
    return dataclasses.replace(agent, aggregator=privatizer, bonus_scale=jnp.ones(()))


def start_value(
    agent: LinOptLearner, plan: PrivacyPlan, released: np.ndarray, version: int, policy: np.ndarray
) -> StartValue:
    """What the policy of ``version``, choices or probabilities, is worth by the sums released before it."""
    log_policy = _log_probabilities(policy, agent.model.actions)
    own, theory = (
        _values(_evaluator(chosen), jnp.asarray(released), jnp.int32(version), log_policy)
        for chosen in (agent, with_theory(agent, plan))
    )
    cautious, estimate, optimistic = own.tolist()
    return StartValue(cautious, estimate, optimistic, float(theory[0]), float(theory[2]))


def _log_probabilities(policy: np.ndarray, actions: int) -> jax.Array:
    choices = np.issubdtype(policy.dtype, np.integer)
    probabilities = np.eye(actions)[policy] if choices else np.asarray(policy)
    with np.errstate(divide="ignore"):
        return jnp.asarray(np.log(probabilities))


def _evaluator(agent: LinOptLearner) -> LinOptLearner:
    """An agent that evaluates a given policy from a given release: policy optimization over a plain sum."""
    privatizer = dataclasses.replace(_privatizer(agent), counter=RunningSum(_privatizer(agent).counter.rounds))
    return dataclasses.replace(agent, aggregator=privatizer, method="policy-optimization", ahead=False)


@jax.jit
def _values(agent: LinOptLearner, released: jax.Array, version: jax.Array, log_policy: jax.Array) -> jax.Array:
    """Values at the start with the bonus subtracted, left out and added."""
    sums = SumState(RunningSumState(released), jnp.zeros_like(released), version)
    state = AgentState(sums, log_policy, version)

    def one(sign: jax.Array) -> jax.Array:
        leaning = dataclasses.replace(agent, bonus_scale=sign * agent.bonus_scale)
        return jnp.dot(leaning.model.initial, leaning.plan(state).values[0])

    values: jax.Array = jax.lax.map(one, jnp.array([-1.0, 0.0, 1.0]))
    return values
