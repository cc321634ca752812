# SPDX-License-Identifier: Apache-2.0
"""From a log to a model: the number of candidates is found, the report says what it rests on, bad options are refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest
from made_up_logs import kinds_of_people, recorded, small_table

from reticent.agents.registry import make_agent
from reticent.errors import InvalidInput
from reticent.worlds import world_from_parameters
from reticent.worlds.kinds import kinds_world
from reticent.worlds.models.model_file import load_model
from reticent.worlds.models.provenance import Provenance
from reticent.worlds.records import Columns, Stopped, fit
from reticent.worlds.records.disjoint import require_disjoint


@pytest.fixture(scope="module")
def fitted():
    return fit(recorded(3000, [0.5, 0.3, 0.2], steps=10), origin="simulated", horizon=6, candidates=(2, 5), starts=6)


def test_the_number_of_kinds_is_found(fitted):
    assert fitted.report.candidates == fitted.model.d1 == fitted.model.d2 == 3
    assert [choice.candidates for choice in fitted.report.choices] == [1, 2, 3, 4, 5]
    assert fitted.report.choices[2].behind <= fitted.report.choices[2].error
    np.testing.assert_allclose(fitted.shares, [0.5, 0.3, 0.2], atol=0.05)
    assert fitted.report.warnings() == ()


def test_the_model_is_a_linear_mixture_that_a_world_can_be_made_of(fitted):
    model = fitted.model
    assert (model.states, model.actions, model.horizon) == (5, 2, 6)
    assert model.sums_to_one
    assert model.stationary
    length = np.linalg.norm(fitted.kernel.rewards, axis=1).max()
    world = world_from_parameters(model, fitted.shares, length * fitted.shares)
    own = fitted.kernel.blended(fitted.shares)
    assert world.optimal_value == pytest.approx(float(np.asarray(model.initial) @ own.plan(6)[1]))
    assert world.optimal_value > world.uniform_value


def test_the_report_reads_well(fitted):
    text = str(fitted.report)
    assert "3,000 users, 30,000 rows" in text
    assert "← used" in text
    assert "misspecification ζ" in text
    assert "0 users have fewer than 6, 3,000 have more" in text
    page = fitted.report.to_html()
    assert page.startswith("<section")
    assert "ζ" in page


def test_a_saved_fit_comes_back_with_names_coding_and_origin(fitted, tmp_path):
    loaded = load_model(fitted.save(tmp_path / "deep" / "model.npz"))
    np.testing.assert_array_equal(loaded.model.transition_features, fitted.model.transition_features)
    np.testing.assert_array_equal(loaded.shares, fitted.shares)
    assert loaded.names == fitted.names
    assert loaded.coding == fitted.coding
    assert loaded.provenance == Provenance("simulated", "the table")
    assert loaded.report["misfit"]["transition"]["estimate"] == fitted.report.misfit.transition.estimate


def test_groups_are_blends():
    groups = np.array([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.5, 0.0, 0.5]])
    table = recorded(3000, [1, 0, 0], groups=groups)
    fitted = fit(table, origin="simulated", horizon=6, candidates=(2, 4), columns=Columns(group="clinic"))
    assert fitted.report.groups == 4
    assert fitted.group_weights.shape == (4, 3)
    assert fitted.report.misfit.transition.estimate < 0.05


def table_without_a_pair() -> pl.DataFrame:
    """In which nobody tried a1 in s0."""
    table = recorded(400, [0.5, 0.3, 0.2], steps=5).filter(~((pl.col("state") == "s0") & (pl.col("action") == "a1")))
    return table.drop("next").sort("user", "step").with_columns(step=pl.int_range(pl.len()).over("user"))


def test_pairs_that_nobody_tried_are_named_and_guessed_from_their_state():
    fitted = fit(table_without_a_pair(), origin="simulated", horizon=3, candidates=2, starts=2)
    assert fitted.report.untried == ("s0 → a1",)
    assert "1 pairs were never tried (10%" in fitted.report.warnings()[0]
    same = fitted.kernel.pair == 0
    other = fitted.kernel.pair == 1
    np.testing.assert_allclose(fitted.kernel.chances[same], fitted.kernel.chances[other])


def test_states_of_no_record_do_nothing():
    table = recorded(200, [0.5, 0.3, 0.2])
    fitted = fit(
        table, origin="simulated", horizon=3, candidates=2, starts=2, categories={"state": [f"s{n}" for n in range(6)]}
    )
    assert "1 of 6 states were never met" in " ".join(fitted.report.warnings())
    rows = np.asarray(world_from_parameters(fitted.model, [0.5, 0.5], [fitted.model.reward_total, 0]).transitions[0, 5])
    np.testing.assert_allclose(rows[:, 5], 1)


def test_one_decision_needs_no_transitions():
    table = pl.DataFrame(
        {
            "user": np.arange(600),
            "step": 0,
            "state": ["a", "b", "c"] * 200,
            "action": ["x", "y"] * 300,
            "reward": [0.0, 1.0, 1.0] * 200,
        }
    )
    fitted = fit(table, origin="simulated", horizon=1, candidates=2, starts=2)
    assert fitted.report.transitions == 0
    assert fitted.kernel.blended(fitted.shares).plan(1)[1].tolist() == pytest.approx([0, 1, 1], abs=0.1)
    with pytest.raises(InvalidInput, match="transitions of the table is 0"):
        fit(table, origin="simulated", horizon=2, candidates=2)


def test_few_successors_make_a_sparse_model():
    random = np.random.default_rng(0)
    users, steps, states = 300, 6, 40
    state = np.zeros((users, steps), int)
    for step in range(1, steps):
        state[:, step] = (state[:, step - 1] + random.integers(1, 4, size=users)) % states
    table = pl.DataFrame(
        {
            "user": np.repeat(np.arange(users), steps),
            "step": np.tile(np.arange(steps), users),
            "state": state.ravel(),
            "action": random.integers(2, size=users * steps),
            "reward": 0.5,
        }
    )
    model = fit(table, origin="simulated", horizon=6, candidates=2, starts=2).model
    assert model.successors is not None
    assert model.transition_features.shape[-1] <= 3


def test_known_rewards_are_one_table():
    fitted = fit(
        recorded(400, [0.5, 0.3, 0.2]), origin="simulated", horizon=3, candidates=3, starts=2, shared_rewards=True
    )
    assert fitted.model.d2 == 1
    assert fitted.model.d1 == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": 0}, "horizon is 0"),
        ({"candidates": 0}, "candidates is 0"),
        ({"candidates": (4, 2)}, r"candidates is \(4, 2\)"),
        ({"smoothing": 0.0}, "smoothing is 0"),
        ({"starts": 0}, "starts is 0"),
        ({"holdout": 1.0}, "holdout is 1"),
        ({"holdout": 0.0, "candidates": (2, 3)}, "holdout is 0.0, but must be positive where"),
        ({"seed": -1}, "seed is -1"),
        ({"candidates": 3}, "candidates is 3, but must be at most 2, the training users"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        fit(small_table(), **{"origin": "simulated", "horizon": 2, "candidates": 2, **options})


def test_nobody_held_out_nothing_measured():
    report = fit(small_table(), origin="simulated", horizon=2, candidates=2, starts=1, holdout=0).report
    assert report.misfit is None
    assert report.choices == ()


def test_it_says_how_far_it_is_and_stops_when_asked():
    told = []
    table = recorded(60, [0.5, 0.3, 0.2])
    fit(table, origin="simulated", horizon=3, candidates=(2, 3), starts=2, progress=lambda *at: told.append(at))
    assert [at[0] for at in told] == list(range(1, told[0][1] + 1))
    with pytest.raises(Stopped, match="nothing was written"):
        fit(table, origin="simulated", horizon=3, candidates=(2, 3), should_stop=lambda: True)


def test_what_nobody_tried_can_be_declared_impossible():
    table = table_without_a_pair()
    options = {"horizon": 3, "candidates": 2, "starts": 2}
    free, bound = fit(table, origin="simulated", **options), fit(table, origin="simulated", untried="a0", **options)
    np.testing.assert_array_equal(bound.model.transition_features[:, 0, 1], free.model.transition_features[:, 0, 0])
    np.testing.assert_array_equal(bound.model.reward_features[:, 0, 1], free.model.reward_features[:, 0, 0])
    np.testing.assert_array_equal(bound.model.transition_features[:, 1:], free.model.transition_features[:, 1:])
    assert bound.names == free.names
    with pytest.raises(InvalidInput, match="one of a0, a1"):
        fit(table, origin="simulated", untried="a2", **options)


def test_where_records_come_from_has_no_default():
    with pytest.raises(TypeError, match="origin"):
        fit(small_table(), horizon=2, candidates=2)
    with pytest.raises(InvalidInput, match="protected users' own data"):
        fit(small_table(), origin="stolen", horizon=2, candidates=2)
    told = Provenance("released", "a synthesizer", 0.5, 1e-6)
    made = fit(small_table(), origin=told, horizon=2, candidates=2, starts=1, holdout=0)
    assert made.provenance == made.model.about.provenance == dataclasses.replace(told, doubt=made.report.doubt)


def test_somebody_in_the_pilot_and_among_the_protected_is_refused(tmp_path):
    options = {"origin": "public", "horizon": 2, "candidates": 2, "starts": 1, "holdout": 0}
    others = small_table().with_columns(pl.col("user") + "-of-the-trial")
    fit(small_table(), protected=others, **options)
    one = pl.concat([others, small_table().filter(pl.col("user") == "bob")])
    path = tmp_path / "trial.csv"
    one.write_csv(path)
    for protected in (one, path):
        with pytest.raises(InvalidInput, match="users is in both logs") as refused:
            fit(small_table(), protected=protected, **options)
        assert "bob" not in str(refused.value)
    with pytest.raises(InvalidInput, match="columns of the protected log"):
        fit(small_table(), protected=pl.DataFrame({"who": ["ann"]}), **options)


@pytest.mark.parametrize(
    "names",
    [["8", "9"], [8.0, None], ["008"], [" 8 "], ["8.0"], [8.0e0, 2.0**60]],
    ids=["text", "an-empty-cell", "zeros", "spaces", "text-of-a-fraction", "exponents"],
)
def test_one_person_whose_name_two_tables_write_in_two_ways_is_in_both(names, tmp_path):
    """A column of whole numbers is one of fractions as soon as a cell is empty: 8.0 in one table, 8 in the other."""
    pilot, protected = pl.DataFrame({"user": [7, 8]}), pl.DataFrame({"user": names})
    for one, other in ((pilot, protected), (protected, pilot)):
        with pytest.raises(InvalidInput, match="in both logs"):
            require_disjoint(one, other, "user")


def test_an_empty_name_in_two_tables_is_no_person_and_different_names_stay_apart():
    require_disjoint(pl.DataFrame({"user": ["7", None]}), pl.DataFrame({"user": ["8", None]}), "user")
    require_disjoint(
        pl.DataFrame({"user": ["7.5", "7a"]}), pl.DataFrame({"user": ["7", "a7", "NaN", "1e999999"]}), "user"
    )


def test_kinds_are_served_by_an_agent_that_believes():
    """Kinds of a pilot as ``private-kinds`` uses them: near the truth, and worth more than one plan for all."""
    shares = np.array([0.5, 0.3, 0.2])
    fitted = fit(recorded(3_000, shares), horizon=6, origin="simulated", kinds=3)
    np.testing.assert_allclose(fitted.shares, shares, atol=0.05)
    transitions, _ = kinds_of_people()
    found = np.zeros((3, 5, 2, 5))
    kernel = fitted.kernel
    found[:, kernel.pair // 2, kernel.pair % 2, kernel.following] = kernel.chances.T
    assert np.abs(found - transitions).sum(axis=-1).mean() / 2 < 0.1
    world = kinds_world(fitted.model, fitted.shares)
    blend, known = fitted.report.room
    np.testing.assert_allclose(known, world.optimal_value, rtol=1e-6)
    np.testing.assert_allclose(blend, float(world.policy_value(world.blend_plan())), rtol=1e-6)
    assert "kinds: within the model one plan for all earns" in str(fitted.report)
    assert make_agent("private-kinds:epsilon=1", fitted.model, 1_000).promise.epsilon == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": 1}, "kinds is 1, but must be at least 2"),
        ({"kinds": 2, "columns": Columns(group="clinic")}, "kinds is with a column of groups"),
        ({"kinds": 2, "shared_rewards": True}, "kinds is with shared rewards"),
    ],
)
def test_what_are_no_kinds_is_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        fit(recorded(50, [0.5, 0.3, 0.2]), horizon=6, origin="simulated", **options)
