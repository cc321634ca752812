# SPDX-License-Identifier: Apache-2.0
r"""Fit the parameters of the BLT counter and print ``blt_parameters.py``; ten minutes on one core.

    python benchmarks/fit_blt.py > /tmp/new.py && mv /tmp/new.py src/reticent/privacy/counters/blt_parameters.py

For each number of buffers and each n = 2^3 .. 2^22 it minimises the largest release variance (the largest squared row
norm of :math:`ADC^{-1}`) over the decays θ and weights ω: BFGS on a p-norm of the variances with p raised to 10^4,
from spread-out starts and from the fit of the size before. Constraints hold by parametrisation: θ is a sigmoid, ω a
softmax with slack.

For large n the variances are computed on blocks of rounds whose length is at most a hundredth of the distance to
either end; over a block the column norm and the buffers' covariance are frozen at its middle, and the recurrence is
summed in closed form. Blocks are single rounds, hence exact, below n = 400. Candidates are compared by the exact
variance.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from scipy.optimize import minimize, nnls

from reticent.privacy.counters.blt import release_variance
from reticent.privacy.counters.toeplitz import square_root_coefficients

Fit = tuple[tuple[float, ...], tuple[float, ...]]

HEADER = '''"""Decays and weights of the BLT counter, by number of buffers and by number of rounds.

Printed by ``benchmarks/fit_blt.py``; checked by :func:`reticent.privacy.counters.blt.verify`. Do not edit by hand.
"""

from __future__ import annotations

'''


def blocks(n: int) -> tuple[np.ndarray, np.ndarray]:
    """First rounds (from 0) and lengths of the blocks that stand for n rounds."""
    edges = [0]
    while edges[-1] < n:
        edges.append(edges[-1] + max(1, min(edges[-1], n - edges[-1]) // 100))
    return np.array(edges[:-1]), np.diff(edges)


def unpack(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Decays and weights of each row of unconstrained parameters."""
    buffers = points.shape[-1] // 2
    mass = np.exp(points[..., buffers:])
    return 1 / (1 + np.exp(-points[..., :buffers])), mass / (1 + mass.sum(-1, keepdims=True))


