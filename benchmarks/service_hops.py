# SPDX-License-Identifier: Apache-2.0
"""How far it is from the end of a round to its publication: modules, classes, functions and transactions on the way.

    python benchmarks/service_hops.py

A round of a small deployment is filled; then the admission that seals it and the planner's turn that releases and publishes
it run under a profile that notes every function of the package that is called. The figures are in docs/architecture.md.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))  # helpers that tests use too
from durable import deployment, episode

TRANSACTIONS = {"read", "write", "read_snapshot"}


class Hops:
    """What was called of the package: ``functions`` by module and qualified name, and how many ``transactions`` began."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()
        self.transactions = 0

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note calls in this thread while the context lasts."""
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def counts(self, package: str) -> dict[str, int]:
        """Distinct modules, classes and functions of a package."""
        found = {(module, name) for module, name in self.functions if module.startswith(package)}
        classes = {(module, name.split(".")[0]) for module, name in found if "." in name and "<locals>" not in name}
        return {
            "modules": len({module for module, _ in found}), "classes": len(classes), "functions": len(found),
            "transactions": self.transactions,
        }  # fmt: skip

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event != "call" or not module.startswith("reticent"):
            return
        name = frame.f_code.co_qualname
        if not name.endswith(("<genexpr>", "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<module>")):
            if module.endswith("engine") and name.split(".")[-1] in TRANSACTIONS and frame.f_back is not None:
                self.transactions += frame.f_back.f_code.co_name == "__enter__"
            self.functions.add((module, name))


def measure(where: Path) -> Hops:
    """The hops of the second round's end: programs are compiled in the first."""
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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        found = measure(Path(made))
    print(json.dumps({"all": found.counts("reticent"), "service": found.counts("reticent.service")}))
