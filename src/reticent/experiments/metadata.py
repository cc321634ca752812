# SPDX-License-Identifier: Apache-2.0
"""Under which circumstances a run was made: versions, device, state of the repository, date.

Nothing here names the machine, its user or a directory: results are made to be shared.
"""

from __future__ import annotations

import datetime
import platform
import subprocess

import jax
import numpy as np

import reticent


def versions() -> dict[str, str]:
    """Versions of what decides the numbers."""
    return {
        "reticent": reticent.__version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
    }


def device() -> dict[str, object]:
    """The device that JAX computes on, and in which precision."""
    devices = jax.devices()
    return {
        "backend": jax.default_backend(),
        "device": devices[0].device_kind,
        "devices": len(devices),
    }


def repository() -> dict[str, object] | None:
    """The commit of the working directory's repository and whether files differ from it; None outside of one."""
    commit = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain", "--untracked-files=no")
    if commit is None or status is None:
        return None
    return {"commit": commit, "dirty": bool(status)}


def describe() -> dict[str, object]:
    """All of the above, with the date."""
    now = datetime.datetime.now(datetime.UTC)
    return {
        "date": now.isoformat(timespec="seconds"),
        "versions": versions(),
        **device(),
        "platform": f"{platform.system()} {platform.machine()}",
        "git": repository(),
    }


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
