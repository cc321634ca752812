# SPDX-License-Identifier: Apache-2.0
r"""How fast policy optimization moves: η, and whether its step comes before or after a round.

The paper's :math:`\eta=\sqrt{2\ln|A|/(HT)}` balances two terms of a bound against an adversary who changes rewards from
user to user. Rewards of the worlds here do not change, and a step that is taken ahead
(:mod:`reticent.agents.linear_mixture.learner`) has only the term that falls with η. What a larger η gives up is
randomness, which is exploration; the default is :data:`FASTER` times the paper's, chosen on worlds that are not reported
(docs/improvements.md).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from reticent.errors import InvalidInput

LearningRate: TypeAlias = float | Literal["paper"] | None
"""η as a user may give it: a number per episode, ``paper`` for the paper's η and order, None for the default."""

FASTER = 30.0
"""Multiple of the paper's η that is the default."""


class Mirror(NamedTuple):
    """η per episode, and whether a step is taken ahead of its round."""

    rate: float
    ahead: bool


def mirror_of(actions: int, horizon: int, episodes: int, learning_rate: LearningRate) -> Mirror:
    """What ``learning_rate`` means for K = ``episodes`` users.

    Raises:
      InvalidInput: a number that is negative or not finite.
    """
    paper = paper_learning_rate(actions, horizon, episodes)
    if learning_rate == "paper":
        return Mirror(paper, ahead=False)
    if learning_rate is None:
        return Mirror(FASTER * paper, ahead=True)
    if not 0 <= learning_rate < math.inf:
        raise InvalidInput("learning_rate", learning_rate, "a finite number of at least 0", "or 'paper'")
    return Mirror(float(learning_rate), ahead=True)


def paper_learning_rate(actions: int, horizon: int, episodes: int) -> float:
    r"""η of Theorem PO, :math:`\sqrt{2\ln|A|/(HT)}` with T = KH."""
    return float(np.sqrt(2 * np.log(max(actions, 2)) / (horizon * episodes * horizon)))
