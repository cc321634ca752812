"""A private agent that serves real users: secure noise only, each user once, nothing past the horizon.

:class:`DeployedAgent` is a thin stateful shell around the same pure functions that simulations run. What it adds are the
refusals that a deployment needs: simulated noise, counters that are not exact on an integer grid, a user's second
contribution, episodes outside their declared bounds, users after the K-th. A refusal changes and spends nothing.

Two protocols, which are not mixed:

* *in order* (the paper): each user is served :attr:`DeployedAgent.plan`, plays, and ``submit(user, episode)`` learns from
  her before the next one comes;
* *overlapping*: ``begin(user)`` admits her and hands out a :class:`Ticket` with the plan of its version; ``submit(ticket,
  episode)`` counts her episode under *that* plan, into whichever round is open then. Tickets may come back in any order,
  or never. Rounds end on the number of users admitted, which is public, never on what came back.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Hashable
from typing import Any

import jax.numpy as jnp
import numpy as np

from reticent.agents.linear_mixture.privacy_plan import PrivateOptions
from reticent.agents.linear_mixture.private_linopt import make_private
from reticent.agents.linear_mixture.statistics import observe
from reticent.agents.registry import AGENTS
from reticent.errors import InvalidInput
from reticent.learning.learner import Method
from reticent.learning.plan import Plan
from reticent.naming import split
from reticent.privacy.ledger import Entry
from reticent.privacy.noise import SecureNoise, require_deployable
from reticent.worlds import Episode, Model

EXACT_COUNTERS = ("epochs", "tree", "tree-reduced", "sum")
"""Counters whose noisy sums are sums of grid multiples; the others leave the grid, where discrete noise proves nothing."""


@dataclasses.dataclass(frozen=True, eq=False)  # plans are arrays, which have no single truth value to compare by
class Ticket:
    """What an admitted user is given: the version she is served, and its plan."""

    user: Hashable
    version: int
    plan: Plan


class DeployedAgent:
    """Serves users one after another or many at once, and learns from each at most once.

    Formal guarantee. Under the plan's trust model and adjacency, everything this object publishes (:attr:`plan`,
    :attr:`ledger`) satisfies the (ε, δ) of its options: statistics are rounded to a grid whose effect on the sensitivity
    is calibrated for, the noise is exact discrete Gaussian from the operating system's entropy, drawn once per round (or
    per report, in the local model), and the float64 arithmetic on grid multiples is exact. With tickets the same (ε, δ)
    holds however arrivals depend on the users' data (:mod:`reticent.privacy.arrivals`): rounds end on admissions.

    Memory does not grow with versions: a plan is kept while it is in force or a ticket of its version is out.
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
        if options.trust == "shuffle":
            raise InvalidInput(
                "trust",
                "shuffle",
                "'joint' or 'local' in this object",
                "users send messages: see reticent.privacy.trust.shuffle_protocol",
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
        self._out: dict[Hashable, int] = {}
        self._out_by_version: collections.Counter[int] = collections.Counter()
        self._versions: dict[int, Plan] = {}
        self._overlapping = False

    @property
    def plan(self) -> Plan:
        """The billboard: a function of past releases only."""
        return self._plan

    @property
    def version(self) -> int:
        """Which plan is in force: the number of releases before it."""
        return int(self._state.rounds)

    @property
    def users(self) -> int:
        """How many users have been admitted (a public number, unlike how many of their reports have come)."""
        return len(self._users)

    @property
    def finished(self) -> bool:
        """Whether all K users have been admitted; in order, the plan is then final."""
        return self.users >= self.agent.schedule.episodes

    @property
    def tickets_out(self) -> int:
        """How many admitted users have not come back. Not public: whether a user comes back is her secret."""
        return len(self._out)

    @property
    def versions_kept(self) -> tuple[int, ...]:
        """Versions whose plans are held for tickets that are out."""
        return tuple(sorted(self._versions))

    @property
    def ledger(self) -> Entry:
        """What has been spent so far, and what is left."""
        closed = int(self._state.rounds)
        return self.privacy.ledger.entries([min(closed, self.privacy.schedule.releases)])[0]

    def begin(self, user: Hashable) -> Ticket:
        """Admit a user and say which plan she is served; ends the round first if it has had all its users.

        Raises:
          InvalidInput: she was admitted before, or K users have been; nothing was changed or spent.
        """
        if self.privacy.calibration.arrival_ratio > 1:
            raise InvalidInput(
                "arrival_ratio", self.privacy.calibration.arrival_ratio, "1 for users who overlap",
                "the noise covers users in order only; see reticent.privacy.arrivals",
            )  # fmt: skip
        if self.users and not self._overlapping:
            raise InvalidInput(
                "user", "given a ticket", "served in order like those before", "use submit(user, episode)"
            )
        self._admissible(user)
        self._overlapping = True
        if self._round_is_full():
            self._end_round()
        self._users.add(user)
        self._out[user] = self.version
        self._out_by_version[self.version] += 1
        self._versions[self.version] = self._plan
        return Ticket(user, self.version, self._plan)

    def finish(self) -> None:
        """End the last round of users who overlap; reports that come later are refused.

        No admission can end it, so the operator's clock does. To keep the promise, the time must not depend on which
        reports have come: not "when all are back", but say "a week after the last user was admitted".

        Raises:
          InvalidInput: not all K users have been admitted; nothing was changed or spent.
        """
        if not self.finished:
            raise InvalidInput(
                "users", self.users, f"K = {self.agent.schedule.episodes}", "rounds end as the schedule says"
            )
        if self._round_is_full():
            self._end_round()
        for waiting in (self._out, self._out_by_version, self._versions):
            waiting.clear()

    def expire(self, user: Hashable) -> None:
        """Wait no longer for a user with a ticket: her place is used up, her report will be refused, nothing is spent."""
        if user not in self._out:
            raise InvalidInput("user", "without a ticket that is out", "one who is waited for", "see tickets_out")
        self._redeem(user)

    def report(self, episode: Episode, ticket: Ticket | None = None) -> Any:
        """What the user of ``episode`` sends: clipped statistics, already noised in the local model.

        In the local model this belongs on the user's device. ``ticket`` names the plan that she was served, by default
        the one in force.
        """
        plan = self._plan if ticket is None else ticket.plan
        self._check(plan, episode)
        noise = self._noise(()) if self.privacy.options.trust == "local" else None
        return self.agent.report(plan, episode, noise)

    def submit(self, user: Hashable | Ticket, contribution: Any) -> None:
        """Learn from one user; her second contribution is refused, and so is one after the K-th user.

        ``user`` is her ticket, or her name: with a ticket out it stands for that, and otherwise (in order) admits her.

        ``contribution`` is her episode in the joint model, where the statistics are clipped and rounded here and nowhere
        else, and what :meth:`report` returned on her device in the local model, where it is already private.

        Raises:
          InvalidInput: the report was refused; nothing was changed or spent.
        """
        if isinstance(user, Ticket) or user in self._out:
            self._submit_late(user, contribution)
            return
        self._admissible(user)
        if self._overlapping:
            raise InvalidInput(
                "user", "without a ticket", "admitted by begin()", "nobody knows which plan she was served"
            )
        report = self._reported(Ticket(user, self.version, self._plan), contribution)
        self._state = self.agent.absorb(self._state, report)
        self._users.add(user)
        if self._round_is_full():
            self._end_round()

    def _submit_late(self, user: Hashable | Ticket, contribution: Any) -> None:
        """Learn from a user with a ticket, under the plan of her version as it is kept here."""
        name = user.user if isinstance(user, Ticket) else user
        if name not in self._out:
            known = name in self._users
            raise InvalidInput(
                "ticket", "used up" if known else "unknown", "out", "each ticket is good for one episode, in time"
            )
        version = self._out[name]
        if isinstance(user, Ticket) and user.version != version:
            raise InvalidInput("ticket.version", user.version, f"{version}, as she was served", "send her own ticket")
        report = self._reported(Ticket(name, version, self._versions[version]), contribution)
        self._state = self.agent.absorb(self._state, report)
        self._redeem(name)

    def _admissible(self, user: Hashable) -> None:
        if user in self._users:
            raise InvalidInput("user", "already counted", "new", "each user may contribute one episode")
        if self.finished:
            raise InvalidInput(
                "users", self.users + 1, f"at most K = {self.agent.schedule.episodes}",
                "the promise covers K users; go on serving the final plan, or start a new agent with its own budget",
            )  # fmt: skip

    def _redeem(self, user: Hashable) -> None:
        version = self._out.pop(user)
        self._out_by_version[version] -= 1
        if not self._out_by_version[version]:
            del self._versions[version], self._out_by_version[version]

    def _round_is_full(self) -> bool:
        """Whether the open round has had all its users, and is one that is released: a matter of public numbers."""
        schedule, closed = self.agent.schedule, self.version
        return closed < schedule.releases and self.users >= schedule.ends[closed]

    def _end_round(self) -> None:
        joint = self.privacy.options.trust == "joint"
        noise = self._noise(self.agent.aggregator.counter.noise_shape_prefix) if joint else None
        size = int(self.agent.schedule.round_sizes[self.version])
        self._state = self.agent.close(self._state, self._plan, size, noise)
        self._plan = self.agent.plan(self._state)

    def _reported(self, ticket: Ticket, contribution: Any) -> Any:
        """The array to absorb, made here under the ticket's plan unless it came ready-made."""
        received = self._received(contribution)
        return self.report(received, ticket) if isinstance(received, Episode) else received

    def _received(self, contribution: Any) -> Any:
        """The contribution, if it may be taken. Ready-made arrays are in the local model only: no clip can be checked."""
        if self.privacy.options.trust == "joint":
            if not isinstance(contribution, Episode):
                kind = type(contribution).__name__
                raise InvalidInput("contribution", kind, "an Episode in the joint model", "send the episode itself")
            return contribution
        shape = self.agent.aggregator.noise_scale.shape
        if isinstance(contribution, Episode) or np.shape(contribution) != shape or not np.isfinite(contribution).all():
            kind = type(contribution).__name__
            raise InvalidInput("contribution", kind, f"a finite report of shape {shape}", "send what report() returned")
        return contribution

    def _noise(self, prefix: tuple[int, ...]) -> Any:
        scale = np.broadcast_to(self.agent.aggregator.noise_scale, prefix + self.agent.aggregator.noise_scale.shape)
        values = np.zeros(scale.shape)
        values[scale > 0] = self._source.draw(scale[scale > 0], grid=self.privacy.calibration.grid).values
        return jnp.asarray(values)

    def _check(self, plan: Plan, episode: Episode) -> None:
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
        self.agent.aggregator.require_within_bounds(observe(model, plan.framed_values(), episode))
