# SPDX-License-Identifier: Apache-2.0
"""Clips, rounding and forms: what holds whatever comes in, and what no message says."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from device_laws import squares_fit
from hypothesis import given, settings
from hypothesis import strategies as st
from make_vectors import example_billboard, example_model, example_trajectory

from reticent_client import InvalidInput
from reticent_client.report import noised_report
from reticent_wire import FORMS, Billboard, Dimensions, Model, Trajectory
from reticent_wire.arrays import fits, to_json
from reticent_wire.boundary import Clipped
from reticent_wire.clipping import clip_interval, clip_norm
from reticent_wire.forms.counts import table_slices
from reticent_wire.forms.regressions import pair_distance
from reticent_wire.grid import (
    LARGEST_SCALE,
    LARGEST_STEPS,
    TAIL,
    quantize,
    require_exact,
    require_fine,
    require_grid,
    round_at,
    whole,
)
from reticent_wire.packing import pack_symmetric, unpack_symmetric
from reticent_wire.promise import epsilon_of, report_epsilon, require_promise
from reticent_wire.trajectory import well_formed

anything = st.floats(allow_nan=True, allow_infinity=True)


# -- clips ------------------------------------------------------------------------------------------------------------


@given(st.lists(anything, min_size=1, max_size=6), st.just(0.0) | st.floats(1e-12, 1e12))
@settings(max_examples=200, deadline=None)
def test_no_vector_is_longer_than_its_bound_in_exact_arithmetic(entries: list[float], bound: float) -> None:
    clipped = clip_norm(np.array(entries), bound)
    assert sum(Fraction(entry) ** 2 for entry in clipped.tolist()) <= Fraction(bound) ** 2


def test_short_vectors_stay_and_long_ones_keep_their_direction() -> None:
    x = np.array([[0.3, 0.4], [30.0, 40.0], [0.0, 0.0]])
    np.testing.assert_allclose(clip_norm(x, 1.0), [[0.3, 0.4], [0.6, 0.8], [0.0, 0.0]], rtol=1e-12)
    np.testing.assert_array_equal(clip_norm(x, np.array([1.0, 50.1, 0.0])), x)
    np.testing.assert_array_equal(clip_norm(-x, 50.1), -x)
    np.testing.assert_allclose(clip_norm([-3, 4], 1.0), [-0.6, 0.8], rtol=1e-12)


@given(anything)
def test_every_number_ends_in_the_interval(value: float) -> None:
    inside = float(clip_interval(value, -0.5, 0.25))
    assert -0.5 <= inside <= 0.25
    assert inside == value or not -0.5 <= value <= 0.25
    single = np.full(2, 0.1, np.float32)
    assert clip_interval(single, np.array(-0.5), np.array(0.25)).dtype == np.float32


def test_packing_is_an_isometry() -> None:
    matrix = np.random.default_rng(0).normal(size=(3, 4, 4))
    matrix = matrix + matrix.swapaxes(-1, -2)
    packed = pack_symmetric(matrix)
    np.testing.assert_allclose((packed**2).sum(axis=-1), (matrix**2).sum(axis=(-1, -2)), rtol=1e-12)
    np.testing.assert_allclose(unpack_symmetric(packed), matrix, rtol=1e-14)
    for wrong in (np.zeros((2, 3)), np.zeros(3)):
        with pytest.raises(InvalidInput, match="matrix"):
            pack_symmetric(wrong)
    with pytest.raises(InvalidInput, match="packed"):
        unpack_symmetric(np.zeros(5))


@pytest.mark.parametrize("dimension", [1, 2, 16, 40])
def test_packing_keeps_all_leading_axes_in_every_dimension(dimension: int) -> None:
    matrix = np.random.default_rng(1).normal(size=(2, 3, dimension, dimension))
    matrix = matrix + matrix.swapaxes(-1, -2)
    packed = pack_symmetric(matrix.tolist())
    assert packed.shape == (2, 3, dimension * (dimension + 1) // 2)
    np.testing.assert_allclose(unpack_symmetric(packed.tolist()), matrix, rtol=1e-14)


# -- the grid ---------------------------------------------------------------------------------------------------------


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.integers(-12, 3), st.floats(0, 1, exclude_max=True))
def test_rounding_moves_neighbours_by_less_than_a_step(one: float, other: float, exponent: int, chance: float) -> None:
    grid = 2.0**exponent
    apart = abs(one - other) / grid
    assert abs(int(quantize(one, grid)) - int(quantize(other, grid))) <= apart + 1
    assert abs(int(round_at(one, grid, chance)) - int(round_at(other, grid, chance))) <= apart + 1 + 1e-9
    assert abs(int(quantize(one, grid)) * grid - one) <= grid / 2


def test_rounding_by_chance_is_down_or_up_and_right_on_average() -> None:
    steps = round_at(np.full(1000, -0.4), 0.5, np.arange(1000) / 1000)
    assert steps.dtype == np.int64
    assert set(steps.tolist()) == {-1, 0}
    assert steps.mean() == pytest.approx(-0.8, abs=1e-3)
    with pytest.raises(InvalidInput, match="clip before rounding"):
        round_at([math.nan], 0.5, [0.0])


def test_steps_are_exact_or_refused() -> None:
    assert whole(np.array([LARGEST_STEPS - 1.0])) == LARGEST_STEPS - 1
    for value in (float(LARGEST_STEPS), -float(LARGEST_STEPS), math.nan, math.inf):
        with pytest.raises(InvalidInput, match="clip before rounding"):
            whole(np.array([0.0, value]))
        with pytest.raises(InvalidInput, match="clip before rounding"):
            quantize(np.array([0.0, value / 4]), 0.25)
    for grid in (0.3, 0.0, -1.0, math.inf, math.nan):
        for refusing in (require_grid, lambda grid: quantize([1.0], grid), lambda grid: round_at([1.0], grid, [0.5])):
            with pytest.raises(InvalidInput, match="power of two"):
                refusing(grid)


def test_a_grid_is_fine_enough_for_its_noise_and_coarse_enough_for_its_sums() -> None:
    require_fine([0.0, 1.0], 2.0**-10)
    with pytest.raises(InvalidInput, match="grid"):
        require_fine([0.0, 0.999], 2.0**-10)
    require_fine([1.0], 2.0**-49)
    with pytest.raises(InvalidInput, match="noise scale"):
        require_fine([1.0, 1.01], 2.0**-49)
    for scale in (math.nan, math.inf, -1.0):
        with pytest.raises(InvalidInput, match="noise scale"):
            require_fine([2.0**20, scale], 1.0)
    with pytest.raises(InvalidInput, match="grid"):
        require_fine([2.0, 0.999], 2.0**-10)
    require_fine([0.0, 0.0], 2.0**-60)
    assert TAIL * LARGEST_SCALE < LARGEST_STEPS
    assert math.erfc(TAIL / math.sqrt(2)) < 1e-37
    require_exact([2.0**52])
    require_exact([])
    with pytest.raises(InvalidInput, match=r"2\^53"):
        require_exact([2.0**52], users=2)


# -- trajectories and forms -------------------------------------------------------------------------------------------


@st.composite
def episodes(draw: Any) -> tuple[list[int], list[int], list[float]]:
    word = st.integers(-(2**63), 2**63 - 1)
    return (
        draw(st.lists(word, min_size=4, max_size=4)),
        draw(st.lists(word, min_size=3, max_size=3)),
        draw(st.lists(anything, min_size=3, max_size=3)),
    )


@pytest.mark.parametrize("form", FORMS)
@given(episode=episodes(), stretch=st.sampled_from([0.0, 1.0, 1e3, math.inf]))
@settings(max_examples=60, deadline=None)
def test_whatever_they_did_and_whatever_was_published_a_contribution_is_within_bounds(
    form: str, episode: Any, stretch: float
) -> None:
    model = example_model(form)
    with np.errstate(invalid="ignore"):  # a service that publishes no numbers
        board = example_billboard(model, stretch=stretch)
    contribution = model.contribution(board, well_formed(model, *episode))
    largest = model.rules.form.largest(model.sizes, model.rules.bounds)
    assert contribution.shape == largest.shape
    assert fits(contribution.shape, model.rules.form.shape(model.sizes))
    assert (np.abs(contribution) <= largest * (1 + 1e-12)).all()
    if form in ("kinds", "kinds-planned", "factors") or form.startswith("score"):
        assert np.linalg.norm(contribution) <= 1


def planted(model: Model, board: Billboard) -> Iterator[tuple[Model, Billboard]]:
    """Each array that a service publishes with one or all of its numbers infinite, none, or as large as numbers are."""
    largest = float(np.finfo(np.float64).max)
    for value, where in itertools.product((math.inf, math.nan, largest, -largest), (0, -1, slice(None))):
        for name, array in board.report.items():
            yield model, dataclasses.replace(board, report={**board.report, name: with_number(array, where, value)})
        for name in ("transition_features", "reward_features"):
            yield dataclasses.replace(model, **{name: with_number(getattr(model, name), where, value)}), board
        if "tables" in model.rules.bounds:
            tables = with_number(model.rules.bounds["tables"], where, value)
            rules = dataclasses.replace(model.rules, bounds={**model.rules.bounds, "tables": tables})
            yield dataclasses.replace(model, rules=rules), board


def with_number(array: Any, where: Any, value: float) -> Any:
    changed = np.array(array, np.float64)
    changed.reshape(-1)[where] = value
    return changed


@pytest.mark.parametrize("form", FORMS)
def test_no_number_of_a_hostile_service_stops_or_warns_those_users_who_meet_it(form: str) -> None:
    """Also in a process where NumPy's warnings are errors. What is refused is refused before anyone's first state."""
    model, met = example_model(form), 0
    seen = [example_trajectory(model, seed) for seed in range(8)]
    for published, board in planted(model, example_billboard(model)):
        try:
            with np.errstate(all="ignore"):  # public, and before the first state
                model.rules.form.require_plan(board)
                model.rules.form.require_version(published, board)
        except InvalidInput:
            continue
        met += 1
        with np.errstate(all="raise"):
            for one in seen:
                assert np.isfinite(published.contribution(board, one)).all()
                published.steps(board, one)
                if model.rules.form.remembers:
                    believe(published, board, one)
            published.steps_of_all(board, seen)
    assert met >= 24


def believe(model: Model, board: Billboard, seen: Trajectory) -> None:
    """Act on a belief about the user who saw this."""
    belief = model.rules.form.belief(model, board)
    for step in range(model.horizon):
        assert 0 <= belief.act(step, int(seen.states[step])) < model.actions
        belief.observe(int(seen.states[step]), int(seen.actions[step]), float(seen.rewards[step]), 0)
        assert len(belief.known)


@pytest.mark.parametrize("form", FORMS)
def test_two_users_are_as_far_apart_as_the_account_says(form: str) -> None:
    """The largest μ among 400 pairs of random users stays below the account's, and comes near it for counts."""
    model = example_model(form)
    board, rules = example_billboard(model, stretch=3.0), model.rules
    scale = np.where(rules.noise_scale > 0, rules.noise_scale, np.inf)
    users = [model.steps(board, example_trajectory(model, seed)) * rules.grid for seed in range(40)]
    strongest = max(math.sqrt((((one - other) / scale) ** 2).sum()) for one in users for other in users[:10])
    allowed = rules.form.strength(model.sizes, rules)
    assert 0 < strongest <= allowed
    assert strongest > (0.8 if form == "counts" else 0.1) * allowed


