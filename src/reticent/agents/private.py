"""Private-LinOpt-VI and Private-LinOpt-PO: the learners with a privatizer as regularizer (Definitions 6.1 and 6.2)."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any, Literal, get_type_hints

import jax.numpy as jnp
import numpy as np

from reticent.agents.fixed import check_scale, rate
from reticent.agents.registry import AGENTS
from reticent.errors import InvalidInput
from reticent.learning import Agent, Frame, Schedule, radii
from reticent.learning.agent import Method
from reticent.learning.frame import Span
from reticent.learning.schedule import geometric_sizes
from reticent.privacy.calibration import (
    Calibration,
    CalibrationKind,
    Regression,
    Split,
    calibrate_exact,
    calibrate_paper,
    check_promise,
)
from reticent.privacy.certificate import regularize, regularize_paper
from reticent.privacy.counters import (
    BltCounter,
    Counter,
    EpochCounter,
    RunningSum,
    ToeplitzCounter,
    TreeCounter,
)
from reticent.privacy.privatizer import Privatizer
from reticent.privacy.sensitivity import Adjacency, packed_size
from reticent.worlds import Model

TrustOption = Literal["joint", "local"]
CounterName = Literal["epochs", "blt", "toeplitz", "tree-reduced", "tree"]


@dataclasses.dataclass(frozen=True)
class PrivateOptions:
    """Every option of a private agent; the defaults are what we recommend, ``calibration="paper"`` overrides most.

    Attributes:
      trust: who is trusted with raw data: the server (``joint``) or nobody (``local``).
      epsilon, delta: the promise.
      counter: how running sums are released (joint model); by default ``epochs``, and ``tree`` for the paper.
      calibration: ``paper`` (its formulas to the letter) or ``exact``.
      adjacency: what may change about one user: everything (``replace``) or her presence (``zero-out``).
      bonus_scale: multiplies the confidence radii; 1 is the theory.
      shift_scale: multiplies the shift that keeps noisy Grams positive definite; 1 is the theory.
      alpha: failure probability of the confidence sets.
      learning_rate: η of policy optimization; by default the paper's.
      final_release: whether the policy learned from all K users will be published too.
      centred, span: the frame of the values (:class:`reticent.learning.Frame`).
      pool: add up the sums of all steps; by default if the model is declared stationary.
      normalize: project estimates onto {Σθ = 1}; by default if the model declares that.
      split: how the budget is shared out over steps and sums.
      moment_share: weight of moments against Grams.
      first, growth: size of the first epoch and growth of the next (counter ``epochs``, and the local model). By default
        512 users (fewer if K is small), and 1.5; policy optimization, which takes one step per epoch, has 1.2.
      deployment: account for the integer grid of the secure noise source.
    """

    trust: TrustOption = "joint"
    epsilon: float = 1.0
    delta: float = 1e-5
    counter: CounterName | None = None
    calibration: CalibrationKind = "exact"
    adjacency: Adjacency = "replace"
    bonus_scale: float = 0.1
    shift_scale: float = 0.5
    alpha: float = 0.05
    learning_rate: float | None = None
    final_release: bool = True
    centred: bool = True
    span: Span = "seen"
    pool: bool | None = None
    normalize: bool | None = None
    split: Split = "optimised"
    moment_share: float = 1.0
    first: int | None = None
    growth: float | None = None
    deployment: bool = False

    def resolve(self, model: Model, episodes: int, method: Method) -> PrivateOptions:
        """Check the numbers, and fill in what depends on the model or on ``calibration="paper"``."""
        check_promise(self.epsilon, self.delta)
        check_scale("bonus_scale", self.bonus_scale)
        check_scale("shift_scale", self.shift_scale)
        if not 0 < self.alpha <= 1:
            raise InvalidInput("alpha", self.alpha, "in (0, 1]", "use 0.05 if in doubt")
        if self.calibration == "paper":
            return dataclasses.replace(
                self,
                counter=self.counter or "tree",
                shift_scale=1.0,
                final_release=False,
                centred=False,
                span="horizon",
                pool=False,
                normalize=False,
            )
        if self.pool and not model.stationary:
            raise InvalidInput("pool", True, "False for a model that is not stationary", "declare the model stationary")
        if self.normalize and not model.sums_to_one:
            raise InvalidInput("normalize", True, "False unless θ sums to one", "declare the model with sums_to_one")
        return dataclasses.replace(
            self,
            counter=self.counter or "epochs",
            first=max(1, min(512, episodes // 8)) if self.first is None else self.first,
            growth=(1.5 if method == "value-iteration" else 1.2) if self.growth is None else self.growth,
            pool=model.stationary if self.pool is None else self.pool,
            normalize=model.sums_to_one if self.normalize is None else self.normalize,
        )


def make_private(model: Model, episodes: int, method: Method, options: PrivateOptions) -> tuple[Agent, Calibration]:
    """The agent and the calibration it keeps."""
    options = options.resolve(model, episodes, method)
    frame = Frame(options.centred, options.span)
    schedule = make_schedule(options, episodes)
    calibration = make_calibration(model, frame, schedule, options)
    sizes = {"d1": model.d1, "d2": model.d2, "alpha": options.alpha}
    if options.calibration == "paper":
        regularization = regularize_paper(calibration, episodes=episodes, **sizes)
    else:
        ends = schedule.ends[: schedule.releases]
        regularization = regularize(
            calibration, ends, **sizes, shift_scale=options.shift_scale, pooled=bool(options.pool)
        )
    bounds = frame.bounds(model)
    privatizer = Privatizer(
        noise_scale=jnp.asarray(coordinate_scales(calibration, model.d1, model.d2)),
        transition_shift=jnp.asarray(regularization.transition_shift),
        reward_shift=jnp.asarray(regularization.reward_shift),
        transition_floor=jnp.asarray(regularization.transition_floor),
        reward_floor=jnp.asarray(regularization.reward_floor),
        feature_bound=jnp.asarray(bounds.feature),
        target_low=jnp.asarray(bounds.low),
        target_high=jnp.asarray(bounds.high),
        grid=jnp.asarray(calibration.grid),
        counter=calibration.counter,
        trust=options.trust,
        d1=model.d1,
        d2=model.d2,
        pooled=bool(options.pool),
    )
    # Epoch weights differ from release to release, so the self-normalised bound is used once per release.
    each = options.alpha / schedule.releases if calibration.counter.weights() is not None else options.alpha
    observations = episodes * (model.horizon if options.pool else 1)
    agent = Agent(
        model=model,
        regularizer=privatizer,
        radii=radii(model, frame, regularization.certificate, observations, each),
        bonus_scale=jnp.asarray(float(options.bonus_scale)),
        learning_rate=rate(model, episodes, options.learning_rate),
        frame=frame,
        schedule=schedule,
        method=method,
        name=method,
        normalize=bool(options.normalize),
    )
    return agent, calibration


def make_schedule(options: PrivateOptions, episodes: int) -> Schedule:
    """Every episode a round for the streaming counters; growing epochs for ``epochs`` and in the local model."""
    final = options.final_release and options.calibration == "exact"
    grouped = options.calibration == "exact" and (options.trust == "local" or options.counter == "epochs")
    sizes = geometric_sizes(episodes, options.first or 1, options.growth or 1.0) if grouped else None
    return Schedule(episodes, sizes, final)


def make_counter(options: PrivateOptions, schedule: Schedule) -> Counter:
    """The counter over the schedule's released rounds."""
    releases = schedule.releases
    if options.trust == "local":
        return RunningSum(releases)
    match options.counter:
        case "tree":
            return TreeCounter(releases)
        case "tree-reduced":
            return TreeCounter(releases, "reduced")
        case "toeplitz":
            return ToeplitzCounter(releases)
        case "blt":
            return BltCounter(releases)
        case _:
            return EpochCounter(tuple(schedule.round_sizes[:releases].tolist()))


