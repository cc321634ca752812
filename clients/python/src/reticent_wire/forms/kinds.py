# SPDX-License-Identifier: Apache-2.0
r"""The form ``kinds``: the user acts on a belief about their own kind, and sends one vector, clipped as a whole.

Candidate z of the model (transitions and rewards together) is the law of kind z = 1 … M; the *blend* of them, with public
shares that change from version to version, is one more kind, the last. The rules carry an orthonormal sum-zero basis B, the
optimal tables :math:`Q_z` of the M kinds and the total of reward weights; a billboard carries the shares w, the blend's
shares and table, a whitening A and a radius R. From the episode so far a device knows

.. math:: \ell_z=\sum_h\log p_z(r_h,s_{h+1}\mid s_h,a_h),\qquad b_z\propto w_ze^{\ell_z},

acts by :math:`\arg\max_a\sum_zb_zQ_{z,h}(s,a)` (:class:`Belief`), and at the end sends
:math:`\mathrm{clip}\big(B^\top L\,A/(R\,\langle w,L\rangle)\big)` with :math:`L=e^\ell`. Where a stay of several visits is
one contribution, :math:`\ell` is the sum over all of them, and the clip is of the whole.

Sums in different coordinates do not add up: as in the form ``score`` a vector is formed under the reference of the round
that counts it.

Formal guarantee. Whatever model, billboard and trajectory are, the contribution has 2-norm at most 1: it is clipped to the
unit ball, last. Two users are therefore at most 2 apart, and :math:`g\sqrt D` more after rounding to a grid g. The belief
is no part of it: it is a function of what is published and of the user's own episode, and it stays where it is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reticent_wire.boundary import Clipped
from reticent_wire.clipping import Array, Namespace, clip_norm
from reticent_wire.errors import InvalidInput
from reticent_wire.forms.form import Floats
from reticent_wire.forms.personal import PersonalVector
from reticent_wire.trajectory import Trajectory, by_visit, together

if TYPE_CHECKING:
    from reticent_wire.billboard import Billboard
    from reticent_wire.model import Dimensions, Model

LEAST = 1e-9
"""Added to probabilities before their logarithm: what a law calls impossible is very unlikely, and no more."""


# -- over an array namespace: devices and the service run these with NumPy, simulations with JAX ------------------------


def log_likelihoods(chances: Array, means: Array, blend: Array, rewards: Array, xp: Namespace = np) -> Array:
    r""":math:`\log p_z(r,s'\mid s,a)` of every kind and, last, of the blend, ``(..., Z)``.

    ``chances`` of the state that followed and ``means`` of the reward are the kinds', ``(..., M)``; a reward in [0, 1]
    counts as that share of a success.
    """
    chances = xp.concatenate([chances, (chances * blend).sum(axis=-1, keepdims=True)], axis=-1)
    means = xp.concatenate([means, (means * blend).sum(axis=-1, keepdims=True)], axis=-1)
    paid = rewards[..., None]
    return paid * xp.log(means + LEAST) + (1 - paid) * xp.log(1 - means + LEAST) + xp.log(chances + LEAST)


def belief(shares: Array, likelihoods: Array, xp: Namespace = np) -> Array:
    """b ``(..., Z)`` from the published shares and the episode's log-likelihoods."""
    weights = shares * xp.exp(likelihoods - likelihoods.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def ratios(shares: Array, likelihoods: Array, xp: Namespace = np) -> Array:
    r""":math:`L_z/\langle w,L\rangle` ``(..., Z)``, computed without overflow."""
    scaled = xp.exp(likelihoods - likelihoods.max(axis=-1, keepdims=True))
    return scaled / (scaled * shares).sum(axis=-1, keepdims=True)


class VectorRule(NamedTuple):
    """How likelihoods become a vector: B ``(Z, k)``, w ``(Z,)``, A ``(k, k)`` and R."""

    basis: Array
    shares: Array
    whiten: Array
    radius: Array

    def vector(self, likelihoods: Array, xp: Namespace = np) -> Array:
        """The vector ``(..., k)`` in units of the radius, not clipped."""
        direction = _times(ratios(self.shares, likelihoods, xp), self.basis)
        return _times(direction, self.whiten) / self.radius


def _times(vectors: Array, matrix: Array) -> Array:
    """The product on the last axis, to the same bits however many vectors there are: a matrix product's may differ."""
    return (vectors[..., :, None] * matrix).sum(axis=-2)


# -- on the device ------------------------------------------------------------------------------------------------------


class Belief:
    """What a device knows of its own user: :math:`\\ell` of the episode so far, and how to act on it.

    Formal guarantee. It is a function of the published model and billboard and of this user's own observations. No method
    of this class gives it away but :meth:`act`, which gives an action to the user's own app, and :attr:`probabilities`,
    which shows it to the user on the device.

    ``likelihoods`` is the sum of earlier episodes, where a device remembers them.
    """

    def __init__(self, model: Model, billboard: Billboard, likelihoods: Floats | None = None) -> None:
        bounds, report = model.rules.bounds, billboard.report
        self._model, self._shares, self._blend = model, report["shares"], report["blend"]
        self._take_plan(model, billboard)
        self._total = float(bounds["reward_total"])
        usable = likelihoods is not None and likelihoods.shape == self._shares.shape
        start = np.array(likelihoods, np.float64) if usable else np.zeros(len(self._shares))
        self._likelihoods: Clipped[Floats] = Clipped(start)

    def act(self, step: int, state: int) -> int:
        """The action at 0-based ``step`` in ``state``: the best on average over the belief."""
        return self._likelihoods.on_device(lambda known: self._best(step, state, known))

    def observe(self, state: int, action: int, reward: float, following: int) -> None:
        """Take what followed an action: a reward in [0, 1] and a state, in range as clips leave them."""
        with np.errstate(all="ignore"):  # hostile laws may make infinities; a warning would say where a user was
            told = self._told(state, action, reward, following)
        self._likelihoods = Clipped(self._likelihoods.on_device(lambda known: known + told))

    @property
    def probabilities(self) -> Floats:
        """b ``(Z,)``, the blend last, to show the user on the device. It must not leave it."""
        with np.errstate(all="ignore"):
            return self._likelihoods.on_device(self._of)

    @property
    def known(self) -> Floats:
        """:attr:`probabilities`."""
        return self.probabilities

    @property
    def likelihoods(self) -> Clipped[Floats]:
        """:math:`\\ell` ``(Z,)``, for the device's own memory. It must not leave the device."""
        return self._likelihoods

    def _of(self, known: Floats) -> Floats:
        found: Floats = belief(self._shares, known)
        return found

    def _best(self, step: int, state: int, known: Floats) -> int:
        with np.errstate(all="ignore"):  # as above, of hostile tables
            return self._chosen(step, state, self._of(known))

    def _take_plan(self, model: Model, billboard: Billboard) -> None:
        self._tables, self._blend_table = model.rules.bounds["tables"], billboard.report["blend_table"]

    def _chosen(self, step: int, state: int, chances: Floats) -> int:
        """The action at a belief ``(Z,)``."""
        scores = chances[:-1] @ self._tables[step, :, state] + chances[-1] * self._blend_table[step, state]
        return int(scores.argmax())

    def _told(self, state: int, action: int, reward: float, following: int) -> Floats:
        model = self._model
        chances = model.transition_features[:, state, action]
        if model.successors is None:
            chance = chances[:, following]
        else:
            chance = chances @ (model.successors[state, action] == following)
        means = model.reward_features[:, state, action] * self._total
        told: Floats = log_likelihoods(chance, means, self._blend, np.asarray(reward))
        return told


class KindVector(PersonalVector):
    """Belief on the device and one clipped vector; see the module docstring."""

    name = "kinds"
    stays = True

    def numbers(self, sizes: Dimensions) -> int:
        return sizes.d1

    def bounds(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        return {
            "basis": (sizes.d1 + 1, sizes.d1),
            "tables": (sizes.horizon, sizes.d1, sizes.states, sizes.actions),
            "reward_total": (),
        }

    def of_version(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        return {
            "shares": (sizes.d1 + 1,), "blend": (sizes.d1,),
            "blend_table": (sizes.horizon, sizes.states, sizes.actions),
            "whiten": (sizes.d1, sizes.d1), "radius": (),
        }  # fmt: skip

    def require_version(self, model: Model, billboard: Billboard) -> None:
        """Refuse arrays that are missing or misshapen, shares that are none and plans without numbers: found out in the
        middle of an episode, they would say where a user was.

        Raises:
          InvalidInput: one is none.
        """
        super().require_version(model, billboard)
        if model.d1 != model.d2:
            raise InvalidInput("reward_features", model.d2, f"{model.d1}, as many as kinds", "ask the operator")
        shares = {f"billboard.report.{name}": billboard.report[name] for name in ("shares", "blend")}
        for name, array in {**self.plan_of(model, billboard), **shares}.items():
            if not np.isfinite(array).all():
                raise InvalidInput(name, "numbers that are not finite", "finite ones", "ask the service's operator")
        for name in ("shares", "blend"):
            given = billboard.report[name]
            if not ((given >= 0).all() and given.sum() > 0):
                raise InvalidInput(f"billboard.report.{name}", "no shares", "at least 0", "ask the service's operator")

    def plan_of(self, model: Model, billboard: Billboard) -> dict[str, Floats]:
        """What users act by, under the names that it is published by."""
        return {
            "report.tables": model.rules.bounds["tables"],
            "billboard.report.blend_table": billboard.report["blend_table"],
        }

    def belief(self, model: Model, billboard: Billboard, likelihoods: Floats | None = None) -> Belief:
        return Belief(model, billboard, likelihoods)

    def contribution(self, model: Model, billboard: Billboard, seen: Trajectory) -> Floats:
        return self._vectors(model, billboard, seen)[None]

    def contributions(self, model: Model, billboard: Billboard, seen: Sequence[Trajectory]) -> Floats:
        return self._vectors(model, billboard, together(seen))[:, None]

    def _vectors(self, model: Model, billboard: Billboard, seen: Trajectory) -> Floats:
        """The clipped vector of an episode ``(k,)``, or those of several on a leading axis."""
        report, bounds = billboard.report, model.rules.bounds
        states = by_visit(seen, model.visits).states
        here, there = (part.reshape(seen.actions.shape) for part in (states[..., :-1], states[..., 1:]))
        if model.successors is None:
            chances = model.transition_features[:, here, seen.actions, there]
        else:
            reached = model.successors[here, seen.actions] == there[..., None]
            chances = (model.transition_features[:, here, seen.actions] * reached).sum(axis=-1)
        means = model.reward_features[:, here, seen.actions] * bounds["reward_total"]
        rule = VectorRule(bounds["basis"], report["shares"], report["whiten"], report["radius"])
        told = log_likelihoods(np.moveaxis(chances, 0, -1), np.moveaxis(means, 0, -1), report["blend"], seen.rewards)
        return np.asarray(clip_norm(rule.vector(told.sum(axis=-2)), 1.0))
