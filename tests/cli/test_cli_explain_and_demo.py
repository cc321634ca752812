# SPDX-License-Identifier: Apache-2.0
"""The first commands of a newcomer: nothing at all, the demonstration, and what an ε means."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer
from scipy.stats import norm
from typer.testing import CliRunner

from reticent.cli import COMMANDS, app
from reticent.privacy.accounting.gaussian import mu_of


def call(*line: object) -> str:
    done = CliRunner().invoke(app, [str(part) for part in line])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_alone_says_what_to_do_first() -> None:
    said = call()
    lines = [
        re.split(r"\s{2,}", line.strip())[0].split()[1:] for line in said.splitlines() if line.startswith("  reticent ")
    ]
    assert {"demo", "explain", "run", "fit", "audit", "serve"} <= {name for name, *_ in lines} <= set(COMMANDS)
    commands = typer.main.get_command(app)
    for name, *rest in lines:  # as they stand: nothing that must be given is left out
        commands.commands[name].make_context(name, rest)


def test_a_shell_can_complete_it() -> None:
    assert "--install-completion" in call("--help")


def test_explain_is_exact_in_json_and_the_same_in_words() -> None:
    content = json.loads(call("explain", "--epsilon", 2, "--delta", 1e-6, "--json"))
    mu = mu_of(2.0, 1e-6)
    assert content["mu"] == mu
    assert content["right_after"] == pytest.approx(norm.cdf(mu / 2))
    assert content["caught"]["0.05"] == pytest.approx(norm.sf(norm.isf(0.05) - mu))
    said = call("explain", "--epsilon", 2, "--delta", 1e-6)
    assert f"right at most {100 * norm.cdf(mu / 2):.1f} times in a hundred" in said
    assert sum("<- asked" in line for line in said.splitlines()) == 1


def test_who_comes_twice_is_protected_half_as_well() -> None:
    once, twice = (json.loads(call("explain", "--times", times, "--json")) for times in (1, 2))
    assert twice["mu"] == pytest.approx(2 * once["mu"])


@pytest.mark.parametrize(("epsilon", "said"), [(20, False), (50, True), (1e9, True)])
def test_explain_names_an_epsilon_that_protects_no_one(epsilon: float, said: bool) -> None:
    assert ("That is no protection" in call("explain", "--epsilon", epsilon)) == said
    assert json.loads(call("explain", "--epsilon", epsilon, "--json"))["protects"] != said


def test_explain_draws(tmp_path: Path) -> None:
    call("explain", "--prior", 0.2, "--out", tmp_path / "new" / "explain.png")
    assert (tmp_path / "new" / "explain.png").read_bytes().startswith(b"\x89PNG")


def test_explain_refuses_what_is_no_promise(reticent) -> None:
    code, _, err = reticent("explain", "--epsilon", "-1")
    assert code == 2
    assert err.startswith("error: epsilon is -1.0, but must be")


@pytest.mark.verify
def test_the_demonstration_runs_the_three_learners(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    content = json.loads(call("demo", "--episodes", 300, "--seeds", 2, "--out", out, "--json"))
    assert [row["agent"].partition(":")[0] for row in content["results"]] == [
        "private-score-vi", "private-linopt-vi", "score-vi",
    ]  # fmt: skip
    assert {path.name for path in out.iterdir()} >= {"regret.png", "report.html"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_speaks_to_programs_too(name: str) -> None:
    assert "--json" in call(name, "--help")
