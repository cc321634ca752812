# SPDX-License-Identifier: Apache-2.0
"""No algorithm changed without being noticed: regrets as they were recorded, bit for bit on one machine (:mod:`record`).

XLA chooses instructions by the processor, so that the same code may round its last bit otherwise on another machine:
`blend private-linopt-po` is one unit in the last place away on a machine whose unchanged code was recorded elsewhere. A
regret may therefore be :data:`LAST_BITS` units away from what was recorded; a changed algorithm is farther by far.

The quick suite leaves out some of XLA's passes, which rounds otherwise, so there the runs are made by a process of their
own that compiles as users do.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from record import FILE, RUNS, regrets

from reticent.agents import AGENTS

RECORDED = json.loads(FILE.read_text()) if FILE.exists() else {}
QUICK = [("blend", "private-linopt-vi"), ("blend", "private-ucb-vi")]
LAST_BITS = 4
"""Units in the last place."""
LEFT_OUT = ("JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS")


@pytest.fixture(scope="module")
def quick_regrets() -> dict[str, list[list[str]]]:
    """All quick runs, as users compile them."""
    environment = {key: value for key, value in os.environ.items() if key not in LEFT_OUT}
    names = [name for run in QUICK for name in run]
    done = subprocess.run(
        [sys.executable, FILE.with_name("record.py"), *names],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, list[list[str]]] = json.loads(done.stdout)
    return found


@pytest.mark.verify
@pytest.mark.parametrize(("world", "agent"), QUICK, ids=map(" ".join, QUICK))
def test_quick_regrets_are_what_was_recorded(world: str, agent: str, quick_regrets: dict) -> None:
    assert_recorded(quick_regrets[f"{world} {agent}"], RECORDED[f"{world} {agent}"])


def deployable(agent: str) -> bool:
    """Whether a service can run it; ``.ci/run`` compares these, ``make verify`` all."""
    name, _, options = agent.partition(":")
    excluded = ("calibration=paper", "counter=blt", "counter=toeplitz", "law=laplace", "noise=wishart")
    return "deployment" in AGENTS.find(name).options and not any(option in options for option in excluded)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("world", "agent"),
    [pytest.param(*run, id=" ".join(run), marks=[pytest.mark.guard] if deployable(run[1]) else []) for run in RUNS],
)
def test_regrets_are_what_was_recorded(world: str, agent: str) -> None:
    if os.environ.keys() & set(LEFT_OUT):
        pytest.fail("run this with --optimized: without XLA's passes numbers are rounded otherwise")
    assert_recorded(regrets(world, agent), RECORDED[f"{world} {agent}"])


def assert_recorded(found: list[list[str]], recorded: list[list[str]]) -> None:
    """Regrets, as hexadecimal numbers, are those that were recorded, up to the last bits."""
    numbers, wanted = (np.array([[float.fromhex(one) for one in row] for row in rows]) for rows in (found, recorded))
    np.testing.assert_array_max_ulp(numbers, wanted, maxulp=LAST_BITS)


@pytest.mark.parametrize(("away", "same"), [(0, True), (LAST_BITS, True), (LAST_BITS + 1, False)])
def test_only_the_last_bits_may_differ(away: int, same: bool) -> None:
    moved = 100.0 + away * np.spacing(100.0)
    with contextlib.nullcontext() if same else pytest.raises(AssertionError):
        assert_recorded([[float(moved).hex()]], [[(100.0).hex()]])