@pytest.mark.parametrize("form", FORMS)
def test_half_the_noise_tells_users_apart_twice_as_well(form: str) -> None:
    model = example_model(form)
    whole = model.rules.form.strength(model.sizes, model.rules)
    for share in (0.5, 2.0**-8):
        rules = dataclasses.replace(model.rules, noise_scale=share * model.rules.noise_scale)
        assert rules.form.strength(model.sizes, rules) == pytest.approx(whole / share, rel=1e-12)


def one_regression(which: str, gram: float, moment: float, grid: float = 2.0**-30, **given: Any) -> float:
    """μ of rules by which only one regression of the first step tells anything, with noise ``gram`` and ``moment``."""
    model = example_model("regressions")
    bounds = {**model.rules.bounds, "feature_bound": np.zeros(3), "reward_bound": np.zeros(3)}
    for name, value in given.items():
        bounds[name] = value if isinstance(value, bool) else np.array([value, 0.0, 0.0])
    scale = np.zeros_like(model.rules.noise_scale)
    columns = {"transition": (slice(0, 3), slice(3, 5)), "reward": (slice(5, 11), slice(11, 14))}[which]
    for part, size in zip(columns, (gram, moment), strict=True):
        scale[0, part] = size
    rules = dataclasses.replace(model.rules, bounds=bounds, noise_scale=scale, grid=grid)
    return rules.form.strength(model.sizes, rules)


