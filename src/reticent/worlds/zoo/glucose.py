# SPDX-License-Identifier: Apache-2.0
r"""Glucose: how much insulin before each meal, for people who react to it differently.

One user is one day with six meals. Before each, a pump reads the glucose level and the insulin still on board, and gives
0, 1, 3 or 6 units. Glucose should stay between 70 and 180 mg/dL; a low is dangerous within the hour, a high harms over
the years, and what was given before the last meal may still be working: doses stack.

The state is real: glucose g in [40, 340] mg/dL and insulin on board i in [0, 10] units. In the spirit of Bergman's minimal
model, insulin removes glucose in proportion to both. A kind of patients is a sensitivity S per unit and the share f of the
insulin that works before the next meal; of the i + dose units available,

.. math:: g'\approx40+\big(g-40+\text{meal}+\text{liver}(g)\big)\,e^{-Sf(i+\text{dose})},\quad
          i'\approx(1-f)(i+\text{dose}),

with normal errors of 26 mg/dL and 1 unit, cut off at the walls. Four kinds are the candidate models: **sensitive** (a unit
goes a long way), **typical**, **resistant**, and **slow** (sensitive enough, but most of the insulin comes late). The
blend of a clinic's patients is unknown. The truth: mostly sensitive. The values over a day, in the true world, of the
policies that are optimal under other models:

=======================  =====
the true blend           4.209
all sensitive            4.167
an even blend            3.509
all typical              3.473
all slow                 3.267
all resistant            3.027
always 3 units           3.773
always 1 unit            3.673
always 6 units           3.175
always none              2.865
any dose at random       3.608
=======================  =====

So a belief that is wrong costs more than dosing at random, and the readings it takes to correct it are the most private
ones that a device has.

The world comes on its quadrature nodes, as a finite one, and with real states.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.worlds.continuous import truncated
from reticent.worlds.continuous.quadrature import Grid, legendre, tensor
from reticent.worlds.continuous.world import Candidates, ContinuousWorld, blend_on_nodes, continuous_blend
from reticent.worlds.models.blend import Bounds
from reticent.worlds.models.model import About
from reticent.worlds.models.names import Names
from reticent.worlds.registry import register_world
from reticent.worlds.world import World

States = Literal["nodes", "real"]

DOSES = (0.0, 1.0, 3.0, 6.0)
LOW, HIGH = (40.0, 0.0), (340.0, 10.0)
"""The box: glucose in mg/dL, insulin on board in units."""
MEAL, LIVER = 105.0, 30.0
"""Rise by a meal; most that the liver adds against a low."""
ERRORS = (26.0, 1.0)
MORNING, MORNING_ERRORS = (150.0, 2.0), (40.0, 1.0)
"""The first reading of the day: normal with these means and deviations, cut off at the walls."""


class Patient(NamedTuple):
    """How one kind of patients reacts: sensitivity per unit, and the share of insulin that works before the next meal."""

    sensitivity: float
    absorbed: float


PATIENTS = {
    "sensitive": Patient(0.50, 0.65),
    "typical": Patient(0.12, 0.80),
    "resistant": Patient(0.03, 0.75),
    "slow": Patient(0.24, 0.25),
}
CLINIC = (0.60, 0.15, 0.10, 0.15)

BENEFITS = ("time in range", "no hypoglycaemia", "insulin saved")
BENEFIT_WEIGHTS = (0.70, 0.25, 0.05)


@register_world("glucose", episodes=20_000, sizes=(168, 4, 6, 4, 3))  # type: ignore[arg-type]
def glucose(
    *, states: States = "nodes", nodes: int = 14, judge_nodes: int = 22, horizon: int = 6, bounds: Bounds = "paper"
) -> World | ContinuousWorld:
    """Insulin before meals: patients of unknown kind, glucose and insulin on board as real numbers or on nodes.

    ``nodes`` Gauss–Legendre nodes for glucose times two fewer for insulin (168 by default), 4 doses, d1 = 4 kinds of
    patients, d2 = 3 benefits. ``states=nodes`` is the finite world that jumps from node to node: V* = 4.210, uniform dosing
    has 3.609, the best fixed dose 3.774. With ``states=real`` users move anywhere in the box and policies are judged on
    ``judge_nodes``; without quadrature error the three are 4.2093, 3.6079 and 3.773 (docs/continuous.md).
    """
    blend = candidates(horizon), CLINIC, BENEFIT_WEIGHTS, grid(nodes)
    if states == "real":
        return continuous_blend(*blend, grid(judge_nodes), name="glucose", bounds=bounds)
    world = blend_on_nodes(*blend, name="glucose", bounds=bounds)
    return dataclasses.replace(world, model=dataclasses.replace(world.model, about=About(names(grid(nodes)))))


def names(nodes: Grid) -> Names:
    """What nodes and doses are called: readings as short as they can be while all are different."""
    readings = np.asarray(nodes.nodes)
    for digits in range(16):
        labels = tuple(f"{level:.{digits}f} mg/dL, {insulin:.{digits}f} units on board" for level, insulin in readings)
        if len(set(labels)) == len(labels):
            break
    return Names(labels, tuple(f"{dose:g} unit{'s' * (dose != 1)}" for dose in DOSES))


def grid(nodes: int) -> Grid:
    """``nodes`` Gauss–Legendre nodes for glucose, two fewer for insulin, whose errors are wider in their interval."""
    if not nodes >= 8:
        raise InvalidInput("nodes", nodes, "at least 8", "use enough nodes to see densities of width 26 mg/dL")
    return tensor([legendre(nodes, LOW[0], HIGH[0]), legendre(nodes - 2, LOW[1], HIGH[1])])


def candidates(horizon: int = 6) -> Candidates:
    """The four kinds of patients, the benefits and the morning."""
    return Candidates(densities, sampler, benefits, morning_density, morning, len(DOSES), horizon)


def means(state: Array, action: Array) -> Array:
    """Expected glucose and insulin before the next meal, by kind of patient: ``(4, 2)``."""
    sensitivity, absorbed = (jnp.asarray(column) for column in zip(*PATIENTS.values(), strict=True))
    level, available = state[0], state[1] + jnp.asarray(DOSES)[action]
    fed = level - LOW[0] + MEAL + LIVER * jax.nn.sigmoid((75.0 - level) / 10.0)
    later = LOW[0] + fed * jnp.exp(-sensitivity * absorbed * available)
    return jnp.stack([later, (1 - absorbed) * available], axis=-1)


def densities(state: Array, action: Array, following: Array) -> Array:
    """Densities of the next state, ``(4,)``; the two coordinates err independently."""
    return truncated.density(following, means(state, action), *_walls(ERRORS)).prod(axis=-1)


def sampler(state: Array, action: Array, uniforms: Array) -> Array:
    """One next state by kind of patient, ``(4, 2)``."""
    return truncated.sample(uniforms, means(state, action), *_walls(ERRORS))


def benefits(state: Array, action: Array) -> Array:
    """The reward components in [0, 1], ``(3,)``, in the order of :data:`BENEFITS`; a cost is a benefit missed.

    A reading near a limit stands for an interval partly in range, so the limits are soft.
    """
    level, rise = state[0], jax.nn.sigmoid
    in_range = rise((level - 75.0) / 12.0) * rise((180.0 - level) / 15.0)
    return jnp.stack([in_range, rise((level - 70.0) / 10.0), 1 - jnp.asarray(DOSES)[action] / DOSES[-1]])


def morning_density(state: Array) -> Array:
    """Density of the first state."""
    return truncated.density(state, jnp.asarray(MORNING), *_walls(MORNING_ERRORS)).prod()


def morning(uniforms: Array) -> Array:
    """The first state ``(2,)``."""
    return truncated.sample(uniforms, jnp.asarray(MORNING), *_walls(MORNING_ERRORS))


def _walls(errors: tuple[float, float]) -> tuple[Array, Array, Array]:
    return jnp.asarray(errors), jnp.asarray(LOW), jnp.asarray(HIGH)
