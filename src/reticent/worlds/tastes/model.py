# SPDX-License-Identifier: Apache-2.0
r"""What is known of tastes before learning: public loadings of items, and how far rewards scatter around them.

A user has a hidden vector f in :math:`\mathbb R^m`; showing item a pays

.. math:: r=\mathrm{clip}_{[0,1]}(c_a+\lambda_a^\top f+e_a),\qquad e_a\sim N(0,\psi_a),\qquad f\sim N(\mu,I).

Intercepts c, loadings λ and variances ψ are public (a pilot, :mod:`reticent.worlds.tastes.fitting`). Loadings are in units
of the spread of tastes in the pilot, so that f has the covariance I and, in the pilot, the mean 0. The mean μ of the users
who are met is unknown. There is one state, and an item is shown at most once in an episode.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.runtime import double_precision, double_precision_methods, on_device
from reticent.worlds.models.model import Model, make_model
from reticent.worlds.models.names import Names
from reticent.worlds.models.provenance import Provenance

FARTHEST_MEAN = 3.0
"""Declared bound on ‖μ‖: a population farther from the pilot than three standard deviations needs a pilot of its own."""


@double_precision_methods
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class TasteModel(Model):
    r"""The known part of a world of tastes; see the module docstring.

    The inherited tables are the linear model of the average user, whose parameter is proportional to (1, μ): other agents
    read these and know nothing of tastes.

    Attributes:
      intercepts: c, ``(A,)``. loadings: λ, ``(A, m)``. noise: ψ, ``(A,)``.
    """

    intercepts: Array
    loadings: Array
    noise: Array

    @property
    def factors(self) -> int:
        """m."""
        return int(self.loadings.shape[1])

    @property
    def reward_scale(self) -> float:
        """What the vectors (c, λ) are divided by, so that the longest reward feature is at most a unit vector."""
        return _scale(np.asarray(self.intercepts), np.asarray(self.loadings))


@double_precision
def make_taste_model(
    intercepts: Any,
    loadings: Any,
    noise: Any,
    horizon: int,
    *,
    names: Names | None = None,
    provenance: Provenance | None = None,
) -> TasteModel:
    """Check and build a :class:`TasteModel`; ``noise`` is a variance per item, or one for all.

    Raises:
      InvalidInput: a shape does not fit, a number is not finite, a variance is not above 0, or items are fewer than steps.
    """
    middle, load = np.asarray(intercepts, np.float64), np.asarray(loadings, np.float64)
    if middle.ndim != 1 or load.ndim != 2 or len(load) != len(middle) or not load.shape[1]:
        raise InvalidInput(
            "loadings.shape", load.shape, f"({middle.size}, m) with m of at least 1", "give one row per item"
        )
    spread = np.broadcast_to(np.asarray(noise, np.float64), middle.shape).copy()
    if not (np.isfinite(middle).all() and np.isfinite(load).all()):
        raise InvalidInput("intercepts and loadings", "not finite", "finite everywhere", "look for NaN or infinity")
    if not (np.isfinite(spread).all() and (spread > 0).all()):
        raise InvalidInput("noise", float(np.min(spread)), "finite variances above 0", "give the scatter of a reward")
    if len(middle) < horizon:
        raise InvalidInput(
            "items", len(middle), f"at least horizon = {horizon}", "an item is shown once: shorten the episode"
        )
    actions = len(middle)
    scale = _scale(middle, load)
    features = np.concatenate([middle[None], load.T])[:, None] / scale
    table = make_model(
        np.ones((1, 1, actions, 1)), features, horizon,
        transition_bound=1.0, transition_theta_bound=1.0, sums_to_one=True, stationary=True,
        reward_theta_bound=scale * math.hypot(1.0, FARTHEST_MEAN), names=names, provenance=provenance,
    )  # fmt: skip
    inherited = {field.name: getattr(table, field.name) for field in dataclasses.fields(Model)}
    return TasteModel(**inherited, intercepts=on_device(middle), loadings=on_device(load), noise=on_device(spread))


def require_tastes(model: Model) -> TasteModel:
    """The model, if it is one of tastes.

    Raises:
      InvalidInput: it is not.
    """
    if not isinstance(model, TasteModel):
        raise InvalidInput(
            "model", type(model).__name__, "a TasteModel: items with public loadings",
            "make one with reticent.worlds.tastes.fit_tastes, or use private-kinds or private-score-vi",
        )  # fmt: skip
    return model


def _scale(intercepts: np.ndarray, loadings: np.ndarray) -> float:
    return max(1.0, float(np.sqrt(intercepts**2 + (loadings**2).sum(axis=1)).max()))
