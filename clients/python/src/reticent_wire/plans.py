# SPDX-License-Identifier: Apache-2.0
"""Checks of published plans, on receipt: which actions there are and with what probabilities.

A plan is public, and so is its refusal. Found out in the middle of an episode, an action that there is not would stop those
users only who come to its state, and a hostile service would see who they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent_wire.errors import InvalidInput

ROUNDING = 1e-5
"""How far published probabilities of a state may be from adding up to 1: they may come from single precision."""


def require_actions(field: str, plan: NDArray[Any], actions: int) -> None:
    """Refuse a plan that names an action that there is not.

    Raises:
      InvalidInput: an entry is no whole number from 0 to ``actions`` − 1.
    """
    if not ((plan >= 0) & (plan < actions) & (plan == np.floor(plan))).all():  # all false for NaN
        raise InvalidInput(field, "an action that there is not", f"0 to {actions - 1}", "ask the service's operator")


def require_probabilities(field: str, chances: NDArray[np.float64]) -> None:
    """Refuse what are no probabilities of actions, on the last axis.

    Raises:
      InvalidInput: an entry is outside [0, 1], or a row does not add up to 1.
    """
    if not (((chances >= 0) & (chances <= 1)).all() and (np.abs(chances.sum(axis=-1) - 1) <= ROUNDING).all()):
        raise InvalidInput(
            field, "no probabilities", "in [0, 1], with sum 1 in every state", "ask the service's operator"
        )


def require_whole(field: str, number: Any, most: float) -> None:
    """Refuse what is not one whole number from 0 to ``most``.

    Raises:
      InvalidInput: it is not.
    """
    value = np.asarray(number)
    if value.shape != () or not (0 <= value <= most and value == np.floor(value)):
        raise InvalidInput(field, "something else", f"a whole number from 0 to {most:g}", "ask the service's operator")
