# SPDX-License-Identifier: Apache-2.0
"""Model-free agents for linear MDPs: LSVI-UCB, and its private version with few policy switches."""

from __future__ import annotations

import jax.numpy as jnp

from reticent.agents.linear_mdp.learner import LinearMdpLearner, constant_radius, features_of, theory_radius
from reticent.agents.linear_mdp.linear_mdp_plan import LinearMdpOptions, plan_linear_mdp
from reticent.agents.linear_mdp.moments import FixedMoments
from reticent.agents.linear_mdp.private_moments import PrivateMoments
from reticent.agents.linear_mixture.linopt import check_scale
from reticent.agents.registry import AGENTS, register_with_options
from reticent.errors import InvalidInput
from reticent.learning.schedule import Replan, Schedule, replan_sizes
from reticent.worlds import Model


@AGENTS.register("lsvi-ucb")
def lsvi_ucb(
    model: Model,
    episodes: int,
    *,
    bonus_scale: float = 0.1,
    alpha: float = 0.05,
    regularization: float = 1.0,
    replan: Replan | None = None,
) -> LinearMdpLearner:
    """LSVI-UCB (Jin et al. 2020): model-free optimistic value iteration in linear MDPs, no privacy.

    Features are those that the model declares, else one-hot (up to 64 pairs of state and action). ``bonus_scale``
    multiplies the theory's β; ``replan`` is after every episode or on a geometric public schedule of epochs, by default
    where a plan is large.
    """
    check_scale("bonus_scale", bonus_scale)
    if not 0 < regularization < float("inf"):
        raise InvalidInput("regularization", regularization, "a finite number above 0", "use 1.0 if in doubt")
    features = features_of(model)
    d = features.shape[0]
    sizes = replan_sizes(model.states * model.actions, episodes, replan)
    return LinearMdpLearner(
        model=model,
        aggregator=FixedMoments(jnp.asarray(float(regularization)), model.horizon, d, model.states),
        schedule=Schedule(episodes, sizes, final_release=True),
        method="value-iteration",
        name="lsvi-ucb",
        features=features,
        radius=constant_radius(theory_radius(d, model.horizon, episodes, alpha), model.horizon),
        bonus_scale=jnp.asarray(float(bonus_scale)),
    )


def make_private_lsvi(model: Model, episodes: int, options: LinearMdpOptions) -> LinearMdpLearner:
    """The agent that keeps the promise of ``options``."""
    features = features_of(model)
    d = features.shape[0]
    plan = plan_linear_mdp(d, model.horizon, episodes, options)
    calibration = plan.calibration
    return LinearMdpLearner(
        model=model,
        aggregator=PrivateMoments(
            gram_scale=jnp.asarray(calibration.gram_sigma),
            moment_scale=jnp.asarray(calibration.moment_sigma),
            shift=jnp.asarray(plan.shift),
            floor=jnp.asarray(plan.floor),
            counter=calibration.counter,
            dimension=d,
            states=model.states,
        ),
        schedule=plan.schedule,
        method="value-iteration",
        name="private-lsvi-ucb",
        features=features,
        radius=jnp.asarray(theory_radius(d, model.horizon, episodes, options.alpha) + plan.noise_radius),
        bonus_scale=jnp.asarray(float(options.bonus_scale)),
        promise=plan.guarantee,
    )


register_with_options(
    "private-lsvi-ucb",
    "LSVI-UCB under joint differential privacy, with few policy switches (after Luyo et al. 2021, Ngo et al. 2022).",
    make_private_lsvi,
    LinearMdpOptions(),
)
