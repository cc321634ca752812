# SPDX-License-Identifier: Apache-2.0
"""Model-free agents for linear MDPs: LSVI-UCB, and its private version with few policy switches."""

from __future__ import annotations

import jax.numpy as jnp

from reticent.agents.linear_mdp.learner import LinearMdpLearner, constant_radius, features_of, theory_radius
from reticent.agents.linear_mdp.linear_mdp_plan import LinearMdpOptions, plan_linear_mdp
from reticent.agents.linear_mdp.moments import FixedMoments
from reticent.agents.linear_mdp.private_moments import PrivateMoments
from reticent.agents.linear_mixture.linopt import RidgeOptions, check_scale
from reticent.agents.registry import register_with_options
from reticent.errors import InvalidInput
from reticent.learning.schedule import Schedule, replan_sizes
from reticent.worlds import Model


def make_lsvi(model: Model, episodes: int, options: RidgeOptions) -> LinearMdpLearner:
    """The learner without privacy. Features are those that the model declares, else one-hot (up to 64 pairs)."""
    check_scale("bonus_scale", options.bonus_scale)
    if not 0 < options.regularization < float("inf"):
        raise InvalidInput("regularization", options.regularization, "a finite number above 0", "use 1.0 if in doubt")
    features = features_of(model)
    d = features.shape[0]
    sizes = replan_sizes(model.states * model.actions, episodes, options.replan)
    return LinearMdpLearner(
        model=model,
        aggregator=FixedMoments(jnp.asarray(float(options.regularization)), model.horizon, d, model.states),
        schedule=Schedule(episodes, sizes, final_release=True),
        method="value-iteration",
        name="lsvi-ucb",
        features=features,
        radius=constant_radius(theory_radius(d, model.horizon, episodes, options.alpha), model.horizon),
        bonus_scale=jnp.asarray(float(options.bonus_scale)),
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
    "lsvi-ucb",
    "LSVI-UCB (Jin et al. 2020): model-free optimistic value iteration in linear MDPs, no privacy.",
    make_lsvi,
    RidgeOptions(),
)
register_with_options(
    "private-lsvi-ucb",
    "LSVI-UCB under joint differential privacy, with few policy switches (after Luyo et al. 2021, Ngo et al. 2022).",
    make_private_lsvi,
    LinearMdpOptions(),
)
