# SPDX-License-Identifier: Apache-2.0
"""PSRL: posterior sampling without privacy."""

from __future__ import annotations

import jax.numpy as jnp

from reticent.agents.linear_mixture.learner import require_declared
from reticent.agents.registry import AGENTS
from reticent.agents.tabular.counts import make_exact_counts
from reticent.agents.tabular.posterior import CountsAndKey, PosteriorLearner
from reticent.errors import InvalidInput
from reticent.learning.schedule import Replan, Schedule, replan_sizes
from reticent.worlds import Model


@AGENTS.register("psrl")
def psrl(
    model: Model,
    episodes: int,
    *,
    prior: float = 1.0,
    replan: Replan | None = None,
    pool: bool = False,
) -> PosteriorLearner:
    """PSRL (Osband et al. 2013): plans for a world drawn from the posterior of the counts, no privacy.

    ``prior`` is the weight of the uniform prior on next states in visits; ``replan`` and ``pool`` are as in ``ucbvi``.
    """
    if not 0 < prior < float("inf"):
        raise InvalidInput("prior", prior, "a finite number above 0", "1 counts as one visit")
    require_declared(model, pool=pool, normalize=False)
    sizes = replan_sizes(model.states * model.actions, episodes, replan)
    return PosteriorLearner(
        model=model,
        aggregator=CountsAndKey(make_exact_counts(model, pool)),
        prior=jnp.asarray(float(prior)),
        schedule=Schedule(episodes, sizes, final_release=True),
        method="value-iteration",
        name="psrl",
    )