@pytest.mark.parametrize(("which", "numbers"), [("transition", (3, 2)), ("reward", (6, 3))])
def test_regressions_are_charged_for_what_rounding_adds(which: str, numbers: tuple[int, int]) -> None:
    """A step of the grid in every number, each over its own noise."""
    bound = {"transition": "feature_bound", "reward": "reward_bound"}[which]
    exact, coarse = (one_regression(which, 8.0, 2.0, grid, **{bound: 1.0}) for grid in (2.0**-60, 0.25))
    moved = math.sqrt(numbers[0] * (0.25 / 8.0) ** 2 + numbers[1] * (0.25 / 2.0) ** 2)
    assert coarse - exact == pytest.approx(moved, rel=1e-9)


def test_regressions_are_charged_by_the_larger_end_of_an_interval() -> None:
    """Also where a service has exchanged the ends: every number is clipped to the second then."""
    assert clip_interval(0.0, -1.0, -3.0) == -3.0
    for which, bound, low, high in (
        ("transition", "feature_bound", "target_low", "target_high"),
        ("reward", "reward_bound", "reward_low", "reward_high"),
    ):
        for ends in ((-3.0, 1.0), (-1.0, 3.0), (-1.0, -3.0)):
            charged = one_regression(which, 8.0, 2.0, **{bound: 1.0, low: ends[0], high: ends[1]})
            assert charged == pytest.approx(pair_distance(1.0, 3.0, 4.0) / 8.0, rel=1e-6)


