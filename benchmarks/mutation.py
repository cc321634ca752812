# SPDX-License-Identifier: Apache-2.0
"""Systematic mutation of the modules that privacy rests on: everything that can be changed, one thing at a time.

    python benchmarks/mutation.py                 all targets, about an hour (`make mutants`)
    python benchmarks/mutation.py clipping noise  these
    python benchmarks/mutation.py --list          what there is

A mutant (:mod:`mutation_changes`) is written to a copy of the source tree and put to the target's tests
(:mod:`mutation_trial`); it *survives* if they all pass. Of a large module a sample is tried, always the same one. The
report is Markdown; survivors come with the reason why they do no harm, from ``mutation_harmless.toml``, or without,
which is a gap in the tests. The exit status is 1 if fewer than 95 % are killed, or a survivor is unexplained.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import random
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from mutation_changes import Mutant, mutants
from mutation_targets import TARGETS, Target
from mutation_trial import Trials, UnbrokenFails, load_heavy_libraries

ROOT = Path(__file__).parents[1]
HARMLESS = Path(__file__).parent / "mutation_harmless.toml"
GOAL = 0.95


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of one target's mutants."""

    target: str
    module: str
    possible: int
    tried: int
    survivors: tuple[Mutant, ...]

    @property
    def killed(self) -> int:
        return self.tried - len(self.survivors)


class Progress:
    """A line on standard error about every ten seconds: what is going on, and how long it may take."""

    def __init__(self, planned: int) -> None:
        self._planned, self._done, self._began, self._said = planned, 0, time.monotonic(), 0.0

    def step(self, target: str, number: int, of: int, left: int) -> None:
        self._done += 1
        now = time.monotonic()
        if now - self._said < 10 and number < of:
            return
        self._said = now
        minutes = (now - self._began) / self._done * (self._planned - self._done) / 60
        print(f"{target}: {number} of {of}, {left} survive; {self._done} of {self._planned} in all, about {minutes:.0f} "
              "minutes to go", file=sys.stderr, flush=True)  # fmt: skip


def chosen_mutants(source: str, most: int) -> tuple[list[Mutant], int]:
    """All mutants of a module, or a sample of ``most`` of them, always the same; and how many there are."""
    every = mutants(source)
    if len(every) <= most:
        return every, len(every)
    return sorted(random.Random(14).sample(every, most), key=lambda mutant: mutant.line), len(every)


def examine(name: str, target: Target, progress: Progress, root: Path = ROOT, like: str = "") -> Result:
    """Put every chosen mutant of a target to its tests, if its name contains ``like``."""
    source = (root / target.module).read_text(encoding="utf-8")
    chosen, possible = chosen_mutants(source, target.most)
    chosen = [mutant for mutant in chosen if like in mutant.name]
    survivors = []
    with Trials(root, target.module, target.tests, target.choice, target.marks) as trials:
        trials.unbroken(source)
        print(
            f"{name}: its tests take {trials.seconds:.1f} s; {len(chosen)} of {possible} mutants",
            file=sys.stderr,
            flush=True,
        )
        for number, mutant in enumerate(chosen, 1):
            if trials.survives(mutant.source):
                survivors.append(mutant)
                print(f"{name}: survives at line {mutant.line}: {mutant.name}", file=sys.stderr, flush=True)
            progress.step(name, number, len(chosen), len(survivors))
    return Result(name, target.module, possible, len(chosen), tuple(survivors))


def reasons() -> dict[str, dict[str, str]]:
    """Why survivors do no harm: by target, and by the name of the mutant."""
    found: dict[str, dict[str, str]] = tomllib.loads(HARMLESS.read_text(encoding="utf-8"))
    return found


def report(results: list[Result], harmless: dict[str, dict[str, str]], commit: str, command: str) -> str:
    """The results as Markdown; ``harmless`` has for a target the reasons by the names of its survivors."""
    tried, killed = sum(result.tried for result in results), sum(result.killed for result in results)
    lines = [
        f"`{command}`, {datetime.datetime.now(datetime.UTC):%d %B %Y}, commit `{commit}`: {killed} of {tried} mutants "
        f"killed, **{killed / max(tried, 1):.1%}**.",
        "",
        "| target | module | mutants | tried | killed | survived |",
        "|---|---|---:|---:|---:|---:|",
        *[
            f"| `{one.target}` | `{one.module.rpartition('src/')[2]}` | {one.possible} | {one.tried} | {one.killed} "
            f"| {len(one.survivors)} |"
            for one in results
        ],
        "",
        "| survivor | change | harmless because |",
        "|---|---|---|",
    ]
    for one in results:
        for mutant in one.survivors:
            reason = harmless.get(one.target, {}).get(mutant.name, "**not explained**")
            said = mutant.said.replace("|", "\\|")
            lines.append(f"| `{one.target}`, `{mutant.function}` | `{said}` | {reason} |")
    return "\n".join(lines)


def good_enough(results: list[Result], harmless: dict[str, dict[str, str]]) -> bool:
    """Whether the goal is reached and every survivor is explained."""
    tried, killed = sum(result.tried for result in results), sum(result.killed for result in results)
    explained = all(mutant.name in harmless.get(one.target, {}) for one in results for mutant in one.survivors)
    return killed >= GOAL * tried and explained


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Systematic mutation of the modules that privacy rests on.")
    parser.add_argument("targets", nargs="*", help="by default all")
    parser.add_argument("--list", action="store_true", help="say what targets there are, and stop")
    parser.add_argument("--like", default="", help="only mutants whose name contains this: one that survived, again")
    parser.add_argument("--most", type=int, default=None, help="try at most so many mutants of each target")
    options = parser.parse_args(arguments)
    names = options.targets or list(TARGETS)
    if unknown := set(names) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    targets = {name: TARGETS[name] for name in names}
    if options.most is not None:
        targets = {
            name: dataclasses.replace(target, most=min(target.most, options.most)) for name, target in targets.items()
        }
    counts = {
        name: len(chosen_mutants((ROOT / target.module).read_text(encoding="utf-8"), target.most)[0])
        for name, target in targets.items()
    }
    if options.list:
        for name, target in targets.items():
            print(f"{name:<24} {counts[name]:>4} mutants of {target.module}")
        return 0
    load_heavy_libraries(ROOT)
    print(
        f"{sum(counts.values())} mutants of {len(targets)} modules, one to two seconds each",
        file=sys.stderr,
        flush=True,
    )
    progress = Progress(sum(counts.values()))
    results, untried = [], []
    for name, target in targets.items():
        try:
            results.append(examine(name, target, progress, like=options.like))
        except UnbrokenFails as failure:
            untried.append(name)
            print(f"{name}: not tried: {failure}", file=sys.stderr, flush=True)
    harmless = reasons()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    print(report(results, harmless, commit, " ".join(["python benchmarks/mutation.py", *arguments])))
    if untried:
        print(f"\nNot tried, as their tests fail on the unbroken code: {', '.join(untried)}.")
    return 0 if good_enough(results, harmless) and not untried else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
