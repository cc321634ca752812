# SPDX-License-Identifier: Apache-2.0
"""What the store holds, what the noise covers, and that the library's audit agrees."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from durable import AGENT, MODEL, SECRET, deployment, episode, open_sum, played

from reticent.audit.bounds import lower_bounds
from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import mu_of
from reticent.service.durability.backup import back_up
from reticent.service.durability.restore import restore
from reticent.service.rounds.close import Closing
from reticent.service.rounds.context import Context
from reticent.service.rounds.deployment import Deployment
from reticent.service.secrets import Secrets
from reticent.service.store import records
from reticent.service.store.tables import METADATA

H = MODEL.horizon


def rows(service: Deployment) -> dict[str, list[Any]]:
    with service.store.read() as tx:
        return {table.name: list(tx.execute(sa.select(table)).all()) for table in METADATA.sorted_tables}


def release_of(service: Deployment, number: int) -> np.ndarray:
    with service.store.read() as tx:
        content = records.round_of(tx, number).release
    return np.frombuffer(content, "<f8").reshape(service.mechanism.noise_scale.shape)


def test_no_name_and_no_trajectory_is_in_the_file(tmp_path: Path) -> None:
    service = deployment(tmp_path)
    for user in range(6):
        opened = service.admit(f"a-name-to-look-for-{user}")
        given = episode(user)
        given["rewards"] = [0.123456789] * H
        service.submit_trajectory(opened.token, opened.episode, **given)
    service.store.close()
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert len(held) > 10_000
    for secret in (b"a-name-to-look-for", b"0.123456789", np.float64(0.123456789).tobytes()):
        assert secret not in held


def test_a_stolen_file_shows_releases_but_no_sum(tmp_path: Path) -> None:
    """Open sums and the agent's state are sealed; two stores with the same users have no sealed byte string in common."""
    found = []
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        service = deployment(tmp_path / place)
        opened = service.admit("ann")
        service.submit_trajectory(opened.token, opened.episode, **episode(0))
        total = open_sum(service).tobytes()
        service.store.close()
        with sqlite3.connect(tmp_path / place / "service.db") as connection:
            held = [row[0] for row in connection.execute("SELECT total FROM rounds UNION SELECT state FROM learner")]
        connection.close()
        assert all(total not in content for content in held)
        found.append(set(held))
    assert not found[0] & found[1]


DRAWN = ("key_check", "total", "state", "identity", "entry", "hash", "signature")
"""Columns that differ between any two deployments: sealed under fresh randomness, or bound to the drawn identity."""


def test_a_local_server_holds_nothing_that_moves_with_the_raw_data_but_the_report(tmp_path: Path) -> None:
    """Two users whose raw data differ but whose noised reports are equal leave the same rows behind."""
    held = []
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        service = deployment(tmp_path / place, AGENT + ",trust=local", now=lambda: 1000.0)
        with pytest.raises(Exception, match="must not see trajectories"):
            service.submit_trajectory("x", "0" * 32, **episode(0))
        shape, limit = service.mechanism.noise_scale.shape, service.mechanism.report_limit
        for user in range(5):
            opened = service.admit(f"user {user}", f"{user:032x}")
            report = np.random.default_rng(user).integers(-1000, 1000, shape).clip(-limit, limit)
            service.submit_report(opened.token, opened.episode, report)
        plain = {}
        for name, content in rows(service).items():
            plain[name] = [
                tuple("drawn" if column in DRAWN else value
                      for column, value in row._mapping.items())
                for row in content
            ]  # fmt: skip
        held.append(
            (
                plain,
                open_sum(service).tolist(),
                service.mechanism.to_bytes(service.planner.releases._state(_learner(service))),
            )
        )
    assert held[0] == held[1]


def _learner(service: Deployment) -> Any:
    with service.store.read() as tx:
        return records.learner(tx)