def test_signs_help_regressions_only_where_features_and_targets_have_them() -> None:
    for low, signed in ((0.0, True), (0.5, True), (-0.25, False)):
        given: dict[str, Any] = {"reward_bound": 1.0, "reward_low": low, "reward_high": 1.0}
        helped = one_regression("reward", 4.0, 4.0, nonnegative_rewards=True, **given)
        assert helped == pytest.approx(pair_distance(1.0, 1.0, 1.0, nonnegative=signed) / 4.0, rel=1e-6)
        plain = one_regression("reward", 4.0, 4.0, nonnegative_rewards=False, **given)
        assert plain == pytest.approx(pair_distance(1.0, 1.0, 1.0) / 4.0, rel=1e-6)


def test_regressions_without_noise_or_bounds_promise_nothing() -> None:
    assert one_regression("transition", 1.0, 1.0) == 0.0  # clipped to nothing
    for gram, moment, bound in ((0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, math.inf), (1.0, 1.0, math.nan)):
        assert one_regression("transition", gram, moment, feature_bound=bound) == math.inf
    assert one_regression("transition", 1.0, 1.0, feature_bound=1.0, target_high=math.inf) == math.inf


def test_counts_drop_steps_that_do_not_exist() -> None:
    model = example_model("counts")
    outside = Trajectory(np.array([0, 9, 1, 2]), np.array([0, 0, 5]), np.array([1.0, 1.0, 1.0]))
    table = model.contribution(example_billboard(model), outside)
    assert not table.any()
    beyond = Trajectory(np.array([0, 4, 1, -1]), np.array([0, 1, -1]), np.ones(3))  # one more than there are, one less
    assert not model.contribution(example_billboard(model), beyond).any()


