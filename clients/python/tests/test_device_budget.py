# SPDX-License-Identifier: Apache-2.0
"""The device's own budget by itself: what may be spent, when it is on the disk, and what its file gives away."""

from __future__ import annotations

import concurrent.futures
import json
import os
from pathlib import Path
from typing import Any

import pytest

from reticent_client import Budget, InvalidInput
from reticent_client import budget as budget_module

fcntl = pytest.importorskip("fcntl")


def test_it_is_spent_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    budget = Budget(path, reports=2)

    def spend(_: int) -> bool:
        try:
            Budget(path, reports=2).spend("ann")
        except InvalidInput:
            return False
        return True

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spend, range(16))) == 2
    assert (budget.left("ann"), budget.left("bob"), Budget(path, reports=2, scope="x").left("ann")) == (0, 2, 2)
    assert "ann" not in path.read_text()
    path.write_text("{")
    with pytest.raises(InvalidInput, match="it is unknown what was spent"):
        budget.spend("bob")
    with pytest.raises(InvalidInput, match="at least 0"):
        Budget(path, reports=-1)


def test_what_is_allowed_is_what_can_be_spent(tmp_path: Path) -> None:
    """Once by default; else by the pattern of rounds, and a round that is not named counts among all alone."""
    once = Budget(tmp_path / "once.json")
    assert once.allows("ann", 5)
    once.spend("ann")
    assert not once.allows("ann", 9)
    assert (once.left("ann"), once.left("bob")) == (0, 1)
    with pytest.raises(InvalidInput, match=r"reports of this user is 2, .*at most 1"):
        once.spend("ann")
    pattern = Budget(tmp_path / "pattern.json", reports=4, per_round=2, gap=3)
    for number in (1, 1, 4):
        assert pattern.allows("ann", number)
        pattern.spend("ann", number)
    for near in (1, 2, 3, 5, 6):
        assert not pattern.allows("ann", near)
        with pytest.raises(InvalidInput, match="round of this report"):
            pattern.spend("ann", near)
    assert pattern.left("ann") == 1
    assert pattern.allows("ann", 7)
    assert Budget(tmp_path / "pattern.json", reports=4).allows("ann", 2)  # any number in a round, rounds side by side
    pattern.spend("ann")
    assert not pattern.allows("ann", 100)
    Budget(tmp_path / "none.json", reports=0, per_round=1)
    for wrong in ({"per_round": 0}, {"gap": 0}):
        with pytest.raises(InvalidInput, match="at least 1"):
            Budget(tmp_path / "none.json", **wrong)


def test_the_charge_is_on_the_disk_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new file is whole and safe before it takes the old one's place, and its name is safe before ``spend`` returns."""
    path = tmp_path / "budget.json"
    done: list[Any] = []
    sync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        sync(handle)
        done.append(Path(f"/proc/self/fd/{handle}").resolve() if os.fstat(handle).st_size else "nothing yet")

    def replaced(new: Path, old: Path) -> None:
        done.append("whole" if json.loads(Path(new).read_text())["spent"] else "empty")
        replace(new, old)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    opened = len(os.listdir("/proc/self/fd"))
    Budget(path).spend("ann")
    assert done == [tmp_path / "budget.json.new", "whole", tmp_path]
    assert len(os.listdir("/proc/self/fd")) == opened


def test_two_files_cannot_be_matched_and_an_older_one_is_read(tmp_path: Path) -> None:
    for name in ("one", "two"):
        Budget(tmp_path / name).spend("ann")
    assert (tmp_path / "one").read_text() != (tmp_path / "two").read_text()
    content = json.loads((tmp_path / "one").read_text())
    del content["rounds"]
    (tmp_path / "one").write_text(json.dumps(content))
    assert not Budget(tmp_path / "one").allows("ann", 1)


def test_processes_that_share_the_file_wait_for_each_other(tmp_path: Path) -> None:
    """Another process is within: to lock the file is refused to whoever does not wait."""
    budget = Budget(tmp_path / "budget.json")
    with budget._storage.alone(), (tmp_path / "budget.json.lock").open("a") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_default_is_one_report_in_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_module, "default_path", lambda: tmp_path / "budget.json")
    Budget.default(scope="study").spend("ann")
    assert Budget.default(scope="study").left("ann") == 0
    assert Budget.default(scope="another").left("ann") == 1


def test_rounds_next_to_each_other_are_apart_enough_by_default(tmp_path: Path) -> None:
    for budget in (Budget.in_memory(reports=2), Budget(tmp_path / "budget.json", reports=2)):
        budget.spend("ann", 4)
        assert budget.allows("ann", 5)
        assert budget.allows("ann", 4)


def test_a_file_that_cannot_be_read_is_found_before_a_user_is_named(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    Budget(path).require_usable()
    path.write_text("{")
    with pytest.raises(InvalidInput, match="budget"):
        Budget(path).require_usable()
