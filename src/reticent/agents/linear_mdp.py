"""Model-free agents for linear MDPs: LSVI-UCB, and its private version with few policy switches."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, get_type_hints

import jax.numpy as jnp

from reticent.agents.fixed import Replan, check_scale
from reticent.agents.registry import AGENTS, PLANS
from reticent.errors import InvalidInput
from reticent.learning.linear_mdp import LinearMdpAgent, constant_radius, features_of, theory_radius
from reticent.learning.moments import FixedMoments
from reticent.learning.schedule import Schedule, geometric_sizes
from reticent.privacy.linear_mdp_plan import LinearMdpOptions, LinearMdpPlan, plan_linear_mdp
from reticent.privacy.moments import PrivateMoments
from reticent.worlds import Model


@AGENTS.register("lsvi-ucb")
def lsvi_ucb(
    model: Model,
    episodes: int,
    *,
    bonus_scale: float = 0.1,
    alpha: float = 0.05,
    regularization: float = 1.0,
    replan: Replan = "episode",
) -> LinearMdpAgent:
    """LSVI-UCB (Jin et al. 2020): model-free optimistic value iteration in linear MDPs, no privacy.

    Features are those that the model declares, else one-hot (up to 64 pairs of state and action). ``bonus_scale``
    multiplies the theory's β; ``replan="epoch"`` plans on a geometric public schedule.
    """
    check_scale("bonus_scale", bonus_scale)
    if not 0 < regularization < float("inf"):
        raise InvalidInput("regularization", regularization, "a finite number above 0", "use 1.0 if in doubt")
    features = features_of(model)
    d = features.shape[0]
    sizes = geometric_sizes(episodes, first=1, growth=1.2) if replan == "epoch" else None
    return LinearMdpAgent(
        model=model,
        regularizer=FixedMoments(jnp.asarray(float(regularization)), model.horizon, d, model.states),
        schedule=Schedule(episodes, sizes, final_release=True),
        method="value-iteration",
        name="lsvi-ucb",
        features=features,
        radius=constant_radius(theory_radius(d, model.horizon, episodes, alpha), model.horizon),
        bonus_scale=jnp.asarray(float(bonus_scale)),
    )


def make_private_lsvi(model: Model, episodes: int, options: LinearMdpOptions) -> tuple[LinearMdpAgent, LinearMdpPlan]:
    """The agent, and the plan that it keeps."""
    features = features_of(model)
    d = features.shape[0]
    plan = plan_linear_mdp(d, model.horizon, episodes, options)
    calibration = plan.calibration
    agent = LinearMdpAgent(
        model=model,
        regularizer=PrivateMoments(
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
    )
    return agent, plan


def private_lsvi_ucb(model: Model, episodes: int, **given: Any) -> LinearMdpAgent:
    """LSVI-UCB under joint differential privacy, with few policy switches (after Luyo et al. 2021, Ngo et al. 2022)."""
    return make_private_lsvi(model, episodes, LinearMdpOptions(**given))[0]


_KINDS = get_type_hints(LinearMdpOptions)
private_lsvi_ucb.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        *(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("model", "episodes")),
        *(
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=_KINDS[field.name]
            )
            for field in dataclasses.fields(LinearMdpOptions)
        ),
    ]
)
AGENTS.register("private-lsvi-ucb")(private_lsvi_ucb)


def _plan(model: Model, episodes: int, **given: Any) -> LinearMdpPlan:
    return plan_linear_mdp(features_of(model).shape[0], model.horizon, episodes, LinearMdpOptions(**given))


PLANS["private-lsvi-ucb"] = _plan
