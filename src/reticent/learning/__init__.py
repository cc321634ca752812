"""What all agents share: the base class, plans, schedules, the aggregator's interface, ridge regression."""

from reticent.learning.aggregator import Aggregator
from reticent.learning.learner import AgentState, AnyLearner, Learner
from reticent.learning.plan import Plan
from reticent.learning.promise import NoPromise, Promise
from reticent.learning.schedule import Schedule

__all__ = ["AgentState", "Aggregator", "AnyLearner", "Learner", "NoPromise", "Plan", "Promise", "Schedule"]
