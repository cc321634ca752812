# SPDX-License-Identifier: Apache-2.0
"""Every agent that applies to a world, side by side: what each promises, and what it achieves."""

from reticent.experiments.compare.compare import Comparison, compare

__all__ = ["Comparison", "compare"]
