# SPDX-License-Identifier: Apache-2.0
"""Every dotted name and every path that the documentation quotes is there: pages grow old where nobody asks."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import reticent
import reticent_client
import reticent_wire
from reticent.service.processes.telemetry import ATTRIBUTES

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "clients" / "python" / "README.md"]

QUOTED = re.compile(r"`([^`\n]+)`")
DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?:\(\))?")
PATH = re.compile(r"(?:src|tests|docs|examples|benchmarks|clients|results)/[\w./*<>-]*[\w*>]|[\w/-]+\.(?:py|md|toml)")
FILE = re.compile(
    r".*\.(?:py|md|toml|json|html|png|svg|csv|npz|txt|yaml|yml|db|js|mjs|ts|parquet|sqlite|pem|ipynb|dat|gz|zip|log)"
)
OF_OTHERS = {
    "jax",
    "jnp",
    "np",
    "numpy",
    "scipy",
    "gymnasium",
    "gym",
    "ray",
    "opendp",
    "os",
    "psycopg",
    "math",
    "uvicorn",
    "navigator",
    "crypto",
}
"""Packages that are not ours."""

ENTRY_POINTS = {"reticent.agents", "reticent.worlds", "reticent.counters"}
"""Groups of entry points that third parties register in; names, not modules."""

VALUES = {
    "agent",
    "client",
    "deployed",
    "env",
    "episode",
    "fitted",
    "model",
    "plan",
    "result",
    "self",
    "service",
    "state",
    "world",
    "report",
}
"""What an example calls a thing: its attribute is looked for among everything that the library names."""


@functools.cache
def modules() -> dict[str, str]:
    """Module by every ending of its dotted name: ``privacy.noise`` as well as ``reticent.privacy.noise``."""
    found: dict[str, str] = {}
    for package in (reticent, reticent_client, reticent_wire):
        names = [package.__name__]
        names += [
            one.name for one in pkgutil.walk_packages(package.__path__, package.__name__ + ".", onerror=lambda _: None)
        ]
        for name in names:
            parts = name.split(".")
            for start in range(len(parts)):
                found.setdefault(".".join(parts[start:]), name)
    return found


@functools.cache
def defined() -> dict[str, set[str]]:
    """For every class of the sources the names in it: methods, fields, and what is assigned to ``self``."""
    members: dict[str, set[str]] = {}
    for base in (ROOT / "src", ROOT / "clients" / "python" / "src"):
        for file in base.rglob("*.py"):
            owner = ""
            for line in file.read_text().splitlines():
                if match := re.match(r"class (\w+)", line):
                    owner = match[1]
                    members.setdefault(owner, set())
                elif re.match(r"\w", line):  # whatever else starts a line ends the class
                    owner = ""
                elif owner and (match := re.match(r"    (?:async )?(?:def )?(\w+)[(:\s]", line)):
                    members[owner].add(match[1])
                if owner:
                    members[owner] |= set(re.findall(r"\bself\.(\w+)(?:: [^=]*)? =", line))
    return members


def resolves(name: str) -> bool:
    """Whether a dotted name is one of ours: a module, or something in one, or a member of a class."""
    parts = name.removesuffix("()").split(".")
    if parts[0] in OF_OTHERS or name in ENTRY_POINTS or name in ATTRIBUTES or FILE.fullmatch(name):
        return True
    for cut in range(len(parts), 0, -1):
        module = modules().get(".".join(parts[:cut]))
        if module is not None:
            found: object = importlib.import_module(module)
            for part in parts[cut:]:
                if not hasattr(found, part):
                    break
                found = getattr(found, part)
            else:
                return True
    if parts[0] in defined():
        return parts[1] in defined()[parts[0]] or any(parts[1] in names for names in defined().values())
    if parts[0] in VALUES:
        return any(parts[1] in names for names in defined().values())
    return False


def there(path: str) -> bool:
    """Whether a path is in the tree; ``<family>`` and ``*`` stand for anything."""
    pattern = re.sub(r"<[^>]*>", "*", path)
    return any(ROOT.glob(pattern)) or any(ROOT.glob(f"**/{pattern}"))


def names_of(page: Path) -> list[str]:
    """What a page quotes between single backticks, fenced blocks aside."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return QUOTED.findall(text)


def stale(page: Path) -> list[str]:
    """Names on a page that are nowhere."""
    missing = []
    for quoted in names_of(page):
        if PATH.fullmatch(quoted):
            if not quoted.startswith("results/") and not there(quoted):
                missing.append(quoted)
        elif DOTTED.fullmatch(quoted) and not resolves(quoted):
            missing.append(quoted)
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_quoted_name_is_there(page: Path) -> None:
    assert stale(page) == []


def test_a_name_that_is_nowhere_is_found() -> None:
    assert resolves("reticent.privacy.noise.SecureNoise")
    assert resolves("noise.discretization_delta")
    assert resolves("Mechanism.close")
    assert not resolves("privacy.accountant")
    assert not resolves("noise.no_such_function")
    assert not there("src/reticent/nowhere.py")
    assert there("src/reticent/agents/<family>/audit_hooks.py")
