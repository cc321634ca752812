# SPDX-License-Identifier: Apache-2.0
"""What a form of contributions is: how an episode becomes the one array that a user adds, and what that array reveals.

A deployment's rules name its form. Adding one is one file beside this one and its entry in
:data:`reticent_wire.forms.FORMS`; service, embedded agent and device then all use it.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from reticent_wire.arrays import fits, from_json
from reticent_wire.boundary import Clipped
from reticent_wire.errors import InvalidInput

if TYPE_CHECKING:
    from reticent_wire.billboard import Billboard
    from reticent_wire.model import Dimensions, Model, Rules
    from reticent_wire.trajectory import Trajectory

Floats = NDArray[np.float64]
Bounds = Mapping[str, Any]
"""What a form clips to: arrays and flags by name."""


class Belief(Protocol):
    """What a device knows of its own user, and how it acts on that. It must not leave the device."""

    def act(self, step: int, state: int) -> int:
        """The action at 0-based ``step`` in ``state``."""

    def observe(self, state: int, action: int, reward: float, following: int) -> None:
        """Take what followed an action: a reward in [0, 1] and a state, in range as clips leave them."""

    @property
    def known(self) -> Floats:
        """What the device believes by now, to show the user there."""

    @property
    def likelihoods(self) -> Clipped[Floats]:
        """What the device's own memory keeps between visits."""


class Form(abc.ABC):
    """A form of contributions. Instances hold nothing; there is one of each.

    Attributes:
      name: as in the rules.
      flags: which of its bounds are true or false; the others are arrays.
      formed_under: whose billboard a contribution is made of: the one that its user was ``served``, or the *reference* of
        the round that counts it, ``open`` when it is submitted. Either is public, and the bounds hold under each.
      stays: whether a contribution may be about several visits of one user.
      remembers: whether users act on what has happened to themselves so far (:meth:`belief`), which only their own
        devices may know.
    """

    name: ClassVar[str]
    flags: ClassVar[tuple[str, ...]] = ()
    formed_under: ClassVar[Literal["served", "open"]] = "served"
    stays: ClassVar[bool] = False
    remembers: ClassVar[bool] = False

    @abc.abstractmethod
    def shape(self, sizes: Dimensions) -> tuple[int, int]:
        """Of a contribution: rows, one per step in most forms, and numbers per row."""

    @abc.abstractmethod
    def bounds(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the arrays it clips to, which the rules carry."""

    @abc.abstractmethod
    def of_version(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the arrays that a billboard carries for it: what contributions under it are made of."""

    def act(self, billboard: Billboard, step: int, state: int, place: int | None, actions: int, uniform: float) -> int:
        """The action at 0-based ``step`` of the user at ``place`` of their round; ``uniform`` in [0, 1) decides where it is
        random."""
        del place, actions
        return billboard.act(step, state, uniform)

    def probability(
        self, billboard: Billboard, step: int, state: int, place: int | None, actions: int, action: int
    ) -> float:
        """With what probability :meth:`act` takes ``action``, over ``uniform``."""
        del place, actions
        return billboard.probability_by_policy(step, state, action)

    def belief(self, model: Model, billboard: Billboard, likelihoods: Floats | None = None) -> Belief:
        """What a user's device acts on, at the beginning of an episode; of forms that remember.

        ``likelihoods`` is what it remembers of earlier visits, if anything.

        Raises:
          InvalidInput: users act by the policy alone.
        """
        del model, billboard, likelihoods
        raise InvalidInput("belief", f"of the form {self.name}", "of a form that remembers", "act by the policy")

    @abc.abstractmethod
    def contribution(self, model: Model, billboard: Billboard, seen: Trajectory) -> Floats:
        """The clipped contribution, before any rounding. Raw data: in the local model it stays on the device.

        Formal guarantee. Whatever model, billboard and trajectory are, it lies within the bounds of the rules.
        """

    def contributions(self, model: Model, billboard: Billboard, seen: Sequence[Trajectory]) -> Floats:
        """:meth:`contribution` of several users under one billboard, ``(N, rows, D)``; a form may do them at once."""
        return np.stack([self.contribution(model, billboard, one) for one in seen])

    @abc.abstractmethod
    def largest(self, sizes: Dimensions, bounds: Bounds) -> Floats:
        """The most that a clipped contribution is away from 0 in each coordinate, of :meth:`shape`."""

    @abc.abstractmethod
    def strength(self, sizes: Dimensions, rules: Rules) -> float:
        """μ of one noised contribution between any two users; infinite if a number that can differ has no noise."""

    def read_bounds(self, content: Mapping[str, Any], sizes: Dimensions) -> Bounds:
        """Its bounds in an answer of the service."""
        arrays = {
            name: from_json(f"report.{name}", content[name], dtype="<f8", shape=shape)
            for name, shape in self.bounds(sizes).items()
        }
        return {**arrays, **{name: bool(content[name]) for name in self.flags}}

    def require_plan(self, billboard: Billboard) -> None:
        """Refuse a billboard whose arrays that :meth:`act` reads are not what they must be. No model is needed.

        Raises:
          InvalidInput: one is missing, of another shape, or names an action that there is not.
        """
        del billboard  # most forms act by the policy alone, which was checked

    def require_version(self, model: Model, billboard: Billboard) -> None:
        """Refuse a billboard that does not carry what contributions are made of.

        Raises:
          InvalidInput: an array is missing, or has another shape.
        """
        for name, shape in self.of_version(model.sizes).items():
            array = billboard.report.get(name)
            if array is None or not fits(array.shape, shape):
                kind = "missing" if array is None else array.shape
                raise InvalidInput(f"billboard.report.{name}", kind, f"of shape {shape}", "ask the service's operator")