def make_calibration(model: Model, frame: Frame, schedule: Schedule, options: PrivateOptions) -> Calibration:
    """The noise of every counter of every step."""
    bounds = frame.bounds(model)
    remaining = np.arange(model.horizon - 1, -1, -1, dtype=np.float64)
    ones = np.ones(model.horizon)
    regressions = (
        Regression("transition", model.d1, bounds.feature, bounds.high, scale=remaining / 2),
        Regression(
            "reward", model.d2, ones, ones, scale=ones, nonnegative=bool((model.reward_features >= 0).all()),
        ),
    )  # fmt: skip
    counter = make_counter(options, schedule)
    if options.calibration == "paper":
        return calibrate_paper(
            regressions, counter,
            trust=options.trust, adjacency=options.adjacency, epsilon=options.epsilon, delta=options.delta,
        )  # fmt: skip
    return calibrate_exact(
        regressions, counter,
        trust=options.trust, adjacency=options.adjacency, epsilon=options.epsilon, delta=options.delta,
        split=options.split, moment_share=options.moment_share, deployment=options.deployment,
    )  # fmt: skip


def coordinate_scales(calibration: Calibration, d1: int, d2: int) -> np.ndarray:
    """σ per coordinate of the packed statistics, ``(H, D)``."""
    blocks = []
    for noise, dimension in ((calibration.transition, d1), (calibration.reward, d2)):
        diagonal = np.equal(*np.triu_indices(dimension))
        # The paper noises entries, we noise packed coordinates: an off-diagonal one is √2 times its entry.
        spread = np.ones(packed_size(dimension)) if calibration.packed else np.where(diagonal, 1.0, math.sqrt(2))
        blocks += [noise.gram_sigma[:, None] * spread, noise.moment_sigma[:, None] * np.ones(dimension)]
    return np.concatenate(blocks, axis=1)


def _factory(method: Method, without: frozenset[str]) -> Callable[..., Agent]:
    """A factory ``(model, episodes, *, options)`` whose signature is :class:`PrivateOptions`."""

    def make(model: Model, episodes: int, **given: Any) -> Agent:
        return make_private(model, episodes, method, PrivateOptions(**given))[0]

    kinds = get_type_hints(PrivateOptions)
    places = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("model", "episodes")]
    places += [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=kinds[field.name]
        )
        for field in dataclasses.fields(PrivateOptions)
        if field.name not in without
    ]
    make.__signature__ = inspect.Signature(places)  # type: ignore[attr-defined]
    return make


private_linopt_vi = _factory("value-iteration", frozenset({"learning_rate"}))
private_linopt_vi.__doc__ = "Private-LinOpt-VI: optimistic value iteration under joint or local differential privacy."
private_linopt_po = _factory("policy-optimization", frozenset())
private_linopt_po.__doc__ = (
    "Private-LinOpt-PO: optimistic policy optimization under joint or local differential privacy."
)

AGENTS.register("private-linopt-vi")(private_linopt_vi)
AGENTS.register("private-linopt-po")(private_linopt_po)
