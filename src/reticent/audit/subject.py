"""Who is audited: a private agent together with the plan it claims to keep."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from reticent.audit.response import Response
from reticent.learning.learner import AnyLearner
from reticent.privacy.accounting.gaussian import mu_of
from reticent.privacy.guarantee import DeclaredGroup


@dataclasses.dataclass(frozen=True)
class Subject:
    """An agent, and the plan that says what it promises.

    Every check compares what the *agent* does with what the *promise* allows; numbers that the plan derives on the way
    (sensitivities, σ, its own μ) are never taken as given. The plan is a
    :class:`~reticent.agents.linear_mixture.privacy_plan.PrivacyPlan`, a :class:`~reticent.agents.tabular.count_plan.CountPlan`, or one like them.

    What a pair of neighbours costs is measured in μ under Gaussian noise and, where the plan promises *pure*
    differential privacy by Laplace noise, in ε: all that is called μ below is then that ε.
    """

    agent: AnyLearner
    plan: Any

    @property
    def privatizer(self) -> Any:
        return self.agent.aggregator

    @property
    def pure(self) -> bool:
        """Whether noise is Laplace, and costs are 1-norms and add up to ε."""
        return bool(self.privatizer.law == "laplace")

    @property
    def declared_groups(self) -> list[DeclaredGroup]:
        """What the plan says that one user may move."""
        declared: list[DeclaredGroup] | None = getattr(self.plan, "declared_groups", None)
        return regression_groups(self.plan.calibration, self.privatizer) if declared is None else declared

    @property
    def local(self) -> bool:
        return bool(self.plan.options.trust == "local")

    @property
    def zero_out(self) -> bool:
        return bool(self.plan.options.adjacency == "zero-out")

    @property
    def promised_mu(self) -> float:
        """The largest μ that the promised (ε, δ) allows; ε itself where there is no δ."""
        if self.pure:
            return float(self.plan.options.epsilon)
        return mu_of(self.plan.options.epsilon, self.plan.options.delta)

    @property
    def noise_scale(self) -> np.ndarray:
        """σ per coordinate as the agent uses it, ``(H, D)``."""
        return np.asarray(self.privatizer.noise_scale)

    def length(self, moved: np.ndarray) -> float:
        """The norm of a movement that noise of this law is charged for."""
        return float(np.linalg.norm(np.ravel(moved), ord=1 if self.pure else 2))

    def cost(self, moved: np.ndarray) -> float:
        """What one item's movement ``(H, D)`` costs, in units of the noise on each coordinate."""
        return self.length(in_noise(moved, self.noise_scale))

    def exposure(self, response: Response | None) -> float:
        """How often the most exposed round's item is charged by a counter of this response; once if there is none."""
        if response is None:
            return 1.0
        return float((response.pure_exposures if self.pure else response.exposures).max())


def regression_groups(calibration: Any, privatizer: Any) -> list[DeclaredGroup]:
    """The groups of the linear learners: Gram and moment of both regressions at every step."""
    d1, d2 = privatizer.d1, privatizer.d2
    cuts = [0, *np.cumsum([d1 * (d1 + 1) // 2, d1, d2 * (d2 + 1) // 2, d2]).tolist()]
    groups = []
    for index, (name, noise) in enumerate((("transition", calibration.transition), ("reward", calibration.reward))):
        gram, moment = (slice(cuts[at], cuts[at + 1]) for at in (2 * index, 2 * index + 1))
        for step in range(1, len(noise.gram_sensitivity) + 1):
            groups.append(DeclaredGroup(f"{name} Gram", step, gram, float(noise.gram_sensitivity[step - 1])))
            alone = float(noise.moment_sensitivity_alone[step - 1])
            groups.append(DeclaredGroup(f"{name} moment", step, moment, alone))
    return groups


def in_noise(movement: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """``movement / scale`` where 0/0 is 0 and anything else over no noise is infinite."""
    movement, scale = np.broadcast_arrays(np.asarray(movement, float), scale)
    bare = np.where(movement == 0, 0.0, np.inf)
    with np.errstate(all="ignore"):
        return np.where(scale > 0, movement / np.where(scale > 0, scale, 1.0), bare)
