# SPDX-License-Identifier: Apache-2.0
"""Third parties add agents, worlds, counters and trust models through the public registries, without touching this package.

A distribution of one module is written to a folder, with entry points as an installer would write them, and used by
``reticent.run`` in a process of its own: the registries of this one stay as they are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ENTRY_POINTS = """\
[reticent.agents]
toy-agent = toys.agent

[reticent.counters]
toy-counter = toys.counter

[reticent.worlds]
toy-world = toys.world
"""

AGENT = '''\
from reticent.agents import AGENTS
from reticent.agents.linear_mixture.linopt import FixedOptions, make_fixed


@AGENTS.register("toy-agent")
def toy_agent(model, episodes, *, courage: float = 0.5):
    """Toy: UCRL-VTR with a courage of its own."""
    return make_fixed(model, episodes, "value-iteration", FixedOptions(bonus_scale=courage))
'''

WORLD = '''\
import numpy as np

from reticent.worlds import register_world, tabular


@register_world("toy-world", episodes=12)
def toy_world(*, luck: float = 0.5):
    """Toy: two states, and a coin decides."""
    rows = np.array([[[1.0, 0.0], [1 - luck, luck]], [[0.0, 1.0], [luck, 1 - luck]]])
    return tabular(rows, np.array([[0.1, 0.2], [0.9, 0.4]]), 2)
'''

COUNTER = '''\
import dataclasses

import jax.numpy as jnp
import numpy as np

from reticent.privacy.counters import register_counter


@dataclasses.dataclass(frozen=True)
class Diary:
    """Every round is noised once and added up: C is the identity."""

    rounds: int
    name = "toy-counter"
    keeps_noisy_sums_only = True
    integer_strategy = True
    sensitivity = 1.0
    memory = 1
    noise_shape_prefix = ()

    def release_std(self):
        return np.sqrt(np.arange(1.0, self.rounds + 1))

    def exposure(self):
        return np.ones(self.rounds)

    def weights(self):
        return None

    def init(self, shape, dtype):
        return jnp.zeros(shape, dtype)

    def close(self, state, item, noise):
        return state + item + noise

    def release(self, state):
        return state


@register_counter("toy-counter")
def diary(sizes):
    """Toy: one noise per round."""
    return Diary(len(sizes))
'''

PROGRAM = '''\
import json

import reticent
from reticent.privacy.guarantee import guarantee_of
from reticent.privacy.trust import TRUSTS
from reticent.privacy.trust.joint import Joint


class Notary(Joint):
    """A notary, and not the server, sees raw data."""

    name = "notary"
    exposed = "everything that leaves the notary"
    trusted = "the notary, with raw data"


TRUSTS["notary"] = Notary()

result = reticent.run(
    "toy-world:luck=0.3",
    [
        "toy-agent",
        "private-linopt-vi:counter=toy-counter,trust=joint",
        "private-linopt-vi:trust=notary,first=4",
    ],
    seeds=1,
    companions=False,
)
from reticent.experiments.compare.field import gather

contestants, _ = gather(result.world.model, 12, (1.0,), 1e-5, agents=["private-linopt-vi"], trusts=["notary"])
print(
    json.dumps(
        {
            "world": result.config.world,
            "episodes": result.config.episodes,
            "runs": {
                run.config.label: {
                    "sentence": run.agent.promise.sentence(),
                    "regret": float(run.curves.regret[0, -1]),
                    "counter": getattr(getattr(run.agent.aggregator, "counter", None), "name", None),
                    "spent": None if guarantee_of(run.agent) is None else guarantee_of(run.agent).spent,
                    "options": {key: str(value) for key, value in run.config.options.items()},
                }
                for run in result.runs
            },
            "compared": [(who.trust, who.trusted) for who in contestants],
        }
    )
)
'''


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What the program of a user of the toys says."""
    site = tmp_path_factory.mktemp("site")
    package, metadata = site / "toys", site / "toys-1.0.dist-info"
    package.mkdir()
    metadata.mkdir()
    for name, text in (("__init__", ""), ("agent", AGENT), ("world", WORLD), ("counter", COUNTER)):
        (package / f"{name}.py").write_text(text)
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, "PYTHONPATH": path}, cwd=Path(site),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.verify
def test_a_world_brings_its_defaults(outcome: dict) -> None:
    assert outcome["world"] == "toy-world:luck=0.3"
    assert outcome["episodes"] == 12
    assert outcome["runs"]["toy-agent"]["options"] == {"courage": "0.5"}


@pytest.mark.verify
def test_an_agent_runs_and_says_that_it_promises_nothing(outcome: dict) -> None:
    run = outcome["runs"]["toy-agent"]
    assert 0 <= run["regret"] <= 12 * 2
    assert run["spent"] is None
    assert "no privacy" in run["sentence"]


@pytest.mark.verify
def test_a_counter_is_chosen_by_its_name_and_charged(outcome: dict) -> None:
    run = outcome["runs"]["private-linopt-vi:counter=toy-counter,trust=joint"]
    assert run["counter"] == "toy-counter"
    assert run["spent"] == pytest.approx(1.0, rel=1e-6)
    assert 0 <= run["regret"] <= 12 * 2


@pytest.mark.verify
def test_a_trust_model_is_one_object_that_speaks_for_itself(outcome: dict) -> None:
    run = outcome["runs"]["private-linopt-vi:trust=notary,first=4"]
    assert "everything that leaves the notary" in run["sentence"]
    assert "notary differential privacy" in run["sentence"]
    assert run["spent"] == pytest.approx(1.0, rel=1e-6)
    assert outcome["compared"] == [["notary", "the notary, with raw data"]]
