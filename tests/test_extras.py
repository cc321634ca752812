# SPDX-License-Identifier: Apache-2.0
"""A lean installation: the core runs without any optional package, and each missing one is named with its remedy."""

from __future__ import annotations

import ast
import html
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import reticent
from reticent.errors import MissingExtra
from reticent.extras import EXTRAS, missing_extra, require

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

WITHOUT = f"""
import importlib.util
import sys
absent = {sorted(set(EXTRAS) - {"pydantic"})}  # (which newer versions of typer bring)
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in absent else found(name, package)
"""
"""A process in which no optional package can be imported."""

USES = """
import reticent, reticent.worlds
from reticent.errors import MissingExtra
world = reticent.make_world("riverswim:states=3,horizon=4")
result = reticent.run("riverswim:states=3,horizon=4", ["ucrl-vtr"], episodes=20, seeds=2, out="there")
def fit():
    from reticent.worlds import fit
def secure():
    from reticent.privacy.noise import SecureNoise
    SecureNoise()
def sweep():
    from reticent.experiments.sweep.grid import Grid
    from reticent.experiments.sweep.sweep import run_sweep
    run_sweep(None, "nowhere")
def ray():
    from reticent.experiments.sweep.ray_engine import import_ray
    import_ray()
uses = {
    "plots": lambda: result.plot("picture.png"), "people": result.to_frame, "people ": fit,
    "gym": lambda: reticent.play(None, world.model, "ucrl-vtr", 5), "secure": secure, "people  ": sweep, "ray": ray,
    "icu": lambda: reticent.make_world("icu-sepsis"),
}
for extra, use in uses.items():
    try:
        use()
    except MissingExtra as missing:
        assert f"pip install 'reticent[{extra.strip()}]'" in str(missing), (extra, missing)
    else:
        raise AssertionError(extra)
"""


@pytest.mark.verify
def test_the_core_runs_alone_and_names_what_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + USES], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    written = {path.name for path in (tmp_path / "there").iterdir()}
    assert written == {"config.yaml", "metadata.json", "results.csv", "report.html"}
    rows = (tmp_path / "there" / "results.csv").read_text().splitlines()
    assert rows[0] == "agent,seed,episode,value,regret"
    assert len({row.split(",")[1] for row in rows[1:]}) == 2
    page = html.unescape((tmp_path / "there" / "report.html").read_text())
    assert "There is no picture: the picture of a run needs the package matplotlib" in page
    assert "pip install 'reticent[plots]'" in page


@pytest.mark.verify
@pytest.mark.parametrize(
    ("line", "extra"),
    [
        (["serve", "--config", "deployment.yaml"], "service"),
        (["compare", "--world", "riverswim"], "plots"),
        (["audit", "--out", "there"], "plots"),
        (["explain", "--out", "there.png"], "plots"),
        (["fit", "log.csv", "--horizon", "3", "--origin", "public"], "people"),
        (["run", "--world", "msnbc"], "people"),
    ],
)
def test_a_command_says_what_to_install_in_one_line(tmp_path: Path, line: list[str], extra: str) -> None:
    program = f"{WITHOUT}\nfrom reticent.cli import main\nsys.argv = ['reticent', *{line!r}]\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "RETICENT_DATA": str(tmp_path), "RETICENT_CACHE": "off"},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    (said,) = done.stderr.splitlines()
    assert said.startswith("error: ")
    assert said.endswith(f"run pip install 'reticent[{extra}]'")


OWN = {"reticent", "reticent_client", "reticent_wire"}
"""Packages of this distribution."""


def test_every_optional_package_has_an_extra_and_every_import_a_home() -> None:
    """What the sources import is in the core, in an extra that :data:`EXTRAS` names, or in the standard library."""
    spelled = {"yaml": "pyyaml"}
    core = {entry.split(">")[0] for entry in PROJECT["dependencies"]}
    assert core == {"jax", "numpy", "scipy", "typer", "rich", "pyyaml", "jinja2"}
    imported = set()
    for path in (ROOT / "src" / "reticent").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                imported.add(node.module.partition(".")[0])
    outside = {name for name in imported if name not in sys.stdlib_module_names and name not in OWN}
    brought_along = {"starlette", "typing_extensions", "markupsafe", "pydantic_core"}  # by FastAPI, Jinja2 and Pydantic
    assert {name for name in outside if spelled.get(name, name) not in core} <= {*EXTRAS, *brought_along}
    for package, extra in EXTRAS.items():
        brought = " ".join(PROJECT["optional-dependencies"][extra]).replace("-", "_").lower()
        assert package in brought, (package, extra)


def test_all_extras_are_there_for_the_tests() -> None:
    mine = next(entry for entry in PROJECT["optional-dependencies"]["dev"] if entry.startswith("reticent["))
    assert set(mine.removeprefix("reticent[").removesuffix("]").split(",")) >= set(EXTRAS.values())


def test_what_no_extra_brings_is_an_error_of_its_own() -> None:
    assert missing_extra(ModuleNotFoundError(name="something.else"), "this") is None
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        require("no_such_package", "this")
    assert issubclass(MissingExtra, ImportError)


def test_the_version_is_said_once() -> None:
    assert "version" not in PROJECT
    assert f"version: {reticent.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
