# SPDX-License-Identifier: Apache-2.0
"""What was known before the first user comes is said with the promise, wherever the promise is said."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from reticent.agents import make_agent
from reticent.privacy.guarantee import guarantee_of
from reticent.privacy.noise import SecureNoise
from reticent.service.embedded import DeployedAgent
from reticent.worlds import load_model, save_model
from reticent.worlds.models.model import About, Model
from reticent.worlds.models.names import Names
from reticent.worlds.models.provenance import Provenance
from reticent.worlds.records import fit
from reticent.worlds.registry import make_world

MODEL = make_world("random-blend:states=3,actions=2,horizon=2,d=2").model
SPEC = "private-score-vi:first=0.4,growth=1,epsilon=2"


def stated(origin: Provenance | None) -> Model:
    return dataclasses.replace(MODEL, about=About(None, origin))


@pytest.mark.verify
@pytest.mark.parametrize(
    ("origin", "said"),
    [
        (Provenance("public", "the pilot of spring"), "Candidates come from public records (the pilot of spring)"),
        (Provenance("simulated", "the simulator"), "Candidates come from a simulation (the simulator)"),
        (Provenance("released", "a first study", 0.5, 1e-6), "to those who are in both, (2.5, 1.1e-05) is promised."),
    ],
)
def test_the_promise_says_where_candidates_come_from(origin: Provenance, said: str) -> None:
    for spec in (SPEC, "private-linopt-vi:epsilon=2", "pucb:epsilon=2,law=gaussian"):
        promise = guarantee_of(make_agent(spec, stated(origin), 40))
        assert promise is not None
        assert said in promise.sentence()
        assert promise.to_dict()["origin"] == origin.to_dict()
    assert said in DeployedAgent(SPEC, stated(origin), 8, SecureNoise()).guarantee.sentence()


def test_records_are_of_no_origin_unless_it_is_said() -> None:
    with pytest.raises(TypeError, match="origin"):
        fit(None, horizon=2)  # type: ignore[call-arg]


def test_who_does_not_say_is_not_quoted_but_warned() -> None:
    promise = guarantee_of(make_agent(SPEC, stated(None), 40))
    assert promise is not None
    assert "andidates come" not in promise.sentence()
    assert any("candidate models" in words for words in promise.not_covered)


def test_a_model_file_carries_it_into_a_deployment(tmp_path: Path) -> None:
    origin = Provenance("released", "a first study", 0.5, 1e-6)
    path = save_model(tmp_path / "model.npz", MODEL, names=Names.numbered(3, 2), provenance=origin)
    promise = DeployedAgent(SPEC, load_model(path).model, 8, SecureNoise()).guarantee
    assert "a private release (a first study) of ε = 0.5" in promise.sentence()
