# SPDX-License-Identifier: Apache-2.0
"""The contribution of the form ``score-residual``, derived again from docs/proofs/score-vi.md.

What an episode tells is computed in exact fractions, and how far two users are apart in exact integers, whatever they did
and whatever was published.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from client_tests import forbid  # noqa: F401  (first: it knows the way to the next)
from make_vectors import _score_reference, example_billboard, example_model

from reticent.runtime import double_precision
from reticent_wire import Billboard, Model
from reticent_wire.forms.score import ScoreVector, clipped
from reticent_wire.forms.score_residual import FIELD, ResidualReference, residual_vector, stacked
from reticent_wire.trajectory import Trajectory, well_formed

MODEL = example_model("score-residual", nonnegative=True)
STEP_MODEL = example_model("score-residual", nonnegative=True, pooled=False)

EPISODES: list[tuple[list[Any], list[Any], list[Any]]] = [
    ([0, 0, 0, 0], [0, 0, 0], [0.0, 0.0, 0.0]), ([0, 0, 0, 0], [0, 0, 0], [1.0, 1.0, 1.0]),
    ([0, 3, 0, 3], [0, 0, 0], [0.0, 0.0, 0.0]), ([3, 2, 1, 0], [1, 0, 1], [1e300, -1e300, math.nan]),
    ([2**62, -5, 1, 2], [9, -9, 1], [math.inf, None, 0.5]),
]  # fmt: skip
"""In one place, back and forth, and out of every range."""

EXTREME = (0.0, -0.0, 5e-324, 1e-300, 1e200, -1e200, float(np.finfo(float).max), math.inf, -math.inf, math.nan)
SHARES = (-1.0, 0.0, 1e-300, 0.25, 1 - 2**-53, 1.0, 1 + 2**-52, 7.0, math.inf, math.nan)


def board_with(model: Model, **fields: Any) -> Billboard:
    """A billboard whose reference of residuals has these fields."""
    report = _score_reference(model, 1.0)
    changed = {FIELD + name: np.full_like(report[FIELD + name], value) for name, value in fields.items()}
    return dataclasses.replace(example_billboard(model), report={**report, **changed})


def published(model: Model) -> Iterator[Billboard]:
    """References with one field, or two of those that divide and multiply, far out or no number."""
    for share in SHARES:
        yield board_with(model, share=share)
        yield board_with(model, share=share, radius=1e-300)
    for name in ("directions", "expected", "rewards", "reward_scale", "count_scale", "radius"):
        for value in EXTREME:
            yield board_with(model, **{name: value}, share=0.5)
    for value, radius in itertools.product((1e200, math.inf, 5e-324), (0.0, 5e-324, 1e300)):
        yield board_with(model, directions=value, radius=radius, share=0.5)


def told_exactly(model: Model, board: Billboard, seen: Trajectory) -> list[Fraction]:
    """w/R of the page, entry by entry: for every cell the sum over the steps there."""
    reference = ResidualReference(*(board.report[FIELD + name] for name in ResidualReference._fields))
    groups, states, actions, size = reference.expected.shape
    told = [[Fraction(0)] * (size + 2) for _ in range(groups * states * actions)]
    for step in range(model.horizon):
        group = min(step, groups - 1)
        here, there, action = (int(part) for part in (seen.states[step], seen.states[step + 1], seen.actions[step]))
        row = told[(group * states + here) * actions + action]
        for along in range(size):
            row[along] += Fraction(float(reference.directions[there, along]))
            row[along] -= Fraction(float(reference.expected[group, here, action, along]))
        missed = Fraction(float(seen.rewards[step])) - Fraction(float(reference.rewards[group, here, action]))
        row[size] += Fraction(float(reference.reward_scale)) * missed
        row[size + 1] += Fraction(float(reference.count_scale))
    return [entry / Fraction(float(reference.radius)) for row in told for entry in row]


@pytest.mark.parametrize("model", [MODEL, STEP_MODEL], ids=["pooled", "by step"])
@pytest.mark.parametrize("radius", [25.0, 1e-3])
def test_what_an_episode_tells_is_what_the_page_says(model: Model, radius: float) -> None:
    """With all of the ball for residuals: as it is where it is short, and its direction where it is long."""
    board, draw = board_with(model, share=1.0, radius=radius), np.random.default_rng(3)
    for _ in range(20):
        seen = well_formed(model, draw.integers(0, 4, 4), draw.integers(0, 2, 3), draw.random(3), 0)
        wanted = told_exactly(model, board, seen)
        length = math.sqrt(sum(entry * entry for entry in wanted))
        found = model.contribution(board, seen)[0]
        blend = len(found) - len(wanted)
        assert not found[:blend].any()
        expected = [float(entry) / max(length, 1.0) for entry in wanted]
        np.testing.assert_allclose(found[blend:], expected, rtol=1e-11, atol=1e-15)
    assert (length > 1) == (radius < 1)


@jax.jit
def _in_jax(vector: Any, reference: ResidualReference, states: Any, actions: Any, rewards: Any) -> Any:
    told = residual_vector(reference, Trajectory(states, actions, rewards), jnp)
    return clipped(stacked(vector, told, reference.share, jnp), jnp)


@double_precision
def simulated(model: Model, board: Billboard, seen: Trajectory) -> np.ndarray:
    """The contribution as a simulation makes it, of the same functions under JAX."""
    framed = board.report["framed_values"]
    vector = ScoreVector._vectors(model.rules.form, model, board, framed, seen)  # type: ignore[arg-type]
    reference = ResidualReference(*(board.report[FIELD + name] for name in ResidualReference._fields))
    return np.asarray(_in_jax(vector, reference, *seen[:3]), np.float64)


def apart(one: np.ndarray, other: np.ndarray, grid: float) -> bool:
    r"""Whether two vectors of whole steps are at most :math:`2+g\sqrt D` apart, in exact integers.

    With M = 2/g whole: :math:`n\le(M+\sqrt D)^2` for n, the square in steps.
    """
    steps = [int(a) - int(b) for a, b in zip(one.ravel(), other.ravel(), strict=True)]
    square, unit, size = sum(step * step for step in steps), round(2 / grid), len(steps)
    assert unit * grid == 2
    over = square - unit * unit - size
    return over <= 0 or over * over <= 4 * unit * unit * size


@pytest.mark.parametrize("model", [MODEL, STEP_MODEL], ids=["pooled", "by step"])
def test_two_users_are_within_the_ball_on_every_path_whatever_is_published(model: Model) -> None:
    """Device, service and simulation; TypeScript has the shared vectors of these references."""
    seen = [well_formed(model, *episode, place) for place, episode in enumerate(EPISODES)]
    farthest = 0.0
    for board in published(model):
        with np.errstate(all="ignore"):
            vectors = [model.contribution(board, one).ravel() for one in seen]
            in_jax = [simulated(model, board, one) for one in seen[:2]]
        for vector in (*vectors, *in_jax):
            assert np.isfinite(vector).all()
            assert sum(Fraction(float(entry)) ** 2 for entry in vector) <= 1
        steps = [model.steps(board, one) for one in seen]
        np.testing.assert_array_equal(model.steps_of_all(board, seen), np.stack(steps))
        assert all(apart(one, other, model.rules.grid) for one, other in itertools.combinations(steps, 2))
        farthest = max(farthest, *(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(vectors, 2)))
    assert farthest > 1.3  # users of different cells: the check sees what there is to see


def test_the_bound_is_attained_and_one_unclipped_block_would_pass_it() -> None:
    """Two users of one cell with opposite ends are 2 apart; were the residuals outside the clip, much farther."""
    board = board_with(MODEL, share=1.0, radius=1e-6, expected=0.0, rewards=0.5, reward_scale=0.0, count_scale=0.0)
    ends = np.zeros_like(board.report[FIELD + "directions"])
    ends[1], ends[2] = 1.0, -1.0
    board = dataclasses.replace(board, report={**board.report, FIELD + "directions": ends})
    one, other = (well_formed(MODEL, [0, there, there, there], [0, 0, 0], [0.5] * 3, None) for there in (1, 2))
    one, other = (seen._replace(states=np.array([0, int(seen.states[1]), 0, 0])) for seen in (one, other))
    vectors = [MODEL.contribution(board, seen).ravel() for seen in (one, other)]
    assert np.linalg.norm(vectors[0] - vectors[1]) == pytest.approx(2.0, abs=1e-12)
    assert apart(MODEL.steps(board, one), MODEL.steps(board, other), MODEL.rules.grid)
    told = [told_exactly(MODEL, board, seen) for seen in (one, other)]
    assert sum((a - b) ** 2 for a, b in zip(*told, strict=True)) > 4 * 10**6
