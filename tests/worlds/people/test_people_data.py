# SPDX-License-Identifier: Apache-2.0
"""Finding published files: what to do where they are missing, and a warning where they are others."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from reticent.errors import InvalidInput
from reticent.worlds import make_world
from reticent.worlds.people import MissingData, OtherData, hillstrom, jester, msnbc
from reticent.worlds.people.data import find
from reticent.worlds.people.recorded import RandomisedRecords, RecordedUsers
from reticent.worlds.registry import world_numbers

NAMES = ("msnbc", "jester", "hillstrom", "heartsteps")


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_named_with_where_to_get_it(name, monkeypatch, tmp_path):
    monkeypatch.delenv("RETICENT_DATA", raising=False)
    with pytest.raises(
        MissingData, match=r"nowhere, as RETICENT_DATA is not set; get .* from .* and set RETICENT_DATA"
    ):
        make_world(name)
    assert world_numbers(name)["needs"].startswith("get ")
    monkeypatch.setenv("RETICENT_DATA", str(tmp_path))
    with pytest.raises(MissingData, match=f"is not in {tmp_path}"):
        make_world(name)


def test_another_file_is_used_with_a_warning(tmp_path):
    (tmp_path / "hillstrom.csv.gz").write_bytes(b"something else")
    with pytest.warns(OtherData, match="hillstrom.csv.gz has the checksum"):
        assert find(hillstrom.PUBLISHED, tmp_path) == tmp_path / "hillstrom.csv.gz"


@pytest.mark.filterwarnings("ignore::reticent.worlds.people.OtherData")
def test_an_archive_of_something_else_is_refused(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "msnbc990928.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(InvalidInput, match=r"without a \.seq file"):
        msnbc.load_sessions(tmp_path)
    with zipfile.ZipFile(tmp_path / "msnbc990928.zip", "w") as archive:
        archive.writestr("msnbc990928.seq", "1 2 3\n" * 20)
    with pytest.raises(InvalidInput, match="with another header"):
        msnbc.load_sessions(tmp_path)


def test_the_original_spreadsheet_of_jester_is_read(tmp_path):
    table = np.full((3, 101), 99.0)
    table[:, 0], table[0, 1], table[2, 100] = (1, 0, 1), -7.5, 10.0
    pl.DataFrame(table).write_csv(tmp_path / jester.SPREADSHEET, include_header=False)
    ratings = jester.load_ratings(tmp_path)
    assert ratings.shape == (3, 100)
    assert ratings[0, 0] == -7.5
    assert ratings[2, 99] == 10
    assert np.isnan(ratings).sum() == 298
    pl.DataFrame(table[:, :50]).write_csv(tmp_path / jester.SPREADSHEET, include_header=False)
    with pytest.raises(InvalidInput, match=r"columns of jester-data-1\.csv is 50"):
        jester.load_ratings(tmp_path)


def test_weighting_is_unbiased():
    """Two actions with unequal chances, a reward that depends on both steps: the estimate is the truth on average."""
    random = np.random.default_rng(0)
    users = 200_000
    actions = (random.random((users, 2)) < 0.25).astype(int)
    states = np.concatenate([np.zeros((users, 1), int), actions[:, :1]], axis=1)
    rewards = np.stack([actions[:, 0] * 0.5, (actions.sum(axis=1) == 2) * 1.0], axis=1)
    chances = np.where(actions == 1, 0.25, 0.75)
    records = RandomisedRecords(states, actions, rewards, chances, np.ones((users, 2), bool))
    always = records.value(np.ones((2, 2), int))
    assert always.value == pytest.approx(1.5, abs=4 * always.error)
    even = records.value(np.full((2, 2, 2), 0.5))
    assert even.value == pytest.approx(0.5, abs=4 * even.error)
    nowhere = RandomisedRecords(states, actions, rewards, chances, np.zeros((users, 2), bool))
    assert nowhere.value(np.ones((2, 2), int)).value == pytest.approx(rewards.sum(axis=1).mean())


def test_own_models_are_what_the_users_do():
    """Users who always go to the state of their number: the counted model says so, and its plan is replayed."""

    def respond(answers, step, state, action):
        return action, 1.0 * (action == answers["likes"])

    users = RecordedUsers(
        {"likes": np.array([1, 1, 0])}, lambda answers: answers["likes"] * 0, respond, 2, 2, 3, "made up"
    )
    own = users.own_model(passes=200, seed=0)
    assert own.kernel.rewards[:, 0].tolist() == pytest.approx([1 / 3, 2 / 3] * 2, abs=0.1)
    assert users.value(own.kernel.plan(3)[0]).value == pytest.approx(2.0)
    assert users.subset(np.array([2])).returns(own.kernel.plan(3)[0]).tolist() == [0]
