# SPDX-License-Identifier: Apache-2.0
"""Write ``wire/vectors/*.json``: inputs and outputs of all that server and device share, for clients in any language.

    python clients/python/make_vectors.py

Every file is ``{"about": …, "cases": […]}`` and stands for itself: models, rules and billboards are as a service publishes
them. Integers must come out exactly, floating-point numbers up to a relative 1e-12 (sums may be added up in another order).
Numbers that JSON has none for are the strings ``NaN``, ``Infinity`` and ``-Infinity``; integers beyond 2⁵³ are strings too.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from reticent_client.budget import Budget
from reticent_client.discrete_gaussian import DiscreteGaussian
from reticent_wire import Billboard, Dimensions, Model, Rules, ShuffleRules, Trajectory
from reticent_wire.arrays import to_json
from reticent_wire.clipping import clip_interval, clip_norm
from reticent_wire.forms import form_named
from reticent_wire.grid import quantize, round_at
from reticent_wire.history import START, History
from reticent_wire.promise import epsilon_of, report_epsilon
from reticent_wire.shuffling import Tally, tally_of
from reticent_wire.trajectory import index_within, reward_within, well_formed

PLACE = Path(__file__).parent / "src" / "reticent_wire" / "vectors"
Cases = list[dict[str, Any]]
SCORES = ("score", "score-start", "score-residual")
KINDS = ("kinds", "kinds-planned")


# -- a small deployment of every form ---------------------------------------------------------------------------------


def example_model(
    form: str,
    *,
    sparse: bool = False,
    nonnegative: bool = False,
    shuffle: bool = False,
    contrasts: bool = False,
    **flags: bool,
) -> Model:
    """Two transition and three reward features on four states, two actions and three steps; the same every time."""
    if form in KINDS:
        return _kinds_model(form, sparse)
    if form == "factors":
        return _factors_model()
    draw = np.random.default_rng(7)
    sizes = Dimensions(horizon=3, states=4, actions=2, d1=2, d2=3)
    entries = 3 if sparse else sizes.states
    pairs = (sizes.states, sizes.actions)
    psi = draw.uniform(-1, 1, (sizes.d1, *pairs, entries)) / 4
    phi = draw.uniform(0 if nonnegative else -1, 1, (sizes.d2, *pairs)) / math.sqrt(sizes.d2)
    chosen = form_named(form)
    bounds: dict[str, Any] = {}
    if form == "regressions":
        bounds = {
            "feature_bound": np.array([1.0, 0.5, 0.0]), "target_low": np.array([-1.0, -0.25, 0.0]),
            "target_high": np.array([1.0, 0.75, 0.0]), "nonnegative_rewards": nonnegative,
            "reward_bound": np.ones(3), "reward_low": np.zeros(3), "reward_high": np.ones(3),
            "reward_basis": np.eye(3), "reward_centre": np.zeros(3),
        }  # fmt: skip
        if contrasts:
            bounds.update(
                reward_bound=np.array([1.0, 0.75, 0.0]), reward_low=np.full(3, -0.625), reward_high=np.full(3, 0.75),
                reward_basis=np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, -2.0]]) / np.sqrt([2.0, 6.0]),
                reward_centre=np.full(3, 0.5),
            )  # fmt: skip
    if form in SCORES:
        bounds = {
            "basis": np.array([[1.0], [-1.0]]) / math.sqrt(2), "reward_basis": np.eye(3)[:, :2],
            "pooled": True, "likelihood": False, **flags,
        }  # fmt: skip
    if form == "score-start":
        bounds["start_share"] = np.array(0.125)
    if form == "score-residual":
        bounds["directions"] = np.array(2.0)
    shape = chosen.largest(sizes, bounds).shape
    # One number per step: where features are clipped to nothing there is no noise either.
    scale = np.broadcast_to(np.array([[12.5], [9.75], [10.0]])[: shape[0]], shape).copy()
    if form == "regressions":
        scale[2, : sizes.d1 * (sizes.d1 + 3) // 2] = 0.0
        if contrasts:
            scale[2] = 0.0
    grid = 2.0**-4 if shuffle else 2.0**-20
    rules = None
    if shuffle:
        reach = np.ceil(chosen.largest(sizes, bounds) / grid).astype(np.int64)
        rules = ShuffleRules(reach, np.where(reach > 0, 45, 0), (4, 3), 0.75)
    return Model(
        "a digest", sizes.horizon, sizes.states, sizes.actions, psi, phi,
        draw.integers(0, sizes.states, (*pairs, entries)).astype(np.int32) if sparse else None,
        Rules(chosen, grid, scale, bounds, rules),
    )  # fmt: skip


def _kinds_model(form: str, sparse: bool) -> Model:
    """Three kinds on four states, two actions and three steps: laws, tables and a basis; the same every time."""
    draw = np.random.default_rng(22)
    sizes = Dimensions(horizon=3, states=4, actions=2, d1=3, d2=3)
    pairs, entries = (sizes.states, sizes.actions), 3 if sparse else sizes.states
    listed = np.argsort(draw.random((*pairs, sizes.states)), axis=-1)[..., :entries].astype(np.int32)
    # Written out: a factorisation's last bits differ between releases of LAPACK.
    sum_zero = np.array([[1, 1, 1], [-1, 1, 1], [0, -2, 1], [0, 0, -3]]) / np.sqrt([2.0, 6.0, 12.0])
    bounds = {
        "basis": sum_zero, "tables": draw.random((sizes.horizon, sizes.d1, *pairs)), "reward_total": np.array(1.5),
    }  # fmt: skip
    chosen = form_named(form)
    rules = Rules(chosen, 2.0**-20, np.full((1, sizes.d1), 12.5), {name: bounds[name] for name in chosen.bounds(sizes)})
    return Model(
        "a digest", sizes.horizon, sizes.states, sizes.actions, draw.dirichlet(np.ones(entries), (sizes.d1, *pairs)),
        draw.random((sizes.d2, *pairs)) / 1.5, listed if sparse else None, rules,
    )  # fmt: skip


def _factors_model(bonus: float = 0.5) -> Model:
    """Six items, two factors and three steps; the same every time."""
    draw = np.random.default_rng(41)
    sizes = Dimensions(horizon=3, states=1, actions=6, d1=1, d2=3)
    intercepts, loadings = draw.uniform(0.3, 0.7, 6), draw.normal(0, 0.2, (6, 2))
    bounds = {
        "intercepts": intercepts, "loadings": loadings, "noise": draw.uniform(0.02, 0.08, 6), "bonus": np.array(bonus),
    }  # fmt: skip
    return Model(
        "a digest", sizes.horizon, sizes.states, sizes.actions, np.ones((1, 1, 6, 1)),
        np.concatenate([intercepts[None], loadings.T])[:, None], None,
        Rules(form_named("factors"), 2.0**-20, np.full((1, 2), 12.5), bounds),
    )  # fmt: skip


def _factors_reference(model: Model, stretch: float) -> dict[str, Any]:
    """What a billboard of the form ``factors`` carries."""
    draw, size = np.random.default_rng(43), model.d2 - 1
    return {
        "mean": draw.normal(0, 0.5, size), "whiten": stretch * draw.uniform(-1, 1, (size, size)), "radius": np.array(1.5),
    }  # fmt: skip


def _kinds_reference(model: Model, stretch: float) -> dict[str, Any]:
    """What a billboard of the form ``kinds`` carries, or ``kinds-planned``: five vectors of every step and state."""
    draw, sizes = np.random.default_rng(29), model.sizes
    found = {
        "shares": draw.dirichlet(np.ones(sizes.d1 + 1)), "blend": draw.dirichlet(np.ones(sizes.d1)),
        "blend_table": draw.random((sizes.horizon, sizes.states, sizes.actions)),
        "whiten": stretch * draw.uniform(-1, 1, (sizes.d1, sizes.d1)), "radius": np.array(1.5),
    }  # fmt: skip
    if model.rules.form.name == "kinds":
        return found
    plan = (sizes.horizon, sizes.states, 5)
    found["vectors"] = draw.random((*plan, sizes.d1 + 1))
    found["choices"] = draw.integers(0, sizes.actions, plan).astype(np.float64)
    return {name: found[name] for name in model.rules.form.of_version(sizes)}


def example_billboard(model: Model, *, greedy: bool = True, stretch: float = 1.0) -> Billboard:
    """A billboard of ``model``; its values go beyond the bounds for a large ``stretch``."""
    draw = np.random.default_rng(11)
    shape = (model.horizon, model.states)
    policy = draw.integers(0, model.actions, shape).astype(np.int32) if greedy else None
    chances = draw.dirichlet(np.ones(model.actions), shape)
    form = model.rules.form
    if form.name in SCORES:
        report = _score_reference(model, stretch)
    elif form.name in KINDS:
        report = _kinds_reference(model, stretch)
    elif form.name == "factors":
        report = _factors_reference(model, stretch)
    else:
        report = {name: stretch * draw.uniform(-1, 1, size) for name, size in form.of_version(model.sizes).items()}
    chosen = chances if policy is None else policy
    return Billboard(5, chosen, report, model.digest, form.name, model.actions)


def _score_reference(model: Model, stretch: float, *, at_random: bool = False, share: float = 0.25) -> dict[str, Any]:
    """What a billboard of the form ``score`` carries; the first two places explore."""
    draw, sizes, bounds = np.random.default_rng(19), model.sizes, model.rules.bounds
    k, r = bounds["basis"].shape[1], bounds["reward_basis"].shape[1]
    groups = 1 if bounds["pooled"] else sizes.horizon
    moving = 1 if bounds["pooled"] else sizes.horizon - 1
    plan = (sizes.horizon, sizes.states)
    reference = {
        "curious": draw.integers(0, sizes.actions, plan).astype(np.float64),
        "framed_values": draw.uniform(-1, 1, plan), "framed_hopes": draw.uniform(-1, 1, plan),
        "explorers": np.array(2.0), "at_random": np.array(float(at_random)),
        "theta": draw.dirichlet(np.ones(sizes.d1), groups), "reward_theta": draw.uniform(0, 1, (groups, sizes.d2)),
        "whiten": stretch * draw.uniform(-1, 1, (moving, k, k)),
        "whiten_rewards": stretch * draw.uniform(-1, 1, (groups, r, r)), "radius": np.array(1.5),
    }  # fmt: skip
    if "directions" not in bounds:
        return reference
    pairs, size = (groups, sizes.states, sizes.actions), int(bounds["directions"])
    return {
        **reference,
        "residual_directions": stretch * draw.uniform(-1, 1, (sizes.states, size)),
        "residual_expected": draw.uniform(-1, 1, (*pairs, size)), "residual_rewards": draw.uniform(0, 1, pairs),
        "residual_reward_scale": np.array(0.5), "residual_count_scale": np.array(0.125),
        "residual_radius": np.array(2.5), "residual_share": np.array(share),
    }  # fmt: skip


def example_trajectory(model: Model, seed: int) -> Trajectory:
    draw = np.random.default_rng(seed)
    steps = model.visits * model.horizon
    return Trajectory(
        draw.integers(0, model.states, steps + model.visits),
        draw.integers(0, model.actions, steps),
        draw.random(steps),
    )


# -- the files --------------------------------------------------------------------------------------------------------


def arrays() -> Cases:
    """Arrays and their JSON: little-endian bytes in base64, row by row."""
    examples = [
        np.array([[0.1, -2.5e-300], [1e308, 0.0]]),
        np.array([[1, -2, 3]], np.int32),
        np.array([2**53 - 1, -(2**62), 0], np.int64),
        np.zeros((2, 0)),
    ]
    return [
        {"values": [str(v) if isinstance(v, int) else v for v in a.ravel().tolist()], "json": to_json(a)}
        for a in examples
    ]


def clipping() -> Cases:
    """Clips: ``norm`` scales a vector to a 2-norm, ``interval`` takes numbers into one, ``reward`` and ``index`` whatever a
    device may be given: null is a value that is missing."""
    norms = [
        ([3.0, 4.0], 1.0), ([0.3, 0.4], 1.0), ([1e200, 1e200], 2.0), ([math.nan, 2.0, math.inf], 1.0),
        ([1e-200, 0.0], 0.0), ([0.0, 0.0], 0.0), ([-0.6, 0.8], 1.0), ([1.0, 1.0, 1.0, 1.0], 2.0),
    ]  # fmt: skip
    intervals = [([-0.5, 0.25, 1.5, math.nan, math.inf, -math.inf], 0.0, 1.0), ([-3.0, 0.1, math.nan], -1.0, 0.5)]
    cases: Cases = [
        {"clip": "norm", "x": _plain(x), "bound": bound, "result": _plain(clip_norm(np.array(x), bound))}
        for x, bound in norms
    ]
    cases += [
        {"clip": "interval", "x": _plain(x), "low": low, "high": high,
         "result": _plain(clip_interval(np.array(x), low, high))}
        for x, low, high in intervals
    ]  # fmt: skip
    given = [None, math.nan, math.inf, -math.inf, True, False, 0, 1, 2, -1, 0.25, 2.75, 3.999, 99, 1e300, -0.5]
    cases.append({"clip": "reward", "x": _words(given), "result": [reward_within(value) for value in given]})
    for below in (1, 4):
        clipped = [index_within(value, below) for value in given]
        cases.append({"clip": "index", "below": below, "x": _words(given), "result": clipped})
    return cases


def grid() -> Cases:
    """Rounding to whole steps of the grid: to the nearest, ties to even; or, given ``uniforms`` v, ⌊x/g + v⌋."""
    values = [0.5, 1.5, 2.5, -0.5, -1.5, 0.49999999999999994, 1 / 3, -7.125, 1e6 + 0.3]
    uniforms = [0.0, 0.25, 0.5, 0.75, 0.999999, 0.5, 0.7, 0.1, 0.69]
    cases: Cases = []
    for step in (1.0, 0.25, 2.0**-20):
        cases.append({"grid": step, "values": values, "steps": quantize(values, step).tolist()})
        rounded = round_at(values, step, uniforms).tolist()
        cases.append({"grid": step, "values": values, "uniforms": uniforms, "steps": rounded})
    return cases


def trajectory() -> Cases:
    """Whatever a user did, in range: states and actions that there are, rewards in [0, 1]."""
    sizes = Dimensions(3, 4, 2, 1, 1)
    examples = [
        ([0, 1, 2, 3], [0, 1, 0], [0.0, 0.5, 1.0]),
        ([-1, 4, 99, 2], [-5, 2, 1], [-0.1, 1.1, math.nan]),
        ([3, 3, 3, 3], [1, 1, 1], [math.inf, -math.inf, 1e-310]),
    ]
    cases = []
    for states, actions, rewards in examples:
        inside = well_formed(sizes, states, actions, rewards)
        played = {"states": states, "actions": actions, "rewards": _plain(rewards)}
        clipped = {name: _plain(getattr(inside, name)) for name in ("states", "actions", "rewards")}
        cases.append({"horizon": 3, "states": 4, "actions": 2, "episode": played, "clipped": clipped})
    return cases


def regressions() -> Cases:
    """Contributions of the form ``regressions``: before rounding, and in steps of the grid."""
    cases = []
    for sparse, nonnegative, contrasts, stretch in (
        (False, False, False, 0.4), (True, False, False, 1.0), (False, True, False, 5.0), (True, False, True, 1.0),
    ):  # fmt: skip
        model = example_model("regressions", sparse=sparse, nonnegative=nonnegative, contrasts=contrasts)
        cases.append(_contribution(model, example_billboard(model, stretch=stretch), 3))
    return cases


def counts() -> Cases:
    """Contributions of the form ``counts``: before rounding, and in steps of the grid."""
    model = example_model("counts")
    return [_contribution(model, example_billboard(model), seed) for seed in (1, 2)]


def score() -> Cases:
    """Contributions of the form ``score``: before rounding, and in steps of the grid; ``place`` decides whose V is used.
    The last ones of stays of three visits."""
    cases = []
    for sparse, pooled, likelihood, stretch, place in (
        (False, True, False, 1.0, 0), (False, True, False, 1.0, 2), (True, True, False, 1.0, None),
        (False, False, False, 0.1, 1), (False, True, False, 50.0, 0), (True, False, False, 1e200, 3),
        (False, True, True, 0.2, 0), (True, False, True, 0.2, 0),
    ):  # fmt: skip
        model = example_model("score", sparse=sparse, nonnegative=True, pooled=pooled, likelihood=likelihood)
        cases.append(_contribution(model, example_billboard(model, stretch=stretch), 5, place))
    for sparse, pooled, likelihood, stretch, place in (
        (False, True, False, 0.2, 3), (True, False, False, 0.2, 0), (False, True, True, 50.0, None),
    ):  # fmt: skip
        once = example_model("score", sparse=sparse, nonnegative=True, pooled=pooled, likelihood=likelihood)
        model = dataclasses.replace(once, rules=dataclasses.replace(once.rules, visits=3))
        cases.append(_contribution(model, example_billboard(model, stretch=stretch), 9, place))
    return cases


def score_start() -> Cases:
    """Contributions of the form ``score-start``, which tell where a user began as well; short vectors and long ones."""
    cases = []
    for sparse, pooled, likelihood, stretch, place in (
        (False, True, False, 1.0, 0), (True, False, False, 0.1, None), (False, True, True, 50.0, 3),
    ):  # fmt: skip
        model = example_model("score-start", sparse=sparse, nonnegative=True, pooled=pooled, likelihood=likelihood)
        cases.append(_contribution(model, example_billboard(model, stretch=stretch), 5, place))
    return cases


def score_residual() -> Cases:
    """Contributions of the form ``score-residual``: short vectors and long ones, shares that are none, and references that
    a hostile service may publish."""
    cases = []
    for sparse, pooled, stretch, place, share in (
        (False, True, 0.5, 0, 0.25), (True, False, 0.1, None, 0.75), (False, True, 50.0, 3, 0.5),
        (False, True, 1e200, 0, 0.25), (False, True, 1.0, 0, 7.0), (False, True, 1.0, 0, -1.0),
    ):  # fmt: skip
        model = example_model("score-residual", sparse=sparse, nonnegative=True, pooled=pooled)
        board = example_billboard(model)
        board = dataclasses.replace(board, report=_score_reference(model, stretch, share=share))
        cases.append(_contribution(model, board, 5, place))
    model = example_model("score-residual", nonnegative=True)
    for name, value in (
        ("share", math.nan), ("radius", 0.0), ("radius", math.nan), ("radius", 1e-300), ("radius", math.inf),
        ("directions", math.inf), ("directions", 1e200), ("expected", -1e300), ("rewards", math.nan),
        ("reward_scale", -math.inf), ("count_scale", 1e200), ("count_scale", 5e-324),
    ):  # fmt: skip
        report = _score_reference(model, 1.0, share=0.5)
        changed = {f"residual_{name}": np.full_like(report[f"residual_{name}"], value)}
        board = dataclasses.replace(example_billboard(model), report={**report, **changed})
        cases.append(_contribution(model, board, 5, 0))
    return cases


def kinds() -> Cases:
    """Contributions of the form ``kinds``: short vectors and long ones, and rewards that are no success and no failure; the
    last one of a stay of three visits."""
    cases = []
    for sparse, stretch, seed in ((False, 0.5, 5), (True, 0.5, 6), (False, 50.0, 7), (False, 1e200, 8)):
        model = example_model("kinds", sparse=sparse)
        cases.append(_contribution(model, example_billboard(model, stretch=stretch), seed))
    once = example_model("kinds")
    model = dataclasses.replace(once, rules=dataclasses.replace(once.rules, visits=3))
    cases.append(_contribution(model, example_billboard(model, stretch=0.5), 9))
    return cases


def kinds_planned() -> Cases:
    """Contributions of the form ``kinds-planned``: those of the form ``kinds``, whatever the plan is."""
    cases = []
    for sparse, stretch, seed in ((False, 0.5, 5), (True, 50.0, 7)):
        model = example_model("kinds-planned", sparse=sparse)
        cases.append(_contribution(model, example_billboard(model, stretch=stretch), seed))
    return cases


def factors() -> Cases:
    """Contributions of the form ``factors``: short vectors and long ones."""
    cases = []
    for stretch, seed in ((0.5, 5), (50.0, 6), (1e200, 7)):
        model = example_model("factors")
        cases.append(_contribution(model, example_billboard(model, stretch=stretch), seed))
    return cases


def tastes() -> Cases:
    """What a device believes of its own user's tastes, and shows: as in ``beliefs``. Those who came before begin with
    ``earlier`` items and rewards, by turns."""
    cases: Cases = []
    for bonus, earlier in ((0.0, None), (0.5, None), (0.0, [2.0, 1.0, 9.0, 0.25])):
        model = _factors_model(bonus)
        board = example_billboard(model)
        remembered = None if earlier is None else np.array(earlier)
        draw, known, steps = np.random.default_rng(31), model.rules.form.belief(model, board, remembered), []
        for step in range(model.horizon):
            action, reward = known.act(step, 0), float(draw.integers(0, 5)) / 4
            known.observe(0, action, reward, 0)
            steps.append({"seen": [0, action, reward, 0], "belief": _plain(known.known)})
        cases.append({"model": model.to_json(), "billboard": board.to_json(), "earlier": earlier, "steps": steps})
    return cases


def beliefs() -> Cases:
    """What a device believes of its own user, and does: ``steps`` are ``[state, action, reward, following]`` one after
    another, each with the action chosen before it and the belief after it. ``hostile`` laws are none: a device goes on.
    The last users act by plans over beliefs."""
    cases: Cases = []
    for form, sparse, hostile in (
        ("kinds", False, False), ("kinds", True, False), ("kinds", False, True),
        ("kinds-planned", False, False), ("kinds-planned", True, False), ("kinds-planned", False, True),
    ):  # fmt: skip
        model = example_model(form, sparse=sparse)
        if hostile:
            model = dataclasses.replace(
                model, transition_features=-model.transition_features, reward_features=9 * model.reward_features
            )
        board = example_billboard(model)
        draw, known, steps = np.random.default_rng(31), model.rules.form.belief(model, board), []
        state = 1
        for step in range(model.horizon):
            action = known.act(step, state)
            reward, following = float(draw.integers(0, 5)) / 4, int(draw.integers(0, model.states))
            known.observe(state, action, reward, following)
            steps.append({"seen": [state, action, reward, following], "belief": _plain(known.probabilities)})
            state = following
        cases.append({"model": model.to_json(), "billboard": board.to_json(), "steps": steps})
    return cases


def shuffling() -> Cases:
    """Messages of the shuffle model, counted; who has which place and how many coins; what a batch says."""
    rules = example_model("regressions", shuffle=True).rules.shuffle
    assert rules is not None
    draw = np.random.default_rng(13)
    published = rules.to_json()
    cases: Cases = []
    for admission in range(7):
        number, within = rules.place(admission)
        coins = rules.coins_at(number, within)
        values = draw.integers(-rules.reach, rules.reach + 1)
        heads = draw.integers(0, coins + 1)
        sent = tally_of(values, rules.reach, heads, coins)
        cases.append({
            "rules": published, "admission": admission, "round": number, "place": within, "coins": coins.tolist(),
            "values": values.tolist(), "heads": heads.tolist(),
            "ones": sent.ones.tolist(), "messages": sent.messages.tolist(),
        })  # fmt: skip
    for number, size in enumerate(rules.round_sizes):
        sent = cases[rules.end(number) - size : rules.end(number)]
        ones, messages = (np.sum([case[name] for case in sent], axis=0) for name in ("ones", "messages"))
        doubled = rules.doubled_sum(number, size, Tally(ones, messages))
        deadlines = [rules.end(number), rules.last_call(number), rules.until(number)]
        cases.append({
            "rules": published, "round": number, "users": size, "deadlines": deadlines,
            "ones": ones.tolist(), "messages": messages.tolist(), "doubled_sum": doubled.tolist(),
        })  # fmt: skip
    return cases


def promise() -> Cases:
    """What reports reveal at most: ε of so many under a model's rules at δ, with what discrete noise on their grid takes of
    it; and of noise at total variation ``distance`` from a Gaussian mechanism of strength μ."""
    cases: Cases = []
    for form in ("regressions", "counts", *SCORES, *KINDS, "factors"):
        model = example_model(form)
        content = model.to_json()
        cases += [
            {"model": content, "delta": delta, "reports": reports, "epsilon": report_epsilon(model, delta, reports)}
            for delta, reports in ((1e-3, 1), (1e-6, 1), (1e-5, 3))
        ]
        for steps in (2.0**-9, 2.0**-7):  # coarse grids, whose noise takes much of δ, or all
            rules = dataclasses.replace(model.rules, grid=steps)
            epsilon = report_epsilon(dataclasses.replace(model, rules=rules), 1e-6)
            coarse = {**content, "report": {**content["report"], "grid": steps}}
            cases.append({"model": coarse, "delta": 1e-6, "reports": 1, "epsilon": _words([epsilon])[0]})
        quiet = model.rules.noise_scale.copy()
        quiet[0, 0] = 0.0
        silent = {**content, "report": {**content["report"], "noise_scale": to_json(quiet)}}
        cases.append({"model": silent, "delta": 1e-6, "reports": 1, "epsilon": "Infinity"})
    # Contrasts have either sign: a flag that promises otherwise buys nothing.
    for flag in (False, True):
        model = example_model("regressions", contrasts=True)
        content = model.to_json()
        content = {**content, "report": {**content["report"], "nonnegative_rewards": flag}}
        epsilon = report_epsilon(Model.read(content), 1e-6)
        cases.append({"model": content, "delta": 1e-6, "reports": 1, "epsilon": epsilon})
    return cases + [
        {"mu": mu, "delta": delta, "distance": distance, "epsilon": _words([epsilon_of(mu, delta, distance)])[0]}
        for mu in (0.0, 0.0325, 0.2681, 2.0004, 20.0)
        for delta in (1e-9, 1e-5, 0.1)
        for distance in (0.0, 1e-10, 1e-6)
    ]


def budget() -> Cases:
    """Which reports a device's budget lets leave, one after another: ``[user, round, allowed]``, those that are allowed
    being spent; and how many are left to each user then. ``per_round`` null is any number."""
    visits = [
        ("ann", 0),
        ("ann", 0),
        ("bob", 0),
        ("ann", 1),
        ("ann", 2),
        ("bob", 3),
        ("ann", 5),
        ("ann", 4),
        ("ann", 9),
    ]
    cases: Cases = []
    for reports, per_round, gap in (
        (0, None, 1),
        (1, None, 1),
        (3, None, 1),
        (3, 1, 1),
        (3, 1, 2),
        (4, 2, 3),
        (3, None, 4),
    ):
        kept = Budget.in_memory(reports=reports, per_round=per_round, gap=gap)
        told = []
        for user, number in visits:
            allowed = kept.allows(user, number)
            if allowed:
                kept.spend(user, number)
            told.append([user, number, allowed])
        left = {user: kept.left(user) for user in ("ann", "bob", "carl")}
        cases.append({"reports": reports, "per_round": per_round, "gap": gap, "visits": told, "left": left})
    return cases


def discrete_gaussian() -> Cases:
    """Draws of scale ``numerator/denominator``: given these answers to "uniform below n", in this order, this comes out."""
    cases = []
    for scale in (Fraction(1, 2), Fraction(7, 3), Fraction(1000), Fraction(3 * 2**24 + 1, 2)):
        answers = random.Random(17)
        law = DiscreteGaussian.of(scale)
        for _ in range(5):
            asked: list[list[str]] = []

            def uniform(n: int, asked: list[list[str]] = asked, answers: random.Random = answers) -> int:
                chosen = answers.randrange(n)
                asked.append([str(n), str(chosen)])
                return chosen

            drawn = law.draw(uniform)
            cases.append({
                "numerator": str(scale.numerator), "denominator": str(scale.denominator),
                "uniforms": asked, "draw": str(drawn),
            })  # fmt: skip
    return cases


def acting() -> Cases:
    """Actions of a published policy at a step, a state and a place (null: of a user who is not learned from); ``uniform``
    decides where it is random."""
    model = example_model("regressions")
    cases: Cases = []
    for greedy in (True, False):
        board = example_billboard(model, greedy=greedy)
        content = board.to_json()
        for step, state, uniform in ((0, 0, 0.0), (1, 2, 0.5), (2, 3, 0.999999999), (0, 1, 0.25)):
            place = {"step": step, "state": state, "place": None, "uniform": uniform}
            action = board.choose(step, state, None, uniform)
            chance = board.probability(step, state, None, action)
            cases.append({"billboard": content, **place, "action": action, "probability": chance})
    model = example_model("score")
    for at_random, floor in ((False, 0.0), (True, 0.0), (False, 0.2), (True, 0.2), (False, 0.5)):
        board = example_billboard(model)
        reference = _score_reference(model, 1.0, at_random=at_random)
        board = dataclasses.replace(board, report=reference, floor=floor)
        places = ((0, 0, 0, 0.9), (1, 1, 1, 0.3), (2, 3, 2, 0.9), (2, 2, None, 0.6), (1, 0, 3, 0.19), (1, 0, 0, 0.21))
        for step, state, own, uniform in places:
            at = {"step": step, "state": state, "place": own, "uniform": uniform}
            action = board.choose(step, state, own, uniform)
            chance = board.probability(step, state, own, action)
            cases.append({"billboard": board.to_json(), **at, "action": action, "probability": chance})
    return cases


def history() -> Cases:
    """States of an episode's observations with a history: after each of ``seen``, the longest listed context that they end
    with; −1 stands for the beginning of the episode. Observations that there are not are taken for the nearest, missing
    ones for the first."""
    pages = History(2, 3, ("front", "news", "sports"), ((0,), (1,), (2,), (START, 0), (0, 1), (1, 0)))
    # Whether a suggestion is left is part of the observation, and is not remembered.
    deep = ((0,), (1,), (START, 1), (0, 1), (1, 1), (0, 1, 1), (START, 0, 1))
    suggesting = History(3, 2, ("left, a", "left, b", "spent, a", "spent, b"), deep)
    return [
        {"history": known.to_dict(), "seen": seen, "states": [known.state(seen[: step + 1]) for step in range(len(seen))]}
        for known, seen in (
            (pages, [0, 1, 0, 2, 1]), (pages, [1, 0, 1]), (pages, [2]),
            (suggesting, [0, 1, 3, 2, 3, 3]), (suggesting, [1, 1, 2]),
            (pages, [9, -1, None, 1.9]), (suggesting, [None, 4, -(2**40), 3]),
        )
    ]  # fmt: skip


FILES: dict[str, Callable[[], Cases]] = {
    function.__name__: function
    for function in (
        arrays, clipping, grid, trajectory, regressions, counts, score, score_start, score_residual, kinds, kinds_planned,
        beliefs, factors, tastes, shuffling, promise, budget, discrete_gaussian, acting, history,
    )
}  # fmt: skip


def _contribution(model: Model, board: Billboard, seed: int, place: int | None = None) -> dict[str, Any]:
    seen = example_trajectory(model, seed)._replace(place=place)
    return {
        "model": model.to_json(),
        "billboard": board.to_json(),
        "episode": {
            "states": seen.states.tolist(),
            "actions": seen.actions.tolist(),
            "rewards": seen.rewards.tolist(),
            "place": place,
        },
        "contribution": model.contribution(board, seen).tolist(),
        "steps": model.steps(board, seen).tolist(),
    }


def _plain(values: Any) -> list[Any]:
    """Numbers for JSON, with words for those that it has none for."""
    return _words(np.asarray(values).tolist())


def _words(values: list[Any]) -> list[Any]:
    words = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    return [words.get(str(value), value) for value in values]


def content_of(name: str) -> dict[str, Any]:
    """What a file holds."""
    # Python 3.13 takes the indentation out of docstrings; the files must not depend on who writes them.
    return {"about": inspect.cleandoc(FILES[name].__doc__ or ""), "cases": FILES[name]()}


def text_of(name: str) -> str:
    """The file itself: one case a line."""
    content = content_of(name)
    cases = ",\n".join(json.dumps(case, ensure_ascii=False, allow_nan=False) for case in content["cases"])
    return f'{{"about": {json.dumps(content["about"], ensure_ascii=False)}, "cases": [\n{cases}\n]}}\n'


if __name__ == "__main__":
    PLACE.mkdir(exist_ok=True)
    for name in FILES:
        path = PLACE / f"{name}.json"
        path.write_text(text_of(name), encoding="utf-8")
        print(path.relative_to(Path(__file__).parent), path.stat().st_size, "bytes")
