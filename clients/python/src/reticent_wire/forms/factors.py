# SPDX-License-Identifier: Apache-2.0
r"""The form ``factors``: the user is shown items by their own tastes, and sends one vector, clipped as a whole.

A user has a hidden vector f in :math:`\mathbb R^m`; item a pays :math:`c_a+\lambda_a^\top f` and scatter of variance
:math:`\psi_a`. The rules carry c, λ, ψ and the bonus b, which never change; a billboard carries the mean μ of users'
vectors, a whitening A and a radius R. A device starts at N(μ, I) and learns from every reward r in closed form,

.. math:: m\leftarrow m+g\,(r-c_a-\lambda_a^\top m)/v,\qquad C\leftarrow C-gg^\top/v,\qquad g=C\lambda_a,\;
          v=\lambda_a^\top g+\psi_a,

shows that item, of those not shown yet, whose expected reward (and b standard deviations of it) is highest
(:class:`TasteBelief`), and at the end sends :math:`\mathrm{clip}\big((m-\mu)A/R\big)`.

Sums in different coordinates do not add up: as in the form ``kinds`` a vector is formed under the reference of the round
that counts it, from the episode alone.

Formal guarantee. Whatever model, billboard and trajectory are, the contribution has 2-norm at most 1: it is clipped to the
unit ball, last. Two users are therefore at most 2 apart, and :math:`g\sqrt m` more after rounding to a grid g. The belief
is no part of it: it is a function of what is published and of the user's own episode, and it stays where it is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reticent_wire.boundary import Clipped
from reticent_wire.clipping import Array, Namespace, clip_norm
from reticent_wire.errors import InvalidInput
from reticent_wire.forms.form import Floats
from reticent_wire.forms.personal import PersonalVector
from reticent_wire.trajectory import Trajectory, index_within, reward_within

if TYPE_CHECKING:
    from reticent_wire.billboard import Billboard
    from reticent_wire.model import Dimensions, Model


# -- over an array namespace: devices and the service run these with NumPy, simulations with JAX ------------------------


class Items(NamedTuple):
    """What is public of items: intercepts ``(A,)``, loadings ``(A, m)``, variances ``(A,)``."""

    intercepts: Array
    loadings: Array
    noise: Array


class Taste(NamedTuple):
    """A device's memory: mean ``(m,)`` and covariance ``(m, m)`` of its user's vector, and items ``shown`` ``(A,)``."""

    mean: Array
    covariance: Array
    shown: Array


def newcomer(mean: Array, items: int, xp: Namespace = np) -> Taste:
    """Before the first reward: the published mean, the covariance I, and nothing shown."""
    return Taste(mean, xp.eye(mean.shape[0], dtype=mean.dtype), xp.zeros(items, bool))


def observed(items: Items, taste: Taste, action: Array, reward: Array, xp: Namespace = np) -> Taste:
    """After one more reward, which is clipped to [0, 1]."""
    loading = items.loadings[action]
    reach = taste.covariance @ loading
    variance = loading @ reach + items.noise[action]
    surprise = xp.clip(reward, 0.0, 1.0) - items.intercepts[action] - loading @ taste.mean
    return Taste(
        taste.mean + reach * surprise / variance,
        taste.covariance - xp.outer(reach, reach) / variance,
        taste.shown | (xp.arange(taste.shown.shape[0]) == action),
    )


def best_item(items: Items, taste: Taste, bonus: float, xp: Namespace = np) -> Array:
    """The item to show next; among equals the first."""
    score = items.intercepts + items.loadings @ taste.mean
    if bonus:
        spread = ((items.loadings @ taste.covariance) * items.loadings).sum(axis=1)
        score = score + bonus * xp.sqrt(xp.maximum(spread, 0.0))
    return xp.where(taste.shown, -xp.inf, score).argmax()


def taste_vector(known: Array, mean: Array, whiten: Array, radius: Array) -> Array:
    """The vector ``(m,)`` in units of the radius, not clipped, of a user whose posterior mean is ``known``."""
    return (known - mean) @ whiten / radius


# -- on the device ------------------------------------------------------------------------------------------------------


class TasteBelief:
    """What a device knows of its own user's tastes, and which item it shows next.

    Formal guarantee. It is a function of the published model and billboard and of this user's own observations. No method
    of this class gives it away but :meth:`act`, which gives an item to the user's own app, and :attr:`known`, which shows
    it to the user on the device.

    ``earlier`` are items and rewards of earlier visits, by turns, where a device remembers them.
    """

    def __init__(self, model: Model, billboard: Billboard, earlier: Floats | None = None) -> None:
        self._items, self._bonus = items_of(model), float(model.rules.bounds["bonus"])
        self._taste: Clipped[Taste] = Clipped(newcomer(billboard.report["mean"], model.actions))
        self._seen: Clipped[list[float]] = Clipped([])
        before = np.empty(0) if earlier is None else np.asarray(earlier).reshape(-1)
        for item, reward in before[: before.size // 2 * 2].reshape(-1, 2):
            self.observe(0, index_within(item, model.actions), reward_within(reward), 0)
        nothing = np.zeros(model.actions, bool)  # an item is shown once a visit
        self._taste = Clipped(self._taste.on_device(lambda taste: taste._replace(shown=nothing)))

    def act(self, step: int, state: int) -> int:
        """The item to show next, whatever ``step`` and ``state`` are: the best that was not shown yet."""
        del step, state
        with np.errstate(all="ignore"):
            return self._taste.on_device(lambda taste: int(best_item(self._items, taste, self._bonus)))

    def observe(self, state: int, action: int, reward: float, following: int) -> None:
        """Take the reward, in [0, 1], of an item."""
        del state, following
        with np.errstate(all="ignore"):  # hostile loadings may make infinities; a warning would say what was shown
            after = self._taste.on_device(
                lambda taste: observed(self._items, taste, np.asarray(action), np.asarray(reward))
            )
        self._taste = Clipped(after)
        self._seen = Clipped(self._seen.on_device(lambda seen: [*seen, float(action), float(reward)]))

    @property
    def known(self) -> Floats:
        """The expected vector ``(m,)`` of the user, to show them on the device. It must not leave it."""
        return self._taste.on_device(lambda taste: np.array(taste.mean, np.float64))

    @property
    def likelihoods(self) -> Clipped[Floats]:
        """Items and rewards so far, by turns, for the device's own memory. They must not leave the device."""
        return Clipped(self._seen.on_device(lambda seen: np.array(seen, np.float64)))


