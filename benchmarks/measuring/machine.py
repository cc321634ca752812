# SPDX-License-Identifier: Apache-2.0
"""On what it was measured: processor, cores, device, versions, and how busy the machine was already.

Timings made beside other programs are worth little; the load average from before the first measurement says whether
they are.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from reticent.experiments import metadata

BUSY = 1.0
"""Load average from which a remark is due: some core had something else to do."""


def describe() -> dict[str, Any]:
    """All that decides a timing, as far as the operating system tells."""
    return {**metadata.describe(), "cpu": processor(), "cores": cores(), "load_average": load_average()}


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load_average() -> float | None:
    """Of the last minute; None where the system has none."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def in_words(facts: dict[str, Any]) -> str:
    """One line for people."""
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    on_device = "" if facts["backend"] == "cpu" else f", JAX on {facts['device']}"
    return f"{facts['cpu']}, {facts['cores']} cores{on_device}; {versions}"


def busy(facts: dict[str, Any]) -> str | None:
    """A remark if the machine was not idle."""
    load = facts["load_average"]
    if load is None or load < BUSY:
        return None
    return f"the load average was {load:g} before the start: something else was running, and these figures are too low"
