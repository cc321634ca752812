"""The paper's theorems as functions with explicit constants: what is promised about regret, and when it says nothing."""

from reticent.theory.bounds import (
    Bound,
    Constants,
    bound_curve,
    certified,
    private_corollary,
    theorem_po,
    theorem_vi,
    trivial,
)

__all__ = [
    "Bound",
    "Constants",
    "bound_curve",
    "certified",
    "private_corollary",
    "theorem_po",
    "theorem_vi",
    "trivial",
]
