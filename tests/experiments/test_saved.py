# SPDX-License-Identifier: Apache-2.0
"""Saving, loading, and going on as if nothing had happened."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import reticent
from reticent.errors import InvalidInput
from reticent.experiments.saved import DamagedFile, load, save
from reticent.simulation.simulate import simulate
from reticent.worlds import make_world

TINY = "random-blend:states=3,actions=2,horizon=2,d=2"
EPISODES = 90
SPECS = ["oppo:bonus_scale=0.3", "private-linopt-vi:first=8,epsilon=5"]


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    """Parts of a run use one program; a cache on disk saves compiling it for each."""
    settings = {
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("cache")),
        "jax_persistent_cache_min_compile_time_secs": 0.2,
    }
    before = {key: getattr(jax.config, key) for key in settings}
    for key, value in settings.items():
        jax.config.update(key, value)
    yield
    for key, value in before.items():
        jax.config.update(key, value)
    compilation_cache.reset_cache()


@pytest.fixture(scope="module")
def world():
    return make_world(TINY)


@pytest.fixture(scope="module")
def half(world):
    """An agent, its simulation until the middle, and the whole of it."""
    agent = reticent.make_agent(SPECS[0], world.model, EPISODES)
    return agent, simulate(agent, world, (3, 5), until_episode=40)


@pytest.fixture
def path(half, tmp_path):
    agent, part = half
    return save(tmp_path / "half.reticent", agent, part.carry, position=part.position, seeds=(3, 5), world=TINY)


def same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert np.asarray(left).dtype == np.asarray(right).dtype
        np.testing.assert_array_equal(left, right)


@pytest.mark.verify
@pytest.mark.parametrize("spec", SPECS)
def test_a_resumed_simulation_is_the_whole_one_bit_for_bit(spec, world, tmp_path):
    agent = reticent.make_agent(spec, world.model, EPISODES)
    whole = simulate(agent, world, (3, 5))
    part = simulate(agent, world, (3, 5), until_episode=12)
    assert 12 <= part.position < EPISODES
    assert not part.finished
    file = save(tmp_path / "half", agent, part.carry, position=part.position, seeds=(3, 5), world=TINY)

    saved = load(file)
    same(saved.agent, agent)
    same(saved.state, part.carry)
    assert (saved.position, saved.seeds, saved.world) == (part.position, (3, 5), TINY)
    rest = simulate(saved.agent, make_world(saved.world), saved.seeds, resume=saved.carry, from_episode=saved.position)
    joined = part.then(rest)
    same(joined.carry, whole.carry)
    for field in ("episodes", "regret", "value", "tail_regret"):
        np.testing.assert_array_equal(getattr(joined, field), getattr(whole, field))
    assert rest.finished


def test_an_agents_own_state_survives(world, tmp_path):
    agent = reticent.make_agent("ucrl-vtr", world.model, EPISODES)
    state = jax.tree.map(lambda leaf: leaf + np.asarray(0.1).astype(leaf.dtype), agent.init())
    saved = load(save(tmp_path / "agent", agent, state, position=7))
    same(saved.state, state)
    assert (saved.position, saved.seeds, saved.world, saved.version) == (7, None, None, reticent.__version__)
    with pytest.raises(InvalidInput, match="a simulation's"):
        _ = saved.carry


def test_parts_must_fit_together(world, half):
    agent, part = half
    for given, message in [
        ({"from_episode": 40}, "resume is missing"),
        ({"resume": part.carry}, "resume is given"),
        ({"resume": part.carry, "from_episode": EPISODES}, "from_episode is 90"),
        ({"resume": part.carry, "from_episode": 40, "until_episode": 40}, "until_episode is 40"),
        ({"until_episode": EPISODES + 1}, "until_episode is 91"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            simulate(agent, world, (3, 5), **given)


def test_an_agent_that_its_name_does_not_make_is_not_saved(world, tmp_path):
    import dataclasses

    agent = reticent.make_agent("ucrl-vtr", world.model, EPISODES)
    other = dataclasses.replace(agent, bonus_scale=agent.bonus_scale * 2)
    with pytest.raises(InvalidInput, match="bonus_scale"):
        save(tmp_path / "no", other, other.init(), position=0)
    assert not list(tmp_path.iterdir())


def test_wrong_use_is_answered_clearly(half, tmp_path):
    agent, part = half
    with pytest.raises(InvalidInput, match="given exactly for a simulation's carry"):
        save(tmp_path / "no", agent, part.carry, position=40)
    with pytest.raises(InvalidInput, match="position is 91"):
        save(tmp_path / "no", agent, part.carry, position=91, seeds=(3, 5))


def rewrite(path, **changes):
    """Write the file again with another manifest or other arrays."""
    with zipfile.ZipFile(path) as archive:
        manifest, arrays = json.loads(archive.read("manifest.json")), archive.read("arrays.npz")
    arrays = changes.pop("arrays", lambda content: content)(arrays)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps({**manifest, **changes}))
        archive.writestr("arrays.npz", arrays)


def test_files_are_versioned_and_without_pickle(path):
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        with archive.open("arrays.npz") as packed, np.load(packed, allow_pickle=False) as arrays:
            assert set(arrays.files) == set(manifest["arrays"])
    assert (manifest["format"], manifest["kind"], manifest["agent"]) == (2, "simulation", SPECS[0])
    assert "state.state.log_policy" in manifest["arrays"]


@pytest.mark.parametrize("spec", [SPECS[0], "ucbvi"])
def test_files_of_format_1_are_read(spec, world, tmp_path):
    """Their plans had a frame whatever the family: the linear mixtures' is in its place now, the others' said nothing."""
    agent = reticent.make_agent(spec, world.model, EPISODES)
    part = simulate(agent, world, (3, 5), until_episode=10)
    path = save(tmp_path / "old", agent, part.carry, position=part.position, seeds=(3, 5))
    frame = {"centres": np.zeros((2, 2)), "scales": np.ones((2, 2))}
    with zipfile.ZipFile(path) as archive, archive.open("arrays.npz") as packed, np.load(packed) as content:
        arrays = {key.replace("plan.extension.", "plan."): content[key] for key in content.files}
    old = io.BytesIO()
    np.savez_compressed(old, **{f"state.plan.{field}": leaf for field, leaf in frame.items()} | arrays)
    checksum = hashlib.sha256(old.getvalue()).hexdigest()
    rewrite(path, format=1, sha256=checksum, arrays=lambda _: old.getvalue())
    same(load(path).state, part.carry)


def test_damaged_files_are_refused(path, tmp_path):
    with pytest.raises(DamagedFile, match="does not exist"):
        load(tmp_path / "nothing")
    whole = path.read_bytes()
    for content in (b"", b"not a zip", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(DamagedFile, match="is not a saved agent, or is damaged"):
            load(path)
    path.write_bytes(whole)
    rewrite(path, arrays=lambda content: content[:-1] + b"x")
    with pytest.raises(DamagedFile, match="checksum"):
        load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 3, "reticent": "9.9"}, "has format 3, .* load it with reticent 9.9 or later"),
        ({"format": None}, "states no format"),
        ({"structure": "other"}, "was another agent"),
        ({"agent": "oppo:bonus_scale=0.4"}, "was another agent"),
        ({"seeds": [3]}, "does not fit"),
        ({"model": {}}, "does not fit"),
    ],
)
def test_files_that_this_version_cannot_honour_are_refused(path, change, message):
    rewrite(path, **change)
    with pytest.raises(DamagedFile, match=message):
        load(path)