def test_a_local_report_out_of_range_or_shape_is_refused(tmp_path: Path) -> None:
    service = deployment(tmp_path, AGENT + ",trust=local")
    opened = service.admit("ann")
    limit = service.mechanism.report_limit
    for bad in (limit + 1, -limit - 1, limit[:1], np.full(limit.shape, np.iinfo(np.int64).min)):
        with pytest.raises(InvalidInput, match="report"):
            service.submit_report(opened.token, opened.episode, bad)
    assert service.submit_report(opened.token, opened.episode, limit) == 0


def test_honest_reports_are_within_the_limit(tmp_path: Path) -> None:
    service = deployment(tmp_path, AGENT + ",trust=local")
    mechanism, board = service.mechanism, service.billboard(0)
    largest = np.zeros(mechanism.noise_scale.shape)
    for seed in range(20):
        clean = mechanism.published.contribution(board.published, played(seed))
        largest = np.maximum(largest, np.abs(clean))
    assert (largest + 12.9 * mechanism.noise_scale <= mechanism.report_limit * mechanism.grid).all()


# -- pan-privacy --------------------------------------------------------------------------------------------------------


def test_pan_private_sums_start_with_half_of_the_noise(tmp_path: Path) -> None:
    # Two sets of 8·18 numbers, nearly all noised; the mean square of each is within 6 standard errors but for 4e-9.
    service = deployment(tmp_path, pan_private=True)
    scale, grid = service.mechanism.noise_scale, service.mechanism.grid
    noised = scale > 0
    first = open_sum(service) * grid
    allowed = 6 * math.sqrt(2 / noised.sum())
    assert abs(((first[noised] / scale[noised]) ** 2).mean() - 0.5) < 0.5 * allowed
    for user in range(5):
        service.admit(f"user {user}")
    second = release_of(service, 0) - first
    assert abs(((second[noised] / scale[noised]) ** 2).mean() - 0.5) < 0.5 * allowed
    # One look and the release: each half alone keeps the promise.
    assert service.mechanism.agent.promise.mu * math.sqrt(2) == pytest.approx(mu_of(1.0, 1e-5), rel=1e-6)
    assert service.mechanism.spent(3)[1] == pytest.approx(1.0, rel=1e-6)


def looked_at(service: Deployment) -> dict[int, np.ndarray]:
    """What somebody finds who opens every sum in the store, by round."""
    with service.store.read() as tx:
        rows = records.unreleased(tx)
    return {
        row.number: (service.context.total if row.state == "open" else service.context.closed_total)(
            row.number, row.total
        )._value
        for row in rows
    }


def test_a_sealed_round_keeps_its_release_and_nothing_else(database: str) -> None:
    """A look while a round is open and one after it is sealed: between them is the second half of the noise, not a user."""
    service = deployment(database, pan_private=True, inline=False)
    scale, grid = service.mechanism.noise_scale, service.mechanism.grid
    noised = scale > 0
    opened = [service.admit(f"user {user}") for user in range(4)]
    for user in range(3):
        service.submit_trajectory(opened[user].token, opened[user].episode, **episode(user))
    first = looked_at(service)[0]
    service.submit_trajectory(opened[3].token, opened[3].episode, **episode(3))
    service.admit("user 4")  # seals the round; no planner has come yet
    second = looked_at(service)
    assert set(second) == {0, 1}
    board = service.billboard(0)
    last = service.mechanism.exact_contribution(board, service.mechanism.played(played(3), None))
    between = (second[0] - first - last) * grid
    allowed = 6 * math.sqrt(2 / noised.sum())
    assert abs(((between[noised] / scale[noised]) ** 2).mean() - 0.5) < 0.5 * allowed
    # Neither the planner nor a second look at the sealed round adds anything: what is kept there is what is released.
    np.testing.assert_array_equal(looked_at(service)[0], second[0])
    assert service.advance() == 1
    np.testing.assert_array_equal(release_of(service, 0), second[0] * grid)


