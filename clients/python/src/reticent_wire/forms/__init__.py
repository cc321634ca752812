# SPDX-License-Identifier: Apache-2.0
"""The forms that a contribution can have, by the name that a deployment's rules give."""

from __future__ import annotations

from reticent_wire.errors import InvalidInput
from reticent_wire.forms.counts import VisitCounts
from reticent_wire.forms.factors import TasteVector
from reticent_wire.forms.form import Form
from reticent_wire.forms.kinds import KindVector
from reticent_wire.forms.kinds_planned import PlannedKindVector
from reticent_wire.forms.regressions import Regressions
from reticent_wire.forms.score import ScoreVector
from reticent_wire.forms.score_residual import ScoreResidual
from reticent_wire.forms.score_start import ScoreStart

__all__ = ["FORMS", "Form", "form_named"]

FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        Regressions(),
        VisitCounts(),
        ScoreVector(),
        ScoreStart(),
        ScoreResidual(),
        KindVector(),
        PlannedKindVector(),
        TasteVector(),
    )
}


def form_named(name: object) -> Form:
    """The form of this name.

    Raises:
      InvalidInput: this package does not know it.
    """
    if name not in FORMS:
        raise InvalidInput("report.form", name, f"one of {', '.join(FORMS)}", "use a newer client")
    return FORMS[str(name)]
