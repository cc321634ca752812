# SPDX-License-Identifier: Apache-2.0
"""Which agents can be deployed, and why not the others: a promise, noise on an integer grid, users who overlap."""

from __future__ import annotations

import dataclasses

import numpy as np

from reticent.agents.registry import AGENTS, make_agent
from reticent.errors import InvalidInput
from reticent.learning.capabilities import visits_of
from reticent.learning.learner import AnyLearner
from reticent.naming import join, split
from reticent.privacy.accounting.gaussian import epsilon_of, mu_of
from reticent.privacy.counters import COUNTERS, make_counter
from reticent.privacy.guarantee import Guarantee, guarantee_of
from reticent.privacy.noise import delta_for_gaussian, touched_draws
from reticent.privacy.sums import private_sums
from reticent.worlds import Model
from reticent.worlds.continuous import ContinuousModel
from reticent_wire.forms import form_named


def make_deployable(spec: str, model: Model, episodes: int, factor: float) -> AnyLearner:
    """The agent of ``spec`` on an integer grid, calibrated to 1/``factor`` of the strength that its promise allows.

    Raises:
      InvalidInput: it cannot be deployed; the message says why.
    """
    import reticent.agents  # noqa: F401  (registers every agent)

    if isinstance(model, ContinuousModel):
        raise InvalidInput("model", "one with real states", "one with finitely many", "deploy model.on_nodes()")
    name, raw = split(spec)
    entry = AGENTS.find(name)
    if "deployment" not in entry.options:
        promise_of(make_agent(spec, model, episodes))  # that it promises nothing is the better reason
        raise InvalidInput(
            "agent", name, "one whose noise can be drawn on an integer grid",
            f"deploy one of {', '.join(other.name for other in AGENTS.entries() if 'deployment' in other.options)}",
        )  # fmt: skip
    chosen = entry.read(raw)
    if factor > 1:
        epsilon, delta = (chosen.get(key, entry.options[key].default) for key in ("epsilon", "delta"))
        # What discrete noise costs is reserved at their own ε and for all their draws, of which there are at most
        # factor² times those that the agent itself has in mind (g contributions, in two halves each where the store is
        # pan-private).
        once = make_agent(join(name, {**chosen, "deployment": True}), model, episodes)
        sums, visits = private_sums(once), promise_of(once).participation.contributions
        blocks = sums.trust.sensitivity(sums.counter) ** 2
        draws = touched_draws(int(np.size(sums.noise_scale)), blocks) * visits * round(factor**2)
        kept = delta_for_gaussian(delta, epsilon, draws)
        chosen["epsilon"] = epsilon_of(mu_of(epsilon, kept) / factor, delta)
    agent = make_agent(join(name, {**chosen, "deployment": True}), model, episodes)
    agent = dataclasses.replace(agent, name=spec)
    guarantee, sums = promise_of(agent), private_sums(agent)
    form = form_named(sums.device_rules["form"])
    if visits_of(agent) > 1 and not form.stays:
        raise InvalidInput("visits", visits_of(agent), f"1 in a deployment of {name}", "report every visit")
    if guarantee.calibration != "exact":
        raise InvalidInput(
            "calibration", guarantee.calibration, "'exact' in a deployment", "an author's noise has no integer grid"
        )
    if not sums.counter.integer_strategy:
        whole = [other for other in COUNTERS if make_counter(other, (1,)).integer_strategy]
        raise InvalidInput(
            "counter", sums.counter.name, f"one of {', '.join(whole)} in a deployment",
            "its factorization leaves the integer grid that secure noise needs",
        )  # fmt: skip
    if guarantee.late_report_ratio > 1:
        raise InvalidInput(
            "late_report_ratio", guarantee.late_report_ratio, "1 for users who overlap",
            "the noise covers users in order only; see reticent.privacy.late_reports",
        )  # fmt: skip
    return agent


def promise_of(agent: AnyLearner) -> Guarantee:
    """What the agent promises its users.

    Raises:
      InvalidInput: nothing.
    """
    guarantee = guarantee_of(agent)
    if guarantee is None:
        raise InvalidInput("agent", agent.name, "one that promises privacy", "serve real users privately")
    return guarantee
