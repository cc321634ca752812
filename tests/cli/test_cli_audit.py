# SPDX-License-Identifier: Apache-2.0
"""``reticent audit``: what it prints and writes, and whom it takes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from reticent.cli import app
from reticent.cli.audit import make_subject
from reticent.errors import InvalidInput, UnknownName
from reticent.worlds import make_world

SMALL = "random-blend:states=3,actions=2,horizon=2,d1=2,d2=2,per_step=true"


@pytest.mark.verify
def test_the_command_prints_json_and_writes_a_picture_and_a_page(tmp_path) -> None:
    command = ["audit", "--world", SMALL, "--trials", "2000", "--episodes", "8", "--out", str(tmp_path), "--json"]
    run = CliRunner().invoke(app, command)
    assert run.exit_code == 0, run.output
    printed = json.loads(run.stdout)
    wanted = {
        "claimed_epsilon",
        "lower_bound_epsilon",
        "method",
        "confidence",
        "verdict",
        "adversary",
        "trials",
        "delta",
    }
    assert wanted <= printed.keys()
    assert json.loads((tmp_path / "audit.json").read_text()) == printed
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "audit.html").read_text()
    assert "No violation found" in page
    assert "data:image/png;base64," in page
    assert 'src="http' not in page


@pytest.mark.verify
def test_the_command_says_who_can_be_audited() -> None:
    run = CliRunner().invoke(app, ["audit", "--agent", "ucrl-vtr"])
    assert isinstance(run.exception, UnknownName)
    assert "private-linopt-vi" in str(run.exception)


@pytest.mark.parametrize("name", ["private-ucb-vi", "private-ucb-po", "pucb", "dp-ucbvi", "ldp-obi"])
def test_the_command_takes_every_agent_that_promises_something(name: str) -> None:
    world = make_world("riverswim:states=3,horizon=2")
    subject = make_subject(name, world, None, {"trust": None, "counter": None, "epsilon": 2.0, "delta": 1e-4})
    assert subject.guarantee.epsilon == 2.0
    assert subject.agent.schedule.episodes == (512 if subject.agent.schedule.sizes else 16)
    with pytest.raises(UnknownName, match="ucbvi"):
        make_subject("ucbvi", world, None, {})


@pytest.mark.verify
def test_the_sequential_audit_says_where_it_stands() -> None:
    """False alarms at most once in a thousand seeds; this one is fixed."""
    command = ["audit", "--world", SMALL, "--trials", "512", "--episodes", "8", "--sequential"]
    run = CliRunner().invoke(app, command)
    assert run.exit_code == 0, run.output
    assert "consistent after 512 runs" in run.stdout
    assert "false with probability at most 0.001" in run.stdout
    printed = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert (printed["verdict"], printed["runs"], printed["alpha"]) == ("consistent", 512, 0.001)
    assert printed["noise"]["e_value"] > 0
    refused = CliRunner().invoke(app, [*command, "--adversary", "actions"])
    assert isinstance(refused.exception, InvalidInput)
