# SPDX-License-Identifier: Apache-2.0
r"""The approximate oracle: a population of parameters that moves into what is left of C and uphill in it.

After every release each member makes a few proposals: a member that satisfies all constraints, moved towards or away from
another member or a fresh point of the simplex, by a step whose length is log-uniform. A member that violates
something takes a proposal that violates less; half of the others take one of larger value, the rest stay where they
are and keep the population wide. A step between two members need not stay in C, which is not convex; proposals
are checked. Random numbers are public.

It may miss the maximum by some ω, which is not known. New members are held against the constraints of all catches, as
Lemma 3 needs, and of the last :data:`KEPT` releases. The theorem, with ωK more, is about runs in which a member satisfies
the constraints of all catches whenever a model is chosen. Where none does, the least violating one is served, and no
bound is claimed. Privacy does not depend on any of this (Lemma 0).
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
"""Latest constraints that new members are held against, beside those of catches."""

DECADES = 3.0
"""Steps are between 10 to the minus this and 1, in units of the distance to the other point."""


class Members(NamedTuple):
    """The population and what it is held against.

    Attributes:
      eta: the members ``(N, D)``. values, violation: their values and largest violations ``(N,)``.
      kept, releases: the latest constraints, and how many there were in all.
      caught, catches: the constraints of catches, and how many there were.
    """

    eta: Array
    values: Array
    violation: Array
    kept: Constraint
    releases: Array
    caught: Constraint
    catches: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Population:
    """See the module docstring.

    Attributes:
      eta, values: the first population ``(N, D)`` and its values ``(N,)``. proposals: per member and release.
      capacity: latest constraints that are kept. most: constraints of catches that are kept; by Lemma 3 there are not more
        with the theorem's threshold, and with a smaller one the oldest would give way.
    """

    eta: Array
    values: Array
    proposals: int = dataclasses.field(metadata={"static": True})
    capacity: int = dataclasses.field(metadata={"static": True})
    most: int = dataclasses.field(metadata={"static": True})

    exact = False

    @classmethod
    def of(
        cls, model: Model, parameters: Parameters, members: int, rounds: int, most: int, proposals: int, seed: int
    ) -> Population:
        """Uniform on the simplices, with the prior mean as the first member; ``most`` catches are remembered."""
        keys = jax.random.split(jax.random.key(seed), members - 1)
        eta = jnp.concatenate([jnp.zeros((1, parameters.size)), jax.vmap(parameters.draw)(keys)])
        values = jax.jit(jax.vmap(lambda one: parameters.value(model, one)))(eta)
        return cls(eta, values, proposals, min(rounds, KEPT), max(1, min(rounds, most)))

    @property
    def biases(self) -> tuple[float, float]:
        return 0.0, 0.0

    def init(self) -> Members:
        def room(count: int) -> Constraint:
            everything = no_constraint(self.eta.shape[1], self.eta.dtype)
            stacked: Constraint = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), everything)
            return stacked

        none = jnp.zeros((), jnp.int32)
        return Members(
            self.eta, self.values, jnp.zeros_like(self.values), room(self.capacity), none, room(self.most), none
        )

    def narrow(
        self, model: Model, parameters: Parameters, state: Members, constraint: Constraint, caught: Array, key: Array
    ) -> Members:
        last, catch = state.releases % self.capacity, state.catches % self.most
        kept: Constraint = jax.tree.map(lambda old, new: old.at[last].set(new), state.kept, constraint)
        catches: Constraint = jax.tree.map(
            lambda old, new: old.at[catch].set(jnp.where(caught, new, old[catch])), state.caught, constraint
        )
        violation = jnp.maximum(state.violation, violations(constraint, state.eta))
        state = Members(
            state.eta, state.values, violation, kept, state.releases + 1, catches, state.catches + caught
        )  # fmt: skip

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

        against: Constraint = jax.tree.map(lambda *parts: jnp.concatenate(parts), state.kept, state.caught)
        violation = jax.vmap(violations, in_axes=(0, None))(against, proposal).max(axis=0)
        violation = jnp.where(jax.vmap(parameters.inside)(proposal), violation, jnp.inf)
        values = jax.vmap(lambda one: parameters.value(model, one))(proposal)
        climbs = (state.violation <= 1) & (violation <= 1) & (values > state.values) & (index % 2 == 0)
        taken = ((state.violation > 1) & (violation < state.violation)) | climbs
        return state._replace(
            eta=jnp.where(taken[:, None], proposal, state.eta),
            values=jnp.where(taken, values, state.values),
            violation=jnp.where(taken, violation, state.violation),
        )
