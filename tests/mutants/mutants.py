# SPDX-License-Identifier: Apache-2.0
"""Broken variants of the privacy code: one mistake each, made at run time, and the check that must see it.

A mutant is registered with ``@mutant(mistake, examination, sees)``; the function applies the patch. ``sees`` is a regular
expression that one of the findings must match, so that a mutant is caught for the right reason. The table is in
``docs/measurements/planted-bugs.md`` and ``planted-bugs-deployed.md``; a test keeps registry and table equal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import examinations as ex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents.linear_mixture import calibration
from reticent.agents.linear_mixture import privacy_plan as plan
from reticent.agents.linear_mixture import private_linopt as private
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.privatizer import Privatizer
from reticent.privacy import calibration as pipeline
from reticent.privacy import noise
from reticent.privacy.accounting.account import GaussianAccount, gaussian_strength
from reticent.privacy.clipping import clip_interval, clip_norm
from reticent.privacy.counters import EpochCounter, TreeCounter
from reticent.privacy.counters.tree import TreeState
from reticent.privacy.ledger import Ledger
from reticent.privacy.sums import SumState
from reticent.service import embedded as deployed
from reticent.service import mechanism
from reticent.worlds import Episode

Patch = pytest.MonkeyPatch


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    mistake: str
    apply: Callable[[Patch], None]
    examine: ex.Examination
    sees: str

    @property
    def long(self) -> bool:
        """Whether only ``make verify`` examines the unbroken code in its way: the quick suite has one way of each kind."""
        return self.name not in QUICK

    @property
    def caught_by(self) -> str:
        return str(self.examine.kind)  # type: ignore[attr-defined]


MUTANTS: list[Mutant] = []

QUICK = {
    "missing-root-two",
    "nine-tenths-of-the-noise",
    "eleven-tenths-of-the-noise",
    "noise-shared-across-steps",
    "noise-shared-across-counters",
    "constant-seed",
    "local-noise-drawn-once",
    "scales-swapped",
    "uniform-noise",
    "floating-point-gaussians",
    "same-seed-every-draw",
    "generator-cloned-by-fork",
    "deployed-rounds-too-quiet",
}
"""Mutants by whose examinations the quick suite goes over the unbroken code: at least one of each kind."""


def mutant(mistake: str, examine: ex.Examination, sees: str) -> Callable[[Any], Any]:
    def register(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
        MUTANTS.append(Mutant(apply.__name__.replace("_", "-"), mistake, apply, examine, sees))
        return apply

    return register


TREE = ex.replayed(counter="tree")
EPOCHS = ex.replayed(first=1, growth=1.0)
LOCAL = ex.replayed(trust="local", first=1, growth=1.0)
JOINT_NOISE, LOCAL_NOISE = ex.distributed(moment_share=0.5), ex.distributed(trust="local")
SOURCE, MANY_CALLS, DEPLOYED = ex.sourced(), ex.sourced(150_000), ex.refused()

MOVED = r"moved by .*, declared"
MU = r"this pair has mu"


# -- a clip that is assumed ---------------------------------------------------------------------------------------------


def _clip_without(field: str) -> Callable[[Patch], None]:
    def apply(patch: Patch) -> None:
        real = Privatizer.clip
        patch.setattr(Privatizer, "clip", lambda self, seen: real(self, seen)._replace(**{field: getattr(seen, field)}))

    return apply


@mutant("value features are not clipped", TREE, MOVED)
def features_not_clipped(patch: Patch) -> None:
    _clip_without("value_features")(patch)


@mutant("targets are not clipped", EPOCHS, MOVED)
def targets_not_clipped(patch: Patch) -> None:
    _clip_without("targets")(patch)


@mutant("reward features are not clipped: one counter of four", EPOCHS, MOVED)
def reward_features_not_clipped(patch: Patch) -> None:
    _clip_without("reward_features")(patch)


@mutant("rewards are not clipped", LOCAL, MOVED)
def rewards_not_clipped(patch: Patch) -> None:
    _clip_without("rewards")(patch)


@mutant("reward features are taken to be nonnegative, but this is not enforced (we had this one)",
        ex.replayed(first=1, growth=1.0, contrasts=False), MU)  # fmt: skip
def sign_not_clipped(patch: Patch) -> None:
    def clip(self: Privatizer, seen: Any) -> Any:
        return seen._replace(
            value_features=clip_norm(seen.value_features, self.feature_bound),
            targets=clip_interval(seen.targets, self.target_low, self.target_high),
            reward_features=clip_norm(seen.reward_features, 1.0),
            rewards=clip_interval(seen.rewards, 0.0, 1.0),
        )

    patch.setattr(Privatizer, "clip", clip)


@mutant("contrasts of rewards have either sign, but keep the discount of nonnegative features", EPOCHS, MU)
def contrasts_taken_for_nonnegative(patch: Patch) -> None:
    real = plan.learned_sizes
    signed = lambda *given: dataclasses.replace(real(*given), nonnegative_rewards=True)  # noqa: E731
    patch.setattr(plan, "learned_sizes", signed)


@mutant("rewards that are learned are taken for known ones: no noise, and the features still go out", EPOCHS, MU)
def known_rewards_still_sent(patch: Patch) -> None:
    real = plan.make_regressions

    def without_rewards(*given: Any) -> Any:
        transition, reward = real(*given)
        return transition, dataclasses.replace(reward, feature=0 * reward.feature)

    patch.setattr(plan, "make_regressions", without_rewards)


@mutant("a bound is doubled after the noise was calibrated", TREE, MOVED)
def stale_sensitivity(patch: Patch) -> None:
    def make(**fields: Any) -> Privatizer:
        return Privatizer(**{**fields, "feature_bound": 2 * fields["feature_bound"]})

    patch.setattr(private, "Privatizer", make)


@mutant("a user's episode is counted twice", EPOCHS, MOVED)
def second_contribution(patch: Patch) -> None:
    patch.setattr(Privatizer, "absorb", lambda self, state, report: state._replace(open=state.open + 2 * report))


# -- too little noise by calculation ------------------------------------------------------------------------------------


@mutant("√2 is missing: sensitivities of zero-out under replace adjacency", EPOCHS, MU)
def missing_root_two(patch: Patch) -> None:
    for name in ("gram_sensitivity", "moment_sensitivity", "joint_sensitivity", "accounted_moment_sensitivity"):
        real = getattr(calibration, name)

        def zero_out(*numbers: Any, real: Any = real, **options: Any) -> float:
            return float(real(*numbers[:-1], "zero-out", **options))

        patch.setattr(calibration, name, zero_out)


@mutant("every step is given the whole budget: calibrated without H", EPOCHS, MU)
def no_horizon_factor(patch: Patch) -> None:
    real = calibration._regression_noise

    def each_step_alone(one: Any, mus: Any, *rest: Any) -> Any:
        return real(one, mus * np.sqrt(len(mus)), *rest)

    def accounted_alone(self: Any, costs: Any, exposure: float) -> float:
        return float(gaussian_strength(costs, exposure) / max(cost.step for cost in costs) ** 0.5)

    patch.setattr(calibration, "_regression_noise", each_step_alone)
    patch.setattr(GaussianAccount, "strength", accounted_alone)


@mutant("the tree's levels are not counted", TREE, MU)
def no_level_factor(patch: Patch) -> None:
    patch.setattr(TreeCounter, "sensitivity", property(lambda self: 1.0))
    patch.setattr(TreeCounter, "exposure", lambda self: np.ones(self.rounds))


@mutant("one level too few is counted", TREE, r"a round's exposure is")
def off_by_one_levels(patch: Patch) -> None:
    real = TreeCounter.exposure
    patch.setattr(TreeCounter, "sensitivity", property(lambda self: (self.levels - 1) ** 0.5))
    patch.setattr(TreeCounter, "exposure", lambda self: np.minimum(real(self), self.levels - 1))


@mutant("the release after the last user is not counted", TREE, r"a round's exposure is")
def last_release_uncounted(patch: Patch) -> None:
    real = plan.make_calibration

    def before_the_last(sizes: Any, frame: Any, schedule: Any, options: Any) -> Any:
        shorter = dataclasses.replace(schedule, final_release=False)
        found = real(sizes, frame, shorter, options)
        released = tuple(schedule.round_sizes[: schedule.releases].tolist())
        return dataclasses.replace(found, counter=pipeline.make_counter(options.counter, released))

    def ledger(self: Any, round_ends: Any) -> Any:
        counted = self.trust.exposure(self.counter)[:-1]
        return Ledger.of(
            self.shares(), self.counter.name, np.append(counted, counted[-1]), round_ends,
            epsilon=self.epsilon, delta=self.delta,
        )  # fmt: skip

    patch.setattr(plan, "make_calibration", before_the_last)
    patch.setattr(calibration.Calibration, "ledger", ledger)


@mutant("the reward counters get no noise", EPOCHS, MU)
def unnoised_reward_counter(patch: Patch) -> None:
    real = private.coordinate_scales

    def silent(found: Any, d1: int, d2: int) -> Any:
        scales = real(found, d1, d2)
        scales[:, d1 * (d1 + 3) // 2 :] = 0.0
        return scales

    patch.setattr(private, "coordinate_scales", silent)


@mutant("the last step's transition sums get no noise although its features are not zero (we had this one)",
        ex.replayed(span="horizon", first=1, growth=1.0), MU)  # fmt: skip
def last_step_without_noise(patch: Patch) -> None:
    real = private.coordinate_scales

    def silent(found: Any, d1: int, d2: int) -> Any:
        scales = real(found, d1, d2)
        scales[-1, : d1 * (d1 + 3) // 2] = 0.0
        return scales

    patch.setattr(private, "coordinate_scales", silent)


@mutant("statistics are rounded to a coarse grid, and the sensitivity is not raised for it",
        ex.replayed(random=40, deployment=True, first=1, growth=1.0, epsilon=8.0), MU)  # fmt: skip
def rounding_unaccounted(patch: Patch) -> None:
    real = calibration._regression_noise
    patch.setattr(pipeline, "grid_for", lambda sigma: noise.grid_for(sigma, bits=3))
    patch.setattr(calibration, "_regression_noise", lambda one, mus, share, adj, grid: real(one, mus, share, adj, 0.0))


# -- noise that averages out, or is not there ---------------------------------------------------------------------------


@mutant("fresh noise at every release instead of per node of the tree", TREE, r"a round's exposure is")
def fresh_noise_every_release(patch: Patch) -> None:
    _fresh_noise(patch)


@mutant(
    "the same, seen from outside", ex.audited(20_000, counter="tree", episodes=16, epsilon=4.0), "epsilon is at least"
)
def fresh_noise_audited(patch: Patch) -> None:
    _fresh_noise(patch)


def _fresh_noise(patch: Patch) -> None:
    def close(self: TreeCounter, state: TreeState, item: Any, drawn: Any) -> TreeState:
        return TreeState(state.t + 1, state.released - state.noise + item + drawn, drawn, state.past)

    patch.setattr(TreeCounter, "close", close)


@mutant("a retried round draws its noise again", TREE, "retried round")
def noise_redrawn_on_retry(patch: Patch) -> None:
    real, calls = Privatizer.simulate_round_noise, iter(range(10**6))
    patch.setattr(
        Privatizer, "simulate_round_noise", lambda self, key: real(self, jax.random.fold_in(key, next(calls)))
    )


@mutant("in the local model reports leave without noise", LOCAL, "not covered by its own noise")
def local_report_without_noise(patch: Patch) -> None:
    real = Privatizer.report
    patch.setattr(Privatizer, "report", lambda self, seen, own: real(self, seen, None if own is None else 0 * own))


@mutant("the round's noise is forgotten for the Gram matrices", TREE, "not a function of noisy sums")
def gram_noise_forgotten(patch: Patch) -> None:
    real = Privatizer.close

    def close(self: Privatizer, state: SumState, drawn: Any) -> SumState:
        return real(self, state, drawn.at[..., : self.d1 * (self.d1 + 1) // 2].set(0.0))

    patch.setattr(Privatizer, "close", close)


# -- raw numbers that leave ---------------------------------------------------------------------------------------------


@mutant("the bonus is computed from the exact Gram", TREE, "statistics are not a function")
def raw_gram_in_the_bonus(patch: Patch) -> None:
    real = Privatizer.released

    def released(self: Privatizer, state: SumState) -> Any:
        released, exact = real(self, state), self.unpack(state.counter.released - state.counter.noise)
        eye = jnp.eye(self.d1)
        return released._replace(transition_gram=exact.transition_gram + eye, reward_gram=exact.reward_gram + eye)

    patch.setattr(Privatizer, "released", released)


@mutant("replanning waits until the exact Gram's determinant has grown", TREE, "plans are not a function")
def data_dependent_replanning(patch: Patch) -> None:
    real, kept = LinOptLearner.plan, {}

    def plan_if_grown(self: LinOptLearner, state: Any, **asked: Any) -> Any:
        counter = state.aggregate.counter
        exact = self.aggregator.unpack(counter.released - counter.noise).reward_gram[0]
        if float(jnp.linalg.det(jnp.eye(2) + exact)) < 3.5 and "plan" in kept:
            return kept["plan"]
        kept["plan"] = real(self, state, **asked)
        return kept["plan"]

    patch.setattr(LinOptLearner, "plan", plan_if_grown)


@mutant("the open round's raw sum is part of the statistics", EPOCHS, r"not a function of noisy sums|also moved")
def open_sum_read(patch: Patch) -> None:
    real_close, real_released = Privatizer.close, Privatizer.released
    patch.setattr(
        Privatizer, "close", lambda self, state, drawn: real_close(self, state, drawn)._replace(open=state.open)
    )

    def released(self: Privatizer, state: SumState) -> Any:
        return jax.tree.map(jnp.add, real_released(self, state), self.unpack(state.open))

    patch.setattr(Privatizer, "released", released)


@mutant("a dashboard line shows the mean reward of the open round", EPOCHS, "log line depends")
def raw_average_logged(patch: Patch) -> None:
    real = Privatizer.absorb

    def absorb(self: Privatizer, state: SumState, report: Any) -> SumState:
        found = real(self, state, report)
        print(f"progress: {float(found.open[:, -self.d2].mean()):.3f}")
        return found

    patch.setattr(Privatizer, "absorb", absorb)


@mutant("the seed of the noise is logged", EPOCHS, "shows the seed")
def seed_logged(patch: Patch) -> None:
    real = Privatizer._draw

    def draw(self: Privatizer, key: Any, prefix: Any) -> Any:
        print("drawing with", jax.random.key_data(key))
        return real(self, key, prefix)

    patch.setattr(Privatizer, "_draw", draw)


@mutant("rounds closed after the last one are still released", EPOCHS, "after the last one is still released")
def released_past_the_horizon(patch: Patch) -> None:
    def close_counter(self: EpochCounter, state: Any, item: Any, drawn: Any) -> Any:
        return state._replace(t=jnp.minimum(state.t + 1, self.rounds), weighted=state.weighted + item + drawn)

    def close(self: Privatizer, state: SumState, drawn: Any) -> SumState:
        closed = self.counter.close(state.counter, state.open, drawn)
        return SumState(closed, jnp.zeros_like(state.open), state.rounds + 1)

    patch.setattr(EpochCounter, "close", close_counter)
    patch.setattr(Privatizer, "close", close)


# -- noise of another law -----------------------------------------------------------------------------------------------


def _drawing(how: Callable[[Privatizer, Any, tuple[int, ...]], Any]) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(Privatizer, "_draw", how)


@mutant("noise 10% too small", JOINT_NOISE, "not Gaussian of the calibrated scale")
def nine_tenths_of_the_noise(patch: Patch) -> None:
    real = Privatizer._draw
    _drawing(lambda self, key, prefix: 0.9 * real(self, key, prefix))(patch)


@mutant("the same, seen from outside at 10⁵ trials and ε = 1", ex.audited(100_000, first=1), "epsilon is at least")
def nine_tenths_audited(patch: Patch) -> None:
    nine_tenths_of_the_noise(patch)


@mutant("noise 10% too large: the privacy paid for is not the one got", LOCAL_NOISE, "calibrated scale")
def eleven_tenths_of_the_noise(patch: Patch) -> None:
    real = Privatizer._draw
    _drawing(lambda self, key, prefix: 1.1 * real(self, key, prefix))(patch)


@mutant("one noise vector is shared by all steps", JOINT_NOISE, "is dependent")
def noise_shared_across_steps(patch: Patch) -> None:
    _drawing(lambda self, key, prefix: self.noise_scale * jax.random.normal(key, prefix + self.noise_scale.shape[1:]))(
        patch
    )


@mutant("one noise stream is shared by all counters of a step", JOINT_NOISE, "is dependent")
def noise_shared_across_counters(patch: Patch) -> None:
    _share_counters(patch)


@mutant("the same, seen from outside", ex.audited(20_000, learn=True, first=1, epsilon=4.0), "epsilon is at least")
def shared_noise_audited(patch: Patch) -> None:
    _share_counters(patch)


def _share_counters(patch: Patch) -> None:
    def draw(self: Privatizer, key: Any, prefix: tuple[int, ...]) -> Any:
        steps = self.noise_scale.shape[0]
        return self.noise_scale * jax.random.normal(key, (*prefix, steps, 1))

    patch.setattr(Privatizer, "_draw", draw)


@mutant(
    "the noise's seed is a constant: every round draws the same", JOINT_NOISE, "depends on another's|calibrated scale"
)
def constant_seed(patch: Patch) -> None:
    real = Privatizer._draw
    _drawing(lambda self, key, prefix: real(self, jax.random.key(0), prefix))(patch)


@mutant("local noise is drawn once for all users", LOCAL_NOISE, "depends on another's|calibrated scale")
def local_noise_drawn_once(patch: Patch) -> None:
    real = Privatizer.simulate_user_noise
    patch.setattr(Privatizer, "simulate_user_noise", lambda self, key: real(self, jax.random.key(1)))


@mutant("the scales of Gram and moment are swapped", JOINT_NOISE, "has a scale|calibrated scale")
def scales_swapped(patch: Patch) -> None:
    real = private.coordinate_scales
    patch.setattr(private, "coordinate_scales", lambda found, d1, d2: real(found, d1, d2)[:, ::-1])


@mutant("scales shrink where they are laid out over coordinates", JOINT_NOISE, "calibrated scale")
def scales_shrunk_in_the_layout(patch: Patch) -> None:
    real = plan.coordinate_scales
    for module in (plan, private):
        patch.setattr(module, "coordinate_scales", lambda found, d1, d2: 0.6 * real(found, d1, d2))


@mutant("the privatizer is made with less noise than was calibrated", LOCAL_NOISE, "calibrated scale")
def privatizer_with_less_noise(patch: Patch) -> None:
    def make(**fields: Any) -> Privatizer:
        return Privatizer(**{**fields, "noise_scale": 0.85 * fields["noise_scale"]})

    patch.setattr(private, "Privatizer", make)


@mutant("the noise is uniform, of the right variance", JOINT_NOISE, "not Gaussian")
def uniform_noise(patch: Patch) -> None:
    def draw(self: Privatizer, key: Any, prefix: tuple[int, ...]) -> Any:
        return self.noise_scale * jax.random.uniform(key, prefix + self.noise_scale.shape, minval=-1, maxval=1) * 3**0.5

    patch.setattr(Privatizer, "_draw", draw)


# -- sources for deployments --------------------------------------------------------------------------------------------


def _grid_noise(values: np.ndarray, sigma: np.ndarray) -> noise.GridNoise:
    grid = noise.grid_for(float(np.min(sigma)))
    return noise.GridNoise(np.rint(values / grid).astype(np.int64), grid)


@mutant("floating-point Gaussians in a deployment", SOURCE, "floating-point")
def floating_point_gaussians(patch: Patch) -> None:
    class Floats:
        def __init__(self, values: np.ndarray) -> None:
            self.values, self.integers, self.grid = values, values, 1.0

    patch.setattr(
        noise.SecureNoise, "draw", lambda self, scale, **_: Floats(np.random.default_rng().normal(scale=scale))
    )


@mutant("noise is seeded from 31 bits", MANY_CALLS, "seeds are too short")
def seed_of_31_bits(patch: Patch) -> None:
    entropy = np.random.default_rng(5)

    def draw(self: Any, scale: Any, **_: Any) -> noise.GridNoise:
        # Only the first integers of a generator so seeded: enough to see that there are 2^31 of them.
        fresh = np.random.PCG64(int(entropy.integers(2**31)))
        if np.size(scale) == 8:
            return noise.GridNoise(fresh.random_raw(8).astype(np.int64), 1.0)
        return _grid_noise(np.random.Generator(fresh).normal(scale=scale), np.asarray(scale))

    patch.setattr(noise.SecureNoise, "draw", draw)


@mutant("every draw starts from the same seed", SOURCE, "repeats itself")
def same_seed_every_draw(patch: Patch) -> None:
    patch.setattr(
        noise.SecureNoise, "draw",
        lambda self, scale, **_: _grid_noise(np.random.default_rng(7).normal(scale=scale), np.asarray(scale)),
    )  # fmt: skip


@mutant("the source holds a generator, which fork() would clone", SOURCE, "clone of the source")
def generator_cloned_by_fork(patch: Patch) -> None:
    def draw(self: Any, scale: Any, **_: Any) -> noise.GridNoise:
        if "generator" not in self.__dict__:
            object.__setattr__(self, "generator", np.random.default_rng())
        return _grid_noise(self.generator.normal(scale=scale), np.asarray(scale))

    patch.setattr(noise.SecureNoise, "draw", draw)


def _deployed_at(factor: float) -> Callable[[Patch], None]:
    def apply(patch: Patch) -> None:
        real = mechanism.Mechanism._draw
        patch.setattr(
            mechanism.Mechanism, "_draw",
            lambda self, prefix: np.rint(factor * real(self, prefix)).astype(np.int64),
        )  # fmt: skip

    return apply


@mutant("a deployment's rounds get 0.6 of their noise", ex.deployed_noise("joint"), "calibrated scale")
def deployed_rounds_too_quiet(patch: Patch) -> None:
    _deployed_at(0.6)(patch)


@mutant("local reports of a deployment get 0.85 of their noise", ex.deployed_noise("local"), "calibrated scale")
def deployed_reports_too_quiet(patch: Patch) -> None:
    _deployed_at(0.85)(patch)


# -- what a deployment must refuse --------------------------------------------------------------------------------------


@mutant("simulated noise may deploy", DEPLOYED, "simulated noise is accepted")
def simulated_noise_deploys(patch: Patch) -> None:
    patch.setattr(mechanism, "require_deployable", lambda source: source)


@mutant(
    "a joint deployment takes ready-made statistics, unclipped (we had this one)", DEPLOYED, "ready-made statistics"
)
def ready_made_statistics(patch: Patch) -> None:
    def reported(self: Any, board: Any, place: int, contribution: Any, reference: int | None) -> Any:
        return self.report(contribution) if isinstance(contribution, Episode) else contribution

    patch.setattr(deployed.DeployedAgent, "_reported", reported)


@mutant("a deployment does not remember its users", DEPLOYED, "second contribution")
def second_visit_accepted(patch: Patch) -> None:
    class Forgetful(set[Any]):
        def __contains__(self, user: object) -> bool:
            return False

    real = deployed.DeployedAgent.__init__

    def make(self: Any, *given: Any) -> None:
        real(self, *given)
        self._users = Forgetful()

    patch.setattr(deployed.DeployedAgent, "__init__", make)


@mutant("a deployment draws its noise as floats", DEPLOYED, "multiples of the grid")
def deployment_off_the_grid(patch: Patch) -> None:
    def floats(self: Any, prefix: tuple[int, ...]) -> Any:
        return np.random.default_rng().normal(size=(*prefix, *self.noise_scale.shape)) * self.noise_scale / self.grid

    patch.setattr(mechanism.Mechanism, "_draw", floats)
