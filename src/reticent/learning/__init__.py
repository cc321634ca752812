"""Pure mathematics of the learners: statistics, regularizers, radii, LinOpt-VI-Reg and LinOpt-PO-Reg."""

from reticent.learning.agent import Agent, paper_learning_rate
from reticent.learning.frame import PAPER_FRAME, Frame
from reticent.learning.learner import AgentState, Learner
from reticent.learning.planner import Plan
from reticent.learning.radius import Radii, radii, radius
from reticent.learning.regularizer import Certificate, FixedRegularizer, Regularizer, make_fixed_regularizer
from reticent.learning.schedule import Schedule
from reticent.learning.statistics import Observation, Statistics

__all__ = [
    "PAPER_FRAME",
    "Agent",
    "AgentState",
    "Certificate",
    "FixedRegularizer",
    "Frame",
    "Learner",
    "Observation",
    "Plan",
    "Radii",
    "Regularizer",
    "Schedule",
    "Statistics",
    "make_fixed_regularizer",
    "paper_learning_rate",
    "radii",
    "radius",
]
