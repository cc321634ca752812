# SPDX-License-Identifier: Apache-2.0
"""Latent kinds: each device adapts to its own user by belief, and the shares of kinds are learned privately."""

from reticent.agents.kinds import options

__all__ = ["options"]
