# SPDX-License-Identifier: Apache-2.0
"""How many nodes a continuous world needs: errors of φ_V, V^π and V* on glucose. Makes docs/continuous.md's figure.

    python benchmarks/quadrature_error.py --out docs/pictures/quadrature_error.png

Gauss–Legendre, trapezoid and Smolyak grids of growing size against a reference on 128 × 100 Gauss–Legendre nodes, which
is affordable because the two coordinates of glucose's candidates are independent given (s, a). Three errors:

* φ_V: the largest error of ∫ p_i(s'|s,a) V(s') ds' over 200 real states, all doses and all candidates, for a smooth V
  (the mean reward without insulin), with rows normalised and not. Here alone, grids are used on which a candidate's mass
  is off by more than the library allows; they are drawn hollow;
* uniform policy: of its value from the first state, six integrals deep; the integrands are smooth;
* V*: of the optimal value; the maximum over doses puts kinks into V, and no Gauss rule is spectral across a kink.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reticent.errors import InvalidInput
from reticent.reports.plots import COLOURS, DPI, INK
from reticent.worlds.continuous import Grid, legendre, sparse, tensor, trapezoid, truncated
from reticent.worlds.continuous.world import first_values
from reticent.worlds.zoo import glucose

REFERENCE, CHECK = (128, 100), (96, 76)
WEIGHTS, BENEFITS = np.array(glucose.CLINIC), np.array(glucose.BENEFIT_WEIGHTS)
ACTIONS = jnp.arange(len(glucose.DOSES))
SCORES = ("value_features", "uniform", "optimal")


def box(rule, glucose_nodes: int, insulin_nodes: int) -> Grid:
    sizes = (glucose_nodes, insulin_nodes)
    return tensor([rule(n, low, high) for n, low, high in zip(sizes, glucose.LOW, glucose.HIGH, strict=True)])


def grids() -> list[tuple[str, Grid]]:
    """Every grid that is measured, by family."""
    sizes = (8, 10, 12, 14, 16, 20, 24)
    return (
        [("Gauss–Legendre", box(legendre, n, n - 2)) for n in sizes]
        + [("trapezoid", box(trapezoid, n, n - 2)) for n in sizes]
        + [("Smolyak", sparse(level, glucose.LOW, glucose.HIGH)) for level in (4, 5, 6, 7)]
    )


def smooth_value(states: np.ndarray) -> np.ndarray:
    """The test function of φ_V: mean reward without insulin."""
    return np.asarray(jax.vmap(lambda state: glucose.benefits(state, 0))(jnp.asarray(states))) @ BENEFITS


class Separable:
    """The fine reference: one-dimensional densities of both coordinates, never the table of their products."""

    def __init__(self, sizes: tuple[int, int]) -> None:
        axes = [legendre(n, a, b) for n, a, b in zip(sizes, glucose.LOW, glucose.HIGH, strict=True)]
        self.axes, self.shape = axes, sizes
        self.nodes = tensor(axes).nodes

    def rows(self, states: np.ndarray) -> list[np.ndarray]:
        """The normalised rows of each coordinate, ``(n, A, 4, size)``."""
        each = jax.vmap(jax.vmap(glucose.means, in_axes=(None, 0)), in_axes=(0, None))
        means = np.asarray(each(jnp.asarray(states), ACTIONS))
        found = []
        for k, axis in enumerate(self.axes):
            limits = glucose.ERRORS[k], glucose.LOW[k], glucose.HIGH[k]
            row = np.asarray(truncated.density(axis.nodes[:, 0], means[..., k, None], *limits)) * axis.weights
            found.append(row / row.sum(axis=-1, keepdims=True))
        return found

    def value_features(self, rows: list[np.ndarray], values: np.ndarray) -> np.ndarray:
        """φ_V ``(n, A, 4)`` of values on the nodes."""
        return ((rows[0] @ values.reshape(self.shape)) * rows[1]).sum(axis=-1)

    def first_value(self, over_actions) -> float:
        """The expected value from the first state, with the maximum or the mean over actions."""
        rows = self.rows(self.nodes)
        each = jax.vmap(jax.vmap(glucose.benefits, in_axes=(None, 0)), in_axes=(0, None))
        reward = np.asarray(each(jnp.asarray(self.nodes), ACTIONS)) @ BENEFITS
        values = np.zeros(len(self.nodes))
        for _ in range(glucose.candidates().horizon):
            values = over_actions(reward + self.value_features(rows, values) @ WEIGHTS, axis=1)
        start = np.asarray(jax.vmap(glucose.morning_density)(jnp.asarray(self.nodes))) * tensor(self.axes).weights
        return float(start @ values / start.sum())


def measure() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One row per grid, and the reference values with what is known of their own error."""
    fine, check = Separable(REFERENCE), Separable(CHECK)
    exact = {"uniform": fine.first_value(np.mean), "optimal": fine.first_value(np.max)}
    coarser = {"uniform": check.first_value(np.mean), "optimal": check.first_value(np.max)}
    reference = {key: {"value": exact[key], "changed_by": abs(exact[key] - coarser[key])} for key in exact}
    print(json.dumps(reference, indent=1), file=sys.stderr)
    states = np.random.default_rng(0).uniform(glucose.LOW, glucose.HIGH, (200, 2))
    wanted = fine.value_features(fine.rows(states), smooth_value(fine.nodes))

    start = box(legendre, 40, 36)
    first = jnp.asarray(start.nodes)
    begin = np.asarray(jax.vmap(glucose.morning_density)(first)) * start.weights
    horizon = glucose.candidates().horizon
    theta_p = jnp.tile(jnp.asarray(WEIGHTS), (horizon, 1))
    rows = []
    for family, grid in grids():
        row: dict[str, Any] = {"family": family, "nodes": grid.size, "accepted": True}
        try:
            model = glucose.candidates().model(grid)
        except InvalidInput:
            model, row["accepted"] = glucose.candidates().model(grid, largest_defect=np.inf), False
        theta_r = jnp.tile(jnp.asarray(BENEFITS) * model.reward_scale, (horizon, 1))
        transition = np.asarray(jax.lax.map(lambda s: model.rows_at(s).transition, jnp.asarray(states), batch_size=32))  # noqa: B023
        raw_mass = raw_masses(grid, states)
        values = smooth_value(grid.nodes)
        found = np.swapaxes(transition @ values, 1, 2)
        row["value_features"] = float(np.abs(found - wanted).max())
        row["value_features_raw"] = float(np.abs(found * raw_mass - wanted).max())
        row["mass_defect"] = float(np.abs(raw_mass - 1).max())
        for key, over in (("uniform", jnp.mean), ("optimal", jnp.max)):
            value = float(begin @ np.asarray(first_values(model, theta_p, theta_r, first, over)) / begin.sum())
            row[key] = abs(value - exact[key])
        rows.append(row)
        print(
            f"{family:15s}{grid.size:6d} " + " ".join(f"{row[key]:.1e}" for key in (*SCORES, "mass_defect")),
            file=sys.stderr,
        )
    return rows, reference


