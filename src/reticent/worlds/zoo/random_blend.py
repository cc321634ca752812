# SPDX-License-Identifier: Apache-2.0
"""Random blends: seeded worlds without a story, for sweeps over sizes and for tests.

What was chosen, and why (S=20, A=4, H=5, d=4, 200 seeds):

* Each candidate's row is Dirichlet with concentration 0.1 a state: some two or three likely successors each. Two
  candidates are then 0.86 apart in total variation on average, so that the blend is worth knowing; at concentration 1
  it is 0.49, and rows blur into each other.
* Rewards are uniform on [0, 1] in every candidate table. Optimal minus uniform value is then 0.97 in the
  median (seed 0: 1.01) and between 0.7 and 1.2 for 86% of the seeds; more extreme tables (Beta 0.3) raise it to about
  1.3 and spread it.
* Both blends are uniform on the simplex (Dirichlet 1): no candidate is the truth, none is certain to matter.
"""

from __future__ import annotations

import numpy as np

from reticent.errors import InvalidInput
from reticent.worlds.models.blend import Bounds, blend
from reticent.worlds.registry import register_world
from reticent.worlds.transforms.misspecified import misspecified
from reticent.worlds.transforms.unknown_start import Initial, with_unknown_start
from reticent.worlds.world import World


@register_world("random-blend", episodes=20_000, sizes=(20, 4, 5, 4, 4))
def random_blend(
    *,
    states: int = 20,
    actions: int = 4,
    horizon: int = 5,
    d: int = 4,
    d1: int | None = None,
    d2: int | None = None,
    seed: int = 0,
    concentration: float = 0.1,
    per_step: bool = False,
    bounds: Bounds = "paper",
    misspecification: float = 0.0,
    initial: Initial = "known",
) -> World:
    """A seeded random blend of random candidate models and reward tables.

    ``d`` sets both dimensions, ``d1`` and ``d2`` one each. ``concentration`` is the Dirichlet parameter of the
    candidates' rows (small: few likely successors). ``per_step`` draws another blend for every step. The four random
    draws have streams of their own: another horizon or ``per_step`` leaves the candidates as they are.
    ``misspecification`` moves the truth off the candidates' span by that total variation
    (:mod:`reticent.worlds.transforms.misspecified`); the learner does not know this. All users begin in state 0,
    which the model knows unless ``initial`` is ``unknown``.
    """
    d1, d2 = d if d1 is None else d1, d if d2 is None else d2
    for field, size in (("states", states), ("actions", actions), ("horizon", horizon), ("d1", d1), ("d2", d2)):
        if size < 1:
            raise InvalidInput(f"random-blend: {field}", size, "at least 1", "give a positive size")
    if seed < 0:
        raise InvalidInput("random-blend: seed", seed, "not negative", "give a seed of at least 0")
    if not concentration > 0:
        raise InvalidInput("random-blend: concentration", concentration, "positive", "try 0.1 to 1")
    rows, tables, weights, reward_weights = np.random.default_rng(seed).spawn(4)
    steps = (horizon,) if per_step else ()
    world = blend(
        rows.dirichlet(np.full(states, concentration), size=(d1, states, actions)),
        tables.uniform(size=(d2, states, actions)),
        weights.dirichlet(np.ones(d1), size=steps),
        reward_weights.dirichlet(np.ones(d2), size=steps),
        horizon,
        name="random-blend",
        bounds=bounds,
    )
    world = misspecified(world, misspecification) if misspecification else world
    return with_unknown_start(world) if initial == "unknown" else world
