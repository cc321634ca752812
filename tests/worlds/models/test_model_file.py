# SPDX-License-Identifier: Apache-2.0
"""Model files: everything comes back, damage and other versions are refused, nothing is written on error."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.errors import InvalidInput
from reticent.worlds import make_world, sparse_blend
from reticent.worlds.models.model_file import DamagedModel, load_model, save_model
from reticent.worlds.models.names import Names
from reticent.worlds.models.provenance import Provenance

ORIGIN = Provenance("simulated", "the zoo")


def save(path, model, **options):
    return save_model(path, model, names=Names.numbered(model.states, model.actions), provenance=ORIGIN, **options)


@pytest.mark.parametrize("spec", ["mobile-health", "large-blend:states=40", "linear-mdp"])
def test_models_come_back_to_the_last_bit(spec, tmp_path):
    model = make_world(spec).model
    loaded = load_model(save(tmp_path / "model.npz", model))
    for field in ("transition_features", "reward_features", "initial", "successors", "linear_features"):
        before, after = getattr(model, field), getattr(loaded.model, field)
        assert (before is None) == (after is None)
        if before is not None:
            np.testing.assert_array_equal(before, after)
    for field in ("horizon", "transition_bound", "transition_theta_bound", "reward_theta_bound", "stationary"):
        assert getattr(model, field) == getattr(loaded.model, field)
    assert loaded.provenance == ORIGIN
    assert loaded.coding is None


def test_numpy_reads_the_arrays_without_us(tmp_path):
    model = make_world("mobile-health").model
    with np.load(save(tmp_path / "model.npz", model), allow_pickle=False) as content:
        np.testing.assert_array_equal(content["transition_features"], model.transition_features)


def changed(path, change):
    """The file with another manifest."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda manifest: manifest.update(format=2), r"has format 2, but this reticent .* reads format 1"),
        (lambda manifest: manifest.update(kind="agent"), "is not a model file"),
        (lambda manifest: manifest["sha256"].update(initial="0" * 64), "'initial' does not match its checksum"),
        (lambda manifest: manifest.pop("names"), "is damaged: 'names'"),
        (lambda manifest: manifest["names"]["states"].pop(), "state names is 15 labels"),
        (lambda manifest: manifest["declared"].update(horizon=-1), "is damaged: horizon is -1"),
        (lambda manifest: manifest["provenance"].update(kind="secret"), "provenance.kind is secret"),
    ],
)
def test_other_versions_and_damage_are_refused(change, message, tmp_path):
    path = save(tmp_path / "model.npz", make_world("mobile-health").model)
    with pytest.raises(DamagedModel, match=message):
        load_model(changed(path, change))


def test_what_is_no_model_file_is_refused(tmp_path):
    with pytest.raises(DamagedModel, match="does not exist"):
        load_model(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(DamagedModel, match=r"text\.npz is not a model file, or its end is missing"):
        load_model(tmp_path / "text.npz")
    (tmp_path / "log.csv").write_text("user,step,state,action,reward\n1,0,0,1,0.5\n")
    with pytest.raises(DamagedModel, match=r"log\.csv is not a model file.* expected what reticent fit") as refused:
        load_model(tmp_path / "log.csv")
    assert "zip" not in str(refused.value)
    with pytest.raises(DamagedModel, match="is a folder; give the path of a model file"):
        load_model(tmp_path)
    path = save(tmp_path / "model.npz", make_world("mobile-health").model)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DamagedModel, match="damaged"):
        load_model(path)


def test_nothing_is_written_where_something_does_not_fit(tmp_path):
    model = make_world("mobile-health").model
    with pytest.raises(InvalidInput, match="state names is 3 labels, but must be 16"):
        save_model(tmp_path / "model.npz", model, names=Names.numbered(3, 3), provenance=ORIGIN)
    with pytest.raises(InvalidInput, match="shares"):
        save(tmp_path / "model.npz", model, shares=np.ones(4))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"path is .*a place that can be written to"):
        save(tmp_path / "file" / "model.npz", model)


def test_sparse_models_keep_their_successors(tmp_path):
    import scipy.sparse

    stay, turn = scipy.sparse.eye_array(9), scipy.sparse.csr_array(np.roll(np.eye(9), 1, axis=1))
    model = sparse_blend([stay, turn], np.full((1, 9, 1), 0.5), [0.5, 0.5], [1.0], 3).model
    assert load_model(save(tmp_path / "model.npz", model)).model.successors.shape == (9, 1, 2)


origins = st.one_of(
    st.builds(Provenance, st.sampled_from(["public", "simulated"]), st.just("records"), note=st.text(max_size=9)),
    st.builds(Provenance, st.just("released"), st.just("a histogram"), st.floats(0.01, 9), st.floats(0, 0.1)),
)


@given(origins)
def test_provenance_survives_json_and_says_what_it_means(origin):
    assert Provenance.from_dict(json.loads(json.dumps(origin.to_dict()))) == origin
    word = {"public": "public records", "simulated": "no person", "released": "private release"}[origin.kind]
    assert word in origin.sentence()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("private", "x"), "protected users' own data"),
        (("public", " "), "provenance.source"),
        (("public", "x", 1.0, 0.0), "provenance.epsilon"),
        (("released", "x"), "provenance.epsilon is None"),
        (("released", "x", -1.0, 0.0), "positive"),
        (("released", "x", 1.0, 2.0), "provenance.delta"),
    ],
)
def test_an_origin_that_is_none_is_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        Provenance(*arguments)


def test_names_are_all_there_and_all_different():
    for states, message in (((), "empty"), (("a", "a"), "'a' twice"), (("a", " "), "empty label")):
        with pytest.raises(InvalidInput, match=message):
            Names(states, ("x",))
