# SPDX-License-Identifier: Apache-2.0
"""History in the state: contexts, what is known of rare ones, how many observations held-out users want."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import InvalidInput
from reticent.replay.logs import replayable
from reticent.worlds import load_model
from reticent.worlds.records import Columns, fit, read_log
from reticent.worlds.records.coded import UNKNOWN
from reticent.worlds.records.remembering import next_states, remember, states_of, tree_of
from reticent.worlds.records.statistics import Pooling, outcomes_of, pooled, statistics_of

PLACES = ("a", "b", "c")


def wanderers(users=1_500, *, order=2, seed=0, steps=6):
    """Users whose next place depends on the last ``order`` places; a guess of it pays 1."""
    random = np.random.default_rng(seed)
    law = np.random.default_rng(5).dirichlet(np.full(3, 0.3), size=(3,) * order)
    place = [random.integers(3, size=users) for _ in range(order)]
    for _ in range(steps + 1):
        chances = law[tuple(place[-order:])].cumsum(axis=1)
        place.append(np.minimum((random.random(users)[:, None] > chances).sum(axis=1), 2))
    seen = np.stack(place[order:], axis=1)
    guess = random.integers(3, size=(users, steps))
    return pl.DataFrame(
        {
            "user": np.repeat(np.arange(users), steps),
            "step": np.tile(np.arange(steps), users),
            "state": np.array(PLACES)[seen[:, :-1].ravel()],
            "action": np.array(PLACES)[guess.ravel()],
            "reward": (guess == seen[:, 1:]).astype(float).ravel(),
            "next": np.array(PLACES)[seen[:, 1:].ravel()],
        }
    )


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=2, max_size=8),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([(), ("y",)]),
)
def test_every_state_is_what_a_device_makes_of_the_observations(sessions, depth, rare, columns):
    """The log's vectorised states, those after each row, and the device's ``History.state``: one and the same."""
    frame = pl.DataFrame(
        [
            {"user": user, "step": step, "x": "lh"[seen // 3], "y": "abc"[seen % 3], "action": "go", "reward": 0.0}
            for user, session in enumerate(sessions)
            for step, seen in enumerate(session)
        ]
    )
    plain = read_log(
        frame,
        columns=Columns(state=("x", "y")),
        categories={"x": ("l", "h"), "y": PLACES},
        leaves_before=7,
    )
    log = remember(plain, depth, rare=rare, columns=columns)
    history = log.coding.history
    assert (history.states, len(log.coding.state_names)) == (log.coding.states - 1, log.coding.states)
    assert len(set(log.coding.state_names)) == log.coding.states
    place = 0
    for session in sessions:
        for step in range(len(session)):
            assert log.state[place] == history.state(session[: step + 1])
            after = log.coding.states - 1 if step + 1 == len(session) else history.state(session[: step + 2])
            assert log.following[place] == after
            place += 1
    # The state after a state is a function of it and of what is observed next.
    moved = plain.following != UNKNOWN
    np.testing.assert_array_equal(
        next_states(log.coding, log.state[moved], plain.following[moved]), log.following[moved]
    )
    np.testing.assert_array_equal(states_of(history, plain.state, plain.step), log.state)


def test_what_is_known_of_a_context_begins_with_its_end():
    """Rows sum to one; with overwhelming pseudo-counts a context has its end's row, with none its own counts."""
    log = remember(read_log(wanderers(300)), 2)
    outcomes = outcomes_of(log)
    totals = statistics_of(log, outcomes).totals
    for history in (1e-9, 10.0, 1e12):
        prior = pooled(totals, outcomes, Pooling(1.0, 1.0, history))
        sums = np.bincount(outcomes.row, weights=prior)
        np.testing.assert_allclose(sums[np.unique(outcomes.row)], 1)
        above = outcomes.up >= 0
        if history == 1e12:
            np.testing.assert_allclose(prior[above], prior[outcomes.up[above]], rtol=1e-6)
        if history == 1e-9:
            rows = np.bincount(outcomes.row, weights=totals)
            met = above & (rows[outcomes.row] > 0)
            np.testing.assert_allclose(prior[met], (totals / np.maximum(rows[outcomes.row], 1))[met], atol=1e-6)
    # The end's row counts all contexts that end with it.
    tree = tree_of(log.coding)
    assert (tree.parent[tree.length == 2] >= 0).all()
    assert (tree.parent[tree.length == 1] == -1).all()


