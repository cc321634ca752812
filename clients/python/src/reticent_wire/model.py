# SPDX-License-Identifier: Apache-2.0
"""The public model of a deployment and the rules that contributions follow: what server and device agree on."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reticent_wire.arrays import from_json, to_json
from reticent_wire.billboard import Billboard
from reticent_wire.errors import InvalidInput
from reticent_wire.forms import Form, form_named
from reticent_wire.forms.form import Bounds
from reticent_wire.grid import quantize, require_grid
from reticent_wire.shuffle_rules import ShuffleRules
from reticent_wire.trajectory import Trajectory

MOST_VISITS = 10_000
"""Visits of one stay at the most."""

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]


class Dimensions(NamedTuple):
    """How large a model is: H steps, S states, A actions, d1 transition and d2 reward features."""

    horizon: int
    states: int
    actions: int
    d1: int
    d2: int

    @property
    def visits(self) -> int:
        """1: these are the sizes of one visit."""
        return 1


@dataclasses.dataclass(frozen=True, eq=False)  # arrays have no single truth value to compare by
class Rules:
    """How contributions are formed and noised.

    Attributes:
      form: what they consist of (:mod:`reticent_wire.forms`).
      grid: the unit of their integers, a power of two.
      noise_scale: standard deviation of each coordinate's noise, ``(rows, D)``: on each report in the local model, on a
        round's sum in the others.
      bounds: what the form clips to.
      shuffle: how the messages of the shuffle model are formed; None in the others.
      visits: V, of one stay, which is one contribution.
      digest: what a service calls them, by which a device knows them again; empty where it has no name for them.
    """

    form: Form
    grid: float
    noise_scale: Floats
    bounds: Bounds
    shuffle: ShuffleRules | None = None
    visits: int = 1
    digest: str = ""

    @classmethod
    def read(cls, content: Mapping[str, Any], sizes: Dimensions) -> Rules:
        """The rules in an answer of the service.

        Raises:
          InvalidInput: their form is unknown, or they do not fit it.
        """
        form = form_named(content["form"])
        shape = form.shape(sizes)
        try:
            grid = require_grid(float(content["grid"]))
        except InvalidInput as wrong:
            raise InvalidInput("report.grid", wrong.value, wrong.bound, "ask the service's operator") from None
        bounds = form.read_bounds(content, sizes)
        # One scale for every number of a contribution: fewer would be stretched over them, and with them the noise.
        noise_scale = from_json("report.noise_scale", content["noise_scale"], dtype="<f8", shape=shape)
        numbers = form.largest(sizes, bounds).shape
        if noise_scale.shape != numbers:
            raise InvalidInput(
                "report.noise_scale", f"of shape {noise_scale.shape}", f"of shape {numbers}, as a contribution",
                "do not take part; ask the service's operator",
            )  # fmt: skip
        shuffle = ShuffleRules.read(content["shuffle"], shape) if content.get("shuffle") else None
        visits, digest = _visits(form, content.get("visits", 1)), str(content.get("digest", ""))
        return cls(form, grid, noise_scale, bounds, shuffle, visits, digest)

    def to_json(self) -> dict[str, Any]:
        """What :meth:`read` reads."""
        bounds = {name: value if isinstance(value, bool) else to_json(value) for name, value in self.bounds.items()}
        return {
            "form": self.form.name,
            "grid": self.grid,
            "noise_scale": to_json(self.noise_scale),
            **bounds,
            "shuffle": None if self.shuffle is None else self.shuffle.to_json(),
            **({"visits": self.visits} if self.visits > 1 else {}),
            **({"digest": self.digest} if self.digest else {}),
        }


def _quietly() -> np.errstate:
    """Without a word about infinities, which a hostile service may have published: NumPy would warn those users only who
    met them, and stop them where warnings are errors. Clips make nothing of what is not finite."""
    return np.errstate(all="ignore")


def _visits(form: Form, given: Any) -> int:
    """The number of visits in an answer of the service.

    Raises:
      InvalidInput: it is none, or the form knows no stays.
    """
    most = MOST_VISITS if form.stays else 1
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= most:
        raise InvalidInput("report.visits", given, f"an integer from 1 to {most}", "ask the service's operator")
    return given


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """The public model of a deployment, with its rules.

    Attributes:
      transition_features: ψ, ``(d1, S, A, n)``. reward_features: φ, ``(d2, S, A)``.
      successors: which state each entry of the last axis of ``transition_features`` is; None: entry j is state j.
    """

    digest: str
    horizon: int
    states: int
    actions: int
    transition_features: Floats
    reward_features: Floats
    successors: Integers | None
    rules: Rules

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Model:
        """The model in an answer of the service."""
        sizes = Dimensions(*(int(content[name]) for name in Dimensions._fields))
        pairs, listed = (sizes.states, sizes.actions), content["successors"]
        entries = sizes.states if listed is None else int(listed["shape"][-1])
        psi, phi = ((sizes.d1, *pairs, entries), (sizes.d2, *pairs))
        successors = None if listed is None else from_json("successors", listed, dtype="<i4", shape=(*pairs, entries))
        if successors is not None and not (successors.min() >= 0 and successors.max() < sizes.states):
            raise InvalidInput(
                "successors", "a state that there is not", f"states from 0 to {sizes.states - 1}", "ask the operator"
            )
        return cls(
            str(content["digest"]), sizes.horizon, sizes.states, sizes.actions,
            from_json("transition_features", content["transition_features"], dtype="<f8", shape=psi),
            from_json("reward_features", content["reward_features"], dtype="<f8", shape=phi),
            successors,
            Rules.read(content["report"], sizes),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """What :meth:`read` reads."""
        return {
            "digest": self.digest,
            **self.sizes._asdict(),
            "transition_features": to_json(self.transition_features),
            "successors": None if self.successors is None else to_json(self.successors),
            "reward_features": to_json(self.reward_features),
            "report": self.rules.to_json(),
        }

    @functools.cached_property
    def sizes(self) -> Dimensions:
        return Dimensions(self.horizon, self.states, self.actions, self.d1, self.d2)

    @property
    def visits(self) -> int:
        """V: a trajectory is the visits of one stay, one after another."""
        return self.rules.visits

    @property
    def d1(self) -> int:
        return int(self.transition_features.shape[0])

    @property
    def d2(self) -> int:
        return int(self.reward_features.shape[0])

    def contribution(self, billboard: Billboard, seen: Trajectory) -> Floats:
        """What the user of ``seen``, who was served ``billboard``, adds: clipped, before any rounding. Raw data.

        Raises:
          InvalidInput: the billboard gives it another shape than its noise has. Shapes are public; of the user it says
            nothing.
        """
        with _quietly():
            added = self.rules.form.contribution(self, billboard, seen)
        if added.shape != self.rules.noise_scale.shape:  # else NumPy would repeat one number under many draws of noise
            raise self._misshapen(added.shape)
        return added

    def steps_of_all(self, billboard: Billboard, seen: Sequence[Trajectory]) -> NDArray[np.int64]:
        """:meth:`steps` of several users who are served one billboard, ``(N, rows, D)``: the same numbers, at once."""
        with _quietly():
            added = self.rules.form.contributions(self, billboard, seen)
        if added.shape[1:] != self.rules.noise_scale.shape:
            raise self._misshapen(added.shape[1:])
        return quantize(added, self.rules.grid)

    def _misshapen(self, shape: tuple[int, ...]) -> InvalidInput:
        return InvalidInput(
            "billboard", f"one of contributions of shape {shape}", f"of {self.rules.noise_scale.shape}",
            "do not take part; ask the service's operator",
        )  # fmt: skip

    def steps(self, billboard: Billboard, seen: Trajectory) -> NDArray[np.int64]:
        """The contribution in whole steps of the grid, the nearest ones, without noise. Raw data."""
        return quantize(self.contribution(billboard, seen), self.rules.grid)
