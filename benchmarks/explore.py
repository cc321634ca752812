# SPDX-License-Identifier: Apache-2.0
"""The curves of docs/explore.md: what privacy costs, for every world, trust and ε that its reader may choose.

    python benchmarks/explore.py --out docs/explore/curves.json

A curve that the file has already is not simulated again, unless users, seeds or δ were others: a run that was stopped
goes on where it was. Each curve is one compiled program with all its seeds side by side; regrets and gaps are rounded to
three digits. The page reads one run of 100,000 users as runs of fewer: rounds grow by a fixed factor, whatever the number
of users, and only the last round depends on it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from pathlib import Path
from typing import Any

WORLDS = ("mobile-health", "tutor")
TRUSTS = ("joint", "shuffle", "local")
EPSILONS = (0.3, 1.0, 3.0, 10.0)
DELTA = 1e-5
POINTS = 60
TARGET = 0.05
"""A gap that counts as learned, as a share of what acting at random loses."""
TAIL = 0.05
"""Share of the users over whom the gap at the end is taken."""
ALARMS = 0.01
"""Share of the innocent whom an attacker is ready to accuse."""


def grid(users: int) -> list[int]:
    """Numbers of users at which a curve is kept: evenly on a logarithmic scale, from ten on."""
    import numpy as np

    return [int(point) for point in np.unique(np.round(np.geomspace(10, users, POINTS)))]


def curve(world: Any, agent_name: str, users: int, seeds: int) -> dict[str, Any]:
    """Regret and gap at every point of the grid: median, 5 % and 95 % quantile over seeds; and users until the target."""
    import numpy as np

    from reticent.agents import make_agent
    from reticent.experiments.rehearsal.outcome import Outcome
    from reticent.simulation.simulate import simulate

    curves = simulate(make_agent(agent_name, world.model, users), world, range(seeds))
    scale = world.optimal_value - world.uniform_value
    points = np.array(grid(users))
    at = lambda places: np.array([np.interp(places, curves.episodes, row) for row in curves.regret])  # noqa: E731
    regret = at(points)
    gap = (regret - at((1 - TAIL) * points)) / (TAIL * points * scale)
    outcome = Outcome.measured(
        agent_name, "", None, None, curves, np.full(seeds, world.optimal_value), np.full(seeds, scale)
    )
    until = outcome.reached(TARGET).to_dict()
    return {
        "regret": _band(regret),
        "gap": _band(gap),
        "until": {name: until[name] for name in ("median", "high")},
    }


def _band(samples: Any) -> dict[str, list[float]]:
    import numpy as np

    low, median, high = np.quantile(samples, (0.05, 0.5, 0.95), axis=0)
    return {
        name: [float(f"{value:.3g}") for value in row]
        for name, row in (("median", median), ("low", low), ("high", high))
    }


def attacker(trust: str, epsilon: float) -> dict[str, float]:
    """What a promise leaves to somebody who guesses: exact for Gaussian noise, and else what (ε, δ) alone allows."""
    from reticent.privacy.accounting.gaussian import mu_of
    from reticent.privacy.accounting.guessing import caught, caught_at_most, right_at_most, right_guesses

    if trust == "shuffle":  # binomial noise
        right, found = right_at_most(epsilon, DELTA), caught_at_most(epsilon, DELTA, ALARMS)
    else:
        mu = mu_of(epsilon, DELTA)
        right, found = right_guesses(mu), caught(mu, ALARMS)
    return {"right": float(f"{right:.5g}"), "found": float(f"{found:.5g}")}


def kept(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """What an earlier run left, if its settings were these."""
    if not path.exists():
        return {}
    content: dict[str, Any] = json.loads(path.read_text())
    worlds: dict[str, Any] = content["worlds"]
    return worlds if content["settings"] == settings else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=32)
    chosen = parser.parse_args()

    from reticent.worlds import make_world

    settings = {"users": chosen.users, "seeds": chosen.seeds, "delta": DELTA, "target": TARGET, "alarms": ALARMS}
    worlds = kept(chosen.out, settings)
    names = {"none": "score-vi"} | {
        f"{trust},{epsilon:g}": f"private-score-vi:trust={trust},epsilon={epsilon:g},delta={DELTA:g}"
        for trust in TRUSTS
        for epsilon in EPSILONS
    }
    for spec in WORLDS:
        world = make_world(spec)
        found = worlds.setdefault(spec, {"curves": {}})
        found["random"] = float(f"{world.optimal_value - world.uniform_value:.5g}")
        for key, agent in names.items():
            if key in found["curves"]:
                continue
            started = time.perf_counter()
            found["curves"][key] = curve(world, agent, chosen.users, chosen.seeds)
            print(f"{spec} {agent}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
            content = {
                "settings": settings,
                "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
                "points": grid(chosen.users),
                "attacker": {
                    f"{trust},{epsilon:g}": attacker(trust, epsilon) for trust in TRUSTS for epsilon in EPSILONS
                },
                "worlds": worlds,
            }
            chosen.out.parent.mkdir(parents=True, exist_ok=True)
            chosen.out.write_text(json.dumps(content, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
