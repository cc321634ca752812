# SPDX-License-Identifier: Apache-2.0
r"""The form ``regressions``: packed Grams and moments of two regressions per step (section 6.1 of the paper).

At step h of an episode under the value function V of the version that its user was served, the pairs are
:math:`(\phi_V(s,a),\,V(s'))` for the transition parameter and :math:`(\varphi(s,a),\,r)` for the reward parameter. A
contribution is one row per step: the packed :math:`\phi\phi^\top`, :math:`\phi V`, the packed
:math:`\varphi\varphi^\top`, :math:`\varphi r`.

The rules may name coordinates :math:`\theta_r=c+B\eta` of the reward parameter. The reward pair is then
:math:`(B^\top\varphi(s,a),\,r-\langle\varphi(s,a),c\rangle)`; with B = I and c = 0 it is the one above.

Formal guarantee. Features are clipped to their norm, targets and rewards to their interval before any product is formed
(:func:`clip`), here and nowhere else: simulation, service and device run this source, with JAX or with NumPy. How an
observation is *computed* (:func:`observe`, or JAX's own way) is not relied upon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reticent_wire.clipping import Array, Namespace, clip_interval, clip_norm
from reticent_wire.forms.form import Bounds, Floats, Form
from reticent_wire.packing import pack_symmetric, packed_size
from reticent_wire.trajectory import Trajectory, together

if TYPE_CHECKING:
    from reticent_wire.billboard import Billboard
    from reticent_wire.model import Dimensions, Model, Rules


class Observation(NamedTuple):
    """The regression pairs of one episode, before any product is formed.

    Attributes:
      value_features: ``(H, d1)``, the :math:`\\phi_h` of the visited pairs, in the plan's frame.
      targets: ``(H,)``, the next states' values, in the plan's frame.
      reward_features: ``(H, k)``, in the coordinates of the rules.
      rewards: ``(H,)``, less what the coordinates' centre says.
    """

    value_features: Array
    targets: Array
    reward_features: Array
    rewards: Array


class Statistics(NamedTuple):
    """The four sums per step; also the type of their regularized form (Λ_p, u_p, Λ_r, u_r).

    Attributes:
      transition_gram: ``(H, d1, d1)``, sums of :math:`\\phi\\phi^\\top`.
      transition_moment: ``(H, d1)``, sums of :math:`\\phi V`.
      reward_gram: ``(H, k, k)``, sums of :math:`\\varphi\\varphi^\\top`.
      reward_moment: ``(H, k)``, sums of :math:`\\varphi r`.
    """

    transition_gram: Array
    transition_moment: Array
    reward_gram: Array
    reward_moment: Array


class PairBounds(NamedTuple):
    """What regression pairs are clipped to.

    Attributes:
      feature_bound, target_low, target_high: of the transition regression per step, ``(H,)``.
      reward_bound, reward_low, reward_high: of the reward regression per step, ``(H,)``; a bound of 0 where nothing is
        learned of rewards.
      nonnegative_rewards: whether negative reward features are clipped to 0: their sensitivity rests on it.
    """

    feature_bound: Array
    target_low: Array
    target_high: Array
    reward_bound: Array
    reward_low: Array
    reward_high: Array
    nonnegative_rewards: bool

    @classmethod
    def of(cls, bounds: Bounds) -> PairBounds:
        """Those among the bounds of the rules."""
        return cls(**{name: bounds[name] for name in cls._fields})


def clip(seen: Observation, bounds: PairBounds, xp: Namespace = np) -> Observation:
    """The observation within its bounds; unchanged if it was."""
    reward_features = xp.maximum(seen.reward_features, 0.0) if bounds.nonnegative_rewards else seen.reward_features
    return Observation(
        value_features=clip_norm(seen.value_features, bounds.feature_bound, xp),
        targets=clip_interval(seen.targets, bounds.target_low, bounds.target_high, xp),
        reward_features=clip_norm(reward_features, bounds.reward_bound, xp),
        rewards=clip_interval(seen.rewards, bounds.reward_low, bounds.reward_high, xp),
    )


def products(seen: Observation) -> Statistics:
    """The four products per step whose sums over users are the sufficient statistics."""
    phi, varphi = seen.value_features, seen.reward_features
    return Statistics(
        transition_gram=phi[..., :, None] * phi[..., None, :],
        transition_moment=phi * seen.targets[..., None],
        reward_gram=varphi[..., :, None] * varphi[..., None, :],
        reward_moment=varphi * seen.rewards[..., None],
    )


def pack(sums: Statistics, xp: Namespace = np) -> Array:
    """The four products as one array ``(H, D)``."""
    return xp.concatenate(
        [
            pack_symmetric(sums.transition_gram, xp), sums.transition_moment,
            pack_symmetric(sums.reward_gram, xp), sums.reward_moment,
        ],
        axis=-1,
    )  # fmt: skip


def clipped_products(seen: Observation, bounds: PairBounds, xp: Namespace = np) -> Array:
    """One user's contribution ``(H, D)`` from their regression pairs, whatever these are."""
    return pack(products(clip(seen, bounds, xp)), xp)


def largest_products(bounds: PairBounds, d1: int, k: int) -> Floats:
    """Grams of features of norm L are at most L² in every packed entry, moments at most L·V; ``(H, D)``."""
    blocks = []
    for bound, low, high, size in (
        (bounds.feature_bound, bounds.target_low, bounds.target_high, d1),
        (bounds.reward_bound, bounds.reward_low, bounds.reward_high, k),
    ):
        feature = np.asarray(bound)[:, None]
        target = np.maximum(np.abs(low), np.abs(high))[:, None]
        blocks += [np.repeat(feature**2, packed_size(size), axis=1), np.repeat(feature * target, size, axis=1)]
    return np.concatenate(blocks, axis=1)


