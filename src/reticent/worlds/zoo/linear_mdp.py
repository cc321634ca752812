# SPDX-License-Identifier: Apache-2.0
r"""Random linear MDPs: known features of state and action, unknown measures over next states.

.. math:: P_h(s'\mid s,a)=\langle\phi(s,a),\mu_h(s')\rangle,\qquad r_h(s,a)=\langle\phi(s,a),\theta_h\rangle .

A feature vector lies in the simplex and says how much of each of d hidden *situations* a pair (s, a) is; a situation has
a distribution over next states :math:`\mu_{h,i}` and a mean reward :math:`\theta_{h,i}`. The learner knows :math:`\phi`
and nothing of :math:`\mu`: dS unknown probabilities, where a blend has d unknown weights. That is the setting of
model-free learners (:mod:`reticent.agents.linear_mdp.learner`), for which d alone counts.

It is a linear mixture MDP too, with one feature :math:`\psi_{(i,x)}(s'\mid s,a)=\phi_i(s,a)\,1[s'=x]` per situation and
state, so that the model-based agents can be run beside them: :math:`d_1=dS`. Norms, both declared:
:math:`\|\phi_V\|_2=\|\phi\|_2\|V\|_2\le\sqrt S\,\|V\|_\infty` and :math:`\|\theta_{h,p}\|_2\le\sqrt d`.

Chosen so that there is something to learn (S=10, A=3, H=4, d=4, seeds 0-19): features are Dirichlet with concentration
0.2, most pairs are mostly one situation; measures have 0.3; rewards of the situations are spread evenly over [0, 1].
"""

from __future__ import annotations

import math

import numpy as np

from reticent.errors import InvalidInput
from reticent.worlds.models.model import make_model
from reticent.worlds.registry import register_world
from reticent.worlds.world import World, world_from_parameters

SHARP, FEW_SUCCESSORS = 0.2, 0.3
"""Dirichlet concentrations of the features and of the measures."""


@register_world("linear-mdp", episodes=20_000, sizes=(10, 3, 4, 40, 4))
def linear_mdp(
    *,
    states: int = 10,
    actions: int = 3,
    d: int = 4,
    horizon: int = 4,
    seed: int = 0,
    per_step: bool = False,
) -> World:
    """A seeded random linear MDP with features in the simplex.

    ``per_step`` draws other measures and rewards for every step; features are the same at all of them.
    """
    for field, size in {"states": states, "actions": actions, "d": d, "horizon": horizon}.items():
        if size < 1:
            raise InvalidInput(f"linear-mdp: {field}", size, "at least 1", "give a positive size")
    if seed < 0:
        raise InvalidInput("linear-mdp: seed", seed, "not negative", "give a seed of at least 0")
    of_features, of_measures, of_rewards = np.random.default_rng(seed).spawn(3)
    steps = horizon if per_step else 1
    features = np.moveaxis(of_features.dirichlet(np.full(d, SHARP), size=(states, actions)), -1, 0)
    measures = of_measures.dirichlet(np.full(states, FEW_SUCCESSORS), size=(steps, d))
    rewards = of_rewards.permuted(np.broadcast_to(np.linspace(0, 1, d), (steps, d)), axis=1)

    psi = np.einsum("isa,xy->ixsay", features, np.eye(states)).reshape(d * states, states, actions, states)
    model = make_model(
        psi,
        features,
        horizon,
        initial=np.full(states, 1 / states),
        transition_bound=math.sqrt(states),
        transition_theta_bound=math.sqrt(d),
        reward_theta_bound=math.sqrt(d),
        stationary=not per_step,
        linear_features=features,
    )
    theta = np.broadcast_to(measures.reshape(steps, d * states), (horizon, d * states))
    return world_from_parameters(model, theta, np.broadcast_to(rewards, (horizon, d)), name="linear-mdp")
