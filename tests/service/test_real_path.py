# SPDX-License-Identifier: Apache-2.0
"""The privacy proof carried out on what is deployed: embedded agent, service on either database, device, shuffler.

Neighbours differ by what one user sends, by values that are none, by silence, lateness, retries and order.
docs/measurements/audit-coverage.md has the table of entry points and kinds.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from real_path import (
    AGENTS,
    KINDS,
    MODEL,
    Embedded,
    InGroups,
    InOrder,
    Served,
    attack_scores,
    played,
    replay_path,
    strength_of,
)

from reticent.audit.bounds import lower_bounds
from reticent.privacy.noise import SecureNoise
from reticent.service.mechanism import make_mechanism
from reticent_client import discrete_gaussian, messages
from reticent_client.messages import form_messages
from reticent_client.report import noised_report
from reticent_wire.boundary import Clipped
from reticent_wire.trajectory import Trajectory, well_formed

ALSO_WITH_TICKETS = [
    pytest.param(kind, marks=[pytest.mark.verify] * (kind in ("malformed", "expiry", "lateness", "order")))
    for kind in KINDS
]
"""The quick suite has the others of an embedded agent with tickets, and of groups."""

BOTH = ["flagship", pytest.param("regressions", marks=pytest.mark.verify)]
ONE_AFTER_ANOTHER = ("swap", "refusal", "malformed", "expiry", "retries")
"""Kinds that there are if nobody overlaps: a place is used up before the next user comes."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("agent", BOTH)
def test_users_with_tickets(agent: str, kind: str) -> None:
    assert replay_path(lambda: Embedded(AGENTS[agent]), kind) == []


@pytest.mark.parametrize("kind", ONE_AFTER_ANOTHER)
@pytest.mark.parametrize("agent", BOTH)
def test_users_in_order(agent: str, kind: str) -> None:
    assert replay_path(lambda: InOrder(AGENTS[agent]), kind) == []


@pytest.mark.parametrize("kind", ALSO_WITH_TICKETS)
@pytest.mark.parametrize("agent", BOTH)
def test_users_of_a_service_on_sqlite(tmp_path: Path, agent: str, kind: str) -> None:
    fresh = iter(range(10))
    assert replay_path(lambda: Served(AGENTS[agent], f"sqlite:///{tmp_path}/{next(fresh)}.db"), kind) == []


@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=[pytest.mark.verify] * (one != "malformed")) for one in KINDS]
)
@pytest.mark.parametrize("agent", BOTH)
def test_users_behind_a_backend(tmp_path: Path, agent: str, kind: str) -> None:
    fresh = iter(range(10))
    assert replay_path(lambda: InGroups(AGENTS[agent], f"sqlite:///{tmp_path}/{next(fresh)}.db"), kind) == []


@pytest.mark.verify
@pytest.mark.parametrize("kind", KINDS)
def test_users_of_a_service_on_postgresql(postgres: str, kind: str) -> None:
    from reticent.service.store.engine import Store
    from reticent.service.store.tables import METADATA

    def fresh() -> Served:
        store = Store(postgres)
        METADATA.drop_all(store.engine)
        store.close()
        return Served(AGENTS["flagship"], postgres)

    assert replay_path(fresh, kind) == []


# -- devices ----------------------------------------------------------------------------------------------------------


def shown(seen: Trajectory | None) -> Clipped[Trajectory] | None:
    """An episode as a device has it; None of a user who shows nothing."""
    return None if seen is None else Clipped(seen)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("other", ["another episode", "a wild one", "nothing"])
def test_a_devices_report_is_hidden_by_its_own_noise(monkeypatch: pytest.MonkeyPatch, agent: str, other: str) -> None:
    """Noise moved by the difference of two users makes one report of both, and costs no more than was promised."""
    mechanism = make_mechanism(AGENTS[agent] + ",trust=local", MODEL, 400, SecureNoise())
    known, board = mechanism.published, mechanism.billboard(0, mechanism.agent.init()).published
    hers = well_formed(known, *played(0), 0)
    changed = {
        "another episode": well_formed(known, *played(9), 0),
        "a wild one": well_formed(known, *played(0, -1), 0),
    }
    theirs = changed.get(other)
    noise = discrete_gaussian.draw(known.rules.noise_scale, known.rules.grid)
    moved = known.steps(board, hers) - (0 if theirs is None else known.steps(board, theirs))
    given = iter([noise, noise + moved])
    monkeypatch.setattr(discrete_gaussian, "draw", lambda scale, grid: next(given))
    one, two = (noised_report(known, board, shown(seen)) for seen in (hers, theirs))
    np.testing.assert_array_equal(one, two)
    assert 0 < strength_of(mechanism, moved) <= mechanism.guarantee.promised_strength * (1 + 1e-9)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("other", ["another episode", "a wild one", "nothing"])
def test_a_devices_messages_are_hidden_by_coins(monkeypatch: pytest.MonkeyPatch, agent: str, other: str) -> None:
    """As many more heads as her value is less: what reaches the shuffler's sums is the same, and within their reach."""
    mechanism = make_mechanism(AGENTS[agent] + ",trust=shuffle", MODEL, 400, SecureNoise())
    known, board = mechanism.published, mechanism.billboard(0, mechanism.agent.init()).published
    hers, theirs = well_formed(known, *played(0), 0), well_formed(known, *played(9), 0)
    rules = mechanism.batches
    monkeypatch.setattr(messages, "_uniforms", lambda shape: np.full(shape, 0.25))
    monkeypatch.setattr(messages, "secure_coins", lambda count: np.zeros(count, bool))
    seen = {"another episode": theirs, "a wild one": well_formed(known, *played(0, -1), 0), "nothing": None}[other]
    one, two = (form_messages(known, board, shown(played_so), 0, 1) for played_so in (hers, seen))
    np.testing.assert_array_equal(one.messages, two.messages)  # how many there are is public, whatever they say
    moved = one.ones - two.ones
    assert moved.any()
    assert (np.abs(moved) <= 2 * rules.reach).all()
    varies = rules.reach > 0
    assert (rules.coins_at(0, 1)[varies] >= 1).all()
    assert not moved[~varies].any()
    # In units of the noise that the round's coins make together, which is what hides her.
    spread = np.sqrt(rules.coins[varies]) / 2
    cost = math.sqrt(float(((moved[varies] / spread) ** 2).sum()))
    assert cost <= mechanism.guarantee.promised_strength * (1 + 1e-9)


# -- attacks under secure noise ---------------------------------------------------------------------------------------


@pytest.mark.verify
@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        *[("embedded", kind) for kind in ("swap", "refusal", "silence", "expiry", "lateness")],
        *[("service", kind) for kind in ("swap", "lateness")],
    ],
)
def test_secure_noise_hides_the_change(tmp_path: Path, entry: str, kind: str) -> None:
    """A matched filter on 100 releases each; a sound deployment is called violated in one of a thousand attacks."""
    spec, fresh = "private-score-vi:first=0.4,growth=1,epsilon=12", iter(range(10**6))

    def make() -> Embedded | Served:
        if entry == "embedded":
            return Embedded(spec)
        return Served(spec, f"sqlite:///{tmp_path}/{next(fresh)}.db")

    without, present, strength = attack_scores(make, kind, 100)
    assert abs((present.mean() - without.mean()) - strength) < 6 * math.sqrt(2 / 100)  # false alarm 2e-9
    assert lower_bounds(without, present, 1e-5, 0.999).lower_bound.epsilon <= 12.0
