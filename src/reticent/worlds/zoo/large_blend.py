# SPDX-License-Identifier: Apache-2.0
r"""Large blends: a small random blend embedded in many states, so that only the number of states changes.

The core is ``random-blend`` with 20 states. State (c, j) is the j-th copy of core state c, and everything the learner may
know of it is its own:

* Its successors are random copies of the core's, drawn anew for every pair, so that each pair has few of the S states.
* Its candidates are its own, too. In every pair each two candidates i, l trade rows: :math:`P_i` gives the share
  :math:`u\min(1,w_l/w_i)/(d-1)` of itself for the same share of :math:`P_l`, and :math:`P_l` the share
  :math:`u\min(1,w_i/w_l)/(d-1)`, with u uniform on [0, ½] and w the hidden blend. :math:`w_i` times what i gains is then
  :math:`w_l` times what l loses: candidates differ from copy to copy, and their blend does not. Reward tables trade the
  same way.

So the truth forgets the copy: optimal and uniform value are those of the core, for any number of states. The learner
cannot know this. It has S states, S·A·n transition probabilities to plan with, and features that are nowhere the same;
whatever its regret depends on besides, it is not S.
"""

from __future__ import annotations

import numpy as np

from reticent.errors import InvalidInput
from reticent.worlds.models.blend import Bounds, blend
from reticent.worlds.registry import register_world
from reticent.worlds.world import World

MOST_TRADED = 0.5


@register_world("large-blend", episodes=20_000, sizes=(1000, 4, 5, 4, 4))
def large_blend(
    *,
    states: int = 1000,
    actions: int = 4,
    horizon: int = 5,
    d: int = 4,
    successors: int = 20,
    core: int = 20,
    seed: int = 0,
    concentration: float = 0.1,
    bounds: Bounds = "paper",
) -> World:
    """A random blend of ``core`` states, embedded in ``states``; its values do not depend on their number.

    ``states`` is a multiple of ``core``. A pair has ``successors`` of them: up to ``core`` as many successors as in the
    core, beyond that several copies of each. Core and hidden blends are random-blend's of the same seed where
    ``successors`` is at least ``core``, and an episode begins in a random copy of state 0.
    """
    sizes = {"states": states, "actions": actions, "horizon": horizon, "d": d, "successors": successors, "core": core}
    for field, size in sizes.items():
        if size < 1:
            raise InvalidInput(f"large-blend: {field}", size, "at least 1", "give a positive size")
    if states % core:
        raise InvalidInput(
            "large-blend: states", states, f"a multiple of core = {core}", "give every state as many copies"
        )
    if seed < 0:
        raise InvalidInput("large-blend: seed", seed, "not negative", "give a seed of at least 0")
    if not concentration > 0:
        raise InvalidInput("large-blend: concentration", concentration, "positive", "try 0.1 to 1")
    # The first four streams are random-blend's.
    rows, tables, weights, reward_weights, places, copying, trade, reward_trade = np.random.default_rng(seed).spawn(8)
    copies, reached = states // core, min(successors, core)
    blended, rewarded = weights.dirichlet(np.ones(d)), reward_weights.dirichlet(np.ones(d))

    # Column k of a pair is a copy of its k-th successor in the core, counted around; copies share its probability.
    column = np.arange(successors) % reached
    share = 1 / np.bincount(column)[column]
    small = rows.dirichlet(np.full(reached, concentration), size=(d, core, actions))[..., column] * share
    which = np.broadcast_to(np.arange(core), (core, actions, core))
    if reached < core:
        which = places.permuted(which, axis=-1)
    drawn = copying.integers(0, copies, size=(core, copies, actions, successors), dtype=np.int32)
    following = which[:, None, :, column].astype(np.int32) * np.int32(copies) + drawn

    means = tables.uniform(size=(d, core, actions))
    start = np.zeros(states)
    start[:copies] = 1 / copies
    return blend(
        _traded(small, blended, copies, trade).reshape(d, states, actions, successors),
        _traded(means[..., None], rewarded, copies, reward_trade).reshape(d, states, actions),
        blended,
        rewarded,
        horizon,
        initial=start,
        name="large-blend",
        bounds=bounds,
        successors=following.reshape(states, actions, successors),
    )


def _traded(small: np.ndarray, weights: np.ndarray, copies: int, rng: np.random.Generator) -> np.ndarray:
    """Copies ``(d, core, copies, A, n)`` of ``small`` ``(d, core, A, n)`` after all trades; their blend is that of it."""
    d, core, actions = small.shape[:3]
    large = np.repeat(small[:, :, None], copies, axis=2)
    for i in range(d):
        for other in range(i):
            u = rng.uniform(0, MOST_TRADED / (d - 1), size=(core, copies, actions, 1))
            gained = u * (small[other] - small[i])[:, None]
            larger = max(weights[i], weights[other])
            large[i] += gained * (weights[other] / larger)
            large[other] -= gained * (weights[i] / larger)
    return large
