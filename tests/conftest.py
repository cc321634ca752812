# SPDX-License-Identifier: Apache-2.0
"""How the suite uses JAX: most of its time would be compilation, and most of its memory compiled programs.

* Programs here run for milliseconds and take seconds to compile, so XLA's costly passes are left out: a quarter of the
  processor time. ``--optimized`` keeps them, for numbers that are
  compared bit by bit (``tests/golden``).
* Compiled programs are kept on disk for the other workers and for processes that tests start, small ones too: they are
  most of what operations run one by one compile.
* In memory they are let go of when there are many: workers stay small, and every program takes some of the process's
  memory maps, of which the system allows 65 530 and XLA does not survive the one after.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.metadata
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# Importing makes much that lasts and no rubbish to speak of; the collector of cycles begins with the first test.
gc.disable()

# Before JAX is imported, and for the processes that tests start.
CACHE = Path(__file__).parent.parent / ".pytest_cache" / "jax"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.02")
os.environ.setdefault("RETICENT_CACHE", str(CACHE))

QUICK_TO_COMPILE = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
"""Environment of the quick suite."""
FLAGS_OF_0_10 = {"XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"}
"""Of jaxlib 0.10: XLA refuses to start with flags it does not know."""

MUCH_MEMORY, MOST_MEMORY = 1_500 * 2**20, 1_700 * 2**20
ROOM = 500 * 2**20
"""What a worker may grow by before programs are dropped again, within the most that it may have: dropping takes a second,
and compiling anew many."""
MANY_MAPS = 20_000
MAPS, PAGES = Path("/proc/self/maps"), Path("/proc/self/statm")
LARGEST = {"worker": MUCH_MEMORY}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--optimized", action="store_true", help="compile as users do, with all of XLA's passes")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--optimized"):
        known = importlib.metadata.version("jaxlib").startswith("0.10.")
        os.environ.update(QUICK_TO_COMPILE | (FLAGS_OF_0_10 if known else {}))
    import jax

    from reticent.runtime import wake_devices

    # Tests compute with arrays of their own beside the library's, in whose precision, and often before it does.
    jax.config.update("jax_enable_x64", True)
    wake_devices()


# How long an example takes is no property of the code: on a busy machine one of 25 ms took 250.
hypothesis.settings.register_profile("reticent", deadline=None)
hypothesis.settings.load_profile("reticent")


GUARDED = ("audit", "client", "inference", "privacy", "service")
"""Folders whose long tests all guard a promise, and are run by ``.ci/run``; elsewhere a test says so itself."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0] if item.path.is_relative_to(here) else "client"
        if folder in GUARDED and item.get_closest_marker("verify"):
            item.add_marker(pytest.mark.guard)


def pytest_collection_finish() -> None:
    """What is there before the first test stays, and the collector of cycles need not go through it again and again."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices keep their budgets in a place of the test's own, not in that of whoever runs it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / f"state-{uuid.uuid4().hex}"))


@pytest.fixture(autouse=True)
def small_worker() -> Iterator[None]:
    """After a test that left much behind, compiled programs are dropped; those on disk are read again where needed."""
    yield
    if PAGES.exists() and _resident() > LARGEST["worker"]:
        forget_programs()
        LARGEST["worker"] = min(max(MUCH_MEMORY, _resident() + ROOM), MOST_MEMORY)


@pytest.fixture(autouse=True, scope="module")
def few_memory_maps() -> Iterator[None]:
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MANY_MAPS:
        forget_programs()


def forget_programs() -> None:
    """Drop every compiled program of this process, and give the memory back."""
    import jax

    from reticent.simulation import engine

    engine._PROGRAMS.clear()
    jax.clear_caches()
    gc.collect()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def _resident() -> int:
    return int(PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
