# SPDX-License-Identifier: Apache-2.0
"""What a deployment tells the world: status, ledger, model, metrics. All of it is public.

Every number here is a function of the plan, of admissions and of releases. How many reports have come, how many
episodes are open, how long requests take: these depend on users' data and are nowhere on this page.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from reticent.service.rounds.frontend import Frontend
from reticent.service.rounds.recorded_admissions import recorded
from reticent.service.store import records
from reticent_wire import arrays

PAGE = 1000
"""Most rounds that one answer lists: a counter that releases after every user has as many as there are users."""


def status(deployment: Frontend, world: str | None = None) -> dict[str, Any]:
    """Where the deployment stands."""
    clock, releases = deployment.clock()
    configuration, control = deployment.configuration, deployment.context.control
    schedule, guarantee = configuration.schedule, configuration.public_guarantee
    lost = 0
    if configuration.wire == "messages":
        with deployment.store.read() as tx:
            lost = records.lost_rounds(tx)
    return {
        "version": releases,
        "served_version": int(clock.served_version),
        "fallback": None if clock.fallback is None else int(clock.fallback),
        "control_share": None if control is None else control.share,
        "control_version": None if control is None else control.version,
        "admitted": int(clock.admitted),
        "episodes": deployment.users,
        "rounds": schedule.rounds,
        "releases": deployment.releases,
        "round_ends": [int(end) for end in schedule.ends[: min(deployment.releases, PAGE)]],
        "open_round": int(clock.open_round),
        "lost_rounds": lost,
        "restores": deployment.context.restores,
        "recorded": recorded(deployment.context) if configuration.wire == "messages" else None,
        "canaries": deployment.canary_status(),
        "learning": bool(clock.admitted < deployment.users and clock.halted is None),
        "halted": clock.halted,
        "finished": bool(clock.finished and releases >= min(deployment.releases, clock.open_round)),
        "trust": guarantee.trust,
        "agent": configuration.name,
        "world": world,
        "method": configuration.method,
        "counter": configuration.counter,
        "contributions": deployment.context.contributions,
        "pan_private": configuration.pan_private,
        "device_acts": configuration.published.rules.form.remembers or configuration.published.visits > 1,
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "epsilon_spent": configuration.spent(releases)[1],
        "promise": guarantee.sentence,
        "not_covered": list(guarantee.not_covered),
    }


def ledger(deployment: Frontend, after: int = 0, limit: int = PAGE) -> dict[str, Any]:
    """What was released when, and what it has cost each user so far: ``limit`` entries after round ``after``."""
    configuration, guarantee = deployment.configuration, deployment.configuration.public_guarantee
    first, end = min(after, deployment.releases), min(after + limit, deployment.releases)
    with deployment.store.read() as tx:  # what is released and not yet published is not public
        digests = records.digests(tx, first, min(end, int(records.deployment(tx).served_version)))
    return {
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "adjacency": guarantee.adjacency,
        "trust": guarantee.trust,
        "contributions": deployment.context.contributions,
        "pan_private": configuration.pan_private,
        "noise_factor": configuration.noise_factor,
        "releases": deployment.releases,
        "next": end if end < deployment.releases else None,
        "entries": [ledger_entry(deployment, number, digests.get(number)) for number in range(first, end)],
        "shares": [
            {"name": share.name, "step": share.step, "sensitivity": share.sensitivity, "sigma": share.sigma}
            for share in guarantee.shares
        ],
    }


def ledger_entry(deployment: Frontend, number: int, digest: str | None) -> dict[str, Any]:
    """One line of the ledger: round ``number`` (from 0), and the digest of its release if it was made."""
    configuration, guarantee = deployment.configuration, deployment.configuration.public_guarantee
    mu_squared, spent = configuration.spent(number + 1)
    return {
        "round": number + 1,
        "episode": int(guarantee.round_ends[number]),
        "mu_squared": mu_squared,
        "epsilon": spent,
        "remaining": max(0.0, guarantee.epsilon - spent),
        "released": digest is not None,
        "digest": digest,
    }


def transparency(deployment: Frontend, after: int = 0, limit: int = PAGE) -> dict[str, Any]:
    """The signed chain of publications from version ``after`` on, and its head."""
    with deployment.store.read() as tx:
        newest = int(records.deployment(tx).served_version)
        rows, last = records.chain(tx, after, min(after + limit, newest + 1)), records.chain(tx, newest, newest + 1)
    return {
        "deployment": deployment.identity,
        "public_key": deployment.secrets.public_key,
        "head": str(last[0].hash),
        "entries": [{"entry": row.entry, "hash": row.hash, "signature": row.signature} for row in rows],
        "next": after + limit if after + limit <= newest else None,
    }


def model(deployment: Frontend) -> dict[str, Any]:
    """What a device needs beside the billboard to form its report. The same for the whole deployment."""
    configuration = deployment.configuration
    content = dataclasses.replace(configuration.published, digest=configuration.model_digest).to_json()
    return {
        **content,
        "trust": configuration.public_guarantee.trust,
        "initial": arrays.to_json(configuration.initial),
        "report": {
            **content["report"],
            "limit": arrays.to_json(configuration.report_limit),
            "digest": configuration.rules_digest,
        },
    }


def names(deployment: Frontend) -> dict[str, Any]:
    """What states and actions are called, for people."""
    given = deployment.configuration.names
    return {"states": None, "actions": None} if given is None else dict(given)


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
        ("lost_rounds", "lost_rounds", "Rounds that were released without a shuffler's batch."),
        ("learning", "learning", "Whether new users are learned from."),
        ("finished", "finished", "Whether the policy is final."),
    )

    def __init__(self, deployment: Frontend) -> None:
        self._deployment = deployment

    def collect(self) -> Any:
        now = status(self._deployment)
        for name, field, meaning in self.NAMES:
            yield GaugeMetricFamily(f"reticent_{name}", meaning, value=float(now[field]))
        watched = now["canaries"]
        if watched is not None:
            meanings = {"alarm": "Whether canaries show that noise is too small.", "numbers": "Numbers seen of canaries.",
                        "log_e_value": "Logarithm of the evidence against the promise."}  # fmt: skip
            for field, meaning in meanings.items():
                yield GaugeMetricFamily(f"reticent_canaries_{field}", meaning, value=float(watched[field]))
        facts = {key: str(now[key]) for key in ("agent", "trust", "counter")}
        yield InfoMetricFamily("reticent", "What is deployed.", value=facts)


def metrics(deployment: Frontend) -> bytes:
    """The metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PublicNumbers(deployment))
    return generate_latest(registry)
