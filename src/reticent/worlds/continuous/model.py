# SPDX-License-Identifier: Apache-2.0
r"""A linear mixture MDP on a box: candidate densities, and value functions that live on quadrature nodes.

You own candidate *densities* :math:`p_i(s'\mid s,a)` on a box in :math:`\mathbb R^m`; the truth is a blend of them. What
the learner needs of a value function V is

.. math:: \phi_V(s,a)_i=\int p_i(s'\mid s,a)\,V(s')\,ds'\;\approx\;
          \sum_j\bar w_{ij}(s,a)\,V(x_j),\qquad \bar w_{ij}(s,a)=\frac{w_jp_i(x_j\mid s,a)}{\sum_kw_kp_i(x_k\mid s,a)},

so V is needed on the nodes :math:`x_j` only, while (s, a) may be any real state. On the nodes themselves this is a finite
:class:`~reticent.worlds.Model` with features :math:`\psi_i(x_j\mid x,a)=\bar w_{ij}(x,a)`, and a
:class:`ContinuousModel` *is* that model: planner, frames, radii and privatizer run on it unchanged. What it adds is the
same features at states between the nodes.

**Why the rows are normalised.** Quadrature gives a candidate the mass :math:`1+\varepsilon` instead of 1. Divided by it,
each candidate is again exactly a distribution over the nodes, so that a constant V is integrated exactly, frames may be
centred, :math:`\|\phi_V\|_2\le\sqrt{d_1}\|V\|_\infty` holds at every state and not only nearly, and the blend is a world
that can be stepped. If :math:`e(V)` is the error of the unnormalised sum, that of the normalised one is, for any c,

.. math:: \bar e(V)=\frac{e(V-c)-\varepsilon\,P_i(V-c)}{1+\varepsilon},

that is, of the same order as before: ε is itself such an error (of V = 1) and c may be the middle of V's range.
:func:`mass_defect` measures ε, and too large a one is refused.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial
from numpy.typing import ArrayLike

from reticent.errors import InvalidInput
from reticent.runtime import double_precision, double_precision_methods, on_device
from reticent.worlds.continuous.quadrature import Grid
from reticent.worlds.models.model import Model, make_model

Densities = Callable[[Array, Array, Array], Array]
"""``(state (m,), action, next_state (m,)) -> (d1,)``: all candidates at once; pure, so that JAX can map and compile it."""

Rewards = Callable[[Array, Array], Array]
"""``(state (m,), action) -> (d2,)``."""

LARGEST_DEFECT = 0.05
"""A candidate whose quadrature mass is off by more than this is refused by default: the nodes are too few to see it."""


class Rows(NamedTuple):
    """All features at one real state: ``transition`` ``(d1, A, S)`` over the nodes, ``reward`` ``(d2, A)``."""

    transition: Array
    reward: Array


@double_precision_methods
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class ContinuousModel(Model):
    r"""The known part of a linear mixture MDP with real states; see the module's docstring.

    The inherited tables are the model on the nodes: its ``states`` are node numbers. The methods ending in ``_at`` take
    real states ``(m,)`` instead.

    Attributes:
      nodes: ``(S, m)``, and their ``weights`` ``(S,)``.
      low, high: the corners of the box, ``(m,)``.
      densities: the candidates (a pytree: a function with its arrays).
      rewards: the reward features, before they are divided by ``reward_scale``.
      reward_scale: what makes the longest reward feature a unit vector.
      normalised: whether rows are divided by their quadrature mass.
    """

    nodes: Array
    weights: Array
    low: Array
    high: Array
    densities: Partial
    rewards: Partial
    reward_scale: Array
    normalised: bool = dataclasses.field(metadata={"static": True})

    @property
    def dimension(self) -> int:
        """m, the number of coordinates of a state."""
        return int(self.nodes.shape[1])

    def row_at(self, state: Array, action: Array) -> Array:
        """ψ at a real state: ``(d1, S)``, the weights that turn V on the nodes into φ_V(s, a)."""
        return _row(self.densities, self.nodes, self.weights, self.normalised, state, action)

    def rows_at(self, state: Array) -> Rows:
        """The features of all actions at a real state."""
        actions = jnp.arange(self.actions)
        transition = jax.vmap(self.row_at, in_axes=(None, 0), out_axes=1)(state, actions)
        reward = jax.vmap(self.reward_features_at, in_axes=(None, 0), out_axes=1)(state, actions)
        return Rows(transition, reward)

    def value_features_at(self, values: Array, state: Array, action: Array) -> Array:
        r"""One :math:`\phi_V(s,a)`, shape ``(d1,)``, at a real state; ``values`` ``(S,)`` are V on the nodes."""
        return self.row_at(state, action) @ values

    def reward_features_at(self, state: Array, action: Array) -> Array:
        r"""One :math:`\varphi(s,a)`, shape ``(d2,)``, at a real state."""
        return jnp.asarray(self.rewards(state, action)) / self.reward_scale

    def on_nodes(self) -> Model:
        """The finite model on the nodes alone."""
        return Model(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Model)})


@double_precision
def make_continuous_model(
    densities: Densities,
    rewards: Rewards,
    grid: Grid,
    actions: int,
    horizon: int,
    *,
    initial: Callable[[Array], Array],
    normalise: bool = True,
    largest_defect: float = LARGEST_DEFECT,
    transition_bound: float | None = None,
    transition_theta_bound: float | None = None,
    reward_theta_bound: float | None = None,
    sums_to_one: bool = True,
    stationary: bool = False,
) -> ContinuousModel:
    r"""Check and build a :class:`ContinuousModel`.

    Args:
      densities: candidate densities, see :data:`Densities`. A plain function, or a :class:`jax.tree_util.Partial` that
        binds arrays (then models that differ in the arrays only share compiled programs).
      rewards: reward features; divided by the largest norm that they have on the nodes and on probing points.
      grid: the quadrature on which V lives.
      actions: number of actions.
      horizon: number of steps H.
      initial: density of the first state, ``(m,) -> ()``; need not be normalised.
      normalise: divide every row by its mass. False for features that are not densities (:mod:`reticent.worlds.kernels`).
      largest_defect: how far a candidate's quadrature mass may be from 1.
      transition_bound: declared bound on :math:`\|\phi_V\|/\|V\|_\infty`. By default :math:`\sqrt{d_1}` where rows are
        distributions; with negative weights or features that are no densities, the largest value found on nodes and
        probing points, which a privatizer then enforces by clipping.
      transition_theta_bound, reward_theta_bound, sums_to_one, stationary: as in :func:`reticent.worlds.make_model`.

    Raises:
      InvalidInput: a shape does not fit, a feature is not finite, or the grid is too coarse for a candidate.
    """
    if not (isinstance(actions, int | np.integer) and actions >= 1):
        raise InvalidInput("actions", actions, "an integer of at least 1", "give the number of actions")
    bound_densities, bound_rewards = _bind(densities), _bind(rewards)
    _check_shapes(bound_densities, bound_rewards, grid.dimension)
    states = np.concatenate([grid.nodes, _inside(grid)])
    psi, phi = (np.asarray(part) for part in _tables(bound_densities, bound_rewards, grid, states, int(actions)))
    for name, probed in (("densities", psi), ("rewards", phi)):
        if not np.isfinite(probed).all():
            raise InvalidInput(name, "not finite", "finite on the whole box", "look for a division by zero")
    if normalise:
        mass = psi.sum(axis=-1, keepdims=True)
        _check_mass(mass[..., 0] - 1, states, largest_defect)
        psi = psi / mass
    reward_scale = float(np.linalg.norm(phi, axis=-1).max()) or 1.0
    bound = transition_bound
    if bound is not None or not (normalise and grid.positive):
        found = largest_value_feature(psi)
        bound = found if bound is None else float(bound)
        if not found <= bound * (1 + 1e-9):  # written so that a NaN bound fails
            raise InvalidInput(
                "largest ‖φ_V(s,a)‖/‖V‖∞",
                f"up to {found:.6g}",
                f"at most transition_bound = {bound:.6g}",
                "declare a larger transition_bound, or none",
            )
    nodes = jnp.asarray(grid.nodes)
    psi, phi = psi[: grid.size], phi[: grid.size]
    start = np.asarray(jax.vmap(initial)(nodes)) * grid.weights
    if not start.sum() > 0:
        raise InvalidInput("initial", f"mass {start.sum():.3g} on the nodes", "positive", "give a density on the box")
    # Only a world on these very nodes starts from it, and such worlds need positive weights anyway.
    start = np.maximum(start, 0) / np.maximum(start, 0).sum()

    psi, phi = psi.transpose(2, 0, 1, 3), phi.transpose(2, 0, 1) / reward_scale
    loosest = float(np.sqrt((np.abs(psi).sum(axis=3) ** 2).sum(axis=0)).max())
    finite = make_model(
        psi,
        phi,
        horizon,
        initial=start,
        transition_bound=None if bound is None else max(bound, loosest),
        transition_theta_bound=transition_theta_bound,
        reward_theta_bound=reward_theta_bound,
        sums_to_one=sums_to_one,
        stationary=stationary,
    )
    parts = {field.name: getattr(finite, field.name) for field in dataclasses.fields(Model)}
    # make_model knows an easier but larger bound than largest_value_feature; the smaller one is what is declared.
    parts["transition_bound"] = finite.transition_bound if bound is None else bound
    return ContinuousModel(
        **parts,
        nodes=nodes,
        weights=jnp.asarray(grid.weights),
        low=jnp.asarray(grid.low),
        high=jnp.asarray(grid.high),
        densities=bound_densities,
        rewards=bound_rewards,
        reward_scale=jnp.asarray(reward_scale),
        normalised=normalise,
    )


@double_precision
def largest_value_feature(rows: np.ndarray) -> float:
    r"""A bound on :math:`\|\sum_j\psi_jV_j\|_2` over all :math:`\|V\|_\infty\le1`, for rows ``(..., d1, S)``.

    :math:`\|\sum_j\psi_jV_j\|^2=\sum_{jk}V_jV_k\langle\psi_j,\psi_k\rangle\le\sum_{jk}|\langle\psi_j,\psi_k\rangle|`,
    with equality where all the inner products are positive, as they are for distributions and for positive kernels.
    """
    flat = rows.reshape(-1, *rows.shape[-2:])
    return math.sqrt(max(float(np.abs(row.T @ row).sum()) for row in flat))


@double_precision
def mass_defect(model: ContinuousModel, states: ArrayLike) -> np.ndarray:
    """How far every candidate's quadrature mass is from 1, ``(n, A, d1)``, at real ``states`` ``(n, m)``."""
    raw, _ = _every(model.densities, model.rewards, model.nodes, model.weights, jnp.asarray(states), model.actions)
    return np.asarray(raw.sum(axis=-1)) - 1


