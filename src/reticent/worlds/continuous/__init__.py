# SPDX-License-Identifier: Apache-2.0
"""Worlds with real states: candidate densities, quadrature nodes, and the blend that is drawn from exactly."""

from reticent.worlds.continuous import truncated
from reticent.worlds.continuous.model import ContinuousModel, Rows, make_continuous_model, mass_defect
from reticent.worlds.continuous.quadrature import Grid, clenshaw_curtis, hermite, legendre, sparse, tensor, trapezoid
from reticent.worlds.continuous.world import Candidates, ContinuousWorld, blend_on_nodes, continuous_blend

__all__ = [
    "Candidates",
    "ContinuousModel",
    "ContinuousWorld",
    "Grid",
    "Rows",
    "blend_on_nodes",
    "clenshaw_curtis",
    "continuous_blend",
    "hermite",
    "legendre",
    "make_continuous_model",
    "mass_defect",
    "sparse",
    "tensor",
    "trapezoid",
    "truncated",
]
