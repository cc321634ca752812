# SPDX-License-Identifier: Apache-2.0
r"""What one user's decisions tell about an effect: weighted and centred, as in micro-randomised trials.

At a decision in state s the treatment was taken with a known probability p (given that it was the treatment or the
control), A is 1 for the treatment, Y in [0, 1] the outcome that follows, ĝ(h, s) a public prediction of it,
:math:`\tilde p` a fixed target. With the weight :math:`W=\tilde p/p` for the treatment and :math:`(1-\tilde p)/(1-p)`
for the control,

.. math:: a=W\,(A-\tilde p)\,(Y-\hat g),\qquad b=W\,(A-\tilde p)^2

have the means :math:`k\,\tau(s)` and k given s, with :math:`k=\tilde p(1-\tilde p)` and τ(s) the effect in s,
*whatever ĝ and p are*: the weights undo the policy, the centring makes ĝ drop out (Boruvka et al., JASA 2018:
weighted and centred least squares). With a public guess :math:`\beta_0` of the effect, the *residual*
:math:`a-\beta_0b` has the mean :math:`k(\tau-\beta_0)`; its spread is smaller the better the guess.

Decisions are put into public groups (all, by step, by group of states). One user's contribution is, by group, the sum
r of their residuals, the number N of their decisions, and r². Means add up: with :math:`\beta_j` the effect averaged over
the decisions of group j, :math:`E[r_j]=k\,E[N_j](\beta_j-\beta_0)`.

**Bounds.** :math:`|W(A-\tilde p)|\le k/p_{\min}`, where :math:`p_{\min}` is the least probability of either arm. A
group that is possible at m of H steps takes at most m decisions of a user, so :math:`\|N\|_2\le\sqrt{mH}` with the
largest m, and :math:`\|r\|_2\le L=\sqrt{mH}\,\tfrac{k}{p_{\min}}\max(|Y-\hat g|+\max(\tilde p,1-\tilde p)|\beta_0|)`.
Honest users are within the bounds, so that the clip to them, which is what privacy rests on, biases nothing.

**Long studies.** L grows with the number m of decisions, what people really add up to with √m: after forty days of five
decisions it is forty times too large, and noise with it. ``clip`` is a smaller radius for r. It is part of the question,
fixed before any data are looked at, say from people drawn from a pilot's model; the sensitivity is that of the unit
ball as before. A person beyond it is clipped, and *that* bias is not in the intervals: let it be few.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from reticent.errors import InvalidInput
from reticent_wire.clipping import clip_norm


class Decisions(NamedTuple):
    """What devices logged of users, with any leading axes.

    Attributes:
      states, actions, outcomes: at every step, ``(..., H)``; outcomes are clipped to [0, 1].
      probabilities: of all actions when the decision was made, ``(..., H, A)``.
    """

    states: np.ndarray
    actions: np.ndarray
    outcomes: np.ndarray
    probabilities: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Contrast:
    """Which effect is asked for; fixed before any data are looked at, and public.

    Attributes:
      groups: which group a decision belongs to, by step and state, ``(H, S)``; −1 is none.
      floor: least probability that an action had. actions: how many there are.
      treatment, control: the two actions that are compared.
      baseline: ĝ, ``(H, S)`` within [0, 1]. guess: β₀, ``(p,)``. target: p̃.
      clip: radius to which r is clipped, if it is less than what honest users cannot exceed.
    """

    groups: np.ndarray
    floor: float
    actions: int = 2
    treatment: int = 1
    control: int = 0
    baseline: np.ndarray | float = 0.5
    guess: np.ndarray | float = 0.0
    target: float = 0.5
    clip: float = math.inf

    def __post_init__(self) -> None:
        if not 0 < self.floor * self.actions <= 1:
            raise InvalidInput(
                "floor", self.floor, f"above 0 and at most 1/{self.actions}", "run the study with a floor"
            )
        if not 0 < self.target < 1:
            raise InvalidInput("target", self.target, "in (0, 1)", "0.5 compares the two arms evenly")
        arms = self.treatment, self.control
        if self.treatment == self.control or not all(0 <= arm < self.actions for arm in arms):
            raise InvalidInput("treatment, control", arms, f"two different actions below {self.actions}", "name both")
        if self.groups.ndim != 2 or self.groups.max() < 0:
            raise InvalidInput(
                "groups", self.groups.shape, "a table (H, S) with a group in it", "use zeros for one group"
            )
        baseline = np.asarray(self.baseline)
        if not ((baseline >= 0) & (baseline <= 1)).all():
            raise InvalidInput("baseline", "outside", "predictions within [0, 1]", "clip them")
        if not self.clip > 0:
            raise InvalidInput("clip", self.clip, "above 0", "leave it out to clip no honest person")

    def over_days(self, days: int) -> Contrast:
        """The same question about a study of so many days, in which a person's decisions of all days are one row.

        A person is what is protected, so that their days belong together: as rows of their own each is charged for once.
        """
        baseline = np.broadcast_to(self.baseline, self.groups.shape)
        return dataclasses.replace(self, groups=np.tile(self.groups, (days, 1)), baseline=np.tile(baseline, (days, 1)))

    @property
    def size(self) -> int:
        """p, the number of groups."""
        return int(self.groups.max()) + 1

    @property
    def scale(self) -> float:
        """k."""
        return self.target * (1 - self.target)

    @property
    def least(self) -> float:
        """The least probability of an arm, given that one of the two was taken."""
        return self.floor / (1 - (self.actions - 2) * self.floor)

    @property
    def count_bound(self) -> float:
        """Of ‖N‖₂."""
        possible = [(self.groups == group).any(axis=1).sum() for group in range(self.size)]
        return math.sqrt(float(max(possible)) * len(self.groups))

    @property
    def residual_bound(self) -> float:
        """L, of ‖r‖₂: what an honest user cannot exceed, or the clip."""
        baseline = np.asarray(self.baseline)
        reach = float(np.maximum(baseline, 1 - baseline).max())
        guess = float(np.abs(np.asarray(self.guess)).max()) * max(self.target, 1 - self.target)
        return min(self.clip, self.count_bound * self.scale / self.least * (reach + guess))


def contributions(contrast: Contrast, seen: Decisions) -> np.ndarray:
    """Users' contributions ``(..., 3p)``: r/L, N by its bound, and (r/L)², each block in its unit ball whatever was seen.

    Decisions at which neither arm was taken, or in no group, add nothing; so does what cannot be (a state or an
    action that there is none of, a probability below the floor), which reveals nothing.
    """
    steps, states = contrast.groups.shape
    here, taken = np.asarray(seen.states), np.asarray(seen.actions)
    real = (here >= 0) & (here < states) & ((taken == contrast.treatment) | (taken == contrast.control))
    here = np.where(real, here, 0).astype(np.int64)
    step = np.broadcast_to(np.arange(steps), here.shape)
    group = np.where(real, contrast.groups[step, here], -1)
    treated = (taken == contrast.treatment).astype(np.float64)
    arms = seen.probabilities[..., contrast.treatment], seen.probabilities[..., contrast.control]
    with np.errstate(all="ignore"):
        chance = arms[0] / (arms[0] + arms[1])
        lived = np.where(treated > 0, chance, 1 - chance)
        counts = (group >= 0) & (lived >= contrast.least * (1 - 1e-9)) & np.isfinite(seen.outcomes)
    weight = np.where(treated > 0, contrast.target, 1 - contrast.target) / np.where(counts, lived, 1.0)
    centred = treated - contrast.target
    baseline = np.broadcast_to(contrast.baseline, contrast.groups.shape)[step, here]
    guess = np.broadcast_to(contrast.guess, (contrast.size,))[np.maximum(group, 0)]
    outcome = np.clip(np.where(counts, seen.outcomes, 0.0), 0.0, 1.0)
    residual = np.where(counts, weight * centred * (outcome - baseline - centred * guess), 0.0)
    member = (group[..., None] == np.arange(contrast.size)) & counts[..., None]
    summed = clip_norm((member * residual[..., None]).sum(axis=-2) / contrast.residual_bound, 1.0, np)
    number = clip_norm(member.sum(axis=-2) / contrast.count_bound, 1.0, np)
    return np.concatenate([summed, number, summed**2], axis=-1)
