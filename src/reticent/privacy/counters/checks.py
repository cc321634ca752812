# SPDX-License-Identifier: Apache-2.0
"""Checks that every counter makes when it is constructed."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from reticent.errors import InvalidInput

MOST_ROUNDS = 2**31 - 1
"""The state counts rounds in 32 bits."""


def check_rounds(rounds: int) -> None:
    """Raise :class:`InvalidInput` unless ``rounds`` is a whole number from 1 to :data:`MOST_ROUNDS`."""
    whole = isinstance(rounds, (int, np.integer)) and not isinstance(rounds, bool)
    if not whole or not 1 <= rounds <= MOST_ROUNDS:
        raise InvalidInput(
            "rounds", rounds, f"a whole number from 1 to {MOST_ROUNDS}", "give the number of sums that will be released"
        )


def check_floating(counter: str, dtype: Any) -> None:
    """Raise :class:`InvalidInput` unless ``dtype`` is a floating type: for counters that scale their noise."""
    if not jnp.issubdtype(dtype, jnp.floating):
        raise InvalidInput(
            f"dtype of the {counter} counter", jnp.dtype(dtype), "a floating type", "use float64, or the tree counter"
        )
