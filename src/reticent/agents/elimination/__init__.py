# SPDX-License-Identifier: Apache-2.0
"""Elimination with optimism: privacy costs an additive term. Importing this package registers the agents."""

from reticent.agents.elimination import options

__all__ = ["options"]
