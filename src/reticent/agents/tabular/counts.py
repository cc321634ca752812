# SPDX-License-Identifier: Apache-2.0
r"""What an episode is to a tabular learner: which cells of three tables it adds to.

At step h a user in state s who takes action a, earns r and moves on to s′ adds 1 to :math:`N_h(s,a)`, 1 to
:math:`N_h(s,a,s')` and r to :math:`R_h(s,a)`. The three tables of a step travel as one row of D = SA(S + 2) numbers,
so that the sums of all steps are one array ``(H, D)``, which is what :mod:`reticent.privacy.sums` adds noise to. How an
episode is counted is the wire's form ``counts`` (:mod:`reticent_wire.forms.counts`).
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.errors import InvalidInput
from reticent.worlds import Episode, Model
from reticent.worlds.continuous.model import ContinuousModel
from reticent_wire.forms import counts as counts_form
from reticent_wire.forms.counts import Counts, packed_width

__all__ = [
    "LARGEST_TABLES",
    "Counts",
    "ExactCounts",
    "ExactState",
    "check_size",
    "count_episode",
    "make_exact_counts",
    "over_steps",
    "pack",
    "packed_width",
    "unpack",
]

LARGEST_TABLES = 2_000_000
"""Most entries H·S²·A of the transition counts; every user's report has as many."""


def check_size(model: Model, *, transitions: bool = True) -> None:
    """Refuse a model whose tables would not fit, or that has none; without ``transitions`` only pairs have entries.

    Raises:
      InvalidInput: states are real vectors, or H·S²·A (without ``transitions`` H·S·A) is over :data:`LARGEST_TABLES`.
    """
    if isinstance(model, ContinuousModel):
        raise InvalidInput(
            "model", "continuous", "one with finitely many states", "use private-linopt-vi for real-valued states"
        )
    entries = model.horizon * model.states ** (2 if transitions else 1) * model.actions
    if entries > LARGEST_TABLES:
        size = "H·S²·A" if transitions else "H·S·A"
        raise InvalidInput(
            f"size {size} of the tables for {model.states} states and {model.actions} actions", f"{entries:,}",
            f"at most {LARGEST_TABLES:,}",
            "use q-learning, without privacy, which keeps H·S·A numbers, or private-score-vi in a world with candidates",
        )  # fmt: skip


def count_episode(episode: Episode, states: int, actions: int, dtype: Any) -> Counts:
    """The counts of one episode (:func:`reticent_wire.forms.counts.count`)."""
    return counts_form.count(episode, states, actions, dtype, jnp)


def pack(counts: Counts) -> Array:
    """The three tables of every step as one row, ``(H, D)``: visits, transitions, rewards."""
    packed: Array = counts_form.pack(counts, jnp)
    return packed


def unpack(packed: Array, states: int, actions: int) -> Counts:
    """The inverse of :func:`pack`."""
    pairs = states * actions
    visits, transitions, rewards = jnp.split(packed, [pairs, pairs * (states + 1)], axis=-1)
    return Counts(
        visits.reshape(-1, states, actions),
        transitions.reshape(-1, states, actions, states),
        rewards.reshape(-1, states, actions),
    )


def over_steps(counts: Counts) -> Counts:
    """The counts of all steps together, ``(1, ...)``: for models whose truth does not depend on the step."""
    return Counts(*(table.sum(axis=0, keepdims=True) for table in counts))


class ExactState(NamedTuple):
    """Sums over closed rounds, and over the open one, ``(H, D)`` each."""

    closed: Array
    open: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ExactCounts:
    """The regularizer of non-private tabular learners: counts as they are.

    Attributes:
      zero: ``(H, D)`` zeros, whose shape and precision the sums have.
      states, actions: S and A.
      pooled: add up the counts of all steps.
    """

    zero: Array
    states: int = dataclasses.field(metadata={"static": True})
    actions: int = dataclasses.field(metadata={"static": True})
    pooled: bool = dataclasses.field(default=False, metadata={"static": True})

    def init(self) -> ExactState:
        return ExactState(jnp.zeros_like(self.zero), jnp.zeros_like(self.zero))

    def report(self, seen: Episode, noise: Any = None) -> Array:
        del noise
        return pack(count_episode(seen, self.states, self.actions, self.zero.dtype))

    def absorb(self, state: ExactState, report: Array) -> ExactState:
        return state._replace(open=state.open + report)

    def close(self, state: ExactState, noise: Any = None) -> ExactState:
        del noise
        return ExactState(state.closed + state.open, jnp.zeros_like(state.open))

    def released(self, state: ExactState) -> Counts:
        counts = unpack(state.closed, self.states, self.actions)
        return over_steps(counts) if self.pooled else counts

    def simulate_user_noise(self, key: Array) -> None:
        del key

    def simulate_round_noise(self, key: Array) -> Any:
        del key
        return None


def make_exact_counts(model: Model, pooled: bool) -> ExactCounts:
    """Exact counts for ``model``, in its precision."""
    check_size(model)
    zero = jnp.zeros((model.horizon, packed_width(model.states, model.actions)), model.reward_features.dtype)
    return ExactCounts(zero, model.states, model.actions, pooled)
