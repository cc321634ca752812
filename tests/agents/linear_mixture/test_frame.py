# SPDX-License-Identifier: Apache-2.0
"""Frames: the same θ explains the shifted and scaled values, and the declared bounds really are bounds."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_models import few, worlds

from reticent.agents.linear_mixture.frame import PAPER_FRAME, Frame
from reticent.worlds import World

FRAMES = [Frame(centred, span) for centred in (False, True) for span in ("horizon", "step", "seen")]


def values_after(world: World, step: int, seed: int, kind: str) -> np.ndarray:
    """Some V_{h+1} in [0, H−h]: spread out, almost constant, or only at the ends of the range."""
    left = world.model.horizon - 1 - step
    rng = np.random.default_rng(seed)
    states = world.model.states
    match kind:
        case "spread":
            return left * rng.uniform(size=states)
        case "flat":
            return np.full(states, left * rng.uniform()) + (1e-9 * rng.uniform(size=states) if left else 0)
        case _:
            return left * rng.integers(0, 2, size=states).astype(float)


@pytest.mark.verify
@pytest.mark.parametrize("frame", FRAMES, ids=lambda f: f"{f.span}{'-centred' * f.centred}")
@few
@given(world=worlds, seed=st.integers(0, 10**6), kind=st.sampled_from(["spread", "flat", "ends"]), at=st.floats(0, 1))
def test_frame(frame: Frame, world: World, seed: int, kind: str, at: float) -> None:
    model = world.model
    step = min(int(at * model.horizon), model.horizon - 1)
    following = values_after(world, step, seed, kind)
    left = np.float64(model.horizon - 1 - step)
    features, centre, scale = map(np.asarray, jax.jit(frame.features)(model, following, left))
    theta, transitions = np.asarray(world.transition_theta)[step], np.asarray(world.transitions)[step]

    # P V = c + ρ ⟨φ, θ⟩
    recovered = centre + scale * np.tensordot(theta, features, axes=1)
    np.testing.assert_allclose(recovered, transitions @ following, rtol=0, atol=1e-9)
    # Features are those of the framed values, which are the regression's targets.
    framed = (following - centre) / scale
    np.testing.assert_allclose(features, np.asarray(model.transition_features) @ framed, rtol=0, atol=1e-9)

    bounds = frame.bounds(model)
    assert np.sqrt((features**2).sum(axis=0)).max() <= bounds.feature[step] + 1e-9
    assert framed.min() >= bounds.low[step] - 1e-9
    assert framed.max() <= bounds.high[step] + 1e-9
    assert scale > 0
    if frame.span == "seen" and following.max() - following.min() > 1e-3:
        # Nothing is given away: the longest feature or target is exactly 1.
        longest = max(np.sqrt((features**2).sum(axis=0)).max(), np.abs(framed).max())
        assert longest == pytest.approx(1)


@few
@given(world=worlds)
def test_the_paper_s_frame_changes_nothing(world: World) -> None:
    following = np.linspace(0, 1, world.model.states)
    features, centre, scale = PAPER_FRAME.features(world.model, following, np.float64(1))
    np.testing.assert_array_equal(features, world.model.value_features(following))
    assert (float(centre), float(scale)) == (0.0, 1.0)
    bounds = PAPER_FRAME.bounds(world.model)
    np.testing.assert_allclose(bounds.feature, world.model.transition_bound * world.model.horizon)
    np.testing.assert_array_equal(bounds.high - bounds.low, float(world.model.horizon))