def items_of(model: Model) -> Items:
    """What the rules of a deployment say of items."""
    bounds = model.rules.bounds
    return Items(bounds["intercepts"], bounds["loadings"], bounds["noise"])


class TasteVector(PersonalVector):
    """Tastes on the device and one clipped vector; see the module docstring."""

    name = "factors"

    def numbers(self, sizes: Dimensions) -> int:
        return sizes.d2 - 1

    def bounds(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        items, size = sizes.actions, self.numbers(sizes)
        return {"intercepts": (items,), "loadings": (items, size), "noise": (items,), "bonus": ()}

    def of_version(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        size = self.numbers(sizes)
        return {"mean": (size,), "whiten": (size, size), "radius": ()}

    def require_version(self, model: Model, billboard: Billboard) -> None:
        """Refuse arrays that are missing, misshapen or no numbers, and fewer items than steps: found out in the middle of
        an episode, they would say what a user was shown.

        Raises:
          InvalidInput: one is none.
        """
        super().require_version(model, billboard)
        if model.actions < model.horizon:
            raise InvalidInput("actions", model.actions, f"at least {model.horizon}, one a step", "ask the operator")
        bounds = {f"report.{name}": model.rules.bounds[name] for name in ("intercepts", "loadings", "noise", "bonus")}
        for name, array in {**bounds, "billboard.report.mean": billboard.report["mean"]}.items():
            if not np.isfinite(array).all():
                raise InvalidInput(name, "numbers that are not finite", "finite ones", "ask the service's operator")
        if not (model.rules.bounds["noise"] > 0).all():
            raise InvalidInput("report.noise", "a variance that is none", "above 0", "ask the service's operator")

    def belief(self, model: Model, billboard: Billboard, likelihoods: Floats | None = None) -> TasteBelief:
        return TasteBelief(model, billboard, likelihoods)

    def contribution(self, model: Model, billboard: Billboard, seen: Trajectory) -> Floats:
        report, items = billboard.report, items_of(model)
        taste = newcomer(report["mean"], model.actions)
        for item, reward in zip(seen.actions, seen.rewards, strict=True):
            taste = observed(items, taste, item, reward)
        vector = taste_vector(taste.mean, report["mean"], report["whiten"], report["radius"])
        return np.asarray(clip_norm(vector, 1.0))[None]
