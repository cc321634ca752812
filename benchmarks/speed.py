# SPDX-License-Identifier: Apache-2.0
"""How fast this library is on this machine: one learner, many side by side, plans every user or in epochs.

    python benchmarks/speed.py --seeds 128
    python benchmarks/speed.py --scaling --out results/scaling

Every row does the same work in the same world: private value iteration, a plan for every user unless the row says
otherwise. Compiled programs are not taken from the cache, so that compile times are true. The first form needs JAX, NumPy
and SciPy alone, so that it runs on a bare machine with a GPU; ``--scaling --out`` also draws a picture with Matplotlib.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measuring import bench, default_work, machine, with_agents
from measuring.memory import PEAKS
from measuring.rows import HEAD, markdown
from measuring.scaling import PEAK_HEAD, QUICK, SIZES, TABLE_HEAD, measure_scaling
from reticent.errors import ReticentError


def main(arguments: list[str] | None = None) -> int:
    chosen = parser().parse_args(arguments)
    try:
        found, tables = (scaling if chosen.scaling else rows)(chosen)
    except ReticentError as mistake:
        print(f"error: {mistake}", file=sys.stderr)
        return 2
    if chosen.out is not None:
        chosen.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(found.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        (chosen.out / ("scaling.json" if chosen.scaling else "bench.json")).write_text(text + "\n", encoding="utf-8")
    if chosen.json:
        print(json.dumps(found.to_dict(), indent=2, allow_nan=False, ensure_ascii=False))
    else:
        print(machine.in_words(found.machine), *tables, *found.notes(), sep="\n")
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--seeds", type=int, help="how many learners run side by side (64; 8192 on a GPU)")
    made.add_argument("--episodes", type=int, help="number of users K (20000)")
    made.add_argument("--world", help="the world (random-blend, S=20, A=4, H=5, d=4)")
    made.add_argument("--agent", action="append", default=[], help="a further agent to time; repeat for more")
    made.add_argument("--repeats", type=int, default=3, help="measurements of each row; the median counts (3)")
    made.add_argument("--precision", help="of the learners: float64 (default) or float32")
    made.add_argument("--quick", action="store_true", help="shorter measurements, and smaller sizes with --scaling")
    made.add_argument("--scaling", action="store_true", help="how time and memory grow with every size (minutes)")
    made.add_argument("--out", type=Path, help="directory for bench.json, or scaling.json and scaling.png")
    made.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    return made


def rows(chosen: argparse.Namespace) -> tuple[Any, list[str]]:
    work = default_work(
        chosen.quick, seeds=chosen.seeds, episodes=chosen.episodes, world=chosen.world, repeats=chosen.repeats,
        precision=chosen.precision,
    )  # fmt: skip
    contestants = with_agents(chosen.agent)
    found = bench(work, contestants=contestants, tell=teller(len(contestants)))
    return found, ["", markdown(HEAD, found.lines()), ""]


def scaling(chosen: argparse.Namespace) -> tuple[Any, list[str]]:
    found = measure_scaling(
        QUICK if chosen.quick else SIZES,
        repeats=chosen.repeats,
        seconds=0.1 if chosen.quick else 0.5,
        peaks=PEAKS[:1] if chosen.quick else PEAKS,
        told=lambda what: print(f"measuring {what}", file=sys.stderr, flush=True),
    )
    if chosen.out is not None:
        from measuring.figure import draw_scaling

        chosen.out.mkdir(parents=True, exist_ok=True)
        draw_scaling(found, chosen.out / "scaling.png")
    return found, ["", markdown(TABLE_HEAD, found.table()), "", markdown(PEAK_HEAD, found.peak_table()), ""]


def teller(number: int) -> Callable[[str], None]:
    """Says which row is being measured, and how long the others will take if they take as long as those before."""
    started, begun = time.monotonic(), 0

    def told(what: str) -> None:
        nonlocal begun
        each = (time.monotonic() - started) / max(begun, 1)
        left = f", about {each * (number - begun):.0f} s left" if begun else ""
        begun += 1
        print(f"measuring {what} ({begun} of {number}{left})", file=sys.stderr, flush=True)

    return told


if __name__ == "__main__":
    sys.exit(main())
