# SPDX-License-Identifier: Apache-2.0
"""``python -m reticent.experiments.bench``: the measurements without the command line's packages, for bare machines."""

from __future__ import annotations

import argparse
import json
import sys

from reticent.experiments.bench import bench, default_work, machine, with_agents
from reticent.experiments.bench.rows import HEAD, markdown


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reticent.experiments.bench", description=__doc__)
    parser.add_argument("--seeds", type=int, help="how many learners 'many' are (64; 8192 on a GPU)")
    parser.add_argument("--episodes", type=int, help="K (20000)")
    parser.add_argument(
        "--agent", action="append", default=[], help="a further agent, such as ucrl-vtr; repeat for more"
    )
    parser.add_argument("--repeats", type=int, help="measurements of each row (3)")
    parser.add_argument("--precision", help="of the learners: float64 (default) or float32")
    parser.add_argument("--quick", action="store_true", help="shorter measurements")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    chosen = parser.parse_args()
    work = default_work(
        chosen.quick, seeds=chosen.seeds, episodes=chosen.episodes, repeats=chosen.repeats, precision=chosen.precision
    )
    measured = bench(work, contestants=with_agents(chosen.agent), tell=tell)
    if chosen.json:
        print(json.dumps(measured.to_dict(), indent=2, allow_nan=False, ensure_ascii=False))
        return
    print(machine.in_words(measured.machine), "", markdown(HEAD, measured.lines()), "", *measured.notes(), sep="\n")


def tell(what: str) -> None:
    print(f"measuring {what} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
