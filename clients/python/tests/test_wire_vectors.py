# SPDX-License-Identifier: Apache-2.0
"""The test vectors: they are what the script writes, and every case follows from what is in its file alone."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import make_vectors
import numpy as np
import pytest

from reticent_client.budget import Budget, BudgetSpent
from reticent_client.discrete_gaussian import DiscreteGaussian
from reticent_wire import Billboard, Dimensions, Model, ShuffleRules, Trajectory
from reticent_wire.arrays import from_json, to_json
from reticent_wire.clipping import clip_interval, clip_norm
from reticent_wire.errors import InvalidInput
from reticent_wire.grid import quantize, round_at
from reticent_wire.history import History
from reticent_wire.promise import epsilon_of, report_epsilon
from reticent_wire.shuffling import Tally, tally_of
from reticent_wire.trajectory import index_within, reward_within, well_formed


def content(name: str) -> dict[str, Any]:
    return json.loads((make_vectors.PLACE / f"{name}.json").read_text())


def same(one: Any, other: Any) -> bool:
    """Equal, floating-point numbers up to a relative 1e-12."""
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-300)
    return bool(one == other and type(one) is type(other))


def test_the_files_are_those_of_the_script() -> None:
    assert sorted(path.stem for path in make_vectors.PLACE.glob("*.json")) == sorted(make_vectors.FILES)


@pytest.mark.parametrize("name", make_vectors.FILES)
def test_a_file_is_what_the_script_writes(name: str) -> None:
    written, now = content(name), json.loads(json.dumps(make_vectors.content_of(name)))
    assert same(written, now)
    assert len(written["cases"]) >= 2


def numbers(values: list[Any]) -> np.ndarray:
    return np.array([float(value) for value in values])


def check_arrays(case: dict[str, Any]) -> None:
    given = case["json"]
    array = from_json("", given, dtype=given["dtype"], shape=tuple(given["shape"]))
    assert [str(v) if isinstance(v, int) else v for v in array.ravel().tolist()] == case["values"]
    assert to_json(array) == given


def check_clipping(case: dict[str, Any]) -> None:
    if case["clip"] in ("reward", "index"):
        given = [float(value) if isinstance(value, str) else value for value in case["x"]]
        below = case.get("below")
        assert [reward_within(v) if below is None else index_within(v, below) for v in given] == case["result"]
        return
    x = numbers(case["x"])
    clipped = clip_norm(x, case["bound"]) if case["clip"] == "norm" else clip_interval(x, case["low"], case["high"])
    np.testing.assert_allclose(clipped, numbers(case["result"]), rtol=1e-12, atol=0)


def check_grid(case: dict[str, Any]) -> None:
    if "uniforms" in case:
        steps = round_at(case["values"], case["grid"], case["uniforms"])
    else:
        steps = quantize(case["values"], case["grid"])
    assert steps.tolist() == case["steps"]


def check_trajectory(case: dict[str, Any]) -> None:
    sizes = Dimensions(case["horizon"], case["states"], case["actions"], 1, 1)
    played = case["episode"]
    inside = well_formed(sizes, played["states"], played["actions"], numbers(played["rewards"]))
    assert {name: values.tolist() for name, values in inside._asdict().items() if name != "place"} == case["clipped"]


def check_contribution(case: dict[str, Any]) -> None:
    model, board = Model.read(case["model"]), Billboard.read(case["billboard"])
    played = case["episode"]
    states, actions, rewards = (np.asarray(played[name]) for name in ("states", "actions", "rewards"))
    seen = Trajectory(states, actions, rewards, played["place"])
    np.testing.assert_allclose(model.contribution(board, seen), case["contribution"], rtol=1e-12, atol=1e-15)
    assert model.steps(board, seen).tolist() == case["steps"]


def check_belief(case: dict[str, Any]) -> None:
    model, board = Model.read(case["model"]), Billboard.read(case["billboard"])
    earlier = case.get("earlier")
    known = model.rules.form.belief(model, board, None if earlier is None else numbers(earlier))
    for step, told in enumerate(case["steps"]):
        state, action, reward, following = told["seen"]
        assert known.act(step, state) == action
        known.observe(state, action, reward, following)
        np.testing.assert_allclose(known.known, numbers(told["belief"]), rtol=1e-12)


def check_shuffling(case: dict[str, Any]) -> None:
    shape = tuple(case["rules"]["reach"]["shape"])
    rules = ShuffleRules.read(case["rules"], shape)
    if "admission" in case:
        assert rules.place(case["admission"]) == (case["round"], case["place"])
        assert rules.coins_at(case["round"], case["place"]).tolist() == case["coins"]
        sent = tally_of(case["values"], rules.reach, case["heads"], case["coins"])
        assert (sent.ones.tolist(), sent.messages.tolist()) == (case["ones"], case["messages"])
        rules.require_tally(case["round"], case["place"], sent)
    else:
        batch = Tally(np.array(case["ones"]), np.array(case["messages"]))
        number = case["round"]
        assert [rules.end(number), rules.last_call(number), rules.until(number)] == case["deadlines"]
        assert rules.doubled_sum(case["round"], case["users"], batch).tolist() == case["doubled_sum"]


def check_promise(case: dict[str, Any]) -> None:
    if "model" in case:
        epsilon = report_epsilon(Model.read(case["model"]), case["delta"], case["reports"])
    else:
        epsilon = epsilon_of(case["mu"], case["delta"], case["distance"])
    assert epsilon == pytest.approx(float(case["epsilon"]), rel=1e-9)


def check_budget(case: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as home:
        rules = {name: case[name] for name in ("reports", "per_round", "gap")}
        budget = Budget(Path(home) / "budget.json", **rules)
        for user, number, allowed in case["visits"]:
            assert budget.allows(user, number) == allowed
            with contextlib.nullcontext() if allowed else pytest.raises(BudgetSpent):
                Budget(Path(home) / "budget.json", **rules).spend(user, number)
        assert {user: budget.left(user) for user in case["left"]} == case["left"]


def check_discrete_gaussian(case: dict[str, Any]) -> None:
    left = [(int(n), int(answer)) for n, answer in case["uniforms"]]

    def uniform(n: int) -> int:
        asked, answer = left.pop(0)
        assert n == asked
        return answer

    law = DiscreteGaussian.of(Fraction(int(case["numerator"]), int(case["denominator"])))
    assert law.draw(uniform) == int(case["draw"])
    assert not left


def check_acting(case: dict[str, Any]) -> None:
    board = Billboard.read(case["billboard"])
    assert board.choose(case["step"], case["state"], case["place"], case["uniform"]) == case["action"]
    assert board.probability(case["step"], case["state"], case["place"], case["action"]) == case["probability"]


def check_history(case: dict[str, Any]) -> None:
    known, seen = History.read(case["history"]), case["seen"]
    assert [known.state(seen[: step + 1]) for step in range(len(seen))] == case["states"]
    with pytest.raises(InvalidInput, match="observations is none"):
        known.state([])
    with pytest.raises(InvalidInput, match=r"history\.contexts"):
        History.read({**case["history"], "contexts": case["history"]["contexts"][1:]})


CHECKS = {
    "arrays": check_arrays,
    "clipping": check_clipping,
    "grid": check_grid,
    "trajectory": check_trajectory,
    "regressions": check_contribution,
    "counts": check_contribution,
    "score": check_contribution,
    "score_start": check_contribution,
    "score_residual": check_contribution,
    "kinds": check_contribution,
    "kinds_planned": check_contribution,
    "beliefs": check_belief,
    "factors": check_contribution,
    "tastes": check_belief,
    "shuffling": check_shuffling,
    "promise": check_promise,
    "budget": check_budget,
    "discrete_gaussian": check_discrete_gaussian,
    "acting": check_acting,
    "history": check_history,
}


@pytest.mark.parametrize("name", make_vectors.FILES)
def test_every_case_follows_from_its_file_alone(name: str) -> None:
    for case in content(name)["cases"]:
        CHECKS[name](case)
