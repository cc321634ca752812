# SPDX-License-Identifier: Apache-2.0
r"""In which coordinates rewards are learned: nothing is spent on what the designer has declared.

The paper regresses r on :math:`\varphi(s,a)`. A model may declare more than that:

* **the weights of a blend of reward tables sum to T** (``reward_total``). Then :math:`\theta_r=c+B'\eta` with c = T/d·1 and
  B' an orthonormal basis of the sum-zero vectors, so that

  .. math:: r-\bar r(s,a)=\langle x(s,a),\eta\rangle+\text{noise},\qquad \bar r=\langle\varphi,c\rangle,\quad
            x=B^\top\varphi,\quad B=B'/L,

  with :math:`\bar r` the mean of the candidates' tables, which is public, and L the longest
  :math:`\|B'^\top\varphi\|` of any pair: contrasts as long as they may be, and one less than there were features;
* **the rewards** (``known_rewards``). Then :math:`\bar r` is the table, there is no contrast, and no budget is spent.

**Sensitivity.** A step of a user contributes :math:`[xx^\top,\,w\,vx]` with :math:`v=r-\bar r`. The clip makes
:math:`\|x\|\le1` and :math:`v\in[-\max\bar r,\,1-\min\bar r]`, both ends public, hence
:math:`|v|\le V=\max(\max\bar r,1-\min\bar r)\le1`; that :math:`r\in[0,1]` implies it is what keeps the regression unbiased,
and nothing that privacy rests on. Contrasts have either sign, so the shortcut for nonnegative features is not open: the
pair moves by :math:`\sqrt2(1+w^2V^2/2)` for :math:`w^2V^2\le2`
(:func:`~reticent.privacy.sensitivity.joint_sensitivity` with L = 1), where the paper's pair with nonnegative features
moves by :math:`\sqrt2\sqrt{1+w^2}`. At equal relative noise (wV = 1 and w = 1) that is 2.12 against 2: a loss of 6 %, for
contrasts that are 1/L times as long as what they were inside φ and targets that are V times as large. Where x is clipped
to nothing (known rewards) all users contribute 0 and no noise is needed.

**Radii.** Given (s, a), v lies in an interval of length 1 as r does, so the martingale term of Lemma 3.1 is unchanged;
:math:`\|\eta\|=L\|B'^\top\theta_r\|\le LT\sqrt{1-1/d}` for nonnegative weights.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.runtime import on_device
from reticent.worlds import Model
from reticent.worlds.continuous.model import ContinuousModel
from reticent.worlds.models.model import Sizes

HIGHEST = jax.lax.Precision.HIGHEST

LEAST_LENGTH = 1e-9
"""Contrasts shorter than this everywhere are none: the candidates pay the same."""


@dataclasses.dataclass(frozen=True)
class RewardBounds:
    """What reward pairs are clipped to at every step: features to norm ``bound``, targets to [``low``, ``high``]."""

    bound: float = 1.0
    low: float = 0.0
    high: float = 1.0

    @property
    def reach(self) -> float:
        """V, the most that a target is away from 0."""
        return max(abs(self.low), abs(self.high))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RewardCoordinates:
    """θ_r = centre + basis·η; see the module docstring.

    Attributes:
      basis: B, ``(d2, k)``, zero where nothing is learned. centre: c, ``(d2,)``.
      bounds: what the pairs are clipped to.
      theta_bound: declared bound on ‖η‖.
    """

    basis: Array
    centre: Array
    bounds: RewardBounds = dataclasses.field(metadata={"static": True})
    theta_bound: float = dataclasses.field(metadata={"static": True})

    @property
    def size(self) -> int:
        """k."""
        return int(self.basis.shape[1])

    def features(self, model: Model) -> Array:
        """x of all pairs, ``(k, S, A)``."""
        return jnp.einsum("dk,dsa->ksa", self.basis, model.reward_features, precision=HIGHEST)

    def baseline(self, model: Model) -> Array:
        """r̄ of all pairs, ``(S, A)``."""
        if model.known_rewards is not None:
            return model.known_rewards
        return jnp.einsum("d,dsa->sa", self.centre, model.reward_features, precision=HIGHEST)

    def pairs(self, features: Array, rewards: Array) -> tuple[Array, Array]:
        """Contrasts ``(H, k)`` and targets ``(H,)`` of an episode, from φ ``(H, d2)`` and its rewards ``(H,)``."""
        contrasts = jnp.matmul(features, self.basis, precision=HIGHEST)
        return contrasts, rewards - jnp.matmul(features, self.centre, precision=HIGHEST)


def reward_coordinates(sizes: Sizes, contrasts: bool | None) -> RewardCoordinates | None:
    """The coordinates that a model's declarations allow; None is the paper's regression of r on φ.

    ``contrasts`` asks for them (True), declines them (False), or takes what is declared (None). Sizes without a model, and
    models of real states, declare nothing; a bandit whose rewards are known would have nothing left to learn.

    Raises:
      InvalidInput: asked for, and not declared.
    """
    if contrasts is False:
        return None
    declared = isinstance(sizes, Model) and not isinstance(sizes, ContinuousModel)
    found = _of_model(sizes) if declared and isinstance(sizes, Model) else None
    if found is not None and found.bounds.bound == 0 and sizes.horizon == 1:
        found = None
    if contrasts and found is None:
        raise InvalidInput(
            "contrasts", True, "False unless rewards are known or their weights have a declared sum",
            "declare the model with reward_total or known_rewards",
        )  # fmt: skip
    return found


def _of_model(model: Model) -> RewardCoordinates | None:
    d2 = model.d2
    if model.known_rewards is not None:
        return _nothing_to_learn(np.zeros(d2))
    if model.reward_total is None:
        return None
    centre = np.full(d2, model.reward_total / d2)
    features = np.asarray(model.reward_features, np.float64)
    basis = sum_zero_basis(d2)
    longest = float(np.linalg.norm(np.einsum("dk,dsa->ksa", basis, features), axis=0).max()) if d2 > 1 else 0.0
    if longest <= LEAST_LENGTH:
        return _nothing_to_learn(centre)
    baseline = np.einsum("d,dsa->sa", centre, features)
    low, high = float(np.clip(-baseline.max(), -1, 0)), float(np.clip(1 - baseline.min(), 0, 1))
    theta_bound = longest * model.reward_total * math.sqrt(1 - 1 / d2)
    return RewardCoordinates(on_device(basis / longest), on_device(centre), RewardBounds(1.0, low, high), theta_bound)


def _nothing_to_learn(centre: np.ndarray) -> RewardCoordinates:
    """One coordinate that nothing moves: features are clipped to 0."""
    return RewardCoordinates(jnp.zeros((len(centre), 1)), jnp.asarray(centre), RewardBounds(0.0, 0.0, 0.0), 0.0)


def sum_zero_basis(dimension: int) -> np.ndarray:
    """An orthonormal basis ``(d, d − 1)`` of the vectors whose entries sum to zero: Helmert's contrasts."""
    basis = np.zeros((dimension, dimension - 1))
    for column in range(dimension - 1):
        basis[: column + 1, column] = 1.0
        basis[column + 1, column] = -(column + 1.0)
        basis[:, column] /= math.sqrt((column + 1) * (column + 2))
    return basis


@dataclasses.dataclass(frozen=True)
class LearnedSizes:
    """The sizes of a model with the reward parameter as it is learned (:class:`~reticent.worlds.models.model.Sizes`)."""

    horizon: int
    d1: int
    d2: int
    transition_bound: float
    transition_theta_bound: float
    reward_theta_bound: float
    sums_to_one: bool
    stationary: bool
    nonnegative_rewards: bool


def learned_sizes(sizes: Sizes, rewards: RewardCoordinates | None) -> Sizes:
    """What radii, noise and bounds depend on where rewards are learned in these coordinates."""
    if rewards is None:
        return sizes
    return LearnedSizes(
        sizes.horizon, sizes.d1, rewards.size, sizes.transition_bound, sizes.transition_theta_bound,
        rewards.theta_bound, sizes.sums_to_one, sizes.stationary, nonnegative_rewards=False,
    )  # fmt: skip
