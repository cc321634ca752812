# SPDX-License-Identifier: Apache-2.0
"""Linear contextual bandits: learners for worlds of one step. Importing this package registers them."""

from reticent.agents.bandits import linucb, private_linucb

__all__ = ["linucb", "private_linucb"]