def _check_shapes(densities: Partial, rewards: Partial, dimension: int) -> None:
    state, action = jax.ShapeDtypeStruct((dimension,), jnp.float64), jax.ShapeDtypeStruct((), jnp.int64)
    for field, found in (
        ("densities", jax.eval_shape(densities, state, action, state)),
        ("rewards", jax.eval_shape(rewards, state, action)),
    ):
        if len(found.shape) != 1:
            raise InvalidInput(f"{field}: shape", found.shape, "(d,)", "return one number per candidate")


def _check_mass(defect: np.ndarray, states: np.ndarray, largest: float) -> None:
    if not (np.abs(defect) <= largest).all():
        state, action, candidate = np.unravel_index(int(np.abs(defect).argmax()), defect.shape)
        place = ", ".join(f"{coordinate:.4g}" for coordinate in states[state])
        raise InvalidInput(
            f"quadrature mass of candidate {candidate} at state ({place}), action {action}",
            f"off by {defect[state, action, candidate]:.3g}",
            f"within {largest:g} of 1",
            "use more nodes, or check that the candidate is a density on the box",
        )


def _tables(densities: Partial, rewards: Partial, grid: Grid, states: np.ndarray, actions: int) -> tuple[Array, Array]:
    """Rows before normalisation ``(n, A, d1, S)`` and unscaled reward features ``(n, A, d2)`` at real states."""
    nodes, weights = on_device(grid.nodes), on_device(grid.weights)
    found: tuple[Array, Array] = _every(densities, rewards, nodes, weights, on_device(states), actions)
    return found


@functools.partial(jax.jit, static_argnames=("actions",))
def _every(
    densities: Partial, rewards: Partial, nodes: Array, weights: Array, states: Array, actions: int
) -> tuple[Array, Array]:
    def at(state: Array, action: Array) -> tuple[Array, Array]:
        return _row(densities, nodes, weights, False, state, action), rewards(state, action)

    found: tuple[Array, Array] = jax.vmap(jax.vmap(at, in_axes=(None, 0)), in_axes=(0, None))(
        states, jnp.arange(actions)
    )
    return found


def _row(densities: Partial, nodes: Array, weights: Array, normalised: bool, state: Array, action: Array) -> Array:
    raw: Array = jax.vmap(densities, in_axes=(None, None, 0), out_axes=1)(state, action, nodes) * weights
    return raw / raw.sum(axis=1, keepdims=True) if normalised else raw


def _inside(grid: Grid) -> np.ndarray:
    """Points at which properties are checked off the nodes; fewer per axis where there are more axes."""
    return grid.probes({1: 65, 2: 9}.get(grid.dimension, 5))


def _bind(function: Callable[..., Array]) -> Partial:
    return function if isinstance(function, Partial) else Partial(function)
