# SPDX-License-Identifier: Apache-2.0
r"""Where users begin, learned under their promise where the model does not declare it.

Neither plans nor users' statistics depend on the distribution p of first states: a plan says what to do in every state,
and the mean of a step's surprise given (s, a) is the same wherever they began. What depends on it is how often states are
visited, and so F, C and W of :mod:`reticent.agents.score.dynamic_programming`. Given the first states of a round's users,

.. math:: E[Y]=\sum_iF_{s_i}(\eta^*-\eta_0)=n\,F_{\hat p}(\eta^*-\eta_0),

linear in their histogram :math:`\hat p`: it is all that has to be known, and no release of a Gram matrix would be smaller
for many rounds, whose plans differ. So every user adds :math:`\sqrt\tau\,e_{s_1}` to what they send
(:func:`reticent_wire.forms.score_start.with_start`), and a round releases :math:`Z=n\hat p+z`, with z of variance
:math:`\sigma^2/\tau`.

**Posterior.** Gaussian and isotropic: a prior around the public guess that is worth one user (Dirichlet of total weight
one, whose variance is :math:`(1-1/S)/2S` per state on average),
and releases whose variance per state is that of z and n/S, the
most that sampling adds on average over states. The mean is moved to the nearest distribution.

**Why no more.** A wrong p makes F wrong by a factor, and the estimate's error by that factor times :math:`\eta^*-\eta_0`,
which itself vanishes as references follow the estimate: p need not be known well, only well enough. All of this is
post-processing of releases.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from reticent.agents.score.posterior import project_on_simplex
from reticent.worlds.models.model import Model


class StartPosterior(NamedTuple):
    """Likelihood of all releases so far: information, one number for all states, and moment ``(S,)``."""

    information: Array
    moment: Array


def empty_start_posterior(model: Model) -> StartPosterior | None:
    """Before any release; None where the model declares where users begin."""
    if model.initial_known:
        return None
    return StartPosterior(jnp.zeros((), model.initial.dtype), jnp.zeros_like(model.initial))


def learn_starts(
    before: StartPosterior | None, released: Array, variance: Array, users: Array
) -> StartPosterior | None:
    """The posterior after a release of numbers of users by first state ``(S,)``, with noise of this variance on each."""
    if before is None:
        return None
    weight = users / (variance + users / released.shape[0] + 1e-9)
    return StartPosterior(before.information + users * weight, before.moment + weight * released)


def estimated_starts(model: Model, posterior: StartPosterior | None) -> Array:
    """The distribution ``(S,)`` that is declared, or that is believed in."""
    if posterior is None:
        return model.initial
    prior = 2 * model.states**2 / max(model.states - 1, 1)
    mean = (prior * model.initial + posterior.moment) / (prior + posterior.information)
    return project_on_simplex(mean, 1.0)
