"""The comparison's parts: the NumPy loop is the library's learner, timings say what they timed, figures are drawn."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reticent.experiments.bench.opponents import load_loop, measure_peers, plain_arrays

import reticent
from reticent.agents import make_agent
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.radius import Radii
from reticent.errors import InvalidInput
from reticent.experiments.bench import Row, Work, machine
from reticent.experiments.bench.figure import draw_scaling
from reticent.experiments.bench.memory import Peak, measure_peaks
from reticent.experiments.bench.rows import HEAD, cells
from reticent.experiments.bench.scaling import AGENTS, WORDS, Line, Scaling, seconds_per_episode
from reticent.experiments.bench.work import EPOCHS, PAPER, SEGMENT, TREE, time_agent
from reticent.worlds import Episode, World, make_world_from

TINY = "random-blend:states=2,actions=2,horizon=1,d=1"
EPISODES = 48
loop = load_loop()


# -- the loop and the library compute the same ------------------------------------------------------------------------


def quieter(agent: LinOptLearner, noise: float, shift: float, radius: float) -> LinOptLearner:
    """The paper's learner with all noise, shifts and radii scaled down, so that it learns within a few episodes."""
    privatizer = agent.aggregator
    small = dataclasses.replace(
        privatizer,
        noise_scale=noise * privatizer.noise_scale,
        transition_shift=shift * privatizer.transition_shift,
        reward_shift=shift * privatizer.reward_shift,
        transition_floor=0 * privatizer.transition_floor,
        reward_floor=0 * privatizer.reward_floor,
    )
    return dataclasses.replace(agent, aggregator=small, radii=Radii(*(radius * row for row in agent.radii)))


def constants_of(agent: LinOptLearner) -> Any:
    """What the loop needs to know of a learner whose constants are the same at every step and round."""
    privatizer = agent.aggregator
    sums = privatizer.unpack(privatizer.noise_scale)  # packing is linear: scales come out as the entries' own
    radius_p, radius_r = (float(agent.bonus_scale * row[0, 0]) for row in agent.radii)
    return loop.Constants(
        *(float(leaf.reshape(-1)[0]) for leaf in sums),
        float(privatizer.transition_shift[0, 0]),
        float(privatizer.reward_shift[0, 0]),
        radius_p,
        radius_r,
    )


def play_library(
    agent: LinOptLearner, world: World, uniforms: np.ndarray, noises: jax.Array
) -> list[tuple[np.ndarray, ...]]:
    """Values, policy, exact value and states of each episode, by the library's pure functions."""
    horizon = world.model.horizon

    @jax.jit
    def one(state: Any, draws: jax.Array, noise: jax.Array) -> Any:
        plan = agent.plan(state)
        states, actions, rewards = [world.start(draws[0])], [], []
        for step in range(horizon):
            action = agent.act(plan, step, states[-1], 0.0)
            following, reward = world.step(jnp.asarray(step), states[-1], action, draws[1 + 2 * step : 3 + 2 * step])
            states, actions, rewards = [*states, following], [*actions, action], [*rewards, reward]
        episode = Episode(*(jnp.stack(part) for part in (states, actions, rewards)))
        seen = plan.values, plan.policy, world.policy_value(plan.policy), episode.states
        return agent.update(state, plan, episode, None, noise), seen

    state, found = agent.init(), []
    for draws, noise in zip(uniforms, noises, strict=True):
        state, seen = one(state, jnp.asarray(draws), noise)
        found.append(tuple(np.asarray(part) for part in seen))
    return found


@pytest.mark.parametrize(
    ("scales", "world"),
    [
        ((1.0, 1.0, 1.0), "random-blend"),
        ((3e-6, 1e-6, 1e-4), "random-blend"),
        ((3e-6, 1e-6, 1e-4), "random-blend:states=6,actions=3,horizon=4,d1=3,d2=2,per_step=true"),
    ],
    ids=["the paper's constants", "little noise", "other sizes, another blend at every step"],
)
def test_the_loop_plays_the_same_episodes_as_the_library(scales: tuple[float, ...], world: str) -> None:
    """Same uniforms, same noise for every node: the same plans, policies, values and states in every episode."""
    built = make_world_from(world)
    agent = quieter(make_agent(PAPER, built.model, EPISODES + 1), *scales)
    rng = np.random.default_rng(5)
    uniforms = rng.random((EPISODES, 1 + 2 * built.model.horizon))
    keys = jax.random.split(jax.random.key(3), EPISODES)
    noises = jnp.stack([agent.aggregator.simulate_round_noise(key) for key in keys])
    apart = [map(np.asarray, agent.aggregator.unpack(noise)) for noise in noises]
    randomness = [loop.Draws(draws, *noise) for draws, noise in zip(uniforms, apart, strict=True)]
    mixture = loop.Mixture(**plain_arrays(built))

    theirs = play_library(agent, built, uniforms, noises)
    ours = list(loop.private_linopt_vi(mixture, constants_of(agent), EPISODES + 1, randomness))
    assert len(ours) == EPISODES
    for played, expected in zip(ours, theirs, strict=True):
        for left, right in zip((played.V, played.policy, played.value, played.states), expected, strict=True):
            np.testing.assert_allclose(left, right, rtol=0, atol=1e-9)
    assert loop.optimal_value(mixture) == pytest.approx(built.optimal_value, abs=1e-12)
    # The comparison would say little if plans never changed, or if all values were at their ceiling.
    assert len({played.policy.tobytes() for played in ours}) > 10
    ceiling = built.model.horizon - np.arange(built.model.horizon + 1)[:, None]
    assert (ours[-1].V[:-1] < ceiling[:-1] - 0.01).any()


