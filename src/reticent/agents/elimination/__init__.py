# SPDX-License-Identifier: Apache-2.0
"""Elimination with optimism: privacy costs an additive term (docs/theory/elimination.md). Importing registers the agents."""

from reticent.agents.elimination import options

__all__ = ["options"]
