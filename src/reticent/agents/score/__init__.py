# SPDX-License-Identifier: Apache-2.0
"""Score-VI, ours: the blend is learned from one clipped vector per user. Importing this package registers the agents."""

from reticent.agents.score import options

__all__ = ["options"]
