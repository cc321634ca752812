"""Who is audited: a private agent together with the plan it claims to keep."""

from __future__ import annotations

import dataclasses

import numpy as np

from reticent.learning import Learner
from reticent.privacy.accountant import mu_of
from reticent.privacy.plan import PrivacyPlan
from reticent.privacy.privatizer import Privatizer


@dataclasses.dataclass(frozen=True)
class Subject:
    """An agent, and the plan that says what it promises.

    Every check compares what the *agent* does with what the *promise* allows; numbers that the plan derives on the way
    (sensitivities, σ, its own μ) are never taken as given.
    """

    agent: Learner
    plan: PrivacyPlan

    @property
    def privatizer(self) -> Privatizer:
        regularizer: Privatizer = self.agent.regularizer
        return regularizer

    @property
    def local(self) -> bool:
        return self.plan.options.trust == "local"

    @property
    def zero_out(self) -> bool:
        return self.plan.options.adjacency == "zero-out"

    @property
    def promised_mu(self) -> float:
        """The largest μ that the promised (ε, δ) allows."""
        return mu_of(self.plan.options.epsilon, self.plan.options.delta)

    @property
    def noise_scale(self) -> np.ndarray:
        """σ per coordinate as the agent uses it, ``(H, D)``."""
        return np.asarray(self.privatizer.noise_scale)


def in_noise(movement: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """``movement / scale`` where 0/0 is 0 and anything else over no noise is infinite."""
    movement, scale = np.broadcast_arrays(np.asarray(movement, float), scale)
    bare = np.where(movement == 0, 0.0, np.inf)
    with np.errstate(all="ignore"):
        return np.where(scale > 0, movement / np.where(scale > 0, scale, 1.0), bare)