def observe(
    model: Model, framed_values: Floats, seen: Trajectory, reward_basis: Floats, reward_centre: Floats
) -> Observation:
    """The regression pairs of an episode, or of several on a leading axis, under ``framed_values`` ``(H, S)``, by NumPy.

    ``reward_basis`` ``(d2, k)`` and ``reward_centre`` ``(d2,)`` are the coordinates of the reward parameter.
    """
    here, there, steps = seen.states[..., :-1], seen.states[..., 1:], np.arange(len(framed_values))
    rows = np.moveaxis(model.transition_features[:, here, seen.actions, :], 0, -2)
    following = (
        framed_values
        if model.successors is None
        else framed_values[steps[:, None], model.successors[here, seen.actions]]
    )
    pays = np.moveaxis(model.reward_features[:, here, seen.actions], 0, -1)
    return Observation(
        value_features=np.matmul(rows, following[..., None])[..., 0],
        targets=framed_values[steps, there],
        reward_features=pays @ reward_basis,
        rewards=seen.rewards - pays @ reward_centre,
    )


def pair_distance(bound: float, target: float, weight: float, *, nonnegative: bool = False) -> float:
    r"""How far two users are apart in :math:`[xx^\top, w\,vx]`, ‖x‖ ≤ ``bound`` and \|v\| ≤ ``target``.

    With :math:`s=w^2V^2/L^2`: :math:`\sqrt2\,L^2(1+s/2)` if s ≤ 2, :math:`2L^2\sqrt s` beyond, and
    :math:`\sqrt2\,L^2\sqrt{1+s}` if all inner products and targets are nonnegative. The proof is at
    ``reticent.privacy.sensitivity.joint_sensitivity``.
    """
    square = bound**2
    ratio = (weight * target / bound) ** 2
    if nonnegative:
        return math.sqrt(2.0) * square * math.sqrt(1.0 + ratio)
    if ratio <= 2.0:
        return math.sqrt(2.0) * square * (1.0 + ratio / 2.0)
    return 2.0 * square * math.sqrt(ratio)


class Regressions(Form):
    """Packed regressions; see the module docstring. Its rules carry B ``(d2, k)`` and c ``(d2,)`` too."""

    name = "regressions"
    flags = ("nonnegative_rewards",)

    def shape(self, sizes: Dimensions) -> tuple[int, int]:
        return sizes.horizon, -1

    def bounds(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        steps = [name for name in PairBounds._fields if name not in self.flags]
        return {
            **dict.fromkeys(steps, (sizes.horizon,)),
            "reward_basis": (sizes.d2, -1), "reward_centre": (sizes.d2,),
        }  # fmt: skip

    def of_version(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        return {"framed_values": (sizes.horizon, sizes.states)}

    def contribution(self, model: Model, billboard: Billboard, seen: Trajectory) -> Floats:
        self.require_version(model, billboard)
        bounds = model.rules.bounds
        pairs = observe(model, billboard.report["framed_values"], seen, bounds["reward_basis"], bounds["reward_centre"])
        return np.asarray(clipped_products(pairs, PairBounds.of(bounds)))

    def contributions(self, model: Model, billboard: Billboard, seen: Sequence[Trajectory]) -> Floats:
        return self.contribution(model, billboard, together(seen))

    def largest(self, sizes: Dimensions, bounds: Bounds) -> Floats:
        return largest_products(PairBounds.of(bounds), sizes.d1, int(bounds["reward_basis"].shape[1]))

    def strength(self, sizes: Dimensions, rules: Rules) -> float:
        r"""A contribution is one Gaussian release per regression and step.

        If the matrix has noise σ and the vector σ/w, two users differ by at most :func:`pair_distance` plus
        :math:`g\sqrt\cdot` for the rounding to the grid g, and releases compose as :math:`\mu^2=\sum(\Delta/\sigma)^2`.
        Nonnegative features help only with targets that are nonnegative too, whatever the rules say.
        """
        bounds, d1, k = PairBounds.of(rules.bounds), sizes.d1, int(rules.bounds["reward_basis"].shape[1])
        ends = np.cumsum([packed_size(d1), d1, packed_size(k)])
        square = 0.0
        for step in range(sizes.horizon):
            gram_p, moment_p, gram_r, moment_r = (float(part.min()) for part in np.split(rules.noise_scale[step], ends))
            reach_p, reach_r = (
                max(abs(float(low[step])), abs(float(high[step])))
                for low, high in (
                    (bounds.target_low, bounds.target_high), (bounds.reward_low, bounds.reward_high),
                )
            )  # fmt: skip
            longest_p, longest_r = float(bounds.feature_bound[step]), float(bounds.reward_bound[step])
            signed = bounds.nonnegative_rewards and float(bounds.reward_low[step]) >= 0
            square += _pair_strength(longest_p, reach_p, gram_p, moment_p, d1, rules.grid) ** 2
            square += _pair_strength(longest_r, reach_r, gram_r, moment_r, k, rules.grid, signed) ** 2
        return math.sqrt(square)


def _pair_strength(
    bound: float, target: float, gram: float, moment: float, dimension: int, grid: float, nonnegative: bool = False
) -> float:
    """μ of one regression at one step; ``gram`` and ``moment`` are the least noise scales of its two parts."""
    if bound == 0:  # features clipped to nothing: matrix and vector are zero for every user
        return 0.0
    if not (bound > 0 and gram > 0 and moment > 0 and math.isfinite(bound + target)):
        return math.inf
    weight = gram / moment
    rounding = grid * math.sqrt(packed_size(dimension) + weight**2 * dimension)
    return (pair_distance(bound, target, weight, nonnegative=nonnegative) + rounding) / gram
