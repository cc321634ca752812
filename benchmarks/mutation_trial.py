# SPDX-License-Identifier: Apache-2.0
"""One mutant put to its tests: a copy of the sources, and a process that has the heavy libraries already.

Importing JAX and its like takes longer than most tests of a small module. So they are imported once, without a line of the
library and without waking a device, and every mutant is tried in a fork of that process, by pytest, until the first test
fails. Tests that have caught many mutants come first, then those that are quick. Hypothesis draws the same examples every
time and does not simplify what it finds.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCES = ("src", "clients/python/src")
HEAVY = (
    "numpy", "scipy.stats", "scipy.optimize", "scipy.special", "scipy.signal", "pytest", "hypothesis",
    "hypothesis.strategies", "hypothesis.extra.numpy", "jax", "jax.numpy", "jax.scipy.stats", "opendp.prelude",
    "sqlalchemy",
    "sqlalchemy.orm", "fastapi", "fastapi.testclient", "httpx", "pydantic", "uvicorn", "yaml", "cryptography.fernet",
    "dp_accounting", "psycopg",
)  # fmt: skip
"""What is imported before the fork, where it is installed."""

PATIENCE = 4.0
"""A mutant may take this many times as long as the unbroken code, and :data:`START`; then it hangs, and is seen by that."""
START = 20.0


def load_heavy_libraries(root: Path, names: tuple[str, ...] = HEAVY) -> None:
    """Import what all tests need and no mutant is in. JAX reads its settings on import: the suite's own ones."""
    suite = root / "tests" / "conftest.py"
    if suite.exists():
        os.environ.update(runpy.run_path(str(suite))["QUICK_TO_COMPILE"])
    for name in names:
        with contextlib.suppress(ImportError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)
    import hypothesis

    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutants", derandomize=True, database=None, phases=phases)
    hypothesis.settings.load_profile("mutants")
    # JAX warns of every fork; no device of it is awake, and none of its threads is running.
    warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)


class UnbrokenFails(Exception):
    """The tests of a module fail on the code as it is, or there are none: mutants would teach nothing."""


class Trials:
    """A copy of a source tree in which one module is broken, again and again.

    Attributes:
      seconds: what the tests take on the unbroken code.
      caught: how many mutants each test has caught.
    """

    def __init__(self, root: Path, module: str, tests: tuple[str, ...], choice: str = "", marks: str = "") -> None:
        self._root, self._module, self._tests, self._choice, self._marks = root, module, tests, choice, marks
        self._durations: dict[str, float] = {}
        self.caught: Counter[str] = Counter()
        self.seconds = 0.0
        self._limit = 600.0
        self._where = Path(tempfile.mkdtemp(prefix="mutants-"))
        for base in SOURCES:
            if (root / base).exists():
                shutil.copytree(root / base, self._where / base, ignore=shutil.ignore_patterns("__pycache__"))

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._where, ignore_errors=True)

    def unbroken(self, source: str) -> None:
        """Run the tests on the code as it is.

        Raises:
          UnbrokenFails: they fail, or there are none.
        """
        began = time.monotonic()
        ran = self._run(source)
        self.seconds = time.monotonic() - began
        self._limit = START + PATIENCE * self.seconds
        if ran is None or ran["code"] != 0:
            failed = "they hang" if ran is None else ran["failed"] or f"pytest ends with {ran['code']}"
            raise UnbrokenFails(f"tests of {self._module}: {failed}")
        self._durations = ran["durations"]

    def survives(self, source: str) -> bool:
        """Whether all tests pass on a changed module."""
        ran = self._run(source)
        if ran is not None and ran["failed"]:
            self.caught[ran["failed"]] += 1
        return ran is not None and ran["code"] == 0

    def _run(self, source: str) -> dict[str, Any] | None:
        """What a fork reports of the tests; None if it hung or died."""
        path = self._where / self._module
        path.write_text(source, encoding="utf-8")
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()  # known by size and second: quick changes would not be seen
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._tried(writing)
        os.close(writing)
        try:
            return _read(reading, self._limit)
        finally:
            os.close(reading)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # also what its tests have started and left
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def _tried(self, writing: int) -> None:
        """In the fork: run the tests, report, and end without a word."""
        report: dict[str, Any]
        try:
            os.setsid()
            silence = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silence, stream)
            os.chdir(self._root)
            paths = [str(self._where / base) for base in SOURCES]
            sys.path[:0] = paths
            os.environ["PYTHONPATH"] = os.pathsep.join(paths)
            os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = (
                "1"  # others' plugins take seconds to load, and none is needed
            )
            sys.dont_write_bytecode = False  # all other modules are compiled once
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
            import pytest

            watched = _Watched(self._durations, self.caught)
            code = pytest.main(
                ["-x", "-q", "-p", "no:cacheprovider", "--rootdir", str(self._root),
                 *[str(self._root / test) for test in self._tests], "-k", self._choice,
                 *(["-m", self._marks] if self._marks else [])],
                plugins=[watched],
            )  # fmt: skip
            report = {"code": int(code), "failed": watched.failed, "durations": watched.durations}
        except BaseException as error:
            report = {"code": -1, "failed": "", "durations": {}, "error": repr(error)}
        with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps(report).encode())
        os._exit(0)


class _Watched:
    """A plugin of pytest: which test failed, how long each took, and the order in which they are tried."""

    def __init__(self, known: dict[str, float], caught: Counter[str]) -> None:
        self._known, self._caught = known, caught
        self.failed = ""
        self.durations: dict[str, float] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: (-self._caught[item.nodeid], self._known.get(item.nodeid, 0.0)))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.durations[report.nodeid] = self.durations.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed = self.failed or report.nodeid


def _read(reading: int, limit: float) -> dict[str, Any] | None:
    """All that is written to a pipe until its end."""
    deadline = time.monotonic() + limit
    text = b"".join(_pieces(reading, deadline))
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return found


def _pieces(reading: int, deadline: float) -> Iterator[bytes]:
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([reading], [], [], left)
        piece = os.read(reading, 65536) if ready else b""
        if not piece:
            return
        yield piece
        if piece.endswith(b"}"):  # processes that tests have left may hold the pipe open
            return
