# SPDX-License-Identifier: Apache-2.0
r"""The approximate oracle: a population of parameters that moves into what is left of C and uphill in it.

After every release each member makes a few proposals: a member that satisfies all constraints, moved towards or away from
another member or a fresh point of the simplex, by a step whose length is log-uniform. A member that violates
something takes a proposal that violates less; half of the others take one of larger value, the rest stay where they
are and keep the population wide. C is convex, so that steps between members stay in it. Random numbers are public.

Nothing is claimed for it: it may miss the maximum, by ω, which adds ωK to the theorem's bound and nothing to what
users are promised. The constraints of the last :data:`KEPT` releases are kept for new members.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.elimination.constraint import Constraint, no_constraint, violations
from reticent.agents.elimination.parameters import Parameters
from reticent.agents.elimination.search import SLACK, most_promising
from reticent.worlds import Model

KEPT = 256
"""Constraints that new members are held against."""

DECADES = 3.0
"""Steps are between 10 to the minus this and 1, in units of the distance to the other point."""


class Members(NamedTuple):
    """The population ``(N, D)``, values and largest violations ``(N,)``, kept constraints, and how many there were."""

    eta: Array
    values: Array
    violation: Array
    kept: Constraint
    releases: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Population:
    """See the module docstring.

    Attributes:
      eta, values: the first population ``(N, D)`` and its values ``(N,)``. proposals: per member and release.
      capacity: constraints that are kept.
    """

    eta: Array
    values: Array
    proposals: int = dataclasses.field(metadata={"static": True})
    capacity: int = dataclasses.field(metadata={"static": True})

    exact = False

    @classmethod
    def of(
        cls, model: Model, parameters: Parameters, members: int, rounds: int, proposals: int, seed: int
    ) -> Population:
        """Uniform on the simplices, with the prior mean as the first member."""
        keys = jax.random.split(jax.random.key(seed), members - 1)
        eta = jnp.concatenate([jnp.zeros((1, parameters.size)), jax.vmap(parameters.draw)(keys)])
        values = jax.jit(jax.vmap(lambda one: parameters.value(model, one)))(eta)
        return cls(eta, values, proposals, min(rounds, KEPT))

    @property
    def biases(self) -> tuple[float, float]:
        return 0.0, 0.0

    def init(self) -> Members:
        size, dtype = self.eta.shape[1], self.eta.dtype
        kept = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (self.capacity, *leaf.shape)), no_constraint(size, dtype)
        )
        return Members(self.eta, self.values, jnp.zeros_like(self.values), kept, jnp.zeros((), jnp.int32))

    def narrow(
        self, model: Model, parameters: Parameters, state: Members, constraint: Constraint, key: Array
    ) -> Members:
        place = state.releases % self.capacity
        kept: Constraint = jax.tree.map(lambda old, new: old.at[place].set(new), state.kept, constraint)
        violation = jnp.maximum(state.violation, violations(constraint, state.eta))
        state = Members(state.eta, state.values, violation, kept, state.releases + 1)

        def again(members: Members, own: Array) -> tuple[Members, None]:
            return self._move(model, parameters, members, own), None

        moved, _ = jax.lax.scan(again, state, jax.random.split(key, self.proposals))
        return moved

    def best(self, state: Members) -> Array:
        return most_promising(state.eta, state.values, state.violation)

    def _move(self, model: Model, parameters: Parameters, state: Members, key: Array) -> Members:
        """One proposal for every member."""
        count, dtype = state.values.shape[0], state.eta.dtype
        index = jnp.arange(count)
        parents, others, fresh, lengths, signs = jax.random.split(key, 5)
        good = state.violation <= jnp.maximum(state.violation.min(), 1.0) * (1 + SLACK)
        parent = state.eta[jax.random.categorical(parents, jnp.where(good, 0.0, -jnp.inf), shape=(count,))]
        drawn = jax.vmap(parameters.draw)(jax.random.split(fresh, count))
        member = state.eta[jax.random.randint(others, (count,), 0, count)]
        towards = jnp.where((index % 4 < 2)[:, None], drawn, member)
        step = 10 ** (-DECADES * jax.random.uniform(lengths, (count, 1), dtype))
        step = step * jax.random.rademacher(signs, (count, 1), dtype)
        proposal = parent + step * (towards - parent)

        violation = jax.vmap(violations, in_axes=(0, None))(state.kept, proposal).max(axis=0)
        violation = jnp.where(jax.vmap(parameters.inside)(proposal), violation, jnp.inf)
        values = jax.vmap(lambda one: parameters.value(model, one))(proposal)
        climbs = (state.violation <= 1) & (violation <= 1) & (values > state.values) & (index % 2 == 0)
        taken = ((state.violation > 1) & (violation < state.violation)) | climbs
        return state._replace(
            eta=jnp.where(taken[:, None], proposal, state.eta),
            values=jnp.where(taken, values, state.values),
            violation=jnp.where(taken, violation, state.violation),
        )
