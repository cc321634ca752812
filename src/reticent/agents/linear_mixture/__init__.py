# SPDX-License-Identifier: Apache-2.0
"""Linear mixture MDPs: the paper's learners, private or not. Importing this package registers them."""

from reticent.agents.linear_mixture import ldp_ucrl_vtr, linopt, private_linopt

__all__ = ["ldp_ucrl_vtr", "linopt", "private_linopt"]
