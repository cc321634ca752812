r"""Audit of a private policy evaluation: one release, whose noise depends on the data.

With X and X' fixed, what is published is one of two Gaussians, :math:`N(\theta,s^2I)` or :math:`N(\theta',s'^2I)`, and the
adversary who knows both data sets computes all four numbers. The score is their exact log-likelihood ratio. The promise
is (ε, δ) and not Gaussian-DP, so only the bound that assumes nothing of the scores is used: Clopper and Pearson's.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.evaluation.evaluation_plan import EvaluationPlan
from reticent.agents.evaluation.policy_evaluation import Evaluation
from reticent.audit.attack import DEFAULT_CONFIDENCE, Attack, Audit
from reticent.audit.bounds import Evidence, lower_bounds
from reticent.learning.learner import AnyLearner
from reticent.worlds import Episode

__all__ = ["Data", "audit_evaluation", "audit_returns", "play_evaluation"]

Data = tuple[Array, Array]
"""Visits and summed returns per place, as :func:`reticent.agents.evaluation.policy_evaluation.summarise` gives them."""


def play_evaluation(
    evaluation: Evaluation, one: Data, other: Data, trials: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of ``trials`` releases each from ``other`` and from ``one``."""
    places = [(evaluation.estimate(*data), evaluation.multiplier * evaluation.smooth(data[0])) for data in (one, other)]

    def log_density(seen: Array, centre: Array, scale: Array) -> Array:
        return -((seen - centre) ** 2).sum() / (2 * scale**2) - evaluation.dimension * jnp.log(scale)

    @jax.jit
    def scores(data: Data, key: Array) -> Array:
        def one_trial(own: Array) -> Array:
            seen = evaluation.publish(*data, jax.random.normal(own, (evaluation.dimension,)))
            return log_density(seen, *places[0]) - log_density(seen, *places[1])

        return jax.vmap(one_trial)(jax.random.split(key, trials))

    root = jax.random.key(seed)
    without, present = (
        np.asarray(scores(data, jax.random.fold_in(root, arm))) for arm, data in enumerate((other, one))
    )
    return without, present


def audit_evaluation(
    evaluation: Evaluation,
    one: Data,
    other: Data,
    delta: float,
    *,
    trials: int = 20_000,
    seed: int = 0,
    confidence: float = DEFAULT_CONFIDENCE,
) -> Evidence:
    """A lower bound on the ε that publishing from ``one`` or from its neighbour ``other`` has at ``delta``."""
    return counted(*play_evaluation(evaluation, one, other, trials, seed), delta, confidence)


def counted(without: np.ndarray, present: np.ndarray, delta: float, confidence: float) -> Evidence:
    """What the scores say without the bounds that only a Gaussian-DP promise may be held to."""
    found, only = lower_bounds(without, present, delta, confidence), "clopper-pearson"
    return dataclasses.replace(found, bounds={only: found.bounds[only]}, best=only)


def audit_returns(
    agent: AnyLearner,
    plan: EvaluationPlan,
    pair: tuple[Episode, Episode],
    *,
    world: str = "custom",
    trials: int = 20_000,
    seed: int = 0,
    confidence: float = DEFAULT_CONFIDENCE,
) -> Audit:
    """Attack an agent that evaluates once; the canary lives one of ``pair``, and of all others nothing is counted."""
    idle, returns = agent.plan(agent.init()), agent.aggregator
    one, other = (
        (report.visits.ravel(), report.returns.ravel()) for report in (agent.report(idle, user) for user in pair)
    )
    options, evaluation = plan.options, returns.evaluation
    without, present = play_evaluation(evaluation, one, other, trials, seed)
    evidence = counted(without, present, options.delta, confidence)
    apart = float(jnp.linalg.norm(evaluation.estimate(*one) - evaluation.estimate(*other)))
    scale = float(evaluation.multiplier * evaluation.smooth(one[0]))
    return Audit(
        agent=agent.name,
        world=world,
        adversary="releases",
        trust=options.trust,
        adjacency=options.adjacency,
        counter=plan.calibration.counter.name,
        calibration=options.calibration,
        episodes=agent.schedule.episodes,
        claimed_epsilon=options.epsilon,
        delta=options.delta,
        claimed_mu=None,
        trials=trials,
        confidence=confidence,
        seed=seed,
        attacks=(Attack("trajectory", "opposite rewards", apart / scale, evidence, without, present),),
    )
