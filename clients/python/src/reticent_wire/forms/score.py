# SPDX-License-Identifier: Apache-2.0
r"""The form ``score``: one vector per user, clipped as a whole.

A billboard of this form carries, beside the greedy policy: the explorers' policy and how many of a round's first places
explore (at random in the first round); V of either plan, framed to [−1, 1]; the reference (θ₀, θ_{r,0}); whitening matrices
W; and the radius R. At every step an episode adds :math:`x\,(\bar V(s')-\langle\phi_{\bar V},\theta_0\rangle)` with
:math:`x=B^\top\phi_{\bar V}(s,a)` to the transition part (or, with ``likelihood``,
:math:`B^\top\psi(s'\mid s,a)/\langle\psi(s'\mid s,a),\theta_0\rangle`) and :math:`B_r^\top\varphi\,(r-\langle\varphi,
\theta_{r,0}\rangle)` to the reward part. Steps are summed (stationary models) or concatenated, the parts multiplied by
W and divided by R.

Sums in different coordinates do not add up, so a vector is formed under the reference of the round that *counts* it and not
of the version that its user was served: any public V and θ₀ give a moment whose mean is linear in the distance of the truth
from θ₀, however actions were chosen. Where a stay of several visits is one contribution, it is the sum of the visits'
vectors, and the clip is of the whole.

Formal guarantee. Whatever model, billboard and trajectory are, the contribution has 2-norm at most 1
(:func:`~reticent_wire.clipping.clip_norm`), here and nowhere else: simulation, service and device run this source,
with JAX or with NumPy. Two users are therefore at most 2 apart, and :math:`g\sqrt D` more after rounding to a grid g.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reticent_wire.arrays import fits
from reticent_wire.clipping import Array, Namespace, clip_norm
from reticent_wire.errors import InvalidInput
from reticent_wire.forms.form import Bounds, Floats, Form
from reticent_wire.plans import require_actions, require_whole
from reticent_wire.trajectory import Trajectory, by_visit, together

if TYPE_CHECKING:
    from reticent_wire.billboard import Billboard
    from reticent_wire.model import Dimensions, Model, Rules

SMALLEST = 1e-300
MOST_USERS = 2.0**53


class Surprises(NamedTuple):
    """What an episode tells, before it is weighted.

    Attributes:
      contrasts: directions, ``(H, k)``. surprises: how far along each, ``(H,)``.
      reward_contrasts, reward_surprises: the same of the rewards, ``(H, r)`` and ``(H,)``.
    """

    contrasts: Array
    surprises: Array
    reward_contrasts: Array
    reward_surprises: Array


class Weights(NamedTuple):
    """How surprises become a vector: W ``(T, k, k)`` and ``(G, r, r)``, and the radius R."""

    whiten: Array
    whiten_rewards: Array
    radius: Array


def weigh(seen: Surprises, weights: Weights, pooled: bool, xp: Namespace = np) -> Array:
    """The vector ``(D,)`` in units of the radius, not clipped. ``pooled`` adds up the steps."""
    parts = (
        _whitened(weights.whiten, seen.contrasts * seen.surprises[..., None], pooled),
        _whitened(weights.whiten_rewards, seen.reward_contrasts * seen.reward_surprises[..., None], pooled),
    )
    return xp.concatenate(parts, axis=-1) / weights.radius


def _whitened(whiten: Array, steps: Array, pooled: bool) -> Array:
    """Steps ``(H, k)`` by group, each multiplied by its W ``(T, k, k)``, as one vector."""
    groups = whiten.shape[0]
    sums = steps.sum(axis=-2, keepdims=True)[..., :groups, :] if pooled else steps[..., :groups, :]
    weighed = (whiten * sums[..., None, :]).sum(axis=-1)
    return weighed.reshape(*weighed.shape[:-2], -1)


def clipped(vector: Array, xp: Namespace = np) -> Array:
    """The vector ``(D,)`` inside the unit ball, whatever it was."""
    return clip_norm(vector, 1.0, xp)


def serves_explorer(billboard: Billboard, place: int | None) -> bool:
    """Whether the user at this 0-based place of their round explores; one without a place does not."""
    return place is not None and place < int(billboard.report["explorers"])


class ScoreVector(Form):
    """One clipped vector; see the module docstring. Its rules carry the bases B ``(d1, k)`` and B_r ``(d2, r)``."""

    name = "score"
    flags = ("pooled", "likelihood")
    formed_under = "open"
    stays = True

    def shape(self, sizes: Dimensions) -> tuple[int, int]:
        del sizes
        return 1, -1

    def bounds(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        return {"basis": (sizes.d1, -1), "reward_basis": (sizes.d2, -1)}

    def of_version(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        plan = (sizes.horizon, sizes.states)
        return {
            "curious": plan, "framed_values": plan, "framed_hopes": plan, "explorers": (), "at_random": (),
            "theta": (-1, sizes.d1), "reward_theta": (-1, sizes.d2), "whiten": (-1, -1, -1),
            "whiten_rewards": (-1, -1, -1), "radius": (),
        }  # fmt: skip

    def require_plan(self, billboard: Billboard) -> None:
        for name, shape in (("curious", billboard.policy.shape[:2]), ("explorers", ()), ("at_random", ())):
            array = billboard.report.get(name)
            if array is None or not fits(array.shape, shape):
                kind = "missing" if array is None else array.shape
                raise InvalidInput(f"billboard.report.{name}", kind, f"of shape {shape}", "ask the service's operator")
        require_actions("billboard.report.curious", billboard.report["curious"], billboard.actions)
        require_whole("billboard.report.explorers", billboard.report["explorers"], MOST_USERS)
        require_whole("billboard.report.at_random", billboard.report["at_random"], 1)

    def act(self, billboard: Billboard, step: int, state: int, place: int | None, actions: int, uniform: float) -> int:
        if not serves_explorer(billboard, place):
            return billboard.act(step, state, uniform)
        if bool(billboard.report["at_random"]):
            return min(int(uniform * actions), actions - 1)
        return billboard.floored(int(billboard.report["curious"][step, state]), uniform)

    def probability(
        self, billboard: Billboard, step: int, state: int, place: int | None, actions: int, action: int
    ) -> float:
        if not serves_explorer(billboard, place):
            return billboard.probability_by_policy(step, state, action)
        if bool(billboard.report["at_random"]):
            return 1 / actions
        return billboard.probability_of(int(billboard.report["curious"][step, state]), action)

    def contribution(self, model: Model, billboard: Billboard, seen: Trajectory) -> Floats:
        framed = billboard.report["framed_hopes" if serves_explorer(billboard, seen.place) else "framed_values"]
        return self._vectors(model, billboard, framed, seen)[None]

    def contributions(self, model: Model, billboard: Billboard, seen: Sequence[Trajectory]) -> Floats:
        explores = np.array([serves_explorer(billboard, one.place) for one in seen])
        hopes, values = billboard.report["framed_hopes"], billboard.report["framed_values"]
        framed = np.where(explores[:, None, None], hopes, values)
        return self._vectors(model, billboard, framed, together(seen))[:, None]

    def _vectors(self, model: Model, billboard: Billboard, framed: Floats, seen: Trajectory) -> Floats:
        """The clipped vector of an episode ``(D,)``, or those of several on a leading axis, under V ``(..., H, S)``."""
        report, pooled = billboard.report, bool(model.rules.bounds["pooled"])
        weights = Weights(report["whiten"], report["whiten_rewards"], report["radius"])
        if model.visits == 1:
            return np.asarray(clipped(weigh(self._surprises(model, report, framed, seen), weights, pooled)))
        each = self._surprises(model, report, framed[..., None, :, :], by_visit(seen, model.visits))
        return np.asarray(clipped(weigh(each, weights, pooled).sum(axis=-2)))

    def _surprises(self, model: Model, report: Bounds, framed: Floats, seen: Trajectory) -> Surprises:
        here, there, steps = seen.states[..., :-1], seen.states[..., 1:], np.arange(model.horizon)
        bounds = model.rules.bounds
        theta, reward_theta = (
            table[np.minimum(steps, len(table) - 1)] for table in (report["theta"], report["reward_theta"])
        )
        rows = np.moveaxis(model.transition_features[:, here, seen.actions, :], 0, -2)
        listed = None if model.successors is None else model.successors[here, seen.actions]
        if bounds["likelihood"]:
            chosen = np.arange(model.states) == there[..., None] if listed is None else listed == there[..., None]
            psi = (rows * chosen[..., None, :]).sum(axis=-1)
            stated = (psi * theta).sum(axis=-1, keepdims=True)
            features = np.where(stated > SMALLEST, psi / np.where(stated > SMALLEST, stated, 1.0), 0.0)
            surprises = np.ones(there.shape)
        else:
            following = framed if listed is None else np.take_along_axis(framed, listed, axis=-1)
            features = (rows * following[..., None, :]).sum(axis=-1)
            reached = np.take_along_axis(framed, there[..., None], axis=-1)[..., 0]
            surprises = reached - (features * theta).sum(axis=-1)
        pays = np.moveaxis(model.reward_features[:, here, seen.actions], 0, -1)
        return Surprises(
            features @ bounds["basis"], surprises,
            pays @ bounds["reward_basis"], seen.rewards - (pays * reward_theta).sum(axis=-1),
        )  # fmt: skip

    def largest(self, sizes: Dimensions, bounds: Bounds) -> Floats:
        return np.ones((1, self.dimension(sizes, bounds)))

    def dimension(self, sizes: Dimensions, bounds: Bounds) -> int:
        """D: transitions of all steps but the last, which leads to nothing, and rewards of all."""
        groups = 1 if bounds["pooled"] else sizes.horizon
        moving = 0 if sizes.horizon == 1 else (1 if bounds["pooled"] else sizes.horizon - 1)
        return moving * int(bounds["basis"].shape[1]) + groups * int(bounds["reward_basis"].shape[1])

    def strength(self, sizes: Dimensions, rules: Rules) -> float:
        """Two users are at most 2 apart, and g√D more after rounding, in every direction."""
        least = float(rules.noise_scale.min())
        if not least > 0:
            return math.inf
        return (2.0 + rules.grid * math.sqrt(self.dimension(sizes, rules.bounds))) / least
