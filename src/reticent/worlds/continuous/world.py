# SPDX-License-Identifier: Apache-2.0
r"""A world with real states: candidates that can be integrated *and* drawn from, and the hidden blend of them.

Stepping is exact: a candidate is chosen by its weight and the next state drawn from that candidate's own sampler, so
simulated users never know of any quadrature. Values are not: :math:`V^*` and :math:`V^\pi` are integrals, computed on a
*judging grid* of the world's own that is finer than the learner's nodes. They are exact up to its quadrature error, of
which :attr:`ContinuousWorld.quadrature_error` is an upper estimate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial
from numpy.typing import ArrayLike

from reticent.errors import InvalidInput
from reticent.runtime import double_precision, double_precision_methods
from reticent.worlds.continuous.model import (
    LARGEST_DEFECT,
    ContinuousModel,
    Densities,
    Rewards,
    make_continuous_model,
)
from reticent.worlds.continuous.quadrature import Grid
from reticent.worlds.models.blend import Bounds, check_bounds
from reticent.worlds.world import RewardKind, World, invert, world_from_parameters


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Everything that defines a continuous blend, apart from the hidden weights and from any grid.

    Attributes:
      densities: ``(state, action, next_state) -> (d1,)``, densities on the box.
      sampler: ``(state, action, uniforms (m,)) -> (d1, m)``, one next state per candidate, distributed by its density.
      rewards: ``(state, action) -> (d2,)``, candidate mean rewards in [0, 1].
      initial: density of the first state, ``(state) -> ()``.
      start: ``(uniforms (m,)) -> (m,)``, the sampler of that density.
      actions, horizon: number of actions, number of steps.
    """

    densities: Densities
    sampler: Callable[[Array, Array, Array], Array]
    rewards: Rewards
    initial: Callable[[Array], Array]
    start: Callable[[Array], Array]
    actions: int
    horizon: int

    def model(
        self, grid: Grid, *, bounds: Bounds = "paper", stationary: bool = True, largest_defect: float = LARGEST_DEFECT
    ) -> ContinuousModel:
        r"""The model whose value functions live on ``grid``.

        ``bounds`` is as in :func:`reticent.worlds.blend`: ``paper`` declares :math:`\|\theta_p\|\le\sqrt{d_1}`, ``tight``
        the 1 that weights on the simplex guarantee.
        """
        check_bounds(bounds)
        return make_continuous_model(
            self.densities,
            self.rewards,
            grid,
            self.actions,
            self.horizon,
            initial=self.initial,
            largest_defect=largest_defect,
            transition_theta_bound=1.0 if bounds == "tight" else None,
            stationary=stationary,
        )


@double_precision_methods
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ContinuousWorld:
    """A continuous model with its hidden blend. Build one with :func:`continuous_blend`, which checks it.

    It answers to what a :class:`~reticent.worlds.World` does; states are vectors ``(m,)``, and policies to be valued are
    given at the states of the judging grid.

    Attributes:
      model: what the learner knows.
      transition_theta, reward_theta: the truth, ``(H, d1)`` and ``(H, d2)``.
      sampler, first: the samplers of :class:`Candidates`.
      judge: the finite world on the judging grid.
      judged_states: its nodes, ``(n, m)``.
    """

    model: ContinuousModel
    transition_theta: Array
    reward_theta: Array
    sampler: Partial
    first: Partial
    judge: World
    judged_states: Array
    name: str = dataclasses.field(metadata={"static": True})
    reward_kind: RewardKind = dataclasses.field(metadata={"static": True})

    # -- sampling -----------------------------------------------------------------------------------------------------

    @property
    def start_draws(self) -> int:
        """How many uniform draws :meth:`start` takes."""
        return self.model.dimension

    @property
    def step_draws(self) -> int:
        """How many uniform draws :meth:`step` takes: the candidate, m coordinates, the reward."""
        return self.model.dimension + 2

    def start(self, uniforms: Array) -> Array:
        """The first state ``(m,)``, from m uniform draws."""
        return jnp.asarray(self.first(uniforms))

    def step(self, step: Array, state: Array, action: Array, uniforms: Array) -> tuple[Array, Array]:
        """Next state and reward at 0-based ``step``, from m + 2 uniform draws."""
        chosen = invert(jnp.cumsum(self.transition_theta[step]), uniforms[0])
        following = self.sampler(state, action, uniforms[1:-1])[chosen]
        mean = jnp.clip(self.reward_theta[step] @ self.model.reward_features_at(state, action), 0, 1)
        reward = mean if self.reward_kind == "deterministic" else (uniforms[-1] < mean).astype(mean.dtype)
        return following, reward

    # -- values, by quadrature on the judging grid --------------------------------------------------------------------

    def evaluate(self, policy: Array) -> Array:
        r""":math:`V^\pi` at the judged states, ``(H + 1, n)``.

        ``policy`` is given there too, as choices ``(H, n)`` or probabilities ``(H, n, A)``.
        """
        return self.judge.evaluate(policy)

    def policy_value(self, policy: Array) -> Array:
        """Expected return of a policy given at the judged states, as in :meth:`evaluate`."""
        return self.judge.policy_value(policy)

    @property
    def optimal_policy(self) -> Array:
        """A greedy policy of Q* at the judged states."""
        return self.judge.optimal_policy

    @property
    def uniform_policy(self) -> Array:
        return self.judge.uniform_policy

    def optimal_policy_value(self) -> Array:
        """V* from the first state, as an array (for compiled programs)."""
        return self.judge.optimal_policy_value()

    @property
    def optimal_value(self) -> float:
        return self.judge.optimal_value

    @property
    def uniform_value(self) -> float:
        return self.judge.uniform_value

    @property
    def quadrature_error(self) -> float:
        """|V* by the learner's nodes − V* by the judging grid|: the former's error, and above the latter's."""
        first = first_values(self.model, self.transition_theta, self.reward_theta, self.judged_states)
        return abs(float(self.judge.model.initial @ first) - self.optimal_value)