@pytest.mark.parametrize(("episodes", "epsilon"), [(64, 1.0), (20_000, 0.3)])
def test_the_loop_has_the_papers_constants(episodes: int, epsilon: float) -> None:
    model = make_world_from("random-blend:horizon=4,d1=3,d2=2").model
    agent = make_agent(PAPER, model, episodes, epsilon=epsilon, bonus_scale=0.1)
    ours = loop.paper_constants(episodes, 4, 3, 2, epsilon, 1e-5, 0.05, 0.1)
    expected = constants_of(agent)
    for field in dataclasses.fields(expected):
        assert getattr(ours, field.name) == pytest.approx(getattr(expected, field.name), rel=1e-12), field.name


def test_the_loop_draws_the_noise_it_says() -> None:
    """Standard deviations of every entry within 6 standard errors (false alarms: below 1e-6), matrices symmetric."""
    constants = loop.Constants(1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0)
    drawn = list(loop.draws(np.random.default_rng(0), 4000, 2, 3, 2, constants))
    for field, sigma in (("gram_p", 1), ("moment_p", 2), ("gram_r", 3), ("moment_r", 4)):
        entries = np.stack([getattr(draw, field) for draw in drawn])
        if entries.ndim == 4:
            np.testing.assert_array_equal(entries, entries.swapaxes(-1, -2))
        assert np.abs(entries.std(axis=0) / sigma - 1).max() < 6 / np.sqrt(2 * len(drawn))
    assert not np.array_equal(drawn[0].gram_p, drawn[1].gram_p)


def test_the_loops_regret_is_that_of_its_policies() -> None:
    world = make_world_from("random-blend:states=3,actions=2,horizon=2,d=2")
    mixture = loop.Mixture(**plain_arrays(world))
    constants = loop.paper_constants(100, 2, 2, 2, 1.0, 1e-5, 0.05, 0.1)
    regret = loop.regret(mixture, constants, 100, 30, seed=1)
    steps = np.diff(regret, prepend=0)
    assert regret.shape == (30,)
    assert (steps >= -1e-12).all()
    assert (steps <= world.optimal_value).all()


# -- what is timed ----------------------------------------------------------------------------------------------------


def test_a_timing_says_how_many_episodes_it_timed() -> None:
    world = make_world_from(TINY)
    every = time_agent(make_agent(TREE, world.model, 3 * SEGMENT), world, 2, repeats=2, seconds=0.0)
    assert every.episodes == SEGMENT
    whole = time_agent(make_agent(EPOCHS, world.model, 700), world, 2, repeats=1, seconds=0.0)
    assert whole.episodes == 700
    for timing in (every, whole):
        assert min(timing.seconds) > 0
        assert timing.compile_seconds > 0
    assert len(every.seconds) == 2


def test_the_whole_comparison_runs_on_a_bare_machine() -> None:
    """Without Gymnasium, and without any package of the command line, reports or pictures."""
    program = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {{"gymnasium", "rich", "typer", "click", "polars", "matplotlib", "yaml", "opendp"}}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
