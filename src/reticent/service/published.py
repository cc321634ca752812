"""What a deployment tells the world: status, ledger, model, metrics. All of it is public.

Every number here is a function of the plan, of admissions and of releases. How many reports have come, how many
episodes are open, how long requests take: these depend on users' data and are nowhere on this page.
"""

from __future__ import annotations

import math
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from reticent.privacy.accounting.gaussian import epsilon_of
from reticent.service import arrays
from reticent.service.batches import BatchRules
from reticent.service.deployment import Deployment
from reticent.service.storage import records


def status(deployment: Deployment, world: str | None = None) -> dict[str, Any]:
    """Where the deployment stands."""
    clock, releases = deployment.clock()
    mechanism, schedule = deployment.mechanism, deployment.mechanism.agent.schedule
    promised = mechanism.promised
    return {
        "version": releases,
        "served_version": int(clock.served_version),
        "admitted": int(clock.admitted),
        "episodes": deployment.users,
        "rounds": schedule.rounds,
        "releases": deployment.releases,
        "round_ends": [int(end) for end in schedule.ends[: deployment.releases]],
        "open_round": int(clock.open_round),
        "learning": bool(clock.admitted < deployment.users),
        "finished": bool(clock.finished and releases >= min(deployment.releases, clock.open_round)),
        "trust": promised.trust,
        "agent": mechanism.agent.name,
        "world": world,
        "method": mechanism.agent.method,
        "counter": mechanism.privacy.calibration.counter.name,
        "contributions": deployment.contributions,
        "pan_private": mechanism.pan_private,
        "epsilon": promised.epsilon,
        "delta": promised.delta,
        "epsilon_spent": mechanism.spent(releases)[1],
        "promise": promise(deployment),
    }


def promise(deployment: Deployment) -> str:
    """The guarantee in plain words, per user."""
    mechanism, promised = deployment.mechanism, deployment.mechanism.promised
    who = {
        "joint": "everything shown to all other users together",
        "local": "the reports that leave her device, and all that is computed from them,",
        "shuffle": "everything that leaves the shuffler, and all that is computed from it,",
    }[promised.trust]
    seen = ", together with one look into the server's store in every round," if mechanism.pan_private else ""
    change = (
        "her whole data were replaced by any other" if promised.adjacency == "replace" else "she had not taken part"
    )
    times = "once" if deployment.contributions == 1 else f"at most {deployment.contributions} times"
    return (
        f"For every user, who contributes {times}, {who}{seen} is ({promised.epsilon:g}, {promised.delta:g})-"
        f"indistinguishable from what it would be if {change} ({promised.trust} differential privacy)."
        f"{mechanism.privacy.reliance}"
    )


def ledger(deployment: Deployment) -> dict[str, Any]:
    """What was released when, and what it has cost each user so far."""
    mechanism, plan = deployment.mechanism, deployment.mechanism.ledger
    with deployment.store.read() as tx:
        digests = records.digests(tx)
    return {
        "epsilon": mechanism.promised.epsilon,
        "delta": mechanism.promised.delta,
        "adjacency": plan.adjacency,
        "trust": plan.trust,
        "contributions": deployment.contributions,
        "pan_private": mechanism.pan_private,
        "noise_factor": mechanism.noise_factor,
        "entries": [ledger_entry(deployment, number, digests.get(number)) for number in range(deployment.releases)],
        "shares": [
            {"name": share.name, "step": share.step, "sensitivity": share.sensitivity, "sigma": share.sigma}
            for share in plan.shares
        ],
    }


def ledger_entry(deployment: Deployment, number: int, digest: str | None) -> dict[str, Any]:
    """One line of the ledger: round ``number`` (from 0), and the digest of its release if it was made."""
    mechanism, plan = deployment.mechanism, deployment.mechanism.ledger
    mu_squared, spent = mechanism.spent(number + 1)
    return {
        "round": number + 1,
        "episode": int(plan.round_ends[number]),
        "mu_squared": mu_squared,
        "epsilon": spent,
        "remaining": max(0.0, mechanism.promised.epsilon - spent),
        "released": digest is not None,
        "digest": digest,
    }