def test_counts_clip_rewards_whatever_a_caller_did_before() -> None:
    model = example_model("counts")
    for reward, counted in ((7.0, 1.0), (-3.0, 0.0), (math.nan, 0.0), (0.0, 0.0), (0.0625, 0.0625)):
        seen = Trajectory(np.array([0, 1, 2, 3]), np.array([0, 1, 0]), np.full(3, reward))
        rewards = model.contribution(example_billboard(model), seen)[:, table_slices(4, 2)["rewards"]]
        np.testing.assert_array_equal(rewards.sum(axis=1), np.full(3, counted))


def test_an_episode_of_another_form_is_refused_without_a_word_about_it() -> None:
    model = example_model("counts")
    good = ([0, 1, 2, 3], [0, 1, 0], [0.777, 0.777, 0.777])
    for place, wrong in (
        (0, [777, 777]), (0, [777.5j] * 4), (0, "777"), (0, [[777], [777, 777]]), (1, [777] * 4), (1, ["777"] * 3),
        (2, [0.777]), (2, ["0.777"] * 3), (2, [0.777j] * 3),
    ):  # fmt: skip
        parts: list[Any] = list(good)
        parts[place] = wrong
        with pytest.raises(InvalidInput) as refused:
            well_formed(model, *parts)
        assert "777" not in str(refused.value)
        assert "777" not in repr(refused.value.value)


# -- what is published ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shuffle", [False, True])
def test_models_and_billboards_go_through_json_unchanged(form: str, shuffle: bool) -> None:
    model = example_model(form, sparse=True, shuffle=shuffle)
    board = example_billboard(model, greedy=False)
    read = Model.read(json.loads(json.dumps(model.to_json())))
    again = Billboard.read(json.loads(json.dumps({**board.to_json(), "actions": model.actions})))
    assert read.to_json() == model.to_json()
    assert again.to_json() == board.to_json()
    seen = example_trajectory(model, 4)
    np.testing.assert_array_equal(read.steps(again, seen), model.steps(board, seen))


def test_what_does_not_fit_is_refused_when_it_is_read() -> None:
    content = example_model("regressions").to_json()
    report = content["report"]
    for changed, match in (
        ({**content, "d2": 4}, "reward_features"),
        ({**content, "horizon": 4}, "report"),
        ({**content, "report": {**report, "grid": 0.3}}, "power of two"),
        ({**content, "report": {**report, "form": "scores of 2050"}}, "use a newer client"),
        ({**content, "report": {**report, "noise_scale": report["feature_bound"]}}, "noise_scale"),
    ):
        with pytest.raises(InvalidInput, match=match):
            Model.read(changed)
    model = example_model("regressions")
    for wrong in ({}, {"framed_values": np.zeros((2, 2))}):
        board = dataclasses.replace(example_billboard(model), report=wrong)
        with pytest.raises(InvalidInput, match="framed_values"):
            model.contribution(board, example_trajectory(model, 1))


@pytest.mark.parametrize(
    ("form", "flags"), [("regressions", {}), ("counts", {}), ("score", {}), ("score", {"pooled": False})], ids=str
)
def test_a_billboard_carries_what_its_form_needs_or_is_refused(form: str, flags: dict[str, bool]) -> None:
    model = example_model(form, **flags)
    board = example_billboard(model)
    model.rules.form.require_version(model, board)
    for name, array in board.report.items():
        for wrong in ({}, {name: np.zeros((*np.shape(array), 1))}):
            kept = {other: value for other, value in board.report.items() if other != name}
            with pytest.raises(InvalidInput, match=f"report.{name}"):
                model.rules.form.require_version(model, dataclasses.replace(board, report={**kept, **wrong}))