def test_restored_rounds_are_closed_with_both_halves(tmp_path: Path) -> None:
    service = deployment(tmp_path, pan_private=True, inline=False)
    for user in range(9):
        service.admit(f"user {user}")
    back_up(service.store, Secrets(SECRET), tmp_path / "copy")
    again = Deployment(
        Context(service.mechanism, service.store, Secrets(SECRET), rollback_guard=service.rollback_guard)
    )
    assert restore(again, tmp_path / "copy", replace=True).rounds_lost == 3
    again.set_up()
    kept, scale = looked_at(again), again.mechanism.noise_scale
    noised = scale > 0
    for number, share in ((0, 1.0), (1, 1.0), (2, 0.5)):
        found = ((kept[number] * again.mechanism.grid)[noised] / scale[noised]) ** 2
        assert abs(found.mean() - share) < share * 6 * math.sqrt(2 / noised.sum())
    for number, again_found in looked_at(again).items():  # a half that is drawn at each look would be another one
        np.testing.assert_array_equal(again_found, kept[number])


def test_a_round_that_an_earlier_version_sealed_is_not_released_with_half_of_its_noise(tmp_path: Path) -> None:
    service = deployment(tmp_path, pan_private=True, inline=False)
    with pytest.MonkeyPatch.context() as before:
        before.setattr(Closing, "close_sum", lambda self, tx, number: None)
        for user in range(5):
            service.admit(f"user {user}")
    with service.store.read() as tx:
        first = service.context.total(0, records.round_of(tx, 0).total)._value * service.mechanism.grid
    assert service.advance() == 1
    added = (release_of(service, 0) - first)[service.mechanism.noise_scale > 0]
    assert added.all()


def test_pan_privacy_needs_a_counter_that_keeps_no_exact_sums(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="pan-private"):
        deployment(tmp_path, "private-linopt-vi:counter=tree", pan_private=True)
    local = deployment(tmp_path, AGENT + ",trust=local", pan_private=True)
    assert local.mechanism.noise_factor == 1.0
    assert not open_sum(local).any()


# -- the audit of what was really released -----------------------------------------------------------------------------


def scores(service: Deployment, trials: int, movement: np.ndarray, report: np.ndarray) -> np.ndarray:
    """The matched filter for ``movement`` on releases of rounds that hold one report, made as the service makes them."""
    mechanism, board = service.mechanism, service.billboard(0)
    noised = mechanism.noise_scale > 0
    weight = np.where(noised, movement / np.where(noised, mechanism.noise_scale, 1) ** 2, 0)
    length = math.sqrt(float((weight * movement).sum()))
    state = mechanism.agent.init()
    found = []
    for _ in range(trials):
        _, release = mechanism.close(
            0, state, board, mechanism.first_sum() + report + mechanism.closing_half(), mechanism.round_noise()
        )
        found.append(float((weight * release).sum()) / length)
    return np.array(found)


@pytest.mark.verify
@pytest.mark.parametrize("pan_private", [False, True])
def test_releases_pass_the_audit(tmp_path: Path, pan_private: bool) -> None:
    """Against the worst pair of 40 episodes; a sound service is called violated in one of a thousand audits."""
    service = deployment(tmp_path, AGENT + ",epsilon=4", pan_private=pan_private)
    board, mechanism = service.billboard(0), service.mechanism
    reports = [mechanism.contribution(board, played(seed)) for seed in range(40)]
    scale = np.where(mechanism.noise_scale > 0, mechanism.noise_scale, np.inf)
    pairs = [(one, other) for one in reports for other in reports]
    one, other = max(pairs, key=lambda pair: float((((pair[0] - pair[1]) / scale) ** 2).sum()))
    movement = (one - other) * mechanism.grid
    mu = math.sqrt(float(((movement / scale) ** 2).sum()))
    assert 0 < mu <= mu_of(4.0, 1e-5)
    without, with_her = scores(service, 150, movement, other), scores(service, 150, movement, one)
    assert abs((with_her.mean() - without.mean()) - mu) < 6 * math.sqrt(2 / 150)  # she is seen; false alarm 2e-9
    bound = lower_bounds(without, with_her, 1e-5, 0.999).lower_bound
    assert bound.epsilon <= 4.0
    # The check can fail: without the noise of the promise the same adversary would win.
    quiet = without - without.mean()
    broken = lower_bounds(quiet / 100, quiet / 100 + mu, 1e-5, 0.999).lower_bound
    assert broken.epsilon > 4.0
