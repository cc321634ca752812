"""A private agent that serves real users: secure noise only, each user once, nothing past the horizon.

:class:`DeployedAgent` is a thin stateful shell around the same pure functions that simulations run. What it adds are the
refusals that a deployment needs: simulated noise, counters that are not exact on an integer grid, a user's second
contribution, episodes outside their declared bounds, users after the K-th. A refusal changes and spends nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import jax.numpy as jnp
import numpy as np

from reticent.agents.private import make_private
from reticent.agents.registry import AGENTS
from reticent.errors import InvalidInput
from reticent.learning import Plan
from reticent.learning.agent import Method
from reticent.learning.statistics import observe
from reticent.naming import split
from reticent.privacy.ledger import Entry
from reticent.privacy.noise import SecureNoise, require_deployable
from reticent.privacy.plan import PrivateOptions
from reticent.worlds import Episode, Model

EXACT_COUNTERS = ("epochs", "tree", "tree-reduced", "sum")
"""Counters whose noisy sums are sums of grid multiples; the others leave the grid, where discrete noise proves nothing."""


class DeployedAgent:
    """Serves users one after another and learns from each at most once.

    Formal guarantee. Under the plan's trust model and adjacency, everything this object publishes (:attr:`plan`,
    :attr:`ledger`) satisfies the (ε, δ) of its options: statistics are rounded to a grid whose effect on the sensitivity
    is calibrated for, the noise is exact discrete Gaussian from the operating system's entropy, drawn once per round (or
    per report, in the local model), and the float64 arithmetic on grid multiples is exact.
    """

    def __init__(self, spec: str, model: Model, episodes: int, source: SecureNoise) -> None:
        self._source = require_deployable(source)
        name, raw = split(spec)
        options = PrivateOptions(**{**AGENTS.find(name).read(raw), "deployment": True})
        method: Method = "policy-optimization" if name.endswith("-po") else "value-iteration"
        if options.calibration == "paper":
            raise InvalidInput(
                "calibration", "paper", "'exact' in a deployment", "the paper's noise has no integer grid"
            )
        self.agent, self.privacy = make_private(model, episodes, method, options)
        counter = self.privacy.calibration.counter.name
        if counter not in EXACT_COUNTERS:
            raise InvalidInput(
                "counter", counter, f"one of {', '.join(EXACT_COUNTERS[:-1])} in a deployment",
                "its factorization leaves the integer grid that secure noise needs",
            )  # fmt: skip
        self._state = self.agent.init()
        self._plan = self.agent.plan(self._state)
        self._users: set[Hashable] = set()

    @property
    def plan(self) -> Plan:
        """The billboard for the next user: a function of past releases only."""
        return self._plan

    @property
    def users(self) -> int:
        """How many users have contributed (a public number)."""
        return len(self._users)

    @property
    def finished(self) -> bool:
        """Whether all K users have contributed; the plan is then final."""
        return self.users >= self.agent.schedule.episodes

    @property
    def ledger(self) -> Entry:
        """What has been spent so far, and what is left."""
        closed = int(self._state.rounds)
        return self.privacy.ledger.entries([min(closed, self.privacy.schedule.releases)])[0]

    def report(self, episode: Episode) -> Any:
        """What the user of ``episode`` sends: clipped statistics, already noised in the local model.

        In the local model this belongs on the user's device.
        """
        self._check(episode)
        noise = self._noise(()) if self.privacy.options.trust == "local" else None
        return self.agent.report(self._plan, episode, noise)

    def submit(self, user: Hashable, contribution: Any) -> None:
        """Learn from one user; her second contribution is refused, and so is one after the K-th user.

        ``contribution`` is her episode in the joint model, where the statistics are clipped and rounded here and nowhere
        else, and what :meth:`report` returned on her device in the local model, where it is already private.

        Raises:
          InvalidInput: the report was refused; nothing was changed or spent.
        """
        if user in self._users:
            raise InvalidInput("user", "already counted", "new", "each user may contribute one episode")
        if self.finished:
            raise InvalidInput(
                "users", self.users + 1, f"at most K = {self.agent.schedule.episodes}",
                "the promise covers K users; go on serving the final plan, or start a new agent with its own budget",
            )  # fmt: skip
        report = self._received(contribution)
        state = self.agent.absorb(self._state, report)
        users = self.users + 1
        schedule = self.agent.schedule
        closed = int(state.rounds)
        if users == schedule.ends[closed] and closed < schedule.releases:
            joint = self.privacy.options.trust == "joint"
            noise = self._noise(self.agent.regularizer.counter.noise_shape_prefix) if joint else None
            state = self.agent.close(state, self._plan, int(schedule.round_sizes[closed]), noise)
            self._plan = self.agent.plan(state)
        self._state = state
        self._users.add(user)

    def _received(self, contribution: Any) -> Any:
        """The array to absorb. A ready-made array is taken in the local model only: its clip could not be checked."""
        if self.privacy.options.trust == "joint":
            if not isinstance(contribution, Episode):
                kind = type(contribution).__name__
                raise InvalidInput("contribution", kind, "an Episode in the joint model", "send the episode itself")
            return self.report(contribution)
        shape = self.agent.regularizer.noise_scale.shape
        if isinstance(contribution, Episode) or np.shape(contribution) != shape or not np.isfinite(contribution).all():
            kind = type(contribution).__name__
            raise InvalidInput("contribution", kind, f"a finite report of shape {shape}", "send what report() returned")
        return contribution

    def _noise(self, prefix: tuple[int, ...]) -> Any:
        scale = np.broadcast_to(self.agent.regularizer.noise_scale, prefix + self.agent.regularizer.noise_scale.shape)
        values = np.zeros(scale.shape)
        values[scale > 0] = self._source.draw(scale[scale > 0], grid=self.privacy.calibration.grid).values
        return jnp.asarray(values)

    def _check(self, episode: Episode) -> None:
        model = self.agent.model
        for field, values, shape, below in (
            ("states", episode.states, (model.horizon + 1,), model.states),
            ("actions", episode.actions, (model.horizon,), model.actions),
        ):
            numbers = np.asarray(values)
            if numbers.shape != shape:
                raise InvalidInput(f"{field}.shape", numbers.shape, str(shape), "send one whole episode of H steps")
            if not (np.issubdtype(numbers.dtype, np.integer) and ((numbers >= 0) & (numbers < below)).all()):
                raise InvalidInput(field, numbers.tolist(), f"integers from 0 to {below - 1}", "correct the episode")
        if np.shape(episode.rewards) != (model.horizon,):
            raise InvalidInput(
                "rewards.shape", np.shape(episode.rewards), f"({model.horizon},)", "send one reward per step"
            )
        episode = Episode(*(jnp.asarray(field) for field in episode))
        self.agent.regularizer.require_within_bounds(observe(model, self._plan.framed_values(), episode))
