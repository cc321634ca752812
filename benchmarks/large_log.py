# SPDX-License-Identifier: Apache-2.0
"""How long ``reticent fit`` takes for a large log, and how much memory: from Parquet, from its parts, and from CSV.

    python benchmarks/large_log.py --rows 10000000 --forms parquet parts csv

The log is made up: users of ten steps, eight states, four actions, two kinds of people. Every form is fitted by a process
of its own, whose processor time and largest resident memory the system says. The answer of each form is a digest of the
candidates in the model file: it is the same for the same log. ``--group`` fits with a column of groups.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from reticent.worlds import load_model

STEPS, STATES, ACTIONS, GROUPS = 10, 8, 4, 20
PART = 100_000
"""Users of one part."""


def users_of(first: int, count: int, seed: int) -> pl.DataFrame:
    """Rows of ``count`` users in order; the same users whatever the parts are."""
    random = np.random.default_rng([seed, first])
    kind = random.integers(0, 2, count)
    state = random.integers(0, STATES, count)
    columns: dict[str, list[np.ndarray]] = {"state": [], "action": [], "reward": []}
    for _ in range(STEPS):
        action = random.integers(0, ACTIONS, count)
        likes = (action + state + kind * (1 + state)) % ACTIONS == 0
        columns["state"].append(state)
        columns["action"].append(action)
        columns["reward"].append((random.random(count) < np.where(likes, 0.8, 0.2)).astype(np.int64))
        state = (state + 1 + action * (1 + kind) + random.integers(0, 2, count)) % STATES
    table = {name: np.stack(column, axis=1).ravel() for name, column in columns.items()}
    user = np.repeat(np.arange(first, first + count), STEPS)
    frame = pl.DataFrame({"user": user, "step": np.tile(np.arange(STEPS), count), **table})
    return frame.with_columns(
        ("u" + pl.col("user").cast(pl.String)).alias("user"),
        ("s" + pl.col("state").cast(pl.String)).alias("state"),
        ("a" + pl.col("action").cast(pl.String)).alias("action"),
        ("g" + (pl.col("user") % GROUPS).cast(pl.String)).alias("group"),
    )


def write(folder: Path, rows: int, forms: list[str], seed: int) -> None:
    """The log in every form, part by part."""
    parts = folder / "parts"
    parts.mkdir()
    users = rows // STEPS
    for number, first in enumerate(range(0, users, PART)):
        users_of(first, min(PART, users - first), seed).write_parquet(parts / f"{number:05}.parquet")
    scan = pl.scan_parquet(sorted(parts.glob("*.parquet")))
    if "parquet" in forms:
        scan.sink_parquet(folder / "log.parquet")
    if "csv" in forms:
        scan.sink_csv(folder / "log.csv")


def fitted(log: str, model: Path, more: list[str]) -> tuple[float, float, float]:
    """Processor seconds, seconds and GiB of one ``reticent fit``.

    Raises:
      RuntimeError: it failed.
    """
    line = [sys.executable, "-m", "reticent", "fit", log, "--horizon", str(STEPS), "--origin", "simulated"]
    began = time.monotonic()
    child = subprocess.Popen([*line, "--out", str(model), *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(child.args)}: exit status {child.returncode}")  # type: ignore[arg-type]
    return used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 2**20


def digest(model: Path) -> str:
    """Of all candidates in the model file, to nine digits."""
    loaded = load_model(model).model
    numbers = np.concatenate([np.ravel(loaded.transition_features), np.ravel(loaded.reward_features)])
    return hashlib.sha256(" ".join(f"{value:.9g}" for value in numbers).encode()).hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--forms", nargs="+", choices=["parquet", "parts", "csv"], default=["parquet", "parts", "csv"])
    parser.add_argument("--group", action="store_true", help="fit with the column of groups")
    parser.add_argument("--candidates", default="2-8")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    more = ["--candidates", given.candidates, *(["--group", "group"] if given.group else [])]
    print(f"{given.rows:,} rows, {' '.join(more)}; load average {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="large-log-") as place:
        folder = Path(place)
        write(folder, given.rows, given.forms, given.seed)
        names = {"parquet": "log.parquet", "parts": "parts/*.parquet", "csv": "log.csv"}
        for form in given.forms:
            model = folder / f"{form}.npz"
            spent, passed, memory = fitted(str(folder / names[form]), model, more)
            print(
                f"{form:8} {spent:6.0f} s processor, {passed:6.0f} s, {memory:5.2f} GiB, answer {digest(model)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
