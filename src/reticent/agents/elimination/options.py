# SPDX-License-Identifier: Apache-2.0
"""What may be chosen about elimination, and how the agent follows from it."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import jax.numpy as jnp
import numpy as np

from reticent.agents.elimination import theory
from reticent.agents.elimination.clipped_sums import ClippedSums
from reticent.agents.elimination.lattice import Lattice
from reticent.agents.elimination.learner import EliminationLearner, Theory
from reticent.agents.elimination.parameters import Parameters
from reticent.agents.elimination.population import Population
from reticent.agents.elimination.search import Search
from reticent.agents.elimination.statistic import feature_table, scales_of
from reticent.agents.elimination.sweeps import Sweeps, sweep_rounds
from reticent.agents.registry import register_with_options
from reticent.agents.score.calibration import VectorNoise, calibrate_vectors
from reticent.agents.score.privacy_options import VectorPrivacy
from reticent.agents.score.unit_ball import PlainVectors
from reticent.errors import InvalidInput
from reticent.learning.promise import NoPromise, Promise
from reticent.learning.schedule import Schedule
from reticent.privacy.counters import SeparateRounds
from reticent.privacy.trust import trust_named
from reticent.worlds import Model

LEAST_FIRST = 10.0
"""Least number of users, before it is multiplied by ``first``, in the first round."""


@dataclasses.dataclass(frozen=True)
class EliminationOptions:
    """Every option of ``elimination``.

    Attributes:
      calibration: ``practical``, or ``theorem`` for the constants of docs/theory/elimination.md. These set the first
        size, the number of sweeps, radius and threshold, and do not pool; the options for them are then of no
        account.
      oracle: ``population`` (approximate, any dimension) or ``lattice`` (exact, few dimensions, one θ for all steps).
      candidates: members of the population, or the most points of the lattice.
      proposals: moves of every member after a release.
      first: size of the first round, in units of what its noise and ten users ask for.
      sweeps: sweeps of an epoch.
      radius: half-width of a constraint in standard deviations. threshold: κ.
      pool: add up rounds of the same model before they are tested.
      failure: p of the theorem.
      final_release: whether the policy learned from all K users will be published too.
    """

    calibration: Literal["practical", "theorem"] = "practical"
    oracle: Literal["population", "lattice"] = "population"
    candidates: int = 256
    proposals: int = 4
    first: float = 1.0
    sweeps: int = 3
    radius: float = 3.5
    threshold: float = 1.0
    pool: bool = True
    failure: float = 0.05
    final_release: bool = True

    def check(self) -> None:
        """Refuse numbers outside their domain."""
        for field in ("first", "radius", "threshold"):
            if not 0 < getattr(self, field) < math.inf:
                raise InvalidInput(field, getattr(self, field), "a finite number above 0", "leave it at its default")
        for field, least in (("candidates", 2), ("proposals", 1), ("sweeps", 1)):
            if getattr(self, field) < least:
                raise InvalidInput(field, getattr(self, field), f"at least {least}", "leave it at its default")
        if not 0 < self.failure < 1:
            raise InvalidInput("failure", self.failure, "in (0, 1)", "use 0.05 if in doubt")


@dataclasses.dataclass(frozen=True)
class PrivateEliminationOptions(VectorPrivacy, EliminationOptions):
    """Every option of ``private-elimination``: those of :class:`EliminationOptions`, and of
    :class:`~reticent.agents.score.privacy_options.VectorPrivacy`."""

    def check(self) -> None:
        super().check()
        self.check_honest()


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that options and noise decide together; ``most`` is m of Lemma 3."""

    sweeps: Sweeps
    level: float
    threshold: float
    reach: float
    most: int
    theory: Theory | None


def make_elimination(model: Model, episodes: int, options: EliminationOptions) -> EliminationLearner:
    """Elimination without privacy: no clip, no noise."""
    options.check()
    parameters = Parameters.of(model)
    settings = settings_of(model, parameters, episodes, options, theory.NO_NOISE)
    schedule = Schedule(episodes, settings.sweeps.sizes, options.final_release)
    plain = PlainVectors(jnp.zeros(parameters.size + 1))
    return _learner(model, parameters, schedule, options, settings, plain, theory.NO_NOISE, NoPromise())


def make_private_elimination(model: Model, episodes: int, options: PrivateEliminationOptions) -> EliminationLearner:
    """Elimination that keeps the promise of ``options``."""
    options.check()
    parameters, trust = Parameters.of(model), trust_named(options.trust)

    def calibrated(sizes: tuple[int, ...]) -> VectorNoise:
        return calibrate_vectors(
            parameters.size + 1, trust, adjacency=options.adjacency, epsilon=options.epsilon, delta=options.delta,
            sizes=sizes, honest=options.honest,
        )  # fmt: skip

    # What shuffled users' coins add up to depends a little on the sizes of rounds, which are chosen for the noise: sizes
    # are made for the noise of one large round, and the noise in use for these sizes.
    provisional = _noise(calibrated((episodes,)))
    settings = settings_of(model, parameters, episodes, options, provisional)
    schedule = Schedule(episodes, settings.sweeps.sizes, options.final_release)
    vectors = calibrated(tuple(schedule.round_sizes[: schedule.releases].tolist()))
    noise = _noise(vectors)
    if settings.theory is not None:
        settings = dataclasses.replace(settings, theory=dataclasses.replace(settings.theory, noise=noise))
    sums = _clipped_sums(vectors, schedule.releases)
    promise = vectors.guarantee(
        schedule.ends[: schedule.releases], dataclasses.asdict(options), options.honest
    )  # fmt: skip
    return _learner(model, parameters, schedule, options, settings, sums, noise, promise)


