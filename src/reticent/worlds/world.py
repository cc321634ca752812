# SPDX-License-Identifier: Apache-2.0
r"""A world is a model plus the hidden truth: it can be stepped, and solved exactly.

The learner never sees a :class:`World`, only its :class:`~reticent.worlds.Model` and episodes. Everything here that
uses the truth (optimal values, regret) is for simulation.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from reticent.errors import InvalidInput
from reticent.runtime import double_precision, double_precision_methods, on_device
from reticent.short_repr import ShortRepr
from reticent.worlds import exact_solutions
from reticent.worlds.models.model import Model, cast

RewardKind = Literal["bernoulli", "deterministic"]

LARGEST_TABLE = 10**8
"""Most entries of a table with two state axes that :attr:`World.transitions` writes out: 800 MB."""

SHORT_ROW = 256
"""Rows up to this length are searched by counting, which vectorises; longer ones by bisection."""


@double_precision_methods
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class World(ShortRepr):
    r"""A model with the truth: hidden parameters, and the transition rows and mean rewards that users meet.

    Build one with :func:`world_from_parameters`, which checks it; its rows are :math:`\langle\psi,\theta\rangle`. (Those of
    :func:`reticent.worlds.misspecified` are not.)

    Attributes:
      rows: probabilities ``(H, S, A, n)`` of the successors of each pair, in the order of the model's; ``(1, S, A, n)``
        if they are the same at every step.
      cumulative: their running sums, for sampling by inversion.
      reward_means: ``(H, S, A)``, or ``(1, S, A)`` if they are the same at every step.
      first: running sum of the true distribution of the first state, ``(S,)``.
    """

    model: Model
    transition_theta: Array
    reward_theta: Array
    rows: Array
    cumulative: Array
    reward_means: Array
    first: Array
    name: str = dataclasses.field(metadata={"static": True})
    reward_kind: RewardKind = dataclasses.field(metadata={"static": True})

    def __repr__(self) -> str:
        sizes = f"states={self.model.states}, actions={self.model.actions}, horizon={self.model.horizon}"
        return f"{type(self).__name__}({self.name!r}, {sizes}, d1={self.model.d1}, d2={self.model.d2})"

    def astype(self, dtype: DTypeLike) -> World:
        """The same world in another floating-point precision."""
        return cast(self, dtype)

    # -- the truth, written out ---------------------------------------------------------------------------------------

    @property
    def initial(self) -> Array:
        """The true distribution of the first state, ``(S,)``; the model's own is a guess where it is declared unknown."""
        if self.model.initial_known:
            return self.model.initial
        return jnp.diff(self.first, prepend=jnp.zeros(1, self.first.dtype))

    @property
    def transitions(self) -> Array:
        """All probabilities ``(H, S, A, S)``: for small worlds only.

        Raises:
          InvalidInput: there are more than :data:`LARGEST_TABLE` of them.
        """
        model = self.model
        shape = (model.horizon, model.states, model.actions, model.states)
        if math.prod(shape) > LARGEST_TABLE:
            raise InvalidInput(
                "entries of transitions",
                f"{math.prod(shape):.3g}",
                f"at most {LARGEST_TABLE:.3g}",
                "use world.rows, which are the probabilities of world.model.successors",
            )
        table: Array = exact_solutions.dense(self.rows, model.successors, shape)
        return table

    @property
    def mean_rewards(self) -> Array:
        """All mean rewards, ``(H, S, A)``."""
        return jnp.broadcast_to(self.reward_means, (self.model.horizon, *self.reward_means.shape[1:]))

    # -- sampling -----------------------------------------------------------------------------------------------------

    @property
    def start_draws(self) -> int:
        """Uniform draws that :meth:`start` takes."""
        return 1

    @property
    def step_draws(self) -> int:
        """Uniform draws that :meth:`step` takes."""
        return 2

    def start(self, uniform: Array) -> Array:
        """The first state, by inversion of one uniform draw."""
        return invert(self.first, uniform)

    def step(self, step: Array, state: Array, action: Array, uniforms: Array) -> tuple[Array, Array]:
        """Next state and reward at 0-based ``step``, from two uniform draws (transition, reward)."""
        following = invert(self.cumulative[exact_solutions.row_of(self.cumulative, step), state, action], uniforms[0])
        if self.model.successors is not None:
            following = self.model.successors[state, action, following].astype(following.dtype)
        mean = self.reward_means[exact_solutions.row_of(self.reward_means, step), state, action]
        reward = mean if self.reward_kind == "deterministic" else (uniforms[1] < mean).astype(mean.dtype)
        return following, reward

    # -- exact solutions ----------------------------------------------------------------------------------------------

    def evaluate(self, policy: Array) -> Array:
        r"""Exact :math:`V^\pi`, shape ``(H + 1, S)``.

        ``policy`` is either probabilities ``(H, S, A)`` or, if of integers, the chosen actions ``(H, S)``. The latter
        costs A times less: only the rows of chosen actions are read.

        Raises:
          InvalidInput: its shape is neither.
        """
        policy, model = jnp.asarray(policy), self.model
        chosen = jnp.issubdtype(policy.dtype, jnp.integer)
        wanted = (model.horizon, model.states) if chosen else (model.horizon, model.states, model.actions)
        if policy.shape != wanted:
            kind = "actions (H, S)" if chosen else "probabilities (H, S, A)"
            raise InvalidInput(
                "policy.shape", policy.shape, f"{wanted}, {kind}", "choices are integers, the rest floats"
            )
        values: Array = exact_solutions.evaluate(self.rows, self.reward_means, model.successors, policy)
        return values

    def policy_value(self, policy: Array) -> Array:
        r"""Expected return :math:`\mathbb E\,V_1^\pi(s_1)` of a policy; the expectation is over the first state."""
        value: Array = exact_solutions.expected_return(self.initial, self.evaluate(policy))
        return value

    @property
    def optimal_action_values(self) -> Array:
        """Q*, shape ``(H, S, A)``."""
        model = self.model
        table: Array = exact_solutions.optimal_action_values(
            self.rows, self.reward_means, model.successors, model.horizon
        )
        return table

    @property
    def optimal_choices(self) -> Array:
        """The greedy actions of Q*, ``(H, S)`` integers."""
        return self.optimal_action_values.argmax(axis=-1)

    @property
    def optimal_policy(self) -> Array:
        """A greedy policy of Q*, as probabilities ``(H, S, A)``."""
        return jax.nn.one_hot(self.optimal_choices, self.model.actions, dtype=self.rows.dtype)

    @property
    def uniform_policy(self) -> Array:
        """Every action equally likely, as probabilities ``(H, S, A)``."""
        shape = (self.model.horizon, self.model.states, self.model.actions)
        return jnp.full(shape, 1 / self.model.actions, self.rows.dtype)

    def optimal_policy_value(self) -> Array:
        """V* from the first state, as an array (for compiled programs)."""
        value: Array = exact_solutions.best_return(self.initial, self.optimal_action_values)
        return value

    @property
    def optimal_value(self) -> float:
        """V* from the first state."""
        return float(self.optimal_policy_value())

    @property
    def uniform_value(self) -> float:
        """The uniform policy's value from the first state."""
        return float(self.policy_value(self.uniform_policy))


