# SPDX-License-Identifier: Apache-2.0
"""Broken variants of the flagship's residual block. Importing this registers them.

What the block asks, how much of the vector it has and in which units are functions of earlier releases; the block is inside
the one clip, counts included; its noise is that of every other number.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import examinations as ex
import jax.numpy as jnp
import numpy as np
import score_mutants
from client_tests import forbid  # noqa: F401  (first: it knows the way to the one below)
from make_vectors import example_billboard, example_model, example_trajectory

from mutants import MOVED, QUICK, Patch, mutant
from reticent.agents.score import posterior_update
from reticent.agents.score.learner import ScoreLearner
from reticent.agents.score.unit_ball import UnitBall
from reticent.privacy.clipping import clip_norm
from reticent_wire.forms import score_residual as wire_residual

NAME = "private-score-vi"
ROUNDS = {"first": 0.1, "growth": 1.0, "epsilon": 8.0, "residual": "on"}
"""Rounds of one user each in a tiny world."""

WORST, REPLAYED = ex.bounded(NAME, **ROUNDS), ex.replayed_users(NAME, **ROUNDS)
NOISE = ex.law_of(NAME, **ROUNDS)

PLANS = score_mutants.PLANS

QUICK |= {"residual-outside-the-clip", "counts-not-charged"}


def blend_size(ball: UnitBall) -> int:
    """The numbers of what a vector tells about the blend, in the tiny world of two steps that differ."""
    return int(ball.basis.shape[1] + 2 * ball.reward_basis.shape[1])


# -- the clip -----------------------------------------------------------------------------------------------------------


@mutant("residuals: the blend's part is clipped, and the residual block is sent as it is", WORST, MOVED)
def residual_outside_the_clip(patch: Patch) -> None:
    def clip(self: UnitBall, seen: Any) -> Any:
        cut = blend_size(self)
        return jnp.concatenate([clip_norm(seen[:cut], 1.0), jnp.nan_to_num(seen[cut:])])

    patch.setattr(UnitBall, "clip", clip)


@mutant("residuals: counts of visits are added after the clip, as if they told nothing", WORST, MOVED)
def counts_not_charged(patch: Patch) -> None:
    real = UnitBall.clip

    def clip(self: UnitBall, seen: Any) -> Any:
        width = self.directions + 2
        counts = jnp.arange(seen.shape[0]) >= blend_size(self)
        counts = counts & ((jnp.arange(seen.shape[0]) - blend_size(self)) % width == width - 1)
        return jnp.where(counts, jnp.clip(jnp.nan_to_num(seen), -1.0, 1.0), real(self, jnp.where(counts, 0.0, seen)))

    patch.setattr(UnitBall, "clip", clip)


def clipped_on_the_wire() -> ex.Examination:
    """Vectors by a hostile billboard, whose radius makes the block long: whatever is sent has length 1 at the most."""
    model = example_model("score-residual", nonnegative=True)
    board = example_billboard(model)
    board = dataclasses.replace(board, report={**board.report, "residual_radius": np.asarray(1e-3)})

    def examine() -> list[str]:
        lengths = [np.linalg.norm(model.contribution(board, example_trajectory(model, seed))) for seed in range(8)]
        return [] if max(lengths) <= 1 + 1e-9 else ["a vector with residuals leaves unclipped"]

    return ex._named(examine, "wire", {"residual": True})


@mutant("residuals: one client sends the block without a clip", clipped_on_the_wire(), "unclipped")
def residual_unclipped_in_one_client(patch: Patch) -> None:
    patch.setattr(wire_residual, "clipped", lambda vector, xp=np: vector)


# -- noise ----------------------------------------------------------------------------------------------------------------


@mutant("residuals: the block has the noise that its share of the vector would need alone", NOISE, "has a scale")
def residual_noise_by_its_share(patch: Patch) -> None:
    real = UnitBall._draw

    def draw(self: UnitBall, key: Any, prefix: tuple[int, ...]) -> Any:
        return real(self, key, prefix).at[..., blend_size(self) :].multiply(0.15**0.5)

    patch.setattr(UnitBall, "_draw", draw)


# -- raw numbers in what is asked ---------------------------------------------------------------------------------------


def _asked(patch: Patch, **changes: Any) -> None:
    """References of residuals whose fields are changed by the last round's raw sum ``(D,)``."""

    def changed(made: Any, raw: Any) -> Any:
        asked = made.residual
        fields = {name: change(getattr(asked.reference, name), raw) for name, change in changes.items()}
        return made._replace(residual=asked._replace(reference=asked.reference._replace(**fields)))

    score_mutants._knowing_raw(changed)(patch)


@mutant("residuals: their share follows the last raw sum instead of its release", REPLAYED, PLANS)
def share_from_raw_data(patch: Patch) -> None:
    _asked(patch, share=lambda share, raw: share / (1 + jnp.abs(raw).max()))


@mutant("residuals: a round asks along the directions of its own users' raw sum", REPLAYED, PLANS)
def directions_from_the_data(patch: Patch) -> None:
    _asked(patch, directions=lambda directions, raw: directions * (1 + 0.1 * raw[-directions.shape[1] :]))


@mutant("residuals: the radius follows the length of the users' blocks, not of replicas'", REPLAYED, PLANS)
def residual_radius_from_users(patch: Patch) -> None:
    _asked(patch, radius=lambda radius, raw: radius * (1 + jnp.linalg.norm(raw)))


@mutant("residuals: visits are counted exactly, since counts are no secret", REPLAYED, PLANS)
def exact_visits(patch: Patch) -> None:
    close, real, kept = ScoreLearner.close, posterior_update.release_of, {}

    def closing(self: ScoreLearner, state: Any, *rest: Any) -> Any:
        kept["raw"] = state.aggregate.open[0]
        return close(self, state, *rest)

    def released(agent: ScoreLearner, block: Any, plan: Any, own: Any, users: Any) -> Any:
        reference = plan.extension.residual.reference
        raw = kept["raw"][agent.score_dimension :].reshape(-1, block.directions + 2)[:, -1]
        exact = reference.radius / jnp.sqrt(reference.share) * raw / reference.count_scale
        return real(agent, block, plan, own, users)._replace(counts=exact, count_noise=jnp.zeros(()))

    patch.setattr(ScoreLearner, "close", closing)
    patch.setattr(posterior_update, "release_of", released)
