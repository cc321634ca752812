# SPDX-License-Identifier: Apache-2.0
"""How large the source is, and how much of it one episode touches, simulated and served.

    python benchmarks/house.py
    PYTHONPATH=../before/src:../before/clients/python/src python benchmarks/house.py --tree ../before

With ``--tree``, another version's checkout is measured. Every function of the package that is called is noted by a profile:

* *run*: ``reticent.run`` of one agent and one seed, with the programs that it traces and the summary that it makes;
* *simulated*: ``reticent.simulate`` alone, its programs compiled before;
* *served*: the two requests of one episode, through the application;
* *round*: the admission that seals the second round of a small deployment, and the planner's turn that releases and
  publishes it. Programs are compiled in the first.

The figures are in docs/architecture.md.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import importlib.util
import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

HERE = Path(__file__).parents[1]
SOURCES = ("src", "clients/python/src")
TRANSACTIONS = {"read", "write", "read_snapshot"}
UNNAMED = ("<genexpr>", "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<module>")
AGENT, USERS = "private-score-vi", 200


class Hops:
    """What was called of the package: ``functions`` by module and qualified name, and how many ``transactions`` began."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()
        self.transactions = 0
        self._noting = False

    def follow_threads(self) -> None:
        """Also note calls in threads that begin from now on."""
        threading.setprofile(self._note)

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note calls while the context lasts."""
        self._noting = True
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
            self._noting = False

    def counts(self, package: str = "reticent") -> dict[str, int]:
        """Distinct modules, classes and functions of a package."""
        found = {(module, name) for module, name in self.functions if module.startswith(package)}
        classes = {(module, name.split(".")[0]) for module, name in found if "." in name and "<locals>" not in name}
        counts = {"modules": len({module for module, _ in found}), "classes": len(classes), "functions": len(found)}
        return counts | ({"transactions": self.transactions} if self.transactions else {})

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if not self._noting or event != "call" or not module.startswith("reticent"):
            return
        name = frame.f_code.co_qualname
        if not name.endswith(UNNAMED):
            if module.endswith("engine") and name.split(".")[-1] in TRANSACTIONS and frame.f_back is not None:
                self.transactions += frame.f_back.f_code.co_name == "__enter__"
            self.functions.add((module, name))


def size(tree: Path) -> dict[str, int]:
    """Modules, classes and lines of the library, the device's client and what they share."""
    texts = [path.read_text(encoding="utf-8") for folder in SOURCES for path in sorted((tree / folder).rglob("*.py"))]
    classes = sum(isinstance(node, ast.ClassDef) for text in texts for node in ast.walk(ast.parse(text)))
    return {"modules": len(texts), "classes": classes, "lines": sum(len(text.splitlines()) for text in texts)}


def simulated() -> tuple[Hops, Hops]:
    """The hops of a whole run, and those of a simulation whose programs are compiled."""
    import reticent

    make_world = getattr(reticent, "make_world", None) or reticent.make_world_from  # the older version's name
    run, alone = Hops(), Hops()
    with run.noted():
        reticent.run("riverswim:states=4", [AGENT], USERS, [0], companions=False)
    world = make_world("riverswim:states=4")
    agent = reticent.make_agent(AGENT, world.model, USERS)
    reticent.simulate(agent, world, [0])
    with alone.noted():
        reticent.simulate(agent, world, [0])
    return run, alone


def served(where: Path) -> Hops:
    """The hops of one episode: a request that opens it, and one that submits its trajectory."""
    from durable import episode
    from fastapi.testclient import TestClient
    from serving import APP, settings

    hops = Hops()
    hops.follow_threads()
    with TestClient(
        _first_of("reticent.service.http.app", "reticent.service.app").create_app(settings(where), begin=True)
    ) as client:

        def play(user: int) -> None:
            opened = client.post("/v1/episodes", json={"user": f"user {user}"}, headers=APP).raise_for_status().json()
            body = {"token": opened["token"], **episode(user)}
            client.post(f"/v1/episodes/{opened['episode']}/trajectory", json=body, headers=APP).raise_for_status()

        play(0)
        with hops.noted():
            play(1)
    return hops


def round_ended(where: Path) -> Hops:
    """The hops of the second round's end."""
    from durable import deployment, episode

    service = deployment(where, inline=False)
    for user in range(8):
        opened = service.admit(f"user {user}")
        if user != 7:
            service.submit_trajectory(opened.token, opened.episode, **episode(user))
        service.advance()
    hops = Hops()
    with hops.noted():
        service.admit("user 8")
        service.advance()
    assert service.clock()[1] == 2
    service.store.close()
    return hops


def _first_of(*modules: str) -> ModuleType:
    for name in modules:
        if importlib.util.find_spec(name.rpartition(".")[0]) and importlib.util.find_spec(name):
            return importlib.import_module(name)
    raise ModuleNotFoundError(f"none of {', '.join(modules)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=HERE, help="a checkout; by default the one of this file")
    tree = parser.parse_args().tree.resolve()
    sys.path.insert(0, str(tree / "tests" / "support"))  # helpers that tests use too
    run, alone = simulated()
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        episode, ended = served(Path(first)), round_ended(Path(second))
    rows = {"source": size(tree), "run": run.counts(), "simulated": alone.counts(), "served": episode.counts()}
    rows |= {"round": ended.counts(), "round, of reticent.service": ended.counts("reticent.service")}
    for name, counts in rows.items():
        print(f"{name}: {json.dumps(counts)}")


if __name__ == "__main__":
    main()