@pytest.mark.parametrize("order", [1, 2])
def test_held_out_users_want_as_much_history_as_there_is(order, tmp_path):
    fitted = fit(wanderers(order=order), horizon=6, origin="simulated", candidates=1, history="auto")
    report = fitted.report
    assert report.depth == order
    assert [one.depth for one in report.depths] == [1, 2, 3]
    said = "history matters: the last 2 observations are the state" if order == 2 else "history does not matter"
    assert said in str(report)
    assert not report.doubt  # rewards of pairs are told apart from one mean, with a history too
    if order == 2:
        gained = report.depths[1]
        assert gained.gain > 4 * gained.gain_error > 0  # the plan earns more, too
    loaded = load_model(fitted.save(tmp_path / "model.npz", anyway=True))
    assert loaded.coding == fitted.coding
    assert loaded.model.about.names.history == fitted.coding.history


def test_the_plan_with_history_earns_what_the_truth_allows():
    """Recorded users for whom every guess's reward is known: the plan with two observations is much better."""
    frame = wanderers(4_000, seed=1).with_columns(
        (pl.col("next") == place).cast(pl.Float64).alias(f"paid_{place}") for place in PLACES
    )
    values = {}
    for history in (1, 2):
        fitted = fit(wanderers(), horizon=6, origin="simulated", candidates=1, history=history)
        log = read_log(frame, columns=Columns(rewards_of="paid_"), coding=fitted.coding)
        users = replayable(log, 6, states_unaffected=True)
        values[history] = users.value(fitted.kernel.plan(6)[0]).value
    assert values[2] > 1.15 * values[1]


def test_a_context_that_was_never_met_does_what_its_end_does():
    fitted = fit(wanderers(300), horizon=6, origin="simulated", candidates=1, history=3, history_rare=40)
    kernel = fitted.kernel
    sums = np.bincount(kernel.pair, weights=kernel.chances[:, 0])
    np.testing.assert_allclose(sums, 1)
    otherwise = fitted.names.states.index("a (otherwise)")
    assert kernel.rewards[otherwise * 3 : otherwise * 3 + 3].max() > 0
    assert kernel.following[kernel.pair == otherwise * 3].tolist() != [otherwise]


def test_users_are_weighted_to_the_declared_entries():
    """A pilot that enters by ``a`` nine times in ten, and behaves otherwise; the model has the declared entries."""
    frame = wanderers(2_000)
    first = frame.filter(pl.col("step") == 0)
    kept = first.filter((pl.col("state") == "a") | (pl.col("user") % 10 == 0))["user"]
    pilot = frame.filter(pl.col("user").is_in(kept.to_list()))
    options = {"horizon": 6, "origin": "simulated", "candidates": 1}
    plain, declared = (fit(pilot, entries=entries, **options) for entries in (None, {"a": 0.2}))
    assert float(np.asarray(plain.model.initial)[0]) > 0.8
    np.testing.assert_allclose(np.asarray(declared.model.initial)[0], 0.2)
    assert "users were weighted to the declared entries" in str(declared.report)
    none = fit(pilot, entries={"a": 0.0}, history=2, **options)
    start = dict(zip(none.names.states, np.asarray(none.model.initial), strict=True))
    assert start["a (first)"] == 0
    assert sum(start.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": 0}, "history is 0, but must be from 1"),
        ({"history": 9}, "history is 9"),
        ({"history": "two"}, "a number of observations, or auto"),
        ({"history": "auto", "holdout": 0.0}, "a number where no user is held out"),
        ({"history": 2, "history_rare": 0}, "history_rare is 0"),
        ({"history": 2, "remember": ("mood",)}, "remember is mood, but must be the last of the state columns state"),
        ({"entries": {"z": 0.5}}, "entries is z, but must be one of a, b, c"),
        ({"entries": {"a": 1.5}}, "entries: a is 1.5, but must be a share"),
        ({"entries": {"a": 0.5, "b": 0.7}}, "shares that sum to 1.2"),
        ({"entries": {"a": 0.2, "b": 0.1, "c": 0.1}}, "shares that sum to 0.4"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        fit(wanderers(50), horizon=6, origin="simulated", **{"candidates": 1, **options})


def test_a_log_with_a_history_is_given_no_other():
    log = remember(read_log(wanderers(50)), 2)
    with pytest.raises(InvalidInput, match="1 for a log that has one"):
        fit(log, horizon=6, origin="simulated", candidates=1, history=2)
    again = dataclasses.replace(log)
    assert fit(again, horizon=6, origin="simulated", candidates=1).report.depth == 2