def invert(cumulative: Array, uniform: Array) -> Array:
    """The index that ``uniform`` in [0, 1) selects under cumulative probabilities ``(n,)``; never past the last index."""
    if cumulative.shape[-1] > SHORT_ROW:
        index = jnp.searchsorted(cumulative, uniform, side="right").astype(int)  # of one type with the count below
    else:
        index = (uniform >= cumulative).sum(axis=-1)
    return jnp.minimum(index, cumulative.shape[-1] - 1)


@double_precision
def world_from_parameters(
    model: Model,
    transition_theta: ArrayLike,
    reward_theta: ArrayLike,
    *,
    name: str = "custom",
    reward_kind: RewardKind = "bernoulli",
) -> World:
    """Check and build a :class:`World`. Parameters may be ``(d,)`` (the same at every step) or ``(H, d)``.

    Raises:
      InvalidInput: a shape does not fit, a parameter is over its declared norm, the mixture is not a probability
        distribution for some (h, s, a), or a mean reward leaves [0, 1].
    """
    if reward_kind not in ("bernoulli", "deterministic"):
        raise InvalidInput("reward_kind", reward_kind, "'bernoulli' or 'deterministic'", "choose one of the two")
    theta_p = _per_step(transition_theta, model.horizon, model.d1, "transition_theta")
    theta_r = _per_step(reward_theta, model.horizon, model.d2, "reward_theta")
    for field, theta in (("transition_theta", theta_p), ("reward_theta", theta_r)):
        if model.stationary and np.abs(theta - theta[0]).max() > 1e-12:
            raise InvalidInput(
                field, "different from step to step", "the same at every step", "declare stationary=False"
            )
    if model.reward_total is not None and (
        (theta_r < -1e-9).any() or np.abs(theta_r.sum(axis=1) - model.reward_total).max() > 1e-9 * model.reward_total
    ):
        raise InvalidInput(
            "reward_theta",
            f"sum {theta_r.sum(axis=1)[0]:.6g}, least {theta_r.min():.3g}",
            f"nonnegative, of sum {model.reward_total:.6g}",
            "declare reward_total=None",
        )
    if model.sums_to_one and np.abs(theta_p.sum(axis=1) - 1).max() > 1e-9:
        raise InvalidInput(
            "transition_theta", f"sum {theta_p.sum(axis=1)[0]:.6g}", "of sum 1", "declare sums_to_one=False"
        )
    for field, theta, bound in (
        ("largest ‖transition_theta‖", theta_p, model.transition_theta_bound),
        ("largest ‖reward_theta‖", theta_r, model.reward_theta_bound),
    ):
        norm = float(np.linalg.norm(theta, axis=1).max())
        if not norm <= bound * (1 + 1e-9):  # written so that a NaN bound fails
            raise InvalidInput(
                field, f"{norm:.6g}", f"at most {bound:.6g}", "rescale the features or declare a larger bound"
            )

    rows = np.einsum("hd,dsan->hsan", _once(theta_p), np.asarray(model.transition_features))
    means = np.einsum("hd,dsa->hsa", _once(theta_r), np.asarray(model.reward_features))
    return World(
        model=model,
        transition_theta=on_device(theta_p),
        reward_theta=on_device(theta_r),
        **checked_truth(rows, means),
        first=on_device(_running_sum(np.asarray(model.initial))),
        name=name,
        reward_kind=reward_kind,
    )


