# SPDX-License-Identifier: Apache-2.0
"""What policies are worth in the real world of ``icu-sepsis``: the table of its docstring.

    python benchmarks/icu_sepsis_values.py --horizons 5 10 20 40

Needs ``pip install 'reticent[icu]'``. A minute on one core.
"""

from __future__ import annotations

import argparse

import jax.numpy as jnp
import numpy as np

from reticent.worlds import World, world_from_parameters
from reticent.worlds.zoo import icu_sepsis as icu


def believed(world: World, shares: np.ndarray) -> float:
    """The true value of the policy that is optimal if the phenotypes had these shares."""
    return float(world.policy_value(world_from_parameters(world.model, shares, [1.0]).optimal_choices))


def values(horizon: int) -> dict[str, float]:
    """The value of every policy of the table, by name."""
    world = icu.icu_sepsis(horizon=horizon)
    acted = icu.load_ward().clinicians
    acted[icu.DEATH :] = 1 / world.model.actions  # the data choose nothing after the end, where nothing matters
    clinicians = jnp.broadcast_to(acted, world.uniform_policy.shape)
    table = {
        "optimal": world.optimal_value,
        "the clinicians": float(world.policy_value(clinicians)),
        "any treatment at random": world.uniform_value,
    }
    for name, shares in zip(icu.PHENOTYPES, np.eye(len(icu.PHENOTYPES)), strict=True):
        table[f"all {name}"] = believed(world, shares)
    table["an even blend"] = believed(world, np.full(len(icu.PHENOTYPES), 1 / len(icu.PHENOTYPES)))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--horizons", type=int, nargs="+", default=[5, 10, 20, 40], help="numbers of decisions")
    horizons = parser.parse_args().horizons
    columns = [values(horizon) for horizon in horizons]
    print(f"{'decisions':<25}" + "".join(f"{horizon:>8}" for horizon in horizons))
    for name in columns[0]:
        print(f"{name:<25}" + "".join(f"{column[name]:>8.4f}" for column in columns))


if __name__ == "__main__":
    main()
