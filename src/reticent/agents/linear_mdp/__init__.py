# SPDX-License-Identifier: Apache-2.0
"""Linear MDPs, model-free: LSVI-UCB, private or not. Importing this package registers them."""

from reticent.agents.linear_mdp import lsvi_ucb

__all__ = ["lsvi_ucb"]
