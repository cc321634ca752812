# SPDX-License-Identifier: Apache-2.0
"""MSNBC's raw sequences as a long table: a suggestion at every page, which pays 1 if the reader goes there next.

    python examples/msnbc_sessions.py FOLDER/msnbc990928.zip --out records --pilot 50000 --trial 20000

The archive has one line per session, page categories from 1 to 17 (get it from UCI, "MSNBC.com Anonymous Web Data").
Repeats of a page are dropped and the first six pages kept. Readers never saw suggestions: one is drawn at random for each
page (column ``suggest``), and ``hit`` says whether the reader went there. For the trial ``hit_SECTION`` says it of all.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

STEPS = 5


def sessions(archive: Path) -> tuple[list[str], Iterator[list[str]]]:
    """The sections' names, and sessions as lists of names without repeats."""
    with zipfile.ZipFile(archive) as file:
        member = next(name for name in file.namelist() if name.endswith(".seq") and "MACOSX" not in name)
        lines = file.read(member).decode().splitlines()
    names = lines[2].split()
    pages = ([names[int(page) - 1] for page in line.split()] for line in lines[7:] if line.strip())
    return names, ([page for page, _ in itertools.groupby(one)] for one in pages)


def write(path: Path, chosen: list[list[str]], first: int, names: list[str], all_hits: bool, seed: int) -> None:
    """One row per reader and page."""
    draw = random.Random(seed)
    hits = [f"hit_{name}" for name in names] if all_hits else []
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["reader", "step", "page", "suggest", "hit", *hits])
        for reader, pages in enumerate(chosen, start=first):
            for step, page in enumerate(pages[:STEPS]):
                following = pages[step + 1] if step + 1 < len(pages) else ""
                suggestion = draw.choice(names)
                every = [int(name == following) for name in names] if all_hits else []
                table.writerow([reader, step, page, suggestion, int(suggestion == following), *every])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--pilot", type=int, default=50_000, help="sessions for reticent fit")
    parser.add_argument("--trial", type=int, default=20_000, help="sessions for reticent replay")
    arguments = parser.parse_args()
    sections, listed = sessions(arguments.archive)
    taken = list(itertools.islice(listed, arguments.pilot + arguments.trial))
    arguments.out.mkdir(parents=True, exist_ok=True)
    write(arguments.out / "pilot.csv", taken[: arguments.pilot], 0, sections, False, 0)
    write(arguments.out / "trial.csv", taken[arguments.pilot :], arguments.pilot, sections, True, 1)
    print(f"{arguments.out}: pilot.csv, trial.csv")
