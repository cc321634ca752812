# SPDX-License-Identifier: Apache-2.0
"""How well the shares of kinds are known from few people who return: one report of a stay, or one of every visit.

    python benchmarks/stays.py --people 100 --visits 42 --worlds 10

Random worlds of three kinds (S = 20, A = 4, H = 5, kinds that differ by half; ``--seed`` is that of the first world). In
each, many cohorts of people who return with the same kind meet the first plan of ``private-kinds``. From what is released
of a cohort (one round) the shares are estimated without a prior and without the simplex, so that the estimate is unbiased:
its standard deviation is what the statistic and the noise leave. Three ways, at person-level ε = 1, δ = 1e-5:

* one report of the stay, on one belief (``visits=V``);
* V reports, one of every visit, on the belief of the visit, each with √V times the noise (``contributions=V``);
* one report of the stay without noise.

Prints the root mean square over shares of the standard deviation over cohorts, and of the error, mean ± standard error over
worlds and the largest of the worlds.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from reticent.agents import make_agent
from reticent.agents.kinds.learner import KindsLearner
from reticent.agents.kinds.rule import evidence
from reticent.learning.plan import Plan
from reticent.runtime import double_precision
from reticent.simulation.rollout import rollout
from reticent.worlds.kinds import KindsWorld, random_kinds
from reticent_wire.clipping import clip_norm

FIRST_SEED = 60_000
COHORTS = 200


class Found(NamedTuple):
    """Of one way in one world: root mean square standard deviation and error of a share."""

    deviation: float
    error: float


@functools.partial(jax.jit, static_argnames=("people", "visits"))
def cohort(agent: KindsLearner, world: KindsWorld, plan: Plan, key: jax.Array, people: int, visits: int) -> jax.Array:
    """The sum of the clipped vectors of one cohort: of their stays, or of ``visits`` visits that each is reported."""
    draws = world.start_draws + world.model.horizon * (1 + world.step_draws)
    reports = visits // agent.visits

    def person(own: jax.Array) -> jax.Array:
        uniforms = jax.random.uniform(own, (reports, agent.visits, draws))
        uniforms = uniforms.at[:, :, 1].set(uniforms[0, 0, 1])  # a person keeps their kind

        def report(drawn: jax.Array) -> jax.Array:
            seen = agent.statistic(plan, rollout(agent, world, plan, drawn.ravel()))
            return jnp.asarray(clip_norm(seen, 1.0, jnp))

        return jax.vmap(report)(uniforms).sum(axis=0)

    return jax.lax.map(person, jax.random.split(key, people), batch_size=50).sum(axis=0)


@double_precision
def measure(agent: KindsLearner, world: KindsWorld, people: int, visits: int, noise: float, seed: int) -> Found:
    """The unbiased estimate's error over cohorts, with noise of this scale on the sum of all reports."""
    plan = jax.jit(agent.plan)(agent.init())
    keys = jax.random.split(jax.random.key(seed), COHORTS)
    sums = np.stack([np.asarray(cohort(agent, world, plan, key, people, visits)) for key in keys])
    counted = people * (visits // agent.visits)
    rule, basis = plan.extension.rule, agent.coordinates.basis
    released = sums + noise * np.random.default_rng(seed).standard_normal(sums.shape)
    gained, weighted = evidence(basis, rule, jnp.asarray(noise**2), jnp.asarray(float(counted)))
    centre = np.asarray(agent.coordinates.centre)
    rest = released / counted - np.asarray(rule.responses) @ centre
    found = centre + rest @ np.linalg.solve(np.asarray(gained), np.asarray(weighted)).T @ np.asarray(basis).T
    truth = np.append(np.asarray(world.shares), 0.0)
    return Found(float(np.sqrt(found.var(axis=0, ddof=1).mean())), float(np.sqrt(((found - truth) ** 2).mean())))


@double_precision
def in_world(number: int, people: int, visits: int) -> list[Found]:
    world = random_kinds(horizon=5, kinds=3, apart=0.5, seed=number)
    stay = make_agent(f"private-kinds:visits={visits},first={people}", world.model, people)
    # V rounds of one visit each: each with √V times the noise, their sum with V times.
    noise = stay.noise_scale
    daily = dataclasses.replace(
        make_agent(f"private-kinds:first={people}", world.model, people), noise_scale=noise * visits**0.5
    )
    return [
        measure(stay, world, people, visits, float(noise), number),
        measure(daily, world, people, visits, float(noise) * visits, number),
        measure(stay, world, people, visits, 0.0, number),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--visits", type=int, default=42)
    parser.add_argument("--worlds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="of the first world")
    chosen = parser.parse_args()
    found = np.array([in_world(chosen.seed + n, chosen.people, chosen.visits) for n in range(chosen.worlds)])
    for name, column in zip(
        ("one report of the stay", "one of every visit", "no noise"), found.swapaxes(0, 1), strict=True
    ):
        spread, error = column.T
        doubt = spread.std(ddof=1) / len(spread) ** 0.5 if len(spread) > 1 else float("nan")
        print(
            f"| {chosen.people} | {name} | {spread.mean():.3f} ± {doubt:.3f}, largest {spread.max():.3f} "
            f"| error {error.mean():.3f} |"
        )


if __name__ == "__main__":
    main()
