# SPDX-License-Identifier: Apache-2.0
"""Random blends and tabular worlds of a few shapes (few, so that JAX compiles few programs) for hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from reticent.worlds import World, blend, tabular

SHAPES = [(2, 2, 3, 2, 1), (5, 3, 4, 3, 4)]


def random_world(seed: int, shape: tuple[int, ...], kind: str) -> World:
    states, actions, horizon, d1, d2 = shape
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(states, 0.5), size=(d1, states, actions))
    tables = rng.uniform(size=(d2, states, actions))
    if kind == "tabular":
        return tabular(rows[0], tables[0], horizon, bounds="tight" if seed % 2 else "paper")
    theta, weights = (rng.dirichlet(np.ones(d), size=horizon) for d in (d1, d2))
    return blend(rows, tables, theta, weights, horizon, bounds="tight" if seed % 2 else "paper")


worlds = st.builds(random_world, st.integers(0, 10**6), st.sampled_from(SHAPES), st.sampled_from(["blend", "tabular"]))
few = settings(max_examples=25, deadline=None, derandomize=True)
