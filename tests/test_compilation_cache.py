# SPDX-License-Identifier: Apache-2.0
"""Commands keep compiled programs on disk, by the threshold of the environment if there is one."""

from __future__ import annotations

from pathlib import Path

import jax
import pytest

from reticent.runtime import enable_compilation_cache

THRESHOLD = "jax_persistent_cache_min_compile_time_secs"


def test_the_threshold_of_the_environment_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, before = Path(jax.config.jax_compilation_cache_dir), getattr(jax.config, THRESHOLD)
    monkeypatch.setenv("RETICENT_CACHE", str(folder))
    try:
        jax.config.update(THRESHOLD, 0.5)  # as JAX has read it from the environment
        monkeypatch.setenv(THRESHOLD.upper(), "0.5")
        enable_compilation_cache()
        assert getattr(jax.config, THRESHOLD) == 0.5
        monkeypatch.delenv(THRESHOLD.upper())
        enable_compilation_cache()
        assert getattr(jax.config, THRESHOLD) == 0.2
        assert jax.config.jax_compilation_cache_dir == str(folder)
    finally:
        jax.config.update(THRESHOLD, before)
