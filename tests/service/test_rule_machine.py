# SPDX-License-Identifier: Apache-2.0
"""Stateful property tests: whatever users, apps, operators and crashes do, a user is in one released sum, once.

``python -m pytest tests/service/test_rule_machine.py -m verify -s`` says how long each known leak takes to find.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from device_machines import LocalMachine, ShuffleMachine
from durable import SECRET, deployment
from fixes_taken_out import (
    batch_left_before_its_users_are_recorded,
    interrupted_round_drawn_again,
    messages_of_before_a_restore_kept,
    restore_keeps_unreleased_sums,
    submit_as_one_body,
)
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from release_oracle import Search
from rule_machines import AgentMachine, JointMachine, PanPrivateMachine, TwoWorkers

from reticent.service.durability import restore
from reticent.service.durability.backup import back_up
from reticent.service.durability.erasure import erase
from reticent.service.http import groups
from reticent.service.rounds.close import Closing
from reticent.service.rounds.context import Context
from reticent.service.rounds.deployment import Deployment
from reticent.service.secrets import Secrets
from reticent_client.budget import Budget

Patch = pytest.MonkeyPatch
DEVICES = [ShuffleMachine, LocalMachine]
MACHINES = [JointMachine, PanPrivateMachine, *DEVICES, AgentMachine]


def searched(machine: Any, patch: Patch, examples: int, steps: int) -> Search:
    """What a search over so many examples finds; it ends with the first violation."""
    search = Search()
    patch.setattr(machine, "search", search)
    chosen = settings(
        max_examples=examples, stateful_step_count=steps, derandomize=True, deadline=None, database=None,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate], report_multiple_bugs=False, print_blob=False,
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=chosen)
    return search


@pytest.mark.parametrize("machine", MACHINES)
def test_no_rule_finds_a_user_twice(machine: Any, monkeypatch: Patch) -> None:
    assert searched(machine, monkeypatch, examples=8, steps=20).releases


def test_an_erasure_outlives_a_restore_from_any_backup(tmp_path: Path) -> None:
    """Found by :class:`JointMachine`: erased before the first publication, restored from a copy of before, learned from."""
    service = deployment(tmp_path)
    back_up(service.store, Secrets(SECRET), tmp_path / "copy")
    erase(service.store, Secrets(SECRET), service.rollback_guard, "ann")
    again = Deployment(
        Context(service.mechanism, service.store, Secrets(SECRET), rollback_guard=service.rollback_guard)
    )
    restore.restore(again, tmp_path / "copy", replace=True)
    again.set_up()
    assert not again.admit("ann").learning


@pytest.mark.verify
@pytest.mark.parametrize("machine", [JointMachine, PanPrivateMachine, TwoWorkers])
def test_no_rule_finds_a_user_twice_on_postgresql(machine: Any, postgres: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(machine, "database", postgres)
    search = searched(machine, monkeypatch, examples=25, steps=30)
    print(f"{machine.__name__} on PostgreSQL: {search.examples} examples, {search.releases} releases")


@pytest.mark.verify
@pytest.mark.parametrize("machine", [*MACHINES, TwoWorkers])
def test_no_rule_finds_a_user_twice_in_many_examples(machine: Any, monkeypatch: Patch) -> None:
    examples = 30 if machine is TwoWorkers else 150  # threads that wait for a file's lock
    search = searched(machine, monkeypatch, examples=examples, steps=40)
    print(f"{machine.__name__}: {search.examples} examples, {search.releases} releases")


# -- the fixes, taken out -----------------------------------------------------------------------------------------------


def group_validated_as_one_body(patch: Patch) -> None:
    patch.setattr(groups, "submit_trajectories", submit_as_one_body())


def closing_noise_drawn_by_the_planner(patch: Patch) -> None:
    patch.setattr(Closing, "close_sum", lambda self, tx, number: None)


def device_without_a_budget(patch: Patch) -> None:
    patch.setattr(Budget, "allows", lambda self, user, number: True)
    patch.setattr(Budget, "spend", lambda self, user, number=None: None)


TAKEN_OUT: list[tuple[Callable[[Patch], None], Any, str]] = [
    (group_validated_as_one_body, JointMachine, "is not the sum of its counted users and its noise"),
    (closing_noise_drawn_by_the_planner, PanPrivateMachine, "two looks at round|draws of noise instead of 2"),
    (interrupted_round_drawn_again, AgentMachine, "is released 2 times"),
    (messages_of_before_a_restore_kept, ShuffleMachine, "one user is 2 times in"),
    (batch_left_before_its_users_are_recorded, ShuffleMachine, "one user is 2 times in the batches"),
    (device_without_a_budget, LocalMachine, "2 reports of user"),
    (restore_keeps_unreleased_sums, JointMachine, "is not the sum of its counted users and its noise"),
]


@pytest.mark.verify
@pytest.mark.parametrize(("leak", "machine", "told"), [pytest.param(*one, id=one[0].__name__) for one in TAKEN_OUT])
def test_the_machine_finds_a_leak_again(
    leak: Callable[[Patch], None], machine: Any, told: str, monkeypatch: Patch
) -> None:
    """By what it says: a crash of the machine finds nothing."""
    with monkeypatch.context() as warm:  # compiled programs are no part of the search
        searched(machine, warm, examples=3, steps=10)
    leak(monkeypatch)
    began = time.perf_counter()
    with pytest.raises(AssertionError, match=told):
        searched(machine, monkeypatch, examples=3000, steps=15 if machine in DEVICES else 40)
    assert machine.search.found is not None
    message, examples, seconds = machine.search.found
    assert re.search(told, message), message
    print(f"\n{leak.__name__}: {examples} examples, {seconds:.1f} s ({message}); {time.perf_counter() - began:.1f} s")
