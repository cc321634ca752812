# SPDX-License-Identifier: Apache-2.0
r"""Does the noise have the law that the calibration counts on?

Everything the accountant says rests on the noise being Gaussian, of the calibrated scale on each coordinate, independent
between coordinates, rounds and users, and never drawn from a repeatable or guessable state. :func:`check_noise` tests
the first three on a privatizer's own draws, :func:`check_source` the rest on a source for deployments. What
the scale of each coordinate has to be is *not* asked of the code that draws: it follows from the guarantee's table of
noise, laid out by the groups that it declares (:func:`promised_scales`), and the table itself is held to (ε, δ).

Each test raises a false alarm with probability at most :data:`FALSE_ALARM`; a scale 10% off lies many deviations
beyond (20 000 draws of a unit normal have a sum of squares within 1% of its mean, and 10% in scale is 20%).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.stats import binom, chi2, kstest, norm

from reticent.audit.subject import Subject
from reticent.errors import InvalidInput
from reticent.privacy.guarantee import Guarantee
from reticent.privacy.noise import require_deployable
from reticent.runtime import double_precision

__all__ = ["FALSE_ALARM", "check_noise", "check_source", "fits", "noise_findings", "promised_scales"]

FALSE_ALARM = 1e-7


def fits(sample: np.ndarray, sigma: float = 1.0) -> bool:
    """Whether a sample looks like N(0, ``sigma``²): scale by the chi-square law, shape by Kolmogorov and Smirnov."""
    z = np.asarray(sample, float).ravel() / sigma
    power = float((z**2).sum())
    tail = min(chi2.cdf(power, z.size), chi2.sf(power, z.size))
    return bool(2 * tail > FALSE_ALARM and kstest(z, "norm").pvalue > FALSE_ALARM)


def promised_scales(guarantee: Guarantee, shape: tuple[int, ...]) -> np.ndarray:
    """Scale of the noise on every coordinate ``(H, D)`` by the guarantee's table of noise, laid out by its groups.

    Raises:
      InvalidInput: no groups are declared, a row of the table belongs to none, or a group does not fit.
    """
    rows = {(row.name, row.step): row.scale for row in guarantee.sums}
    scales = np.zeros(shape)
    for group in guarantee.groups:
        width = len(range(*group.columns.indices(shape[1])))
        scale = rows.pop((group.name, group.step), 0.0)  # a sum that is not in the table has no noise
        scales[group.step - 1, group.columns] = scale * np.asarray(group.spread or np.ones(width))
    if rows or not guarantee.groups:
        left = ", ".join(f"{name} of step {step}" for name, step in rows) or "none"
        raise InvalidInput("declared groups", left, "one for every row of the table of noise", "name them alike")
    return guarantee.ledger.account.excess * scales


@double_precision
def check_noise(subject: Subject, *, draws: int = 4000, seed: int = 0) -> list[str]:
    """Findings about the noise of an agent's sums against its *guarantee*; empty if it is what it should be."""
    sums = subject.sums
    expected = promised_scales(subject.guarantee, subject.noise_scale.shape)
    draw: Callable[[Array], Array | None]
    draw, whose = (sums.simulate_user_noise, "user") if subject.noised_reports else (sums.simulate_round_noise, "round")
    # Keys as simulations make them: one per round or user, from one stream.
    root = jax.random.key(seed)
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(root, jnp.arange(draws))
    values = jax.vmap(draw)(keys)
    if values is None:
        return [f"no noise is drawn for a {whose}"]
    drawn = noise_findings(
        np.asarray(values), expected, pure=subject.pure, whose=whose, on_a_grid=sums.law == "binomial"
    )
    return [*_table_findings(subject), *drawn]


