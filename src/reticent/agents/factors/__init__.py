# SPDX-License-Identifier: Apache-2.0
"""Tastes: each device learns its own user's vector, and the mean of users' vectors is learned privately."""

from reticent.agents.factors import options

__all__ = ["options"]
