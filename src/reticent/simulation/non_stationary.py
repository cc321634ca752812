# SPDX-License-Identifier: Apache-2.0
"""A simulation whose truth changes at given users; regret is against the optimum of the moment.

Each phase is a part of one run (:func:`reticent.simulation.simulate.simulate` resumed), so that users, noise and
learner are those of a run without phases. A phase begins at the first end of a block that is not before its first
user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import Array

from reticent.errors import InvalidInput
from reticent.learning.learner import AnyLearner
from reticent.runtime import double_precision
from reticent.simulation.simulate import Curves, simulate
from reticent.worlds.transforms.non_stationary import Phase


@double_precision
def simulate_non_stationary(
    agent: AnyLearner, phases: Sequence[Phase], seeds: Sequence[int], *, width: int = 256
) -> Curves:
    """Run ``agent`` for its schedule's episodes through ``phases``, the first of which begins with the first user.

    Raises:
      InvalidInput: phases do not begin with the first user, or not within the schedule.
    """
    episodes = agent.schedule.episodes
    firsts = [phase.first for phase in phases]
    if not firsts or firsts[0] != 0 or firsts[-1] >= episodes:
        raise InvalidInput(
            "phases", firsts, f"from 0 and below {episodes}", "begin with user 0 and end before the last"
        )
    whole: Curves | None = None
    for phase, until in zip(phases, [*firsts[1:], episodes], strict=True):
        if whole is None:
            whole = simulate(agent, phase.world, seeds, width=width, until_episode=until)
            continue
        # What is in force is worth something else from now on.
        value = _values(agent, phase.world, whole.carry.plan)
        carry = whole.carry._replace(value=value)
        part = simulate(
            agent, phase.world, seeds, width=width, resume=carry, from_episode=whole.position, until_episode=until
        )
        whole = whole.then(part)
    assert whole is not None
    return whole


@jax.jit
def _values(agent: AnyLearner, world: Any, plans: Any) -> Array:
    """What every seed's plan is worth in ``world``."""
    return jax.vmap(lambda plan: agent.plan_value(plan, world))(plans)
