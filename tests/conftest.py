"""Compiled programs are kept on disk between tests and runs: most of the suite's time would be compilation.

In memory they are let go of now and then. Every program of XLA's takes some of the process's memory maps, of which the
system allows 65 530, and XLA does not survive the one after.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from reticent.runtime import enable_compilation_cache
from reticent.simulation import engine

# Tests compute with arrays of their own beside the library's, in whose precision.
jax.config.update("jax_enable_x64", True)
enable_compilation_cache(Path(__file__).parent.parent / ".pytest_cache" / "jax")

MAPS = Path("/proc/self/maps")
MANY_MAPS = 20_000


@pytest.fixture(autouse=True, scope="module")
def few_memory_maps() -> Iterator[None]:
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MANY_MAPS:
        engine._PROGRAMS.clear()
        jax.clear_caches()
