# SPDX-License-Identifier: Apache-2.0
"""Evaluate a policy once, privately, and improve on it. Importing this package registers the agents."""

from reticent.agents.evaluation import evaluate_once

__all__ = ["evaluate_once"]
