"""Which audit an agent needs: what it publishes decides, not its name."""

from __future__ import annotations

from typing import Any

from reticent.agents.evaluation.returns import PrivateReturns
from reticent.agents.linear_mdp.learner import LinearMdpLearner
from reticent.audit.actions import Rollout
from reticent.audit.attack import DEFAULT_CONFIDENCE, Adversary, Audit, Progress, audit
from reticent.audit.evaluation import audit_returns
from reticent.audit.moments import audit_moments, opposite_users
from reticent.audit.subject import Subject
from reticent.errors import InvalidInput

__all__ = ["audit_any"]


def audit_any(
    subject: Subject,
    world: Any,
    *,
    adversary: Adversary = "releases",
    trials: int = 100_000,
    seed: int = 0,
    confidence: float = DEFAULT_CONFIDENCE,
    rollout: Rollout | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Attack ``subject`` by the audit that knows its releases: sums over rounds, moments anew each round, or one release.

    Raises:
      InvalidInput: an adversary that this kind of agent has none of.
    """
    agent, plan = subject.agent, subject.plan
    own = isinstance(agent, LinearMdpLearner) or isinstance(agent.aggregator, PrivateReturns)
    if not own:
        return audit(
            subject, world, adversary=adversary, trials=trials, seed=seed, confidence=confidence,
            rollout=rollout, progress=progress,
        )  # fmt: skip
    if adversary != "releases":
        raise InvalidInput(
            "adversary", adversary, "'releases' for this agent", "releases are all that others' plans see"
        )
    chosen: dict[str, Any] = {
        "world": getattr(world, "name", "custom"), "trials": trials, "seed": seed, "confidence": confidence,
    }  # fmt: skip
    if isinstance(agent, LinearMdpLearner):
        told = None if progress is None else (lambda done: progress("trajectory canary", done, 2 * trials))
        return audit_moments(agent, plan, progress=told, **chosen)
    features: Any = agent.features  # type: ignore[attr-defined]
    return audit_returns(agent, plan, opposite_users(agent.model, features), **chosen)