def test_one_number_is_never_noised_many_times_nor_many_numbers_by_one_draw() -> None:
    """Differences of numbers under one draw are exact, and the mean of one number under many draws is nearly so."""
    model = example_model("score")
    content, report = model.to_json(), model.to_json()["report"]
    short = {**content, "report": {**report, "noise_scale": to_json(np.full((1, 1), 0.5))}}
    with pytest.raises(InvalidInput, match=r"noise_scale .*shape \(1, 1\)"):
        Model.read(short)
    board, seen = example_billboard(model), example_trajectory(model, 1)
    whiten = board.report["whiten"]
    narrow = {"whiten": whiten[:, :1], "whiten_rewards": np.zeros((0, *board.report["whiten_rewards"].shape[1:]))}
    hostile = dataclasses.replace(board, report={**board.report, **narrow})
    with pytest.raises(InvalidInput, match="billboard"):
        noised_report(model, hostile, Clipped(seen))


@pytest.mark.parametrize(
    ("horizon", "pooled", "numbers"),
    [(1, True, 2), (2, True, 1 + 2), (3, True, 1 + 2), (1, False, 2), (2, False, 1 + 4), (3, False, 2 + 6)],
)
def test_a_score_has_transitions_of_all_steps_but_the_last_and_rewards_of_all(
    horizon: int, pooled: bool, numbers: int
) -> None:
    rules = example_model("score", pooled=pooled).rules  # one direction of transitions, two of rewards
    sizes = Dimensions(horizon, 4, 2, 2, 3)
    assert rules.form.largest(sizes, rules.bounds).shape == (1, numbers)


def test_a_share_that_leaves_one_part_without_a_bound_is_refused_when_read() -> None:
    content = example_model("score-start").to_json()
    for share in (0.0, 1.0, 5.0, -0.125, math.nan):
        wrong = {**content, "report": {**content["report"], "start_share": to_json(np.array(share))}}
        with pytest.raises(InvalidInput, match=r"start_share .*in \(0, 1\)"):
            Model.read(wrong)


def test_where_they_began_is_told_beside_the_vector_of_the_score() -> None:
    """The same vector as without it, scaled; and the indicator of their first state."""
    plain, told = (example_model(form) for form in ("score", "score-start"))
    seen = example_trajectory(told, 4)
    both = told.contribution(example_billboard(told, stretch=3.0), seen)
    alone = plain.contribution(example_billboard(plain, stretch=3.0), seen)
    np.testing.assert_allclose(both[:, : alone.shape[1]], math.sqrt(0.875) * alone, rtol=1e-15)
    indicator = np.arange(told.states) == seen.states[0]
    np.testing.assert_allclose(both[0, alone.shape[1] :], math.sqrt(0.125) * indicator, rtol=1e-13)


def test_numbers_of_states_and_actions_that_there_are_not_are_refused_when_read() -> None:
    model = example_model("score")
    listed = np.zeros(model.transition_features.shape[1:], dtype=np.int32)
    listed[0, 0, 0] = model.states
    with pytest.raises(InvalidInput, match="successors"):
        Model.read({**model.to_json(), "successors": to_json(listed)})
    board = example_billboard(model)
    assert board.greedy
    policy = np.array(board.policy)
    policy[0, 0] = model.actions
    with pytest.raises(InvalidInput, match="policy"):
        Billboard.read(dataclasses.replace(board, policy=policy, actions=model.actions).to_json())


