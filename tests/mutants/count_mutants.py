# SPDX-License-Identifier: Apache-2.0
"""Broken variants of the privacy code of agents that count. Importing this module registers them with the others."""

from __future__ import annotations

import functools
from typing import Any

import examinations as ex
import jax
import jax.numpy as jnp
import numpy as np

from mutants import MOVED, QUICK, Patch, mutant
from reticent.agents import make_agent
from reticent.agents.tabular import count_calibration, count_plan
from reticent.agents.tabular.count_plan import CountPlan
from reticent.agents.tabular.count_privatizer import CountPrivatizer, table_slices
from reticent.agents.tabular.counts import over_steps, unpack
from reticent.audit import Subject, check_noise, replay, seen_as, worst_pair
from reticent.privacy.counters import TreeCounter
from reticent.worlds import World, make_world

USERS = 4
COST = "this pair has (mu|epsilon)"


@functools.cache
def small_world() -> World:
    return make_world("random-blend:states=3,actions=2,horizon=3,d1=2,d2=2")


def subject(name: str, **options: Any) -> Subject:
    return Subject(make_agent(name, small_world().model, USERS, **options))


def replayed(name: str, **options: Any) -> ex.Examination:
    """Replay with the worst pair of episodes; the second user is the one who changes."""

    def examine() -> list[str]:
        one = subject(name, **options)
        pair, _ = worst_pair(one, random=2)
        return list(replay(one, [seen_as(pair.canary)] * USERS, 1, seen_as(pair.replacement)).findings)

    return ex._named(examine, "replay", {"agent": name, **options})


def distributed(name: str, **options: Any) -> ex.Examination:
    """The law of the privatizer's noise."""
    return ex._named(lambda: check_noise(subject(name, **options)), "distribution", {"agent": name, **options})


TREE = replayed("pucb", counter="tree")
EPOCHS = replayed("private-ucb-vi", counter="epochs", first=1, growth=1.0)
LOCAL_NOISE = distributed("ldp-obi", first=1)

QUICK |= {
    "gaussian-for-laplace",
}


@mutant("counts: rewards are not clipped", EPOCHS, MOVED)
def rewards_of_counts_not_clipped(patch: Patch) -> None:
    patch.setattr(CountPrivatizer, "clip", lambda self, seen: seen)


@mutant("counts: visits and rewards have noise, transitions have none", EPOCHS, COST)
def transitions_without_noise(patch: Patch) -> None:
    real = CountPlan.noise_scale.fget

    def scales(self: CountPlan) -> np.ndarray:
        scale = np.array(real(self))
        scale[:, table_slices(self.states, self.actions)["transitions"]] = 0.0
        return scale

    patch.setattr(CountPlan, "noise_scale", property(scales))


@mutant("counts: the noise covers one step of a trajectory, not all H", EPOCHS, COST)
def counts_without_the_horizon(patch: Patch) -> None:
    real = count_calibration.calibrate_counts
    patch.setattr(count_plan, "calibrate_counts", lambda horizon, *given, **named: real(1, *given, **named))
    patch.setattr(
        CountPlan, "noise_scale",
        property(lambda self: np.full((small_world().model.horizon, 30), self.calibration.scale)),
    )  # fmt: skip


@mutant("counts: a tree's Laplace noise as if an item were in one block", TREE, "exposure is|" + COST)
def pure_tree_without_its_levels(patch: Patch) -> None:
    patch.setattr(count_calibration, "blocks_of_an_item", lambda counter: 1.0)
    patch.setattr(TreeCounter, "exposure", lambda self: np.ones(self.rounds))


@mutant("counts: a replaced user is taken to change one cell, not two", TREE, COST)
def one_cell_under_replace(patch: Patch) -> None:
    patch.setattr(count_calibration, "table_sensitivity", lambda law, adjacency: 1.0)


@mutant("counts: a user's episode is counted twice", EPOCHS, MOVED)
def second_contribution_of_counts(patch: Patch) -> None:
    patch.setattr(CountPrivatizer, "absorb", lambda self, state, report: state._replace(open=state.open + 2 * report))


@mutant("counts: noisy counts are made valid with the help of the exact ones", TREE, "not a function of noisy sums")
def counts_repaired_from_raw_sums(patch: Patch) -> None:
    real_close, real = CountPrivatizer.close, CountPrivatizer.released
    patch.setattr(
        CountPrivatizer, "close", lambda self, state, drawn: real_close(self, state, drawn)._replace(open=state.open)
    )

    def released(self: CountPrivatizer, state: Any) -> Any:
        exact = unpack(state.open, self.states, self.actions)
        exact = over_steps(exact) if self.pooled else exact
        return jax.tree.map(lambda noisy, raw: jnp.where(raw > 0, noisy, 0.0), real(self, state), exact)

    patch.setattr(CountPrivatizer, "released", released)


@mutant("counts: Gaussian noise where Laplace noise was calibrated", LOCAL_NOISE, "not Laplace")
def gaussian_for_laplace(patch: Patch) -> None:
    def draw(self: CountPrivatizer, key: Any, prefix: tuple[int, ...]) -> Any:
        return self.noise_scale * jax.random.normal(key, prefix + self.noise_scale.shape)

    patch.setattr(CountPrivatizer, "_draw", draw)


@mutant("counts: the Laplace scale is taken for a standard deviation", LOCAL_NOISE, "not Laplace|has a scale")
def scale_taken_for_deviation(patch: Patch) -> None:
    real = CountPrivatizer._draw
    patch.setattr(CountPrivatizer, "_draw", lambda self, key, prefix: real(self, key, prefix) / 2**0.5)
