# SPDX-License-Identifier: Apache-2.0
"""Worlds by name: specs, options, defaults."""

from __future__ import annotations

import pytest

from reticent.errors import InvalidInput, MissingExtra, UnknownName
from reticent.worlds import WORLDS, default_episodes, make_world, register_world, tabular, world_rows
from reticent.worlds import registry as worlds_registry
from reticent.worlds.registry import world_sheet


def test_specs_are_read_and_kept_as_the_name():
    world = make_world(" riverswim:states=4, features=blend ")
    assert world.name == "riverswim:states=4,features=blend"
    assert (world.model.states, world.model.d1) == (4, 4)
    assert make_world("riverswim", states=3, features=None).name == "riverswim:states=3"
    assert make_world("riverswim:states=4", states=3).model.states == 4


def test_wrong_names_are_answered_with_the_right_ones():
    with pytest.raises(UnknownName, match=r"unknown world 'riverswin'; did you mean 'riverswim'\?.*mobile-health"):
        make_world("riverswin")
    with pytest.raises(UnknownName, match=r"option of 'riverswim' 'state'; did you mean 'states'\?.*bounds, features"):
        make_world("riverswim:state=6")
    with pytest.raises(UnknownName, match="'depth'"):
        make_world("riverswim", depth=6)
    with pytest.raises(UnknownName, match=r"value of riverswim: features 'sparse' \(known: tabular, blend\)"):
        make_world("riverswim:features=sparse")
    with pytest.raises(InvalidInput, match="riverswim: states is six, but must be of type int"):
        make_world("riverswim:states=six")
    with pytest.raises(InvalidInput, match="key=value"):
        make_world("riverswim:6")
    with pytest.raises(UnknownName, match="unknown world 'river'"):
        default_episodes("river:state=6")
    for name in ("FrozenLake-v1", "Taxi-v4"):
        with pytest.raises(InvalidInput, match=rf"reticent\.from_gymnasium\('{name}', horizon="):
            make_world(name)
        with pytest.raises(InvalidInput, match=rf"reticent\.from_gymnasium\('{name}', horizon="):
            default_episodes(name)


def test_a_list_makes_no_world_that_says_its_sizes(monkeypatch):
    monkeypatch.setattr(WORLDS, "_entries", dict(WORLDS._entries))
    monkeypatch.setattr(worlds_registry, "_LISTED", dict(worlds_registry._LISTED))

    def missing():
        raise MissingExtra("the world far-away", "far-away", "far")

    @register_world("far-away", sizes=(3, 2, 1, 4, 5), requires=missing)
    def far_away():
        """Never made."""
        raise AssertionError("it was made")

    assert {entry.name for entry in WORLDS.entries()} == set(worlds_registry._LISTED)
    rows = {row["name"]: row for row in world_rows(values=False)}
    assert [rows["far-away"][size] for size in ("states", "actions", "horizon", "d1", "d2")] == [3, 2, 1, 4, 5]
    assert rows["far-away"]["needs"] == "pip install 'reticent[far]'"
    assert all(listed.sizes is not None for listed in worlds_registry._LISTED.values())
    assert "optimal_value" not in rows["riverswim"]
    with pytest.raises(AssertionError, match="it was made"):
        make_world("far-away")


def test_all_about_one_world():
    sheet = world_sheet("riverswim:states=3")
    assert (sheet["name"], sheet["horizon"], round(sheet["optimal_value"], 5)) == ("riverswim:states=3", 12, 5.71992)
    assert sheet["names"] == {"states": ["place 1", "place 2", "place 3"], "actions": ["left", "right"]}
    assert world_sheet("random-blend:states=3,actions=2,horizon=2,d=2")["names"] is None
    with pytest.raises(UnknownName, match="unknown world 'river'"):
        world_sheet("river")


@pytest.mark.verify
def test_every_world_is_listed_with_its_numbers():
    rows = {row["name"]: row for row in world_rows()}
    for quick in world_rows(values=False):
        if not quick["needs"]:
            assert quick == {key: rows[quick["name"]][key] for key in quick}, "declared sizes are the world's"
    assert {"mobile-health", "random-blend", "riverswim"} <= set(rows)
    for row in rows.values():
        assert row["summary"]
        if row["needs"]:  # recorded people: their data are not everywhere
            continue
        assert 0 <= row["uniform_value"] < row["optimal_value"] <= row["horizon"]
        assert row["default_episodes"] >= 1
    assert rows["riverswim"]["options"]["features"] == "tabular (tabular | blend)"
    assert rows["random-blend"]["options"]["d1"] == "None (int | None)"
    assert (rows["riverswim"]["d1"], rows["riverswim"]["d2"]) == (72, 12)


def test_a_world_is_registered_with_its_number_of_users(monkeypatch):
    monkeypatch.setattr(WORLDS, "_entries", dict(WORLDS._entries))
    monkeypatch.setattr(worlds_registry, "_LISTED", dict(worlds_registry._LISTED))

    @register_world("point", episodes=10)
    def point(*, reward: float = 1.0):
        """One state, one action."""
        return tabular([[[1.0]]], [[reward]], 1)

    assert make_world("point:reward=0.25").optimal_value == 0.25
    assert default_episodes("point:reward=0.5") == 10
    sizes = {row["name"]: row["states"] for row in world_rows(values=False)}
    assert sizes["point"] == 1, "made, since it does not say"
    with pytest.raises(InvalidInput, match="world name is point, but must be new"):
        register_world("point")(point)


def test_every_registered_world_has_a_number_of_users():
    for row in world_rows(values=False):
        assert default_episodes(row["name"]) == row["default_episodes"] > 0