# -- noise and promise ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shows", [True, False])
def test_a_report_is_the_contribution_and_noise_of_the_published_scale(form: str, shows: bool) -> None:
    """Of a user who shows nothing, noise alone. Chi-square over 120 reports or more; 0.85 times the noise fails."""
    model = example_model(form)
    board, seen = example_billboard(model), example_trajectory(model, 2) if shows else None
    exact = model.steps(board, seen) if seen is not None else 0
    scale = model.rules.noise_scale / model.rules.grid
    noisy = scale > 0
    reports = max(120, 6000 // int(noisy.sum()))  # as many numbers of one vector as of a table
    shown = None if seen is None else Clipped(seen)
    noise = np.array([noised_report(model, board, shown) - exact for _ in range(reports)])
    assert (noise[:, ~noisy] == 0).all()
    units = noise[:, noisy] / scale[noisy]
    assert squares_fit(float((units**2).sum()), units.size)
    assert not squares_fit(float(((0.85 * units) ** 2).sum()), units.size)
    assert len({report.tobytes() for report in noise}) == reports


@pytest.mark.parametrize("form", FORMS)
def test_rules_that_promise_too_little_are_refused(form: str) -> None:
    model = example_model(form)
    promised = report_epsilon(model, 1e-5)
    require_promise(model, promised, 1e-5)
    for scale in (0.99, 0.5, 0.0):
        rules = dataclasses.replace(model.rules, noise_scale=scale * model.rules.noise_scale)
        with pytest.raises(InvalidInput, match="do not send"):
            require_promise(dataclasses.replace(model, rules=rules), promised, 1e-5)


def delta_by_definition(mu: float, epsilon: float) -> float:
    """E(1 − exp(ε − L))₊ of the loss L = μZ + μ²/2 between unit normals μ apart, by adding up."""
    first = max(epsilon / mu - mu / 2, -12.0)
    z = np.linspace(first, first + 14.0, 200_001)
    kept = -np.expm1(np.minimum(epsilon - mu * z - mu**2 / 2, 0.0))
    return float(np.trapezoid(kept * np.exp(-(z**2) / 2), z)) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.2])
@pytest.mark.parametrize("mu", [0.02, 0.05, 0.5, 3.0, 30.0, 80.0])
def test_a_devices_account_is_that_of_the_definition(mu: float, delta: float) -> None:
    """Of the least ε: at it δ is used up, unless no ε is needed at all. Where a tail underflows, a little less is."""
    epsilon = epsilon_of(mu, delta)
    if delta_by_definition(mu, 0.0) <= delta:
        assert epsilon == 0.0
    else:
        assert (0.9 if mu > 36 else 1 - 1e-4) * delta <= delta_by_definition(mu, epsilon) <= delta * (1 + 1e-4)


def test_nothing_reveals_nothing_and_what_has_no_noise_everything() -> None:
    assert epsilon_of(0.0, 1e-5) == 0.0
    assert epsilon_of(math.inf, 1e-5) == epsilon_of(math.nan, 1e-5) == math.inf
    model = example_model("score")
    bare = dataclasses.replace(model, rules=dataclasses.replace(model.rules, noise_scale=0 * model.rules.noise_scale))
    assert report_epsilon(bare, 1e-5) == math.inf
    with pytest.raises(InvalidInput, match="finite"):
        require_promise(bare, None, 1e-5)


def test_strengths_of_several_reports_add_up_in_squares() -> None:
    model = example_model("score")
    strength = model.rules.form.strength(model.sizes, model.rules)
    assert report_epsilon(model, 1e-5) == pytest.approx(epsilon_of(strength, 1e-5), rel=1e-9)
    assert report_epsilon(model, 1e-5, 9) == pytest.approx(epsilon_of(3 * strength, 1e-5), rel=1e-9)
    alone = report_epsilon(model, 1e-5)
    require_promise(model, alone, 1e-5, 1)
    with pytest.raises(InvalidInput, match="do not send"):
        require_promise(model, alone, 1e-5, 2)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("grid", "match"), [(2.0**-6, "grid"), (2.0**-47, "noise scale|grid")])
def test_a_grid_that_is_too_coarse_or_too_fine_is_refused(form: str, grid: float, match: str) -> None:
    """σ/grid ≥ 2^10, and everything below 2^53 steps: on the device too."""
    model = example_model(form)
    rules = dataclasses.replace(model.rules, grid=grid)
    with pytest.raises(InvalidInput, match=match):
        require_promise(dataclasses.replace(model, rules=rules), None, 1e-5)


