# SPDX-License-Identifier: Apache-2.0
"""Write the made-up records that README.md and docs/from-records.md walk with: public ones, and users to be protected.

    python examples/make_log.py --out records            # pilot.csv and trial.csv

Who these people are is said in :mod:`reticent.worlds.records.example_log`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from reticent.worlds.records.example_log import write_logs

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(), help="folder to write to")
    parser.add_argument("--pilot", type=int, default=4_000, help="users of the pilot")
    parser.add_argument("--trial", type=int, default=40_000, help="users of the trial")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    pilot, trial = write_logs(arguments.out, arguments.pilot, arguments.trial, arguments.seed)
    print(f"{pilot}: public records; {trial}: users to be protected")
