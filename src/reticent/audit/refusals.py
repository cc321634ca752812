# SPDX-License-Identifier: Apache-2.0
"""What a deployment must refuse: each refusal is tried, and each acceptance is a finding.

The agent is any object with the interface of :class:`reticent.service.embedded.DeployedAgent`; that is not imported, so
that the audit does not depend on the service.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from reticent.errors import ReticentError
from reticent.privacy.noise import SecureNoise
from reticent.privacy.simulation_noise import SimulationNoise
from reticent.privacy.sums import private_sums
from reticent.worlds import Episode

__all__ = ["check_refusals"]


def check_refusals(make: Callable[[Any], Any], episode: Episode) -> list[str]:
    """Findings about a deployed agent. ``make(source)`` builds a fresh one; ``episode`` is a valid one of its world."""
    findings = []
    if _accepts(lambda: make(SimulationNoise(jax.random.key(0)))):
        findings.append("simulated noise is accepted in a deployment")
    agent = make(SecureNoise())
    agent.submit("first", episode)
    if _accepts(lambda: agent.submit("first", episode)):
        findings.append("a user's second contribution is accepted")
    # Where the server forms the statistics, it clips them; ready-made ones would be taken as they are.
    sums = private_sums(agent.mechanism.agent)
    if sums.trust.wire == "trajectory" and _accepts(lambda: agent.submit("made", 1e9 * agent.report(episode))):
        findings.append("ready-made statistics are accepted, whose clip cannot be checked")
    others = 0
    while not agent.finished and others < 10_000:
        others += 1
        agent.submit(others, episode)
    final = _public(agent)
    if _accepts(lambda: agent.submit("late", episode)) and not _same(final, _public(agent)):
        findings.append("a user after the last one still changes what is published")
    grid = float(sums.grid)
    steps = np.asarray(sums.released_sums(agent._state.aggregate)) / grid if grid > 0 else np.array([0.5])
    # Epochs divide by the largest size, which is public: multiply it back.
    sizes = sums.counter.weights()
    steps = steps if sizes is None else steps * np.max(sizes)
    if not np.allclose(steps, np.rint(steps), rtol=0, atol=1e-3):
        findings.append("released sums are not whole multiples of the grid")
    return findings


def _accepts(act: Callable[[], Any]) -> bool:
    try:
        act()
    except ReticentError:
        return False
    return True


def _public(agent: Any) -> Any:
    return jax.tree.map(np.asarray, agent.plan)


def _same(before: Any, after: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True))
