# SPDX-License-Identifier: Apache-2.0
r"""The form ``kinds-planned``: the form ``kinds`` where the plan takes into account what users will learn of themselves.

Vectors and beliefs are those of :mod:`reticent_wire.forms.kinds`. A billboard carries, instead of optimal tables, for every
step and state N vectors :math:`\alpha_i\in\mathbb R^Z`, what a course of action earns from there in each kind (the blend
last), and the action that it begins with. A device takes the action of the largest :math:`\langle\alpha_i,b\rangle`.

Formal guarantee. That of the form ``kinds``: the contribution is in the unit ball, and does not depend on the plan but by
what the user did. The plan is public.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent_wire.clipping import Array
from reticent_wire.errors import InvalidInput
from reticent_wire.forms.form import Floats
from reticent_wire.forms.kinds import Belief, KindVector
from reticent_wire.plans import require_actions

if TYPE_CHECKING:
    from reticent_wire.billboard import Billboard
    from reticent_wire.model import Dimensions, Model


def planned(chances: Array, vectors: Array, choices: Array) -> Array:
    """The action of the best of the ``vectors`` ``(N, Z)`` at a belief ``(Z,)``, by its ``choices`` ``(N,)``."""
    return choices[(vectors @ chances).argmax()]


class PlannedBelief(Belief):
    """A belief whose user acts by a plan over beliefs."""

    def _take_plan(self, model: Model, billboard: Billboard) -> None:
        del model
        self._vectors, self._choices = billboard.report["vectors"], billboard.report["choices"]

    def _chosen(self, step: int, state: int, chances: Floats) -> int:
        return int(planned(chances, self._vectors[step, state], self._choices[step, state]))


class PlannedKindVector(KindVector):
    """Belief on the device, a plan over beliefs, and one clipped vector; see the module docstring."""

    name = "kinds-planned"
    stays = False

    def bounds(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        shapes = super().bounds(sizes)
        return {name: shape for name, shape in shapes.items() if name != "tables"}

    def of_version(self, sizes: Dimensions) -> dict[str, tuple[int, ...]]:
        shapes = {name: shape for name, shape in super().of_version(sizes).items() if name != "blend_table"}
        plan = (sizes.horizon, sizes.states, -1)
        return {**shapes, "vectors": (*plan, sizes.d1 + 1), "choices": plan}

    def require_version(self, model: Model, billboard: Billboard) -> None:
        super().require_version(model, billboard)
        vectors, choices = billboard.report["vectors"], billboard.report["choices"]
        if not (choices.shape[-1] and vectors.shape[:-1] == choices.shape):
            raise InvalidInput(
                "billboard.report.choices", choices.shape, f"of shape {vectors.shape[:-1]}, and not empty",
                "ask the service's operator",
            )  # fmt: skip
        require_actions("billboard.report.choices", choices, model.actions)

    def plan_of(self, model: Model, billboard: Billboard) -> dict[str, Floats]:
        del model
        return {"billboard.report.vectors": billboard.report["vectors"]}

    def belief(self, model: Model, billboard: Billboard, likelihoods: Floats | None = None) -> PlannedBelief:
        return PlannedBelief(model, billboard, likelihoods)
