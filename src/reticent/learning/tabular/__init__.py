"""Learning from visit counts: what the tabular literature does, private or not, written once.

``counts`` says what an episode is to a tabular learner, ``valid_counts`` repairs counts that noise has spoiled, ``rules``
turns counts into estimates and bonuses as each paper does, ``planning`` is the backward induction they share, and
``agent`` puts them behind the :class:`~reticent.learning.Learner` interface.
"""

from reticent.learning.tabular.agent import CountingAgent
from reticent.learning.tabular.counts import Counts, ExactCounts, check_size, count_episode, pack, packed_width, unpack
from reticent.learning.tabular.planning import Estimate, Widths, plan_with
from reticent.learning.tabular.valid_counts import make_valid, project_to_total

__all__ = [
    "CountingAgent",
    "Counts",
    "Estimate",
    "ExactCounts",
    "Widths",
    "check_size",
    "count_episode",
    "make_valid",
    "pack",
    "packed_width",
    "plan_with",
    "project_to_total",
    "unpack",
]