def noise_findings(
    sample: np.ndarray, expected: np.ndarray, *, pure: bool = False, whose: str = "round", on_a_grid: bool = False
) -> list[str]:
    """Findings about draws ``(draws, ..., H, D)`` that are to be independent noise of scales ``expected`` ``(H, D)``.

    For any path that adds noise, simulated or deployed: a few hundred draws of a service's own mechanism tell 0.85 σ.

    Args:
      pure: whether the law is Laplace's, not Gauss's.
      whose: what one draw is for, in the findings.
      on_a_grid: whether single numbers may be exactly zero, because the noise is discrete.
    """
    draws = len(sample)
    rows = sample.reshape(draws, -1, *expected.shape)
    silent = np.broadcast_to(expected == 0, rows.shape[1:])
    findings = []
    if np.abs(rows[:, silent]).max(initial=0.0) > 0:
        findings.append("there is noise where the calibration has none")
    z = (rows / np.where(expected > 0, expected, 1.0))[:, ~silent]
    if pure:
        z = _normal_scores(z)
    coordinates = z.shape[1]
    if not fits(z[:, :: max(1, coordinates // 16)]):
        findings.append(f"the noise is not {'Laplace' if pure else 'Gaussian'} of the calibrated scale")
    power = (z**2).sum(axis=0)
    tails = np.minimum(chi2.cdf(power, draws), chi2.sf(power, draws))
    if 2 * tails.min() * coordinates <= FALSE_ALARM:
        findings.append(f"coordinate {int(tails.argmin())} has a scale {math.sqrt(power[tails.argmin()] / draws):.3f}")
    return [*findings, *_tails(z), *_dependences(z, whose), *_atoms(z, whose, on_a_grid)]


def _tails(z: np.ndarray) -> list[str]:
    """Whether as many numbers are beyond 3 and 4 standard deviations as a normal law has there."""
    findings = []
    for limit in (3.0, 4.0):
        beyond, share = int((np.abs(z) > limit).sum()), 2 * float(norm.sf(limit))
        rare = min(binom.cdf(beyond, z.size, share), binom.sf(beyond - 1, z.size, share))
        if 2 * rare <= FALSE_ALARM:
            findings.append(f"{beyond} of {z.size} numbers are beyond {limit:g} standard deviations")
    return findings


def _atoms(z: np.ndarray, whose: str, on_a_grid: bool) -> list[str]:
    """Draws that are exactly zero or exactly another's, which continuous noise never is and a whole draw on no grid."""
    zero = z == 0
    findings = []
    if zero.all(axis=1).any() or (zero.any() and not on_a_grid):
        findings.append(f"some {whose} has no noise, or numbers without it")
    # Few coarse numbers may be alike by chance.
    comparable = z.shape[1] >= (8 if on_a_grid else 2)
    if comparable and len(np.unique(z, axis=0)) < len(z):
        findings.append(f"two draws of noise are the same: some {whose} repeats another's")
    return findings


def _table_findings(subject: Subject) -> list[str]:
    """Whether the table of noise keeps the promise: its rows' costs, at the exposure that the counter really has."""
    costs = [row.sensitivity / row.scale for row in subject.guarantee.sums]
    needed = subject.exposure * (sum(costs) if subject.pure else math.hypot(*costs))
    # As the ledger: half of one part in a million absorbs the rounding of a calibration.
    if needed <= subject.promised * (1 + 5e-7):
        return []
    return [f"the table of noise has a strength of {needed:.6g}, but the promise allows {subject.promised:.6g}"]


def _normal_scores(z: np.ndarray) -> np.ndarray:
    """Standard Laplace numbers carried over to standard normal ones, so that one set of tests serves both laws."""
    upper = norm.isf(np.maximum(np.exp(-np.abs(z)) / 2, 1e-300))
    return np.asarray(np.sign(z) * upper)


def _dependences(z: np.ndarray, whose: str) -> list[str]:
    """Correlations between coordinates, and of each with its successor in time."""
    draws, coordinates = z.shape
    chosen = z[:, np.unique(np.linspace(0, coordinates - 1, min(coordinates, 400)).astype(int))]
    unit = chosen / np.maximum(np.sqrt((chosen**2).sum(axis=0)), 1e-300)
    between = np.abs(unit.T @ unit - np.eye(unit.shape[1]))
    after = np.abs((unit[1:] * unit[:-1]).sum(axis=0))
    findings = []
    limit = norm.isf(FALSE_ALARM / 2 / max(between.size, 1)) / math.sqrt(draws)
    if between.size > 1 and between.max() > limit:
        findings.append("the noise of two counters or coordinates is dependent")
    if after.max() > limit or (draws > 1 and (chosen[1:] == chosen[:-1]).all(axis=1).any()):
        findings.append(f"the noise of one {whose} depends on another's")
    return findings


def check_source(source: Any, *, draws: int = 4000, calls: int = 2000) -> list[str]:
    """Findings about a source of noise for real users; empty for :class:`~reticent.privacy.noise.SecureNoise`.

    Seeds of b bits repeat among about :math:`2^{b/2}` calls; to see that of 31 bits takes some 200 000 ``calls``.
    """
    findings = []
    try:
        require_deployable(source)
    except InvalidInput:
        findings.append("the source is not fit for deployment, and says so")
    sigma = 3.7
    drawn = source.draw(np.full(draws, sigma))
    if not hasattr(drawn, "integers") or np.asarray(drawn.integers).dtype != np.int64:
        return [*findings, "the noise is floating-point and not a whole multiple of a grid"]
    if not fits(drawn.values, sigma):
        findings.append("the source's noise is not Gaussian of the scale asked for")
    steps = np.asarray(drawn.values) / drawn.grid
    counts = np.bincount(np.asarray(drawn.integers) % 8, minlength=8)
    uneven = float(((counts - draws / 8) ** 2 / (draws / 8)).sum()) > chi2.isf(FALSE_ALARM, 7)
    if uneven or not np.array_equal(steps, np.rint(steps)):
        findings.append("the noise does not fill its grid evenly: low bits would show the data")
    # A generator with a state is cloned by fork() as it is by a copy.
    clone = copy.deepcopy(source)
    if np.array_equal(_vector(source), _vector(clone)):
        findings.append("a clone of the source repeats its noise: so would a forked process")
    seen = {_vector(source).tobytes() for _ in range(calls)}
    if len(seen) < calls:
        findings.append("the source repeats itself: its seeds are too short or not fresh")
    return findings


def _vector(source: Any) -> np.ndarray:
    """Eight coordinates: two honest draws are equal with probability 2^-200."""
    return np.asarray(source.draw(np.ones(8)).integers)