def recount(deployment: Deployment, releases: int) -> float:
    """ε per user from the noise really used, without the ledger: what :func:`ledger` must agree with."""
    mechanism = deployment.mechanism
    if not releases:
        return 0.0
    counter = mechanism.privacy.calibration.counter
    local = mechanism.promised.trust == "local"
    exposure = 1.0 if local else float(counter.exposure()[releases - 1])  # a local report carries its own noise
    shares = sum((share.sensitivity / share.sigma) ** 2 for share in mechanism.ledger.shares)
    account = mechanism.privacy.calibration.account
    of = epsilon_of if account is None else account.epsilon_of
    return of(math.sqrt(exposure * shares) * mechanism.noise_factor, mechanism.promised.delta)


def model(deployment: Deployment) -> dict[str, Any]:
    """What a device needs beside the billboard to form its report. The same for the whole deployment."""
    known, privatizer = deployment.mechanism.agent.model, deployment.mechanism.agent.aggregator
    return {
        "digest": deployment.model_digest,
        "horizon": known.horizon,
        "states": known.states,
        "actions": known.actions,
        "d1": known.d1,
        "d2": known.d2,
        "trust": deployment.mechanism.promised.trust,
        "transition_features": arrays.to_json(known.transition_features),
        "successors": None if known.successors is None else arrays.to_json(known.successors),
        "reward_features": arrays.to_json(known.reward_features),
        "initial": arrays.to_json(known.initial),
        "report": {
            "grid": deployment.mechanism.grid,
            "noise_scale": arrays.to_json(deployment.mechanism.noise_scale),
            "feature_bound": arrays.to_json(privatizer.feature_bound),
            "target_low": arrays.to_json(privatizer.target_low),
            "target_high": arrays.to_json(privatizer.target_high),
            "nonnegative_rewards": bool(privatizer.nonnegative_rewards),
            "limit": arrays.to_json(deployment.mechanism.report_limit),
            "shuffle": _shuffle(deployment.mechanism.batches) if deployment.mechanism.shuffled else None,
        },
    }


def _shuffle(rules: BatchRules) -> dict[str, Any]:
    """What a device needs to form its messages, and a shuffler to know when it has enough of them."""
    return {
        "reach": arrays.to_json(rules.reach),
        "coins": arrays.to_json(rules.coins),
        "round_sizes": list(rules.sizes),
        "honest": rules.honest,
    }


class PublicNumbers(Collector):
    """The metrics, read from the store when they are asked for: every worker gives the same answer."""

    NAMES = (
        ("admitted_users", "admitted", "Users admitted so far."),
        ("horizon_users", "episodes", "Users that are learned from in all, K."),
        ("policy_version", "served_version", "Newest published version of the policy."),
        ("releases_planned", "releases", "Releases in the whole deployment."),
        ("epsilon_spent", "epsilon_spent", "Privacy loss per user so far, at the promised delta."),
        ("epsilon_promised", "epsilon", "Promised bound on the privacy loss per user."),
        ("delta", "delta", "Promised delta."),
        ("learning", "learning", "Whether new users are learned from."),
        ("finished", "finished", "Whether the policy is final."),
    )

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    def collect(self) -> Any:
        now = status(self._deployment)
        for name, field, meaning in self.NAMES:
            yield GaugeMetricFamily(f"reticent_{name}", meaning, value=float(now[field]))
        facts = {key: str(now[key]) for key in ("agent", "trust", "counter")}
        yield InfoMetricFamily("reticent", "What is deployed.", value=facts)


def metrics(deployment: Deployment) -> bytes:
    """The metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PublicNumbers(deployment))
    return generate_latest(registry)
