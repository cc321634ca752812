"""Compiled programs are kept on disk between tests and runs: most of the suite's time would be compilation."""

from __future__ import annotations

from pathlib import Path

from reticent.backend import enable_compilation_cache

enable_compilation_cache(Path(__file__).parent.parent / ".pytest_cache" / "jax")