@double_precision
def checked_truth(rows: np.ndarray, means: np.ndarray) -> dict[str, Any]:
    """The fields ``rows``, ``cumulative`` and ``reward_means`` of a world, from probabilities and rewards that are checked.

    Raises:
      InvalidInput: a row is not a probability distribution, or a mean reward leaves [0, 1]; the message says which.
    """
    sums, least = rows.sum(axis=-1), rows.min(axis=-1)
    if not (least.min() >= -1e-9 and np.abs(sums - 1).max() <= 1e-8):  # written so that NaN fails
        step, state, action = np.unravel_index(int(np.maximum(np.abs(sums - 1), -least).argmax()), sums.shape)
        raise InvalidInput(
            f"transition row at step {step}, state {state}, action {action}",
            f"sum {sums[step, state, action]:.6g}, least entry {least[step, state, action]:.3g}",
            "a probability distribution",
            "check that the candidate models are distributions and that transition_theta blends them",
        )
    if not (means.min() >= -1e-9 and means.max() <= 1 + 1e-9):
        step, state, action = np.unravel_index(int(np.maximum(means - 1, -means).argmax()), means.shape)
        raise InvalidInput(
            f"mean reward at step {step}, state {state}, action {action}",
            f"{means[step, state, action]:.6g}",
            "in [0, 1]",
            "rescale reward_theta or the reward features",
        )
    rows = np.clip(rows, 0, None)
    rows /= rows.sum(axis=-1, keepdims=True)
    return {
        "rows": on_device(rows),
        "cumulative": on_device(_running_sum(rows)),
        "reward_means": on_device(np.clip(means, 0, 1)),
    }


def _running_sum(rows: np.ndarray) -> np.ndarray:
    """Running sums of distributions; one, however it was rounded, from the last possible outcome on.

    An outcome of probability zero, such as the padding of a sparse row, can then not be drawn.
    """
    cumulative = np.cumsum(rows, axis=-1)
    cumulative[cumulative >= cumulative[..., -1:]] = 1
    return cumulative


def _once(theta: np.ndarray) -> np.ndarray:
    """``theta`` ``(H, d)``, or its first row ``(1, d)`` if all are the same."""
    return theta[:1] if (theta == theta[0]).all() else theta


def _per_step(theta: ArrayLike, horizon: int, dimension: int, field: str) -> np.ndarray:
    array = np.asarray(theta, dtype=np.float64)
    if array.shape == (dimension,):
        array = np.broadcast_to(array, (horizon, dimension)).copy()
    if array.shape != (horizon, dimension):
        raise InvalidInput(
            f"{field}.shape", array.shape, f"({dimension},) or ({horizon}, {dimension})", "give one weight per feature"
        )
    if not np.isfinite(array).all():
        raise InvalidInput(field, "not finite", "finite everywhere", "look for NaN or infinity")
    return array
