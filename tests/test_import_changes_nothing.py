# SPDX-License-Identifier: Apache-2.0
"""Importing the library, and using it, leaves the process as it was: precision, environment, configuration."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os
before = dict(os.environ)
import jax
import reticent
assert not jax.config.jax_enable_x64
world = reticent.make_world("riverswim:states=3,horizon=4")
agent = reticent.make_agent("private-linopt-vi", world.model, 20)
state = agent.init()
plan = agent.plan(state)
assert str(plan.values.dtype) == str(world.transitions.dtype) == "float64", plan.values.dtype
assert isinstance(world.optimal_value, float) and int(agent.act(plan, 0, 1, 0.5)) in (0, 1)
curves = reticent.simulate(agent, world, [0, 1])
assert str(curves.regret.dtype) == "float64" and str(curves.carry.regret.dtype) == "float64"
assert not jax.config.jax_enable_x64 and jax.numpy.ones(1).dtype == "float32"
assert jax.config.jax_compilation_cache_dir == os.environ.get("JAX_COMPILATION_CACHE_DIR")
theirs = {"PYGAME_HIDE_SUPPORT_PROMPT", "TF_CPP_MIN_LOG_LEVEL", "TPU_SKIP_MDS_QUERY"}  # set by gymnasium and JAX themselves
now = {key: value for key, value in os.environ.items() if key in before or key not in theirs}
assert now == before, set(now) ^ set(before)
"""


@pytest.mark.verify
def test_nothing_of_the_process_is_changed() -> None:
    """Warnings are errors: JAX warns where a 64-bit number would be cut to 32 bits."""
    subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], check=True, timeout=300)


def test_importing_takes_little() -> None:
    """Neither JAX nor a plotting library is loaded before it is used."""
    program = "import sys, reticent; assert not {'jax', 'matplotlib', 'gymnasium', 'polars'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
