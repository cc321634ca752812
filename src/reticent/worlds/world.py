r"""A world is a model plus the hidden truth: it can be stepped, and solved exactly.

The learner never sees a :class:`World`, only its :class:`~reticent.worlds.Model` and episodes. Everything here that
uses the truth (optimal values, regret) is for simulation.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.worlds.model import Model

RewardKind = Literal["bernoulli", "deterministic"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class World:
    """A model with its hidden parameters, expanded to transition probabilities and mean rewards.

    Build one with :func:`make_world`, which checks it. ``transitions`` is ``(H, S, A, S)``, ``cumulative`` its running
    sum over next states (for sampling by inversion), ``mean_rewards`` is ``(H, S, A)``.
    """

    model: Model
    transition_theta: Array
    reward_theta: Array
    transitions: Array
    cumulative: Array
    mean_rewards: Array
    name: str = dataclasses.field(metadata={"static": True})
    reward_kind: RewardKind = dataclasses.field(metadata={"static": True})

    # -- sampling -----------------------------------------------------------------------------------------------------

    def start(self, uniform: Array) -> Array:
        """The first state, by inversion of one uniform draw."""
        return invert(jnp.cumsum(self.model.initial), uniform)

    def step(self, step: Array, state: Array, action: Array, uniforms: Array) -> tuple[Array, Array]:
        """Next state and reward at 0-based ``step``, from two uniform draws (transition, reward)."""
        following = invert(self.cumulative[step, state, action], uniforms[0])
        mean = self.mean_rewards[step, state, action]
        reward = mean if self.reward_kind == "deterministic" else (uniforms[1] < mean).astype(mean.dtype)
        return following, reward

    # -- exact solutions ----------------------------------------------------------------------------------------------

    def evaluate(self, policy: Array) -> Array:
        r"""Exact :math:`V^\pi`, shape ``(H + 1, S)``, of a policy given as probabilities ``(H, S, A)``."""
        end = jnp.zeros(self.model.states, self.transitions.dtype)
        _, values = jax.lax.scan(_backward, end, (self.transitions, self.mean_rewards, policy), reverse=True)
        return jnp.concatenate([values, end[None]])

    def policy_value(self, policy: Array) -> Array:
        r"""Expected return :math:`\mathbb E\,V_1^\pi(s_1)` of a policy; the expectation is over the first state."""
        return self.model.initial @ self.evaluate(policy)[0]

    @property
    def optimal_action_values(self) -> Array:
        """Q*, shape ``(H, S, A)``."""
        end = jnp.zeros(self.model.states, self.transitions.dtype)
        _, table = jax.lax.scan(_greedy_backward, end, (self.transitions, self.mean_rewards), reverse=True)
        return table

    @property
    def optimal_policy(self) -> Array:
        """A greedy policy of Q*, as probabilities ``(H, S, A)``."""
        best = self.optimal_action_values
        return jax.nn.one_hot(best.argmax(axis=-1), self.model.actions, dtype=best.dtype)

    @property
    def uniform_policy(self) -> Array:
        """Every action equally likely, as probabilities ``(H, S, A)``."""
        shape = (self.model.horizon, self.model.states, self.model.actions)
        return jnp.full(shape, 1 / self.model.actions, self.transitions.dtype)

    def optimal_policy_value(self) -> Array:
        """V* from the first state, as an array (for compiled programs)."""
        return self.model.initial @ self.optimal_action_values[0].max(axis=-1)

    @property
    def optimal_value(self) -> float:
        """V* from the first state."""
        return float(self.optimal_policy_value())

    @property
    def uniform_value(self) -> float:
        """The uniform policy's value from the first state."""
        return float(self.policy_value(self.uniform_policy))


def _backward(following: Array, at: tuple[Array, Array, Array]) -> tuple[Array, Array]:
    """One step of policy evaluation. (Not a closure: JAX would compile the scan anew for every call.)"""
    transition, reward, choice = at
    value = ((reward + transition @ following) * choice).sum(axis=-1)
    return value, value


def _greedy_backward(following: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
    """One step of value iteration."""
    transition, reward = at
    table = reward + transition @ following
    return table.max(axis=-1), table


def invert(cumulative: Array, uniform: Array) -> Array:
    """The index that ``uniform`` in [0, 1) selects under cumulative probabilities; never past the last index."""
    index = (uniform >= cumulative).sum(axis=-1)
    return jnp.minimum(index, cumulative.shape[-1] - 1)


def make_world(
    model: Model,
    transition_theta: Any,
    reward_theta: Any,
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

    transitions = np.einsum("hd,dsat->hsat", theta_p, np.asarray(model.transition_features))
    sums = transitions.sum(axis=-1)
    if transitions.min() < -1e-9 or np.abs(sums - 1).max() > 1e-8:
        step, state, action = np.unravel_index(
            int(np.maximum(np.abs(sums - 1), -transitions.min(axis=-1)).argmax()), sums.shape
        )
        raise InvalidInput(
            f"transition row at step {step}, state {state}, action {action}",
            f"sum {sums[step, state, action]:.6g}, least entry {transitions[step, state, action].min():.3g}",
            "a probability distribution",
            "check that the candidate models are distributions and that transition_theta blends them",
        )
    transitions = np.clip(transitions, 0, None)
    transitions /= transitions.sum(axis=-1, keepdims=True)

    rewards = np.einsum("hd,dsa->hsa", theta_r, np.asarray(model.reward_features))
    if rewards.min() < -1e-9 or rewards.max() > 1 + 1e-9:
        step, state, action = np.unravel_index(int(np.maximum(rewards - 1, -rewards).argmax()), rewards.shape)
        raise InvalidInput(
            f"mean reward at step {step}, state {state}, action {action}",
            f"{rewards[step, state, action]:.6g}", "in [0, 1]", "rescale reward_theta or the reward features",
        )  # fmt: skip
    return World(
        model=model,
        transition_theta=jnp.asarray(theta_p),
        reward_theta=jnp.asarray(theta_r),
        transitions=jnp.asarray(transitions),
        cumulative=jnp.asarray(np.cumsum(transitions, axis=-1)),
        mean_rewards=jnp.asarray(np.clip(rewards, 0, 1)),
        name=name,
        reward_kind=reward_kind,
    )


def _per_step(theta: Any, horizon: int, dimension: int, field: str) -> np.ndarray:
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
