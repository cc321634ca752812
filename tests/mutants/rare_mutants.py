# SPDX-License-Identifier: Apache-2.0
"""Broken variants that fail rarely and then totally: once in a thousand runs, or five times. Importing this registers them.

Scale, shape and independence of such noise pass every test that does not look for them; δ is what they break.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import examinations as ex
import jax
import jax.numpy as jnp

from mutants import QUICK, Patch, mutant
from reticent.agents.linear_mdp.private_moments import PrivateMoments
from reticent.privacy.sums import PrivateSums
from reticent.privacy.trust.local import Local

EPOCHS, TREE, SHORT = ex.searched(first=1), ex.searched(counter="tree"), ex.searched(trials=20_000, first=1)
LOCAL, COUNTS = ex.searched(trust="local", first=1), ex.searched("pucb", first=1)
MOMENTS = ex.searched("private-lsvi-ucb", users=16, epsilon=4.0)

WHOLE, NUMBER, REPEAT = "no noise on a whole release", "no noise on some number", "the noise of another release"

QUICK |= {"one-number-forgotten-rarely"}

Draw = Callable[[PrivateSums, Any, tuple[int, ...]], Any]
Bad = Callable[[Draw, PrivateSums, Any, tuple[int, ...]], Any]


def rarely(key: Any, probability: float) -> Any:
    """Whether this draw is one of the bad ones."""
    return jax.random.uniform(jax.random.fold_in(key, 71)) < probability


def drawing(bad: Bad, probability: float, patch: Patch) -> None:
    """Make draws ``bad`` with this probability."""
    real = PrivateSums._draw

    def draw(self: PrivateSums, key: Any, prefix: tuple[int, ...]) -> Any:
        return jnp.where(rarely(key, probability), bad(real, self, key, prefix), real(self, key, prefix))

    patch.setattr(PrivateSums, "_draw", draw)


def silence(real: Draw, self: PrivateSums, key: Any, prefix: tuple[int, ...]) -> Any:
    return jnp.zeros(prefix + self.noise_scale.shape)


@mutant("noise is forgotten once in a thousand rounds", EPOCHS, WHOLE)
def noise_forgotten_once_in_a_thousand(patch: Patch) -> None:
    drawing(silence, 1e-3, patch)


@mutant("the same in a tree, whose releases hold other rounds' noise too", TREE, WHOLE)
def node_noise_forgotten_once_in_a_thousand(patch: Patch) -> None:
    drawing(silence, 1e-3, patch)


@mutant("once in a thousand rounds the generator falls back to a fixed seed", TREE, REPEAT)
def noise_repeated_once_in_a_thousand(patch: Patch) -> None:
    drawing(lambda real, self, key, prefix: real(self, jax.random.key(5), prefix), 1e-3, patch)


@mutant("one number of a round is left without noise, in one round of two hundred", SHORT, NUMBER)
def one_number_forgotten_rarely(patch: Patch) -> None:
    drawing(lambda real, self, key, prefix: real(self, key, prefix).at[..., 0, 0].set(0.0), 5e-3, patch)


@mutant("one report in a thousand leaves its device before its noise is added", LOCAL, WHOLE)
def report_sent_too_early_once_in_a_thousand(patch: Patch) -> None:
    real = Local.send

    def send(self: Local, contribution: Any, noise: Any, grid: Any) -> Any:
        early = jnp.floor(1e6 * jnp.abs(noise).sum()) % 1000 == 0
        return real(self, contribution, jnp.where(early, 0.0, noise), grid)

    patch.setattr(Local, "send", send)


@mutant("counts: Laplace noise is forgotten once in a thousand rounds", COUNTS, WHOLE)
def laplace_forgotten_once_in_a_thousand(patch: Patch) -> None:
    drawing(silence, 1e-3, patch)


@mutant("model-free: a round's moments have no noise, once in a thousand rounds", MOMENTS, NUMBER)
def moments_forgotten_once_in_a_thousand(patch: Patch) -> None:
    real = PrivateMoments.simulate_round_noise

    def simulated(self: PrivateMoments, key: Any) -> Any:
        noise = real(self, key)
        return noise._replace(moment=jnp.where(rarely(key, 1e-3), 0.0, noise.moment))

    patch.setattr(PrivateMoments, "simulate_round_noise", simulated)
