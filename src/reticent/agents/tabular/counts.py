r"""What an episode is to a tabular learner: which cells of three tables it adds to.

At step h a user in state s who takes action a, earns r and moves on to s′ adds 1 to :math:`N_h(s,a)`, 1 to
:math:`N_h(s,a,s')` and r to :math:`R_h(s,a)`. The three tables of a step travel as one row of D = SA(S + 2) numbers,
so that the sums of all steps are one array ``(H, D)``, which is what :mod:`reticent.privacy.sums` adds noise to.
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

LARGEST_TABLES = 2_000_000
"""Most entries H·S²·A of the transition counts; every user's report has as many."""


class Counts(NamedTuple):
    """Sums over episodes: visits ``(H, S, A)``, transitions ``(H, S, A, S)``, rewards ``(H, S, A)``."""

    visits: Array
    transitions: Array
    rewards: Array


def check_size(model: Model) -> None:
    """Refuse a model whose tables would not fit, or that has none.

    Raises:
      InvalidInput: states are real vectors, or H·S²·A is over :data:`LARGEST_TABLES`.
    """
    if isinstance(model, ContinuousModel):
        raise InvalidInput(
            "model", "continuous", "one with finitely many states", "use private-linopt-vi for real-valued states"
        )
    entries = model.horizon * model.states**2 * model.actions
    if entries > LARGEST_TABLES:
        raise InvalidInput(
            f"size H·S²·A of the counts for {model.states} states and {model.actions} actions", f"{entries:,}",
            f"at most {LARGEST_TABLES:,}", "use an agent for blends, such as private-linopt-vi",
        )  # fmt: skip


def packed_width(states: int, actions: int) -> int:
    """D = SA(S + 2), the numbers per step."""
    return states * actions * (states + 2)


def count_episode(episode: Episode, states: int, actions: int, dtype: Any) -> Counts:
    """The counts of one episode. A step that names a state or an action that does not exist adds nothing."""
    here, action, following = (
        jnp.asarray(field).astype(jnp.int32) for field in (episode.states[:-1], episode.actions, episode.states[1:])
    )
    inside = (following >= 0) & (following < states)
    # one_hot of a number out of range is all zeros, so such a step vanishes from every table.
    pair = jax.nn.one_hot(here, states, dtype=dtype)[:, :, None] * jax.nn.one_hot(action, actions, dtype=dtype)[:, None]
    pair = pair * inside[:, None, None].astype(dtype)
    onward = pair[..., None] * jax.nn.one_hot(following, states, dtype=dtype)[:, None, None, :]
    return Counts(pair, onward, pair * jnp.asarray(episode.rewards).astype(dtype)[:, None, None])


def pack(counts: Counts) -> Array:
    """The three tables of every step as one row, ``(H, D)``: visits, transitions, rewards."""
    return jnp.concatenate([table.reshape(table.shape[0], -1) for table in counts], axis=-1)


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

    def regularized(self, state: ExactState) -> Counts:
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
