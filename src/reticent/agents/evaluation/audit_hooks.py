# SPDX-License-Identifier: Apache-2.0
r"""Attack of a private policy evaluation: one release, whose noise depends on the data.

With X and X' fixed, what is published is one of two Gaussians, :math:`N(\theta,s^2I)` or :math:`N(\theta',s'^2I)`, and the
adversary who knows both data sets computes all four numbers. The score is their exact log-likelihood ratio. The promise
is (ε, δ) and not Gaussian-DP (its account says so), so that only the bound that assumes nothing of the scores applies:
Clopper and Pearson's.

There is no replay: the scale of the noise is a function of raw data, so that no movement of the noise alone makes two
neighbours publish the same.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.evaluation.evaluate_once import EvaluateOnce
from reticent.agents.evaluation.policy_evaluation import Evaluation
from reticent.agents.evaluation.returns import PrivateReturns, RewardsByPair
from reticent.agents.linear_mdp.audit_hooks import opposite_users
from reticent.errors import InvalidInput
from reticent.privacy.degenerate_noise import DegenerateDraws, HonestNoise, count_degenerate, reader_of_units
from reticent.privacy.neighbouring_datasets import Pair, Scores, Tell
from reticent.runtime import double_precision, double_precision_methods
from reticent.worlds import World

__all__ = ["Data", "EvaluationHooks", "play_evaluation"]

Data = tuple[Array, Array]
"""Visits and summed returns per place, as :func:`reticent.agents.evaluation.policy_evaluation.summarise` gives them."""


@double_precision_methods
@dataclasses.dataclass(frozen=True)
class EvaluationHooks:
    """What the audit must know of an agent that evaluates once (:mod:`reticent.audit.hooks`)."""

    agent: EvaluateOnce

    @property
    def returns(self) -> PrivateReturns:
        if not isinstance(self.agent.aggregator, PrivateReturns):
            raise InvalidInput("agent", self.agent.name, "one with private returns", "this one adds no noise")
        return self.agent.aggregator

    def canaries(self, world: World, seed: int) -> list[tuple[str, Pair[RewardsByPair]]]:
        """The longest features, opposite rewards."""
        del world, seed
        shown = self.agent.plan(self.agent.init())
        canary, replacement = (
            self.agent.statistic(shown, user) for user in opposite_users(self.agent.model, self.agent.features)
        )
        return [("trajectory", Pair(canary, replacement, "opposite rewards"))]

    def play(self, pair: Pair[RewardsByPair], trials: int, seed: int, tell: Tell | None = None) -> Scores:
        """Scores of ``trials`` releases each without and with the canary; of all other users nothing is counted."""
        reports = [self.returns.report(seen) for seen in (pair.canary, pair.replacement)]
        canary, replacement = ((report.visits.ravel(), report.returns.ravel()) for report in reports)
        scores = play_evaluation(self.returns.evaluation, canary, replacement, trials, seed)
        if tell is not None:
            tell(2 * trials)
        return scores


@double_precision
def play_evaluation(evaluation: Evaluation, canary: Data, replacement: Data, trials: int, seed: int) -> Scores:
    """Scores of ``trials`` releases each from ``replacement`` and from ``canary``; how far apart is in units of noise."""
    places = [
        (evaluation.estimate(*data), evaluation.multiplier * evaluation.smooth(data[0]))
        for data in (canary, replacement)
    ]

    def log_density(seen: Array, centre: Array, scale: Array) -> Array:
        return -((seen - centre) ** 2).sum() / (2 * scale**2) - evaluation.dimension * jnp.log(scale)

    reader = reader_of_units(1, (1, evaluation.dimension))

    @jax.jit
    def scores(data: Data, centre: Array, scale: Array, key: Array) -> tuple[Array, DegenerateDraws]:
        def trial(own: Array) -> tuple[Array, DegenerateDraws]:
            seen = evaluation.publish(*data, jax.random.normal(own, (evaluation.dimension,)))
            noise = ((seen - centre) / scale)[None, None]
            score = log_density(seen, *places[0]) - log_density(seen, *places[1])
            return score, reader.read(noise, jnp.zeros_like(noise))

        return jax.vmap(trial)(jax.random.split(key, trials))

    root = jax.random.key(seed)
    (present, with_her), (without, replaced) = (
        scores(data, *place, jax.random.fold_in(root, arm))
        for arm, data, place in zip((1, 0), (canary, replacement), places, strict=True)
    )
    apart = float(jnp.linalg.norm(places[0][0] - places[1][0]))
    honest = HonestNoise.of("gaussian", np.ones((1, evaluation.dimension)), 0.0, 1)
    return Scores(
        np.asarray(without),
        np.asarray(present),
        apart / float(places[0][1]),
        count_degenerate([replaced, with_her], honest),
    )