def raw_masses(grid: Grid, states: np.ndarray) -> np.ndarray:
    """Quadrature mass of every candidate before normalisation, ``(n, A, 4)``."""
    nodes, weights = jnp.asarray(grid.nodes), jnp.asarray(grid.weights)

    def at(state, action):
        return weights @ jax.vmap(glucose.densities, in_axes=(None, None, 0))(state, action, nodes)

    each = jax.vmap(at, in_axes=(None, 0))
    return np.asarray(jax.lax.map(lambda state: each(state, ACTIONS), jnp.asarray(states), batch_size=32))


def draw(rows: list[dict[str, Any]], path: str) -> None:
    figure = Figure(figsize=(12.8, 4.6), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    titles = (
        "largest error of φ_V, smooth V",
        "error of the uniform policy's value",
        "error of V*: kinks where the dose changes",
    )
    for axes, key, title in zip(figure.subplots(1, 3), SCORES, titles, strict=True):
        for colour, family in zip(COLOURS, dict.fromkeys(row["family"] for row in rows), strict=False):
            chosen = [row for row in rows if row["family"] == family]
            sizes = [row["nodes"] for row in chosen]
            axes.plot(sizes, [row[key] for row in chosen], color=colour, linewidth=2, label=family)
            for row in chosen:
                face = colour if row["accepted"] else "white"
                axes.plot(row["nodes"], row[key], "o", markerfacecolor=face, markeredgecolor=colour)
            if key == "value_features":
                raw = [row["value_features_raw"] for row in chosen]
                label = "rows not normalised" if family == "Gauss–Legendre" else None
                axes.plot(sizes, raw, color=colour, linestyle=":", linewidth=1.5, label=label)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(1e-8, 2)
        axes.set_xticks([50, 100, 200, 400, 800], ["50", "100", "200", "400", "800"])
        axes.minorticks_off()
        axes.set_xlabel("nodes")
        axes.set_title(title, fontsize=11, color=INK)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        if key == "value_features":
            axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    title = (
        "Quadrature error on glucose (two coordinates), against 128 × 100 nodes; hollow: too coarse, refused by default"
    )
    figure.suptitle(title, fontsize=12, color=INK)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="quadrature_error.png")
    arguments = parser.parse_args()
    rows, reference = measure()
    draw(rows, arguments.out)
    print(json.dumps({"reference": reference, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