import json
from reticent.experiments.bench import __main__, bench, CONTESTANTS, Work
work = Work({TINY!r}, episodes=60, seeds=2, repeats=1, seconds=0.01)
print(json.dumps(bench(work, contestants=CONTESTANTS[:1]).to_dict()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    rates = [row["learner_episodes_per_second"] for row in found["rows"][:2]]
    assert min(rates) > 0
    assert found["rows"][1]["ratio_to_numpy_loop"] == pytest.approx(rates[1] / rates[0])
    assert found["rows"][1]["learners"] == 2
    assert {"cpu", "cores", "device", "versions", "load_average"} <= found["machine"].keys()


def test_without_a_checkout_the_loop_is_said_to_be_missing(tmp_path: Path) -> None:
    shutil.copytree(Path(reticent.__file__).parent, tmp_path / "reticent", ignore=shutil.ignore_patterns("__pycache__"))
    program = f"""
from reticent.experiments.bench import Work, opponents
work = Work({TINY!r}, episodes=60)
loop = opponents.measure_loop(work, work.make())
peers = opponents.measure_peers(work, work.make(), None)
print(loop.rates, loop.remark, *(peer.remark for peer in peers), sep="|")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "", "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    rates, *remarks = done.stdout.split("|")
    assert rates == "()"
    assert len(remarks) == 3
    assert all("in the repository only" in remark for remark in remarks)


@pytest.mark.parametrize("python", ["/nonexistent/python", sys.executable])
def test_a_peer_that_cannot_run_says_why(python: str) -> None:
    if python == sys.executable and _has_rlberry():
        pytest.skip("rlberry is installed here")
    work = Work(TINY, episodes=60)
    rows = measure_peers(work, work.make(), python)
    assert [row.rate for row in rows] == [None, None]
    reason = "No such file" if python != sys.executable else "No module named"
    assert all(row.remark.startswith("did not run:") and reason in row.remark for row in rows)


@pytest.mark.skipif("_has_rlberry()")
def test_a_peer_that_is_absent_is_not_installed() -> None:
    work = Work(TINY, episodes=60)
    assert all("not installed" in row.remark for row in measure_peers(work, work.make(), None))


def _has_rlberry() -> bool:
    import importlib.util

    return importlib.util.find_spec("rlberry_scool") is not None


@pytest.mark.parametrize(
    ("field", "value"), [("seeds", 0), ("repeats", 0), ("episodes", 1)]
)  # fmt: skip
def test_bad_work_is_refused(field: str, value: int) -> None:
    with pytest.raises(InvalidInput, match=f"{field} is {value}"):
        Work(**{field: value})


# -- what is said -----------------------------------------------------------------------------------------------------


def test_rows_compare_medians() -> None:
    base, fast = Row("loop", rates=(1.0, 2.0, 30.0)), Row("fast", "spec", 4, 10, (100.0, 50.0, 60.0), 1.25)
    assert fast.ratio(base) == 30
    assert cells(fast, base) == ("fast (spec)", "4", "60", "30", "1.2")
    absent = Row("peer", remark="not installed")
    assert absent.ratio(base) is None
    assert cells(absent, base)[0] == "peer: not installed"
    assert cells(fast, absent)[3] == "–"
    assert len(HEAD) == len(cells(fast, base))


def test_a_busy_machine_is_mentioned() -> None:
    assert machine.busy({"load_average": 0.2}) is None
    assert machine.busy({"load_average": None}) is None
    assert "3.5" in str(machine.busy({"load_average": 3.5}))


@given(exponent=st.floats(-2, 3), factor=st.floats(1e-9, 1e3), start=st.integers(1, 50), count=st.integers(2, 6))
def test_a_power_law_has_its_exponent_as_slope(exponent: float, factor: float, start: int, count: int) -> None:
    values = tuple(start * 3**index for index in range(count))
    line = Line("tree", "S", values, tuple(factor * value**exponent for value in values))
    assert line.slope == pytest.approx(exponent, abs=1e-6)
    assert line.worst_doubling == pytest.approx(2**exponent, rel=1e-6)


def test_learners_that_slow_each_other_down_are_seen() -> None:
    """Two learners that take five times as long as one: more than twice, whatever comes after."""
    slow = Line("tree", "learners", (1, 2, 4), (1.0, 2.5, 2.0))
    assert Scaling((slow,), (), {}).worst_seed_doubling == pytest.approx(5)


# -- scaling ----------------------------------------------------------------------------------------------------------


def test_time_of_an_episode_is_measured() -> None:
    sizes = {"S": 2, "A": 2, "d": 1, "H": 1, "K": 700, "learners": 2}  # compiled above already
    assert 0 < seconds_per_episode(EPOCHS, sizes, repeats=1, seconds=0.0) < 1


def test_memory_does_not_grow_with_the_number_of_users() -> None:
    """Ten times the users: the same peak but for the thinned curve and the allocator's mood (64 MiB).

    What this process holds while it waits is not counted as theirs.
    """
    ballast = np.ones(2**27)
    small, large = measure_peaks([(EPOCHS, 20_000, 4), (EPOCHS, 200_000, 4)], world=TINY)
    assert 2**26 < small.peak_bytes < ballast.nbytes
    assert large.peak_bytes - small.peak_bytes < 2**26


def test_a_run_that_fails_has_no_peak() -> None:
    with pytest.raises(RuntimeError, match="unknown agent 'no-such-agent'"):
        measure_peaks([("no-such-agent", 10, 1)])


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    values = (1_000, 10_000, 100_000)
    lines = [Line(agent, size, values, (1e-5, 3e-5, 9e-5)) for size in WORDS for agent in AGENTS]
    found = Scaling(tuple(lines), (Peak(EPOCHS, 1_000_000, 64, 2**30, 60.0),), machine.describe())
    draw_scaling(found, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")
    assert len(found.table()) == 2 * len(WORDS)
    assert found.to_dict()["peaks"][0]["peak_bytes"] == 2**30