def settings_of(
    model: Model, parameters: Parameters, episodes: int, options: EliminationOptions, noise: theory.Noise
) -> Settings:
    """Schedule, radius and threshold under this noise."""
    constants = constants_of(model, parameters)
    level = theory.confidence_level(episodes, options.failure)
    most = theory.catches(constants, episodes, level)
    if options.calibration == "practical":
        first = practical_first(model, parameters, options, noise)
        rounds = sweep_rounds(episodes, min(first, episodes), options.sweeps)
        return Settings(rounds, options.radius**2 / 2, options.threshold, 0.0, most, None)
    bias = largest_bias(model, parameters, options)
    first = theory.first_size(constants, noise, episodes, level, most, bias)
    proven = Theory(constants, noise, first, options.failure, bias)
    rounds = sweep_rounds(episodes, first, most)
    return Settings(rounds, level, theory.threshold(most), parameters.diameter, most, proven)


def practical_first(model: Model, parameters: Parameters, options: EliminationOptions, noise: theory.Noise) -> int:
    """Users whose noise leaves an error of about half the horizon, under the plan of the prior mean."""
    plan = parameters.solve(model, jnp.zeros(parameters.size))
    scales = scales_of(model, parameters, plan, feature_table(model, parameters, plan.values))
    error = 2 * options.radius * noise.scale * float(scales.error_factor) / model.horizon
    return math.ceil(options.first * max(LEAST_FIRST, error**2 if noise.on_reports else error))


def constants_of(model: Model, parameters: Parameters) -> theory.Constants:
    """The theorem's worst cases for a model."""
    features = np.asarray(model.reward_features)
    learned = parameters.rewards.size > 0
    return theory.Constants.blend(
        model.horizon, model.d1, model.d2 if learned else 1, pooled=parameters.groups == 1,
        fixed_start=int((np.asarray(model.initial) > 0).sum()) == 1,
        reward_span=parameters.reward_total * float(np.ptp(features, axis=0).max()) if learned else 0.0,
    )  # fmt: skip


def largest_bias(model: Model, parameters: Parameters, options: EliminationOptions) -> float:
    """β of the searched set, over all plans."""
    if options.oracle == "population":
        return 0.0
    moving, paying = Lattice.of(model, parameters, options.candidates).biases
    return moving * model.horizon * (model.horizon - 1) / 2 + paying * model.horizon


def _search(
    model: Model, parameters: Parameters, options: EliminationOptions, settings: Settings, rounds: int
) -> Search:
    if options.oracle == "lattice":
        return Lattice.of(model, parameters, options.candidates)
    return Population.of(model, parameters, options.candidates, rounds, settings.most, options.proposals, 0)


def _clipped_sums(noise: VectorNoise, releases: int) -> ClippedSums:
    return ClippedSums(
        noise_scale=jnp.full((1, noise.dimension), noise.scale_in_use),
        grid=jnp.asarray(noise.grid),
        counter=SeparateRounds(releases),
        trust=noise.trust,
        law=noise.law,
    )


def _noise(vectors: VectorNoise) -> theory.Noise:
    """The noise of calibrated vectors; a user's dithered rounding to a grid g adds a variance of at most g²/4."""
    return theory.Noise(vectors.scale_in_use, vectors.trust.noised_reports, vectors.grid**2 / 4)


def _learner(
    model: Model,
    parameters: Parameters,
    schedule: Schedule,
    options: EliminationOptions,
    settings: Settings,
    aggregator: ClippedSums | PlainVectors,
    noise: theory.Noise,
    promise: Promise,
) -> EliminationLearner:
    return EliminationLearner(
        model=model,
        aggregator=aggregator,
        schedule=schedule,
        method="value-iteration",
        name="elimination",
        promise=promise,
        parameters=parameters,
        search=_search(model, parameters, options, settings, schedule.rounds),
        noise_scale=jnp.asarray(float(noise.scale)),
        sweep_ends=jnp.asarray(settings.sweeps.ends),
        level=jnp.asarray(settings.level),
        threshold=jnp.asarray(float(settings.threshold)),
        reach=jnp.asarray(settings.reach),
        certain=options.calibration == "theorem",
        pool=options.pool and options.calibration == "practical",
        rounding=jnp.asarray(float(noise.rounding)),
        noised_reports=noise.on_reports,
        theory=settings.theory,
    )


register_with_options(
    "elimination",
    "Elimination with optimism, no privacy; what private-elimination is at ε = ∞.",
    make_elimination,
    EliminationOptions(),
)
register_with_options(
    "private-elimination",
    "Private elimination: models are tested, not regressed; a theorem in which privacy costs an additive term.",
    make_private_elimination,
    PrivateEliminationOptions(),
)