def block_variances(n: int, points: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Release variance at the end of each block, for each row of parameters; see ``blt.release_variance``."""
    decay, weight = unpack(points)
    root = np.sqrt(weight)
    eigen, basis = np.linalg.eigh(decay[:, :, None] * np.eye(decay.shape[1]) - root[:, :, None] * root[:, None, :])
    drive = np.einsum("pij,pi->pj", basis, root)
    middle = start + length // 2
    product = decay[:, :, None] * decay[:, None, :]
    norms = np.sqrt(
        1
        + np.einsum(
            "pij,pijm->pm",
            weight[:, :, None] * weight[:, None, :] / (1 - product),
            1 - product[..., None] ** (n - 1 - middle),
        )
    )
    product = (eigen[:, :, None] * eigen[:, None, :])[..., None]
    buffer_fresh = np.einsum("pi,pj,pj,pijm->pim", drive, drive, drive, (1 - product**middle) / (1 - product))
    arriving = (drive[:, :, None] - eigen[:, :, None] * buffer_fresh) * norms[:, None, :]
    eigen = eigen[..., None]
    power = eigen**length
    once = (1 - power) / (1 - eigen)
    twice = (length - once) / (1 - eigen)
    released_buffer = np.zeros_like(arriving)
    for block in range(len(start) - 1):
        kept, added = power[..., block] * released_buffer[..., block], arriving[..., block] * once[..., block]
        released_buffer[..., block + 1] = kept + added
    cross = np.einsum("pi,pim->pm", drive, released_buffer * once + arriving * twice)
    fresh = 1 + np.einsum("pi,pim->pm", drive, buffer_fresh)
    return np.cumsum(norms**2 * fresh * length - 2 * norms * cross, axis=1)


def fit(n: int, point: np.ndarray) -> np.ndarray:
    """Improve unconstrained parameters for n rounds."""
    start, length = blocks(n)
    step = 1e-5 * np.eye(len(point))

    def objective(point: np.ndarray, power: float) -> tuple[float, np.ndarray]:
        with np.errstate(all="ignore"):
            variances = block_variances(n, np.vstack([point, point + step, point - step]), start, length)
        if not np.all(np.isfinite(variances)) or variances.min() <= 0:
            return 1e3, np.zeros(len(point))
        exponent = power * np.log(variances)
        top = exponent.max(axis=1)
        value = 100 * (top + np.log(np.exp(exponent - top[:, None]).sum(axis=1))) / power
        return value[0], (value[1 : len(point) + 1] - value[len(point) + 1 :]) / 2e-5

    for power in (1e2, 1e3, 1e4):
        options = {"maxiter": 150, "gtol": 1e-5}
        point = minimize(objective, point, args=(power,), jac=True, method="BFGS", options=options).x
    return point


def spread(n: int, buffers: int, longest: float) -> np.ndarray:
    """A start: decay times from 1 to ``longest * n`` on a log scale, weights that follow 1/sqrt(pi j)."""
    times = np.geomspace(0.9, longest * n, buffers)
    decay = np.exp(-1 / times)
    j = np.unique(np.geomspace(1, n - 1, 300).astype(int))
    weight, _ = nnls(decay ** (j[:, None] - 1) * np.sqrt(np.pi * (j[:, None] + 0.25)), np.ones(len(j)))
    weight = np.maximum(weight, 0.01 / buffers / np.sqrt(times))
    weight *= min(1.0, 0.6 / weight.sum())
    return np.concatenate([np.log(decay / (1 - decay)), np.log(weight / (1 - weight.sum()))])


def rounded(point: np.ndarray) -> Fit:
    """As it will be printed, in order of decay."""
    decay, weight = (values[0] for values in unpack(point[None]))
    order = np.argsort(decay)
    return tuple(float(f"{x:.12g}") for x in decay[order]), tuple(float(f"{x:.9g}") for x in weight[order])


def largest_std(n: int, found: Fit) -> float:
    if not (min(found[0]) > 0 and max(found[0]) < 1 and min(found[1]) > 0):
        return np.inf
    largest = np.sqrt(np.max(release_variance(n, *found)))
    return float(largest) if np.isfinite(largest) else np.inf


def fit_all(buffers: int, largest_exponent: int) -> dict[int, Fit]:
    """Fits for 2^3 .. 2^largest_exponent rounds, as far as they are at most 2% above the square-root Toeplitz noise."""
    fits: dict[int, Fit] = {}
    points: list[np.ndarray] = []
    for exponent in range(3, largest_exponent + 1):
        n = 2**exponent
        starts = [spread(n, buffers, longest) for longest in (0.1, 0.3, 1.0)] if exponent <= 13 else []
        starts += points[-1:]
        if len(points) > 5:
            starts.append(2 * points[-1] - points[-2])
        found = [fit(n, start) for start in starts]
        best = min(found, key=lambda point: largest_std(n, rounded(point)))
        order = np.argsort(best[:buffers])
        points.append(np.concatenate([best[:buffers][order], best[buffers:][order]]))
        std, toeplitz = largest_std(n, rounded(best)), float(np.sum(square_root_coefficients(n) ** 2))
        print(
            f"{buffers} buffers, n = {n}: {std:.4f} (square-root Toeplitz {toeplitz:.4f})", file=sys.stderr, flush=True
        )
        if std > 1.02 * toeplitz:
            break
        fits[n] = rounded(best)
    return fits


def module(table: dict[int, dict[int, Fit]]) -> str:
    """The text of ``blt_parameters.py``."""
    lines = ["PARAMETERS: dict[int, dict[int, tuple[tuple[float, ...], tuple[float, ...]]]] = {"]
    for buffers, fits in table.items():
        lines.append(f"    {buffers}: {{")
        for n, found in fits.items():
            lines.append(f"        {n}: (")
            lines += [f"            ({', '.join(repr(x) for x in values)})," for values in found]
            lines.append("        ),")
        lines.append("    },")
    doc = '"""``PARAMETERS[buffers][rounds]`` is the pair (θ, ω), θ increasing."""'
    return HEADER + "\n".join([*lines, "}", doc, ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fit the BLT counter's parameters and print blt_parameters.py.")
    parser.add_argument("--buffers", type=int, nargs="+", default=[3, 4, 5])
    parser.add_argument("--exponent", type=int, default=22, help="fit up to 2^exponent rounds")
    arguments = parser.parse_args()
    print(module({buffers: fit_all(buffers, arguments.exponent) for buffers in arguments.buffers}), end="")
