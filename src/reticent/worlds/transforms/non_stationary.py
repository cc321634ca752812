# SPDX-License-Identifier: Apache-2.0
"""Users who change: one model, and a blend that moves at given users.

The candidates stay what they are and so does everything that a learner is told; what the truth is made of is drawn
anew in every phase. Regret is against the optimum of the phase that a user comes in
(:mod:`reticent.simulation.non_stationary`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from reticent.errors import InvalidInput
from reticent.runtime import double_precision
from reticent.worlds.transforms.unknown_start import require_known_start
from reticent.worlds.world import World, world_from_parameters


@dataclasses.dataclass(frozen=True, eq=False)
class Phase:
    """From the user with the 0-based number ``first`` on, the truth is that of ``world``."""

    first: int
    world: World


@double_precision
def phases_of(world: World, firsts: Sequence[int], seed: int = 0, *, moves: float = 1.0) -> list[Phase]:
    """Phases that begin with ``world`` and, at each of ``firsts``, move both blends towards fresh uniform draws.

    ``moves`` is how far: 1 is all the way, 0 is nowhere. Weights stay on their simplex.

    Raises:
      InvalidInput: the model declares no blend, or the firsts do not increase from 1 on.
    """
    require_known_start(world)
    model = world.model
    if not model.sums_to_one or model.reward_total is None:
        raise InvalidInput("world", world.name, "a blend of transitions and of rewards", "use one with both declared")
    if any(later <= earlier for earlier, later in zip([0, *firsts], firsts, strict=False)):
        raise InvalidInput("firsts", list(firsts), "increasing from 1 on", "give the users at which the phases change")
    if not 0 <= moves <= 1:
        raise InvalidInput("moves", moves, "from 0 to 1", "1 draws every phase anew")
    draw = np.random.default_rng(seed)
    thetas = [np.asarray(world.transition_theta), np.asarray(world.reward_theta)]
    found = [Phase(0, world)]
    for first in firsts:
        for place, total in enumerate((1.0, model.reward_total)):
            fresh = total * draw.dirichlet(np.ones(thetas[place].shape[-1]))
            thetas[place] = (1 - moves) * thetas[place] + moves * fresh
        found.append(
            Phase(first, world_from_parameters(model, *thetas, name=world.name, reward_kind=world.reward_kind))
        )
    return found
