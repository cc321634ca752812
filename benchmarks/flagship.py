# SPDX-License-Identifier: Apache-2.0
"""The price of privacy: private-score-vi beside other learners. Makes the tables of docs/improvements.md and its records.

    python benchmarks/flagship.py main zoo local shuffle epsilons blends million sensitivity floor curves \
        --out results/flagship.json

Each part is a list of (world, agent, users, seeds); a row says mean ± standard error, median, 90% quantile and number of
stuck runs (final gap above a tenth of what acting at random loses), the users until the gap stays below 5%, and the share
that the first plan loses. The worlds of ``main`` and random blends 100-102 were used to choose constants; those of ``zoo``,
``blends`` (seeds 1000-1019) and ``sensitivity`` were not.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

MAIN = (
    "random-blend", "mobile-health", "tutor", "riverswim:states=4,features=blend", "random-blend:per_step=True",
)  # fmt: skip
ZOO = (
    "hard-instance", "glucose", "riverswim:features=blend", "large-blend", "keyboard", "linear-mdp", "riverswim:states=4",
    "icu-sepsis", "random-blend:misspecification=0.1", "random-blend:misspecification=0.2",
    "random-blend:misspecification=0.3",
)  # fmt: skip
OURS, TODAY, PAPER = "private-score-vi", "private-linopt-vi", "private-linopt-vi:calibration=paper"
FAIR = "ucrl-vtr:replan=epoch,bonus_scale=0.05,centred=True,span=seen,pool=default,normalize=default"
UNSEEN = tuple(f"random-blend:seed={seed}" for seed in range(1000, 1020))
VARIED = {"first": 2.0, "growth": 1.5, "bonus": 1.0, "explore": 0.3, "ridge": 0.1, "clip": 0.7, "free": 0.5}

Job = tuple[str, str, str, int, int]
"""Part, world, agent, users, seeds."""


def jobs_of(part: str, seeds: int) -> list[Job]:
    """What a part consists of."""
    few = max(8, seeds // 4)
    every: dict[str, list[Job]] = {
        "main": [(part, w, a, k, seeds) for w in MAIN for a in (OURS, f"{OURS}:score=likelihood") for k in (20_000, 10**6)]
        + [(part, w, TODAY, 20_000, few) for w in MAIN],
        "zoo": [(part, w, a, 20_000, few) for w in ZOO for a in (OURS, f"{OURS}:score=likelihood", TODAY)],
        "blends": [(part, w, a, 20_000, few) for w in UNSEEN for a in (OURS, TODAY)],
        "million": [(part, w, a, 10**6, max(8, seeds // 8)) for w in (*ZOO, *UNSEEN) for a in (OURS, TODAY)],
        "local": [(part, w, f"{OURS}:trust=local,epsilon={e},score={s}", k, few * 2)
                  for w in MAIN[1:3] for s in ("values", "likelihood") for e, k in ((10, 200_000), (1, 10**6))],
        "shuffle": [(part, w, f"{OURS}:trust=shuffle", 20_000, seeds) for w in MAIN],
        "epsilons": [(part, w, f"{OURS}:epsilon={e}", 20_000, seeds) for w in MAIN[:3] for e in (0.1, 0.3, 3, 10)],
        "floor": [(part, w, a, 20_000, seeds) for w in MAIN for a in ("score-vi", FAIR, "ucrl-vtr:replan=epoch")],
        "sensitivity": [(part, w, f"{OURS}:{key}={value * factor:g}", 20_000, few)
                        for key, value in VARIED.items()
                        for factor in ((0.5, 2.0) if key != "growth" else (1.25 / 1.5, 2.0 / 1.5))
                        for w in (*UNSEEN[:6], "glucose", "hard-instance")]
        + [(part, w, OURS, 20_000, few) for w in (*UNSEEN[:6], "glucose", "hard-instance")],
        "curves": [(part, "mobile-health", a, 200_000, few) for a in (OURS, PAPER, TODAY, "score-vi")]
        + [(part, "mobile-health", f"{OURS}:trust={t},epsilon={e}", 200_000, few)
           for t in ("joint", "shuffle", "local") for e in (0.1, 0.3, 1, 3, 10)],
    }  # fmt: skip
    return every[part]


def measure(job: Job) -> dict[str, Any]:
    """One row."""
    import numpy as np

    from reticent.agents import make_agent
    from reticent.runtime import double_precision
    from reticent.simulation.simulate import simulate
    from reticent.worlds import make_world

    part, spec, agent_spec, users, seeds = job
    started = time.perf_counter()
    world = make_world(spec)
    # The blend alone: benchmarks/prior.py has what residuals change.
    alone = {"residual": "off"} if "score-vi" in agent_spec else {}
    agent = make_agent(agent_spec, world.model, users, **alone)
    curves = double_precision(simulate)(agent, world, range(seeds))
    scale = world.optimal_value - world.uniform_value
    regret, final = curves.regret[:, -1], curves.tail_regret / scale
    share = (world.optimal_value - curves.value).mean(axis=0) / scale
    above = np.flatnonzero(share > 0.05)
    grid = np.unique(np.round(np.geomspace(1, users, 60)).astype(int))
    places = np.searchsorted(curves.episodes, grid)
    return {
        "part": part, "world": spec, "agent": agent_spec, "users": users, "seeds": seeds,
        "mean": float(regret.mean()), "stderr": float(regret.std(ddof=1) / np.sqrt(seeds)),
        "median": float(np.median(regret)), "q90": float(np.quantile(regret, 0.9)),
        "final": float(final.mean()), "stuck": int((final > 0.1).sum()),
        "users_5": int(curves.episodes[above[-1]]) if len(above) else 0,
        "first": float(share[0]), "worst": float(share.max()),
        "chance": float(scale * users),
        "points": curves.episodes[places].tolist(),
        "curve": curves.regret.mean(axis=0)[places].tolist(),
        "gap": share[places].tolist(),
        "seconds": round(time.perf_counter() - started, 1), "compile_seconds": round(curves.compile_seconds, 1),
    }  # fmt: skip


def line(row: dict[str, Any]) -> str:
    return (
        f"| {row['world']} | {row['agent']} | {row['users']:,} | {row['mean']:,.0f} ± {row['stderr']:,.0f} | "
        f"{row['median']:,.0f} | {row['q90']:,.0f} | {row['stuck']}/{row['seeds']} | {100 * row['final']:.2f}% | "
        f"{row['users_5']:,} | {row['first']:.2f} | {row['seconds']:.0f} s"
    )


def guarded(job: Job) -> dict[str, Any]:
    try:
        return measure(job)
    except Exception as problem:  # one world that does not apply must not end the others
        return {"part": job[0], "world": job[1], "agent": job[2], "error": f"{type(problem).__name__}: {problem}"[:300]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="+")
    parser.add_argument("--seeds", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    work = [job for part in chosen.parts for job in jobs_of(part, chosen.seeds)]
    work.sort(key=lambda job: -job[3] * job[4])
    rows = []
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(chosen.jobs, mp_context=context, max_tasks_per_child=8) as pool:
        for number, row in enumerate(pool.map(guarded, work), 1):
            rows.append(row)
            print(f"{number}/{len(work)} {row['error'] if 'error' in row else line(row)}", file=sys.stderr, flush=True)
            if chosen.out is not None:
                chosen.out.parent.mkdir(parents=True, exist_ok=True)
                chosen.out.write_text(json.dumps(rows, indent=1) + "\n")
    for part in chosen.parts:
        print(f"\n## {part}\n\n| world | agent | users | regret | median | q90 | stuck | final gap | 5% | first |")
        print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
        print("\n".join(line(row) for row in rows if row["part"] == part and "error" not in row))


if __name__ == "__main__":
    main()
