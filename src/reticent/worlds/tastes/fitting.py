# SPDX-License-Identifier: Apache-2.0
r"""Loadings from a pilot: factor analysis of a table of ratings with missing entries, by EM.

Rows are people, columns items, entries in [0, 1] or NaN where a person has not rated an item. The model is
:math:`x_{ua}=c_a+\lambda_a^\top f_u+e_{ua}` with :math:`f_u\sim N(0,I)` and :math:`e_{ua}\sim N(0,\psi_a)`; missing entries
are left out of the likelihood, which is right where they are missing at random given the observed ones. The number of
factors is chosen by the likelihood of people who were held out.

The pilot is public (:class:`~reticent.worlds.Provenance`). Its people must not be among those who are protected later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from reticent.errors import InvalidInput
from reticent.worlds.models.names import Names
from reticent.worlds.models.provenance import Provenance
from reticent.worlds.tastes.model import TasteModel, make_taste_model

PASSES = 30
"""Passes of EM."""

HELD_OUT = 4
"""One in so many people is held out where a number of factors is chosen."""

PRIOR_PEOPLE, LEAST_NOISE = 5.0, 1e-3
"""Ratings of the average scatter that every item's variance is shrunk by, and the least variance."""


class Loadings(NamedTuple):
    """Intercepts ``(A,)``, loadings ``(A, m)`` and variances ``(A,)``."""

    intercepts: np.ndarray
    loadings: np.ndarray
    noise: np.ndarray


class TasteFit(NamedTuple):
    """A fitted model, and the held-out log-likelihood of one person by number of factors (empty if none was chosen)."""

    model: TasteModel
    held_out: dict[int, float]


def fit_tastes(
    ratings: Any,
    horizon: int,
    factors: int | Sequence[int] = (2, 4, 8, 12),
    *,
    names: Names | None = None,
    provenance: Provenance | None = None,
    seed: int = 0,
) -> TasteFit:
    """A model of tastes from a pilot's ``ratings`` ``(n, A)``, NaN where there is none.

    With several numbers of ``factors`` the fewest are taken that explain held-out people as well as any; the fit is then
    to all.

    Raises:
      InvalidInput: an entry is outside [0, 1], an item or a person has no rating, or there are too few people.
    """
    table = np.asarray(ratings, np.float64)
    offered = (int(factors),) if isinstance(factors, int | np.integer) else tuple(int(number) for number in factors)
    _check(table, offered)
    scores: dict[int, np.ndarray] = {}
    if len(offered) > 1:
        aside = np.random.default_rng(seed).permutation(len(table)) % HELD_OUT == 0
        scores = {number: log_likelihoods(factor_analysis(table[~aside], number), table[aside]) for number in offered}
    found = factor_analysis(table, _fewest(scores) if scores else offered[0])
    model = make_taste_model(*found, horizon, names=names, provenance=provenance)
    return TasteFit(model, {number: float(score.mean()) for number, score in scores.items()})


def _fewest(scores: dict[int, np.ndarray]) -> int:
    """The fewest factors that explain people as well as the best number, up to one standard error of the difference."""
    best = max(scores.values(), key=np.mean)
    rest = {number: best - score for number, score in scores.items()}
    return min(number for number, lost in rest.items() if lost.mean() <= lost.std() / np.sqrt(len(lost)))


def factor_analysis(table: np.ndarray, factors: int) -> Loadings:
    """:data:`PASSES` passes of EM from the main directions of the table."""
    rated = ~np.isnan(table)
    weight = rated.astype(np.float64)
    middle = np.nanmean(table, axis=0)
    rest = np.where(rated, table - middle, 0.0)
    noise = (rest**2).sum(axis=0) / weight.sum(axis=0)
    _, strength, direction = np.linalg.svd(rest, full_matrices=False)
    load = (direction[:factors] * (strength[:factors] / np.sqrt(len(table)))[:, None]).T
    ridge = np.diag([1.0] * factors + [1e-6])
    for _ in range(PASSES):
        mean, covariance = posteriors(Loadings(middle, load, noise), table)
        # An item's expected regression on the person's vector and a constant.
        extended = np.concatenate([mean, np.ones((len(table), 1))], axis=1)
        moments = extended[:, :, None] * extended[:, None, :]
        moments[:, :factors, :factors] += covariance
        gram = (weight.T @ moments.reshape(len(table), -1)).reshape(-1, factors + 1, factors + 1) + ridge
        products = rest.T @ extended
        found = np.linalg.solve(gram, products[:, :, None])[:, :, 0]
        left = (rest**2).sum(axis=0) - 2 * (found * products).sum(axis=1)
        left += np.einsum("ai,aij,aj->a", found, gram, found)
        pooled = left.sum() / weight.sum()
        noise = np.maximum((left + PRIOR_PEOPLE * pooled) / (weight.sum(axis=0) + PRIOR_PEOPLE), LEAST_NOISE)
        load, middle = found[:, :factors], middle + found[:, factors]
        rest = np.where(rated, table - middle, 0.0)
    return Loadings(middle, load, noise)


def posteriors(known: Loadings, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means ``(n, m)`` and covariances ``(n, m, m)`` of people's vectors given the ratings that they gave."""
    rated = ~np.isnan(table)
    products = (known.loadings[:, :, None] * known.loadings[:, None, :]).reshape(len(known.noise), -1)
    size = known.loadings.shape[1]
    precision = ((rated / known.noise) @ products).reshape(-1, size, size) + np.eye(size)
    covariance = np.linalg.inv(precision)
    told = (np.where(rated, table - known.intercepts, 0.0) / known.noise) @ known.loadings
    return np.einsum("nij,nj->ni", covariance, told), covariance


def log_likelihoods(known: Loadings, table: np.ndarray) -> np.ndarray:
    """Log-density of every person's ratings, ``(n,)``; what is missing is integrated out."""
    rated = ~np.isnan(table)
    mean, covariance = posteriors(known, table)
    rest = np.where(rated, table - known.intercepts, 0.0)
    told = (rest / known.noise) @ known.loadings
    squares = (rest**2 / known.noise).sum(axis=1) - (mean * told).sum(axis=1)
    volume = (rated * np.log(2 * np.pi * known.noise)).sum(axis=1) - np.linalg.slogdet(covariance)[1]
    return np.asarray(-0.5 * (squares + volume))


def _check(table: np.ndarray, offered: tuple[int, ...]) -> None:
    if table.ndim != 2 or not table.size:
        raise InvalidInput("ratings.shape", table.shape, "(people, items)", "one row per person, one column per item")
    rated = ~np.isnan(table)
    if not ((table[rated] >= 0) & (table[rated] <= 1)).all():
        raise InvalidInput("ratings", "out of range", "in [0, 1], or NaN", "rescale ratings to [0, 1]")
    for what, axis in (("item", 0), ("person", 1)):
        if not rated.any(axis=axis).all():
            raise InvalidInput(f"ratings of one {what}", 0, "at least 1", f"leave out every {what} without a rating")
    if not offered or min(offered) < 1 or max(offered) > table.shape[1]:
        raise InvalidInput("factors", offered, f"numbers from 1 to {table.shape[1]}, the items", "4 to 12 are usual")
    if len(table) < HELD_OUT * max(offered):
        raise InvalidInput(
            "people in the pilot", len(table), f"at least {HELD_OUT * max(offered)} for {max(offered)} factors",
            "ask for fewer factors",
        )  # fmt: skip
