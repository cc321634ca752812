"""What one user is declared to move: groups of sums, each with its sensitivity. The audit holds the code to it."""

from __future__ import annotations

from typing import NamedTuple


class DeclaredGroup(NamedTuple):
    """Columns of the sums of one step (1-based) that one user moves by at most ``sensitivity``.

    In the norm that the noise is charged in: the 2-norm under Gaussian noise, the 1-norm under Laplace.
    """

    name: str
    step: int
    columns: slice
    sensitivity: float