@double_precision
def first_values(
    model: ContinuousModel,
    transition_theta: Array,
    reward_theta: Array,
    states: Array,
    over_actions: Callable[..., Array] = jnp.max,
) -> Array:
    """V_1 at real ``states`` ``(n, m)`` by backward induction on the nodes of ``model``: V* with max, uniform with mean."""

    def backup(step: int, reward: Array, features: Array) -> Array:
        table = jnp.tensordot(reward_theta[step], reward, axes=1)
        return over_actions(table + jnp.tensordot(transition_theta[step], features, axes=1), axis=-1)

    following = jnp.zeros(model.states)
    for step in reversed(range(1, model.horizon)):
        following = backup(step, model.reward_features, model.value_features(following))

    def at(state: Array) -> Array:
        rows = model.rows_at(state)
        return backup(0, rows.reward, rows.transition @ following)

    found: Array = jax.lax.map(at, states, batch_size=32)
    return found


@double_precision
def continuous_blend(
    candidates: Candidates,
    weights: ArrayLike,
    reward_weights: ArrayLike,
    grid: Grid,
    judge: Grid,
    *,
    name: str = "continuous blend",
    reward_kind: RewardKind = "bernoulli",
    bounds: Bounds = "paper",
) -> ContinuousWorld:
    """Build the world that mixes ``candidates`` by ``weights`` and their rewards by ``reward_weights``.

    Args:
      candidates: densities, samplers and rewards.
      weights: hidden blend on the simplex, ``(d1,)`` or ``(H, d1)``.
      reward_weights: hidden blend of rewards, ``(d2,)`` or ``(H, d2)``.
      grid: the learner's nodes.
      judge: the grid on which values are computed; finer, and with positive weights.

    Raises:
      InvalidInput: the judging grid has negative weights, a grid is too coarse, the weights leave the simplex, a sampler
        leaves the box, or anything that :func:`reticent.worlds.world_from_parameters` would refuse.
    """
    if not judge.positive:
        raise InvalidInput("judge", "a grid with negative weights", "one with positive weights", "use a tensor grid")
    stationary = np.ndim(weights) == 1 and np.ndim(reward_weights) == 1
    model = candidates.model(grid, bounds=bounds, stationary=stationary)
    finite = blend_on_nodes(
        candidates, weights, reward_weights, judge, name=name, reward_kind=reward_kind, bounds=bounds
    )
    _check_samplers(candidates, model)
    return ContinuousWorld(
        model=model,
        transition_theta=finite.transition_theta,
        reward_theta=_reward_theta(model, reward_weights),
        sampler=Partial(candidates.sampler),
        first=Partial(candidates.start),
        judge=finite,
        judged_states=jnp.asarray(judge.nodes),
        name=name,
        reward_kind=reward_kind,
    )


@double_precision
def blend_on_nodes(
    candidates: Candidates,
    weights: ArrayLike,
    reward_weights: ArrayLike,
    grid: Grid,
    *,
    name: str = "continuous blend on nodes",
    reward_kind: RewardKind = "bernoulli",
    bounds: Bounds = "paper",
) -> World:
    """The finite world that jumps from node to node of ``grid``: the continuous one as its quadrature sees it."""
    theta = np.asarray(weights, dtype=np.float64)
    if not ((theta >= -1e-9).all() and (np.abs(theta.sum(axis=-1) - 1) <= 1e-9).all()):
        raise InvalidInput("weights", theta, "on the simplex (not negative, sum 1)", "normalise the weights")
    stationary = np.ndim(weights) == 1 and np.ndim(reward_weights) == 1
    model = candidates.model(grid, bounds=bounds, stationary=stationary)
    theta_r = _reward_theta(model, reward_weights)
    return world_from_parameters(model.on_nodes(), theta, theta_r, name=name, reward_kind=reward_kind)


def _reward_theta(model: ContinuousModel, reward_weights: ArrayLike) -> Array:
    """θ_r ``(H, d2)`` of the model's scaled reward features."""
    theta = jnp.asarray(np.asarray(reward_weights, dtype=np.float64)) * model.reward_scale
    return jnp.broadcast_to(theta, (model.horizon, model.d2))


def _check_samplers(candidates: Candidates, model: ContinuousModel) -> None:
    """Samplers must return states of the box, one per candidate, at the extremes of their uniforms as well."""
    extremes = jnp.stack([jnp.full(model.dimension, u) for u in (0.0, 0.5, 1 - 2**-24)])
    actions = jnp.arange(model.actions)
    draw = jax.vmap(jax.vmap(jax.vmap(candidates.sampler, (None, None, 0)), (None, 0, None)), (0, None, None))
    samples = {
        "sampler": np.asarray(jax.jit(draw)(model.nodes, actions, extremes)),
        "start": np.asarray(jax.jit(jax.vmap(candidates.start))(extremes)),
    }
    low, high = np.asarray(model.low), np.asarray(model.high)
    expected = {"sampler": (model.states, model.actions, 3, model.d1, model.dimension), "start": (3, model.dimension)}
    for field, found in samples.items():
        if found.shape != expected[field]:
            wanted = "(d1, m)" if field == "sampler" else "(m,)"
            raise InvalidInput(f"{field}: shape", found.shape[-2:], wanted, "return one state per candidate")
        if not ((found >= low) & (found <= high)).all():  # written so that NaN fails
            raise InvalidInput(
                field, f"from {found.min():.4g} to {found.max():.4g}", "inside the box", "truncate the distribution"
            )
