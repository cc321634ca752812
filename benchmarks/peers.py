# SPDX-License-Identifier: Apache-2.0
"""reticent beside others, in one run: rlberry, and the published private algorithms, in one world with as many users.

    python benchmarks/peers.py [--rlberry PYTHON]

Makes the table of docs/peers.md. The published algorithms are this library's transcriptions (docs/baselines/README.md),
calibrated so that each keeps the promise it is given: the authors' own code, where there is any, has the noise of other
promises. Nothing is tuned; every agent has its defaults. rlberry 0.7 cannot be imported beside a Gymnasium of 1.0 or later:
``--rlberry`` names a Python that has it (``pip install rlberry rlberry-scool`` in an environment of its own).

A *learner-episode* is one user of one learner, and a *step* one of her H decisions; both are counted over all learners that
run side by side, after compilation. rlberry runs one learner, and does not evaluate its policies: it has no regret here,
and less to do.
"""

from __future__ import annotations

import argparse
import sys
from typing import NamedTuple

import numpy as np

from measuring import machine
from measuring.rows import markdown
from measuring.work import WORLD, Work
from opponents import measure_peers
from reticent.agents import make_agent
from reticent.privacy.guarantee import guarantee_of
from reticent.simulation.simulate import simulate
from reticent.worlds import World

HEAD = ("program", "promise", "learners", "learner-episodes/s", "steps/s", "regret", "of acting at random")


class Peer(NamedTuple):
    """Who published an algorithm, and the agent that transcribes it."""

    source: str
    agent: str


PEERS = (
    Peer("Azar, Osband and Munos 2017", "ucbvi"),
    Peer("Vietri et al. 2020", "pucb"),
    Peer("Garcelon et al. 2020", "ldp-obi"),
    Peer("Chowdhury and Zhou 2022", "private-ucb-vi"),
    Peer("Chowdhury and Zhou 2022", "private-ucb-po"),
    Peer("Chowdhury and Zhou 2022", "private-ucb-vi:trust=local"),
    Peer("Qiao and Wang 2023", "dp-ucbvi"),
    Peer("Liao, He and Gu 2021", "ldp-ucrl-vtr"),
    Peer("Zhou 2022, least noise", "private-linopt-vi"),
    Peer("reticent", "private-score-vi"),
    Peer("reticent", "private-score-vi:trust=local"),
    Peer("reticent", "score-vi"),
)


def row(peer: Peer, world: World, episodes: int, seeds: int) -> tuple[str, ...]:
    """One line of the table: the whole run is timed, and its regret is exact."""
    agent = make_agent(peer.agent, world.model, episodes)
    curves = simulate(agent, world, range(seeds))
    regret, chance = curves.regret[:, -1], episodes * (world.optimal_value - world.uniform_value)
    error = regret.std(ddof=1) / np.sqrt(seeds)
    guarantee = guarantee_of(agent)
    promise = "none" if guarantee is None else f"{guarantee.trust.name}, ε = {guarantee.epsilon:g}"
    rate = seeds * episodes / curves.seconds
    return (
        f"`{peer.agent}` ({peer.source})", promise, f"{seeds}", f"{rate:,.0f}", f"{rate * world.model.horizon:,.0f}",
        f"{regret.mean():,.0f} ± {error:,.0f}", _percent(float(regret.mean() / chance)),
    )  # fmt: skip


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1g} %"


def outside(world: World, python: str | None, repeats: int) -> list[tuple[str, ...]]:
    """rlberry's lines; what is missing is said in them."""
    lines = []
    for found in measure_peers(Work(repeats=repeats), world, python):
        name = found.program.removesuffix(", no privacy")
        if found.rate is None:
            lines.append((f"{name}: {found.remark}", *["–"] * (len(HEAD) - 1)))
            continue
        version = found.remark.partition(";")[0]
        rates = (f"{found.rate:,.0f}", f"{found.rate * world.model.horizon:,.0f}")
        lines.append((f"{name} ({version}, first {found.episodes} episodes)", "none", "1", *rates, "–", "–"))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=20_000, help="users of each learner")
    parser.add_argument("--seeds", type=int, default=8, help="learners side by side")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of rlberry, of which the median counts")
    parser.add_argument("--rlberry", metavar="PYTHON", help="a Python that has rlberry-scool")
    chosen = parser.parse_args()
    facts, world = machine.describe(), Work().make()
    lines = outside(world, chosen.rlberry, chosen.repeats)
    for peer in PEERS:
        lines.append(row(peer, world, chosen.episodes, chosen.seeds))
        print(f"{len(lines)} of {len(PEERS) + 2}: {' | '.join(lines[-1])}", file=sys.stderr, flush=True)
    print(f"{machine.in_words(facts)}; {WORLD}, {chosen.episodes:,} users", "", markdown(HEAD, lines, left=2), sep="\n")
    print(f"\nLoad average before the start: {facts['load_average']}.")


if __name__ == "__main__":
    main()
