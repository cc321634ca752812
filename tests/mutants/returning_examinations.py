# SPDX-License-Identifier: Apache-2.0
"""Examinations of people who return to a service, and of devices that randomise: the real components."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from durable import SECRET
from examinations import Examination, _named
from real_path import MODEL, played
from running_service import APP_KEY, running_service

from reticent.errors import ReticentError
from reticent.privacy.noise import SecureNoise
from reticent.service.mechanism import make_mechanism
from reticent.service.rounds import public_views
from reticent.service.rounds.admit import Opened
from reticent.service.rounds.context import Context
from reticent.service.rounds.deployment import Deployment
from reticent.service.secrets import Secrets
from reticent.service.store import records
from reticent.service.store.engine import Store
from reticent_client import Budget, Client, Decision

WORLD = "random-blend:states=3,actions=2,horizon=2,d=2"
RETURNING = "private-score-vi:contributions=3,epsilon=12,first=0.4,growth=1,largest=4"
SIZE = 4


@contextlib.contextmanager
def _service() -> Iterator[Deployment]:
    with tempfile.TemporaryDirectory() as where:
        mechanism = make_mechanism(RETURNING, MODEL, 24, SecureNoise())
        service = Deployment(Context(mechanism, Store(f"sqlite:///{where}/service.db"), Secrets(SECRET), inline=True))
        service.set_up()
        try:
            yield service
        finally:
            service.store.close()


def _admit(service: Deployment, user: int, visit: int = 0) -> Opened:
    return service.admit(f"user {user}", f"{100 * user + visit:032x}")


def _open_sum(service: Deployment) -> np.ndarray:
    with service.store.read() as tx:
        row = records.round_of(tx, int(records.deployment(tx).open_round))
    return service.context.total(row.number, row.total)._value


def arrivals() -> Examination:
    """She is in rounds 0 and 1, both reports arrive in round 1; and she tries to have two places in a round."""

    def examine() -> list[str]:
        findings = []
        with _service() as service:
            first = _admit(service, 0)
            if _admit(service, 0, 1).learning:
                findings.append("a person has two places in one round")
            if int(service.clock()[0].admitted) != 1 + bool(findings):
                findings.append("being turned away takes a place")
            for user in range(1, SIZE):
                _admit(service, user)
            second = _admit(service, 0, 2)
            service.submit_trajectory(second.token, second.episode, *played(1))
            before = _open_sum(service)
            service.submit_trajectory(first.token, first.episode, *played(2))
            if (_open_sum(service) != before).any():
                findings.append("a round counts two reports of one person")
        return findings

    return _named(examine, "device", {"returning": "arrivals"})


def device() -> Examination:
    """A device whose service gives it places as it likes: what leaves, and how often for one round."""

    def examine() -> list[str]:
        findings: list[str] = []
        with tempfile.TemporaryDirectory() as where:
            agent = "private-score-vi:contributions=3,per_round=3,epsilon=20,first=0.4,growth=1,largest=8,trust=local"
            budget = Budget(Path(where) / "budget.json", reports=3, per_round=1)
            noted: list[Decision] = []
            with (
                running_service(Path(where), world=WORLD, agent=agent, episodes=24, rate_limit=0) as url,
                Client(url, APP_KEY, trust="local", budget=budget, decisions=noted.append) as client,
            ):
                for visit in range(2):
                    try:
                        with client.episode("ann") as episode:
                            for step in range(MODEL.horizon):
                                episode.act(step % 2)
                                episode.observe(0.5, (step + 1) % 2)
                    except ReticentError:  # more than a report is refused by the service
                        findings.append("the log of decisions leaves the device")
                        break
                    if visit == 0 and set(episode.submission.content) != {"token", "report", "reference"}:
                        findings.append("the log of decisions leaves the device")
                    if visit == 1 and episode.status == "counted":
                        findings.append("two reports of one round leave a device whose budget is for one")
        return findings

    return _named(examine, "device", {"returning": "device"})


def floor(draws: int = 400) -> Examination:
    """What a device does and logs under a floor, against the agent's own functions."""

    def examine() -> list[str]:
        mechanism = make_mechanism("private-score-vi:epsilon=12,first=0.4,growth=1,floor=0.2", MODEL, 24, SecureNoise())
        agent = mechanism.agent
        nothing, silence = np.zeros(mechanism.noise_scale.shape, np.int64), mechanism.round_noise()
        assert silence is not None
        state, _ = mechanism.close(0, agent.init(), mechanism.billboard(0, agent.init()), nothing, 0 * silence)
        board, findings = mechanism.billboard(1, state), []
        plan = agent.served(mechanism.plan_of(board), 10**6)
        wanted = np.asarray(agent.action_probabilities(plan))[0, 0]
        generator, taken = np.random.default_rng(5), []
        for uniform in generator.random(draws):
            action = board.act(0, 0, 10**6, float(uniform))
            taken.append(action)
            if action != int(agent.act(plan, 0, 0, float(uniform))):
                findings.append("a device's actions are not those of the agent")
        if len(set(taken)) < MODEL.actions:
            findings.append("an action above the floor is never taken")
        logged = [board.published.probability(0, 0, 10**6, action) for action in range(MODEL.actions)]
        if not np.allclose(logged, wanted, rtol=1e-12):
            findings.append("the logged probabilities are not those of the actions")
        return list(dict.fromkeys(findings))

    return _named(examine, "wire", {"floor": True})


def watching() -> Examination:
    """Canaries of a service whose every scale of noise is 0.9 of the guarantee's, after twice the stated releases.

    An honest examination fails with probability 1e-6: 6 000 numbers whose log-ratio grows by 0.0104 each.
    """

    def examine() -> list[str]:
        with tempfile.TemporaryDirectory() as where:
            mechanism = make_mechanism(
                "private-score-vi:epsilon=12,first=0.4,growth=1,largest=4", MODEL, 28, SecureNoise()
            )
            rules = mechanism.published.rules
            weakened = dataclasses.replace(rules, noise_scale=0.9 * rules.noise_scale)
            mechanism = dataclasses.replace(
                mechanism, published=dataclasses.replace(mechanism.published, rules=weakened)
            )
            numbers = int((mechanism.noise_scale > 0).sum())
            store = Store(f"sqlite:///{where}/service.db")
            service = Deployment(Context(mechanism, store, Secrets(SECRET), inline=True, canaries=-(-1000 // numbers)))
            service.set_up()
            try:
                for user in range(25):
                    service.admit(f"user {user}")
                found = public_views.status(service)["canaries"]
            finally:
                store.close()
        return [] if found is not None and found["alarm"] else ["canaries do not find a tenth too little noise"]

    return _named(examine, "distribution", {"service": "canaries"})


ARRIVALS, DEVICE, FLOOR, WATCHING = arrivals(), device(), floor(), watching()
