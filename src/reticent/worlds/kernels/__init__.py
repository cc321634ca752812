# SPDX-License-Identifier: Apache-2.0
"""Kernels instead of candidate models: finite features whose inner products approximate a kernel, and models of them."""

from reticent.worlds.kernels.features import (
    Approximation,
    Fourier,
    Nystrom,
    approximation,
    matern,
    nystrom,
    quadrature_fourier,
    random_fourier,
    squared_exponential,
)
from reticent.worlds.kernels.models import Fit, continuous_kernel_model, fit_theta, kernel_model

__all__ = [
    "Approximation",
    "Fit",
    "Fourier",
    "Nystrom",
    "approximation",
    "continuous_kernel_model",
    "fit_theta",
    "kernel_model",
    "matern",
    "nystrom",
    "quadrature_fourier",
    "random_fourier",
    "squared_exponential",
]
