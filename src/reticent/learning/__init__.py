# SPDX-License-Identifier: Apache-2.0
"""What all agents share: the base class, plans, schedules, the aggregator's interface, ridge regression."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reticent.learning.aggregator import Aggregator
    from reticent.learning.learner import AgentState, AnyLearner, Learner
    from reticent.learning.plan import AnyPlan, Plan
    from reticent.learning.promise import NoPromise, Promise
    from reticent.learning.schedule import Schedule

# Imported when first used: a schedule is asked for where there is no JAX, as in the service's workers.
_HOMES = {
    "AgentState": "learner",
    "Aggregator": "aggregator",
    "AnyLearner": "learner",
    "AnyPlan": "plan",
    "Learner": "learner",
    "NoPromise": "promise",
    "Plan": "plan",
    "Promise": "promise",
    "Schedule": "schedule",
}

__all__ = ["AgentState", "Aggregator", "AnyLearner", "AnyPlan", "Learner", "NoPromise", "Plan", "Promise", "Schedule"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"reticent.learning.{_HOMES[name]}"), name)
