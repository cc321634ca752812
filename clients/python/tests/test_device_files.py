# SPDX-License-Identifier: Apache-2.0
"""What a device keeps about its user: processes and threads that share a file lose nothing and bring nothing back."""

from __future__ import annotations

import multiprocessing
import os
import stat
import threading
from pathlib import Path

import pytest

from reticent_client.memory import BeliefMemory
from reticent_client.private_file import PrivateFile
from reticent_client.stays import StayFile
from reticent_wire.errors import InvalidInput

USERS = 12


def keep_and_erase(path: Path, writer: int) -> None:
    """Keeps stays of so many users of its own with a file object of its own, and erases every second one."""
    stays = StayFile(path)
    for user in range(USERS):
        stays.keep(f"{writer}-{user}", {"states": [user]})
        if user % 2:
            stays.erase(f"{writer}-{user}")


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_whoever_shares_a_file_sees_the_erasures_of_all(tmp_path: Path, kind: str) -> None:
    """A stay is erased before its report is formed. One that another writer brought back would be reported twice."""
    path = tmp_path / "kept" / "stays.json"
    spawn = multiprocessing.get_context("spawn")
    begin = threading.Thread if kind == "threads" else spawn.Process
    writers = [begin(target=keep_and_erase, args=(path, writer)) for writer in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    wanted = {f"{writer}-{user}" for writer in range(3) for user in range(0, USERS, 2)}
    assert set(StayFile(path).show()) == wanted


def test_what_was_written_is_safe_before_the_call_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new content reaches the disk before it takes the old one's name, and the name after that."""
    happened = []
    real_sync, real_replace = os.fsync, os.replace

    def sync(number: int) -> None:
        happened.append("folder" if stat.S_ISDIR(os.fstat(number).st_mode) else os.fstat(number).st_size)
        real_sync(number)

    def replace(new: str, old: str) -> None:
        happened.append("renamed")
        real_replace(new, old)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    file = PrivateFile(tmp_path / "file.json", "file")
    file.write({"a": 1})
    assert happened == [len('{"a": 1}'), "renamed", "folder"]
    assert file.read() == {"a": 1}
    assert stat.S_IMODE((tmp_path / "file.json").stat().st_mode) == 0o600


def test_a_folder_that_is_made_for_it_is_its_owners_alone(tmp_path: Path) -> None:
    BeliefMemory(tmp_path / "new" / "belief.json").erase()
    BeliefMemory(tmp_path / "another" / "below" / "belief.json").erase()  # with the folders above it
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_a_place_that_takes_no_file_is_named_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"stays is .*file/stays.json .*name a file that this user can write"):
        StayFile(tmp_path / "file" / "stays.json").erase()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"user": 3}'])
def test_a_damaged_file_is_named_with_a_remedy(tmp_path: Path, content: str) -> None:
    path = tmp_path / "stays.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=r"stays\.json as it was written; delete it"):
        StayFile(path).recall("user")
