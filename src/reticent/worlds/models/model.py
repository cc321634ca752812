# SPDX-License-Identifier: Apache-2.0
r"""What is known of a world before learning: the features of a linear mixture MDP (Assumption 1 of the paper).

A model owns the transition features :math:`\psi(s'\mid s,a)\in\mathbb R^{d_1}`, the reward features
:math:`\varphi(s,a)\in\mathbb R^{d_2}`, the horizon and the *declared bounds* that privacy rests on. The truth is
:math:`P_h(s'\mid s,a)=\langle\psi(s'\mid s,a),\theta_{h,p}\rangle` and
:math:`r_h(s,a)=\langle\varphi(s,a),\theta_{h,r}\rangle` for hidden :math:`\theta`; those belong to
:class:`reticent.worlds.World`.

Arrays are *feature first*, ``(d, S, A)``: a contraction with an estimate, a triangular solve and a product with a value
function are then one matrix product each.

Where every pair has few successors, a model keeps these and nothing else: ``successors[s, a]`` lists n states and
``transition_features[:, s, a]`` has a column for each. Memory, planning and evaluation then cost in proportion to the
S·A·n entries, and no array with two state axes is ever formed.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from reticent.errors import InvalidInput
from reticent.runtime import double_precision, double_precision_methods, on_device
from reticent.short_repr import ShortRepr
from reticent.static_metadata import StaticMetadata
from reticent.worlds.models.names import Names
from reticent.worlds.models.provenance import Provenance

Tree = TypeVar("Tree")


@dataclasses.dataclass(frozen=True, eq=False)
class About(StaticMetadata):
    """What is said of a model: labels of its states and actions, and where its numbers come from. Public, all of it."""

    names: Names | None = None
    provenance: Provenance | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for a file."""
        return {
            "names": None if self.names is None else self.names.to_dict(),
            "provenance": None if self.provenance is None else self.provenance.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> About:
        """What :meth:`to_dict` gave."""
        names, provenance = content["names"], content["provenance"]
        return cls(
            None if names is None else Names.from_dict(names),
            None if provenance is None else Provenance.from_dict(provenance),
        )


class Sizes(Protocol):
    """What radii and noise depend on: dimensions and declared bounds, without any features. A :class:`Model` has them."""

    @property
    def horizon(self) -> int: ...
    @property
    def d1(self) -> int: ...
    @property
    def d2(self) -> int: ...
    @property
    def transition_bound(self) -> float: ...
    @property
    def transition_theta_bound(self) -> float: ...
    @property
    def reward_theta_bound(self) -> float: ...
    @property
    def sums_to_one(self) -> bool: ...
    @property
    def stationary(self) -> bool: ...
    @property
    def nonnegative_rewards(self) -> bool: ...


@double_precision_methods
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Model(ShortRepr):
    r"""The known part of a finite linear mixture MDP.

    Attributes:
      transition_features: :math:`\psi`, shape ``(d1, S, A, n)``; the last axis is the next state. Dense: n = S.
      reward_features: :math:`\varphi`, shape ``(d2, S, A)``, each vector of norm at most 1.
      initial: distribution of the first state, shape ``(S,)``, the same for every user: known, or (see ``initial_known``) a
        public guess.
      horizon: number of steps H of one episode.
      transition_bound: declared ``B`` with :math:`\|\phi_V(s,a)\|_2\le B\,\|V\|_\infty` for every function V. The
        paper's Assumption 1 is :math:`B=\sqrt{d_1}`.
      transition_theta_bound: declared bound on :math:`\|\theta_{h,p}\|_2` (paper: :math:`\sqrt{d_1}`).
      reward_theta_bound: declared bound on :math:`\|\theta_{h,r}\|_2` (paper: :math:`\sqrt{d_2}`).
      sums_to_one: whether :math:`\theta_{h,p}` is declared to sum to one, as the weights of a blend do; agents may use
        it (:mod:`reticent.agents.linear_mixture.constraint`).
      stationary: whether both parameters are declared to be the same at every step; agents may then pool the steps.
      successors: which state each entry of the last axis of ``transition_features`` is, ``(S, A, n)`` integers; None
        (dense) says that entry j is state j. A pair with fewer than n successors repeats any state with features 0,
        and a state that is listed twice counts with the sum of its features.
      reward_total: declared Σθ_r where the entries of θ_r are nonnegative and have that sum at every step, as those of a
        blend of reward tables do; None where nothing of the kind is declared. Agents may regress contrasts then.
      known_rewards: mean rewards ``(S, A)`` where the designer knows them, so that nothing is learned or spent on them; the
        reward features are then of no account. None where rewards are learned.
      initial_known: whether ``initial`` is known to be right. Where it is not, it is a public guess, and an agent whose
        estimate rests on it must release what it needs of it.
      about: what states and actions are called, and where the model comes from.
      linear_features: :math:`\phi(s,a)`, ``(d, S, A)`` of norm at most 1, if the world is declared a *linear MDP*:
        :math:`P_h(s'\mid s,a)=\langle\phi(s,a),\mu_h(s')\rangle` and rewards linear in the same features, with
        :math:`\mu_h` unknown altogether. For :mod:`reticent.agents.linear_mdp.learner`; other learners do not read it.
    """

    transition_features: Array
    reward_features: Array
    initial: Array
    horizon: int = dataclasses.field(metadata={"static": True})
    transition_bound: float = dataclasses.field(metadata={"static": True})
    transition_theta_bound: float = dataclasses.field(metadata={"static": True})
    reward_theta_bound: float = dataclasses.field(metadata={"static": True})
    sums_to_one: bool = dataclasses.field(default=False, metadata={"static": True})
    stationary: bool = dataclasses.field(default=False, metadata={"static": True})
    successors: Array | None = None
    linear_features: Array | None = None
    known_rewards: Array | None = None
    reward_total: float | None = dataclasses.field(default=None, metadata={"static": True})
    initial_known: bool = dataclasses.field(default=True, metadata={"static": True})
    about: About = dataclasses.field(default=About(), metadata={"static": True})

    @property
    def names(self) -> Names:
        """What states and actions are called; numbers where they have no names."""
        return self.about.names or Names.numbered(self.states, self.actions)

    @property
    def states(self) -> int:
        return int(self.reward_features.shape[1])

    @property
    def actions(self) -> int:
        return int(self.reward_features.shape[2])

    @property
    def d1(self) -> int:
        return int(self.transition_features.shape[0])

    @property
    def d2(self) -> int:
        return int(self.reward_features.shape[0])

    @property
    def nonnegative_rewards(self) -> bool:
        """Whether all reward features are nonnegative, which lowers the sensitivity of the reward moments."""
        return bool((np.asarray(self.reward_features) >= 0).all())

    def value_features(self, values: Array) -> Array:
        r"""All :math:`\phi_V(s,a)=\sum_{s'}\psi(s'\mid s,a)V(s')`, shape ``(d1, S, A)``, for ``values`` ``(S,)``."""
        if self.successors is None:
            return jnp.matmul(self.transition_features, values, precision=jax.lax.Precision.HIGHEST)
        # Not an einsum: as a batched matrix product, XLA would copy the features into another order first.
        return (self.transition_features * values[self.successors]).sum(axis=-1)

    def some_states(self, start: Array, count: int) -> Model:
        """The features of ``count`` states from ``start`` on: a model of these, whose next states are still all states."""

        def of(features: Array | None, axis: int) -> Any:
            return None if features is None else jax.lax.dynamic_slice_in_dim(features, start, count, axis)

        return dataclasses.replace(
            self,
            transition_features=of(self.transition_features, 1),
            reward_features=of(self.reward_features, 1),
            successors=of(self.successors, 0),
            linear_features=of(self.linear_features, 1),
            known_rewards=of(self.known_rewards, 0),
        )

    def value_features_at(self, values: Array, state: Array, action: Array) -> Array:
        r"""One :math:`\phi_V(s,a)`, shape ``(d1,)``, without forming the others."""
        following = values if self.successors is None else values[self.successors[state, action]]
        row = self.transition_features[:, state, action, :]
        return jnp.matmul(row, following, precision=jax.lax.Precision.HIGHEST)

    def reward_features_at(self, state: Array, action: Array) -> Array:
        r"""One :math:`\varphi(s,a)`, shape ``(d2,)``."""
        return self.reward_features[:, state, action]

    def astype(self, dtype: DTypeLike) -> Model:
        """The same model in another floating-point precision; successors stay integers."""
        return cast(self, dtype)


@double_precision
def cast(tree: Tree, dtype: DTypeLike) -> Tree:
    """Every floating-point leaf of ``tree`` in precision ``dtype``; other leaves as they are."""

    def one(leaf: Array) -> Array:
        return jnp.asarray(leaf, dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    changed: Tree = jax.tree.map(one, tree)
    return changed


@double_precision
def make_model(
    transition_features: ArrayLike,
    reward_features: ArrayLike,
    horizon: int,
    *,
    initial: ArrayLike | None = None,
    transition_bound: float | None = None,
    transition_theta_bound: float | None = None,
    reward_theta_bound: float | None = None,
    sums_to_one: bool = False,
    stationary: bool = False,
    successors: ArrayLike | None = None,
    linear_features: ArrayLike | None = None,
    known_rewards: ArrayLike | None = None,
    reward_total: float | None = None,
    initial_known: bool = True,
    names: Names | None = None,
    provenance: Provenance | None = None,
) -> Model:
    """Check and build a :class:`Model`; the bounds default to the paper's Assumption 1.

    ``initial`` may be a distribution over states or the index of a fixed first state (default 0; where it is declared
    unknown, a guess, by default that all states are as likely). With ``successors``, integers ``(S, A, n)``, the model is
    sparse and ``transition_features`` is ``(d1, S, A, n)``.

    Raises:
      InvalidInput: a shape does not fit, a number is not finite, or a declared bound is exceeded.
    """
    psi = np.asarray(transition_features, dtype=np.float64)
    phi = np.asarray(reward_features, dtype=np.float64)
    wanted = "(d1, S, A, S)" if successors is None else "(d1, S, A, n)"
    if psi.ndim != 4 or (successors is None and psi.shape[1] != psi.shape[3]):
        raise InvalidInput("transition_features.shape", psi.shape, wanted, "put the feature axis first")
    d1, states, actions, _ = psi.shape
    following = None if successors is None else check_successors(successors, psi.shape[1:])
    if phi.ndim != 3 or phi.shape[1:] != (states, actions):
        raise InvalidInput(
            "reward_features.shape", phi.shape, f"(d2, {states}, {actions})", "put the feature axis first"
        )
    if not (isinstance(horizon, int | np.integer) and horizon >= 1):
        raise InvalidInput("horizon", horizon, "an integer of at least 1", "give the number of steps per episode")
    for name, array in (("transition_features", psi), ("reward_features", phi)):
        if not all(np.isfinite(feature).all() for feature in array):
            raise InvalidInput(name, "not finite", "finite everywhere", "look for NaN or infinity in the features")

    if initial is None and not initial_known:
        initial = np.full(states, 1 / states)
    start = initial_distribution(initial, states)
    if names is not None:
        names.check_sizes(states, actions)
    if reward_total is not None and not 0 < reward_total < math.inf:
        raise InvalidInput(
            "reward_total", reward_total, "a finite number above 0", "give the sum of the reward weights"
        )
    bound = math.sqrt(d1) if transition_bound is None else float(transition_bound)
    reach = _total_variation(psi)
    if reach > bound * (1 + 1e-9):
        reach = _largest_value_feature(psi)
    if not reach <= bound * (1 + 1e-9):  # written so that a NaN bound fails
        raise InvalidInput(
            "largest ‖φ_V(s,a)‖/‖V‖∞",
            f"{reach:.6g}",
            f"at most transition_bound = {bound:.6g}",
            "scale the transition features down or declare a larger transition_bound",
        )
    longest = float(np.sqrt((phi**2).sum(axis=0)).max())
    if longest > 1 + 1e-9:
        raise InvalidInput(
            "largest ‖ϕ(s,a)‖", f"{longest:.6g}", "at most 1", "divide the reward features by their largest norm"
        )
    return Model(
        transition_features=on_device(psi),
        reward_features=on_device(phi),
        initial=on_device(start),
        horizon=int(horizon),
        transition_bound=bound,
        transition_theta_bound=math.sqrt(d1) if transition_theta_bound is None else float(transition_theta_bound),
        reward_theta_bound=math.sqrt(phi.shape[0]) if reward_theta_bound is None else float(reward_theta_bound),
        sums_to_one=bool(sums_to_one),
        stationary=bool(stationary),
        successors=None if following is None else on_device(following),
        linear_features=None if linear_features is None else _check_linear(linear_features, (states, actions)),
        known_rewards=None if known_rewards is None else _check_rewards(known_rewards, (states, actions)),
        reward_total=None if reward_total is None else float(reward_total),
        initial_known=bool(initial_known),
        about=About(names, provenance),
    )


def check_successors(successors: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """``successors`` as 32-bit integers, after a check that they are states and have this ``shape`` ``(S, A, n)``."""
    array = np.asarray(successors)
    if array.shape != shape:
        raise InvalidInput("successors.shape", array.shape, f"{shape}, as the features", "list one state per column")
    if not np.issubdtype(array.dtype, np.integer):
        raise InvalidInput("successors.dtype", array.dtype, "integers", "give indices of states")
    if array.min() < 0 or array.max() >= shape[0]:
        found = f"{array.min()} to {array.max()}"
        raise InvalidInput("successors", found, f"states from 0 to {shape[0] - 1}", "pad with any state, features 0")
    return array.astype(np.int32)


def _check_linear(features: ArrayLike, pairs: tuple[int, int]) -> Array:
    """Features of a linear MDP, after a check that they are finite vectors of norm at most 1, one per pair."""
    phi = np.asarray(features, dtype=np.float64)
    if phi.ndim != 3 or phi.shape[1:] != pairs:
        raise InvalidInput(
            "linear_features.shape", phi.shape, f"(d, {pairs[0]}, {pairs[1]})", "put the feature axis first"
        )
    longest = float(np.sqrt((phi**2).sum(axis=0)).max())
    if not longest <= 1 + 1e-9:  # written so that NaN fails
        raise InvalidInput(
            "largest ‖φ(s,a)‖ of linear_features", f"{longest:.6g}", "at most 1", "divide them by their largest norm"
        )
    return on_device(phi)


def _check_rewards(rewards: ArrayLike, pairs: tuple[int, int]) -> Array:
    """Known mean rewards, after a check that they are numbers in [0, 1], one per pair."""
    table = np.asarray(rewards, dtype=np.float64)
    if table.shape != pairs:
        raise InvalidInput("known_rewards.shape", table.shape, str(pairs), "give one mean reward per state and action")
    if not ((table >= 0) & (table <= 1)).all():  # written so that NaN fails
        raise InvalidInput("known_rewards", "out of range", "in [0, 1]", "rescale rewards")
    return on_device(table)


def _total_variation(psi: np.ndarray) -> float:
    """An upper bound on ‖φ_V‖ over ‖V‖∞ ≤ 1: the 2-norm of the per-feature total variations."""
    squares = np.zeros(psi.shape[1:3])
    for feature in psi:  # one at a time, because |ψ| as a whole may not fit beside ψ
        squares += np.abs(feature).sum(axis=-1) ** 2
    return float(np.sqrt(squares.max()))


def _largest_value_feature(psi: np.ndarray) -> float:
    """The exact sup of ‖φ_V‖ over ‖V‖∞ ≤ 1, by trying all sign patterns; an upper bound when there are too many.

    Of a sparse row, the signs of its n entries are tried: exact if its successors differ.
    """
    entries = psi.shape[3]
    if entries > 12 or (psi.size // entries) * 2**entries > 10**8:
        return _total_variation(psi)
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * entries)).reshape(entries, -1)
    return float(np.sqrt(((psi @ signs) ** 2).sum(axis=0)).max())


def initial_distribution(initial: ArrayLike | None, states: int) -> np.ndarray:
    """A distribution ``(S,)`` from one, from a state's number, or from nothing (the state 0), checked.

    Raises:
      InvalidInput: there is no such state, or it is no distribution over the states.
    """
    if initial is None or isinstance(initial, int | np.integer):
        index = 0 if initial is None else int(initial)
        if not 0 <= index < states:
            raise InvalidInput("initial", index, f"a state from 0 to {states - 1}", "give an existing state")
        start = np.zeros(states)
        start[index] = 1
        return start
    start = np.asarray(initial, dtype=np.float64)
    if start.shape != (states,):
        raise InvalidInput("initial.shape", start.shape, f"({states},)", "give one probability per state")
    if not ((start >= -1e-12).all() and abs(start.sum() - 1) <= 1e-9):  # written so that NaN fails
        raise InvalidInput(
            "initial", f"sum {start.sum():.6g}, least {start.min():.3g}", "a probability distribution", "normalise it"
        )
    return start