def test_a_grid_on_which_sums_are_not_exact_is_refused_however_small_the_noise() -> None:
    """2^54 steps are in a contribution of 1, and only 2^46 in the noise."""
    model = example_model("counts")
    rules = dataclasses.replace(model.rules, grid=2.0**-54, noise_scale=np.full_like(model.rules.noise_scale, 2.0**-8))
    with pytest.raises(InvalidInput, match=r"2\^53"):
        require_promise(dataclasses.replace(model, rules=rules), None, 1e-5)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("form", "flags"),
    [
        ("regressions", {}),
        ("counts", {}),
        *(("score", {"pooled": pooled, "likelihood": stated}) for pooled in (True, False) for stated in (True, False)),
        ("score-start", {"pooled": False}),
        *(("score-residual", {"pooled": pooled}) for pooled in (True, False)),
        ("kinds", {}),
        ("kinds-planned", {}),
    ],
    ids=str,
)
def test_many_contributions_at_once_are_those_of_each(form: str, flags: dict[str, bool], sparse: bool) -> None:
    """To the last bit, for a group of any size, explorers and others in it."""
    model = example_model(form, sparse=sparse, **flags)
    board = example_billboard(model, stretch=3.0)
    users = [example_trajectory(model, seed)._replace(place=seed % 5 or None) for seed in range(40)]
    alone = np.stack([model.rules.form.contribution(model, board, one) for one in users])
    for size in (1, 2, 40):
        np.testing.assert_array_equal(model.rules.form.contributions(model, board, users[:size]), alone[:size])
    np.testing.assert_array_equal(
        model.steps_of_all(board, users), np.stack([model.steps(board, one) for one in users])
    )


def test_many_contributions_of_another_shape_than_their_noise_are_refused() -> None:
    model = example_model("regressions")
    other = dataclasses.replace(model, rules=dataclasses.replace(model.rules, noise_scale=np.ones((1, 1))))
    with pytest.raises(InvalidInput, match="billboard"):
        other.steps_of_all(example_billboard(model), [example_trajectory(model, 0)])


def of_the_parts(model: Model, board: Any, seen: Trajectory) -> np.ndarray:
    """A stay's contribution as the clipped sum of its visits' vectors, each of them formed by the rule of one visit."""
    once = dataclasses.replace(model, rules=dataclasses.replace(model.rules, visits=1))
    report, total = board.report, 0.0
    for number in range(model.visits):
        steps = slice(number * model.horizon, (number + 1) * model.horizon)
        own = Trajectory(
            seen.states.reshape(model.visits, -1)[number], seen.actions[steps], seen.rewards[steps], seen.place
        )
        large = {**report, "radius": 1e6 * report["radius"]}  # so large that no visit is clipped
        total = total + 1e6 * once.rules.form.contribution(once, dataclasses.replace(board, report=large), own)
    return np.asarray(clip_norm(np.ravel(total), 1.0))


@pytest.mark.parametrize("flags", [{}, {"pooled": False}, {"likelihood": True}], ids=str)
@pytest.mark.parametrize("sparse", [False, True])
def test_many_stays_at_once_are_those_of_each_and_of_their_visits(flags: dict[str, bool], sparse: bool) -> None:
    """To the last bit, explorers and others among them; each the clipped sum of its visits."""
    once = example_model("score", sparse=sparse, **flags)
    model = dataclasses.replace(once, rules=dataclasses.replace(once.rules, visits=3))
    form = model.rules.form
    for stretch in (0.1, 3.0):
        board = example_billboard(model, stretch=stretch)
        users = [example_trajectory(model, seed)._replace(place=seed % 5 or None) for seed in range(12)]
        alone = np.stack([form.contribution(model, board, one) for one in users])
        np.testing.assert_array_equal(form.contributions(model, board, users), alone)
        for one, sent in zip(users, alone, strict=True):
            np.testing.assert_allclose(np.ravel(sent), of_the_parts(model, board, one), rtol=1e-6, atol=1e-8)
        assert (np.linalg.norm(alone, axis=-1) <= 1 + 1e-12).all()
