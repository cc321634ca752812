# SPDX-License-Identifier: Apache-2.0
r"""The agent of a deployment on integers: what a user's episode adds, what noise covers it, what a round's end makes of it.

Rounds are closed and plans made by the same pure functions as everywhere (``absorb``, ``close``, ``plan``), compiled once.
What meets users, without a dispatch to a compiled program per user, is in :mod:`reticent.service.public_configuration`.

**The price of g contributions and of pan-privacy.** The promise is per *user*: a user who may contribute g times moves
the released vector by up to g times as much, so each contribution is calibrated to μ/g (Gaussian group privacy). In
pan-private mode a round's sum starts with noise of its own and gets as much again in the transaction that seals it, each
of variance σ²/2 where the agent plans with σ²; an observer of the open sum once and of all sealed ones sees noise of
variance σ²/2 at the least, so the agent is calibrated to :math:`\mu/(g\sqrt2)`. The proof is in docs/service.md.

With a shuffler the sum of a round comes with the noise that its users flipped
(:mod:`reticent.service.rounds.batches`), and none is added here.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from reticent.agents.registry import AGENTS
from reticent.errors import InvalidInput
from reticent.learning.capabilities import diagnostics, public_memory, rebase_plan, visits_of
from reticent.learning.control import ControlPlaces
from reticent.learning.diagnostics import Diagnostics
from reticent.learning.learner import AgentState, AnyLearner
from reticent.learning.plan import AnyPlan, ControlGroup
from reticent.naming import split
from reticent.privacy.guarantee import Guarantee
from reticent.privacy.noise import SecureNoise, require_deployable
from reticent.privacy.participation import ONCE
from reticent.privacy.sums import PrivateSums, private_sums
from reticent.runtime import double_precision, double_precision_methods, on_device
from reticent.service.billboards import Billboard
from reticent.service.deployable import make_deployable, promise_of
from reticent.service.fingerprint import fingerprint
from reticent.service.public_configuration import PublicConfiguration, PublicGuarantee
from reticent.service.rounds.batches import batch_rules
from reticent.worlds import Model
from reticent_wire import arrays
from reticent_wire.forms import form_named
from reticent_wire.grid import TAIL, require_exact, require_fine, whole
from reticent_wire.model import Model as PublishedModel
from reticent_wire.model import Rules
from reticent_wire.promise import require_promise

LOOKED_UP = 256
"""Values of ε that workers are handed: most counters expose users equally in most of their releases."""


@double_precision_methods
@dataclasses.dataclass(frozen=True, eq=False)
class Mechanism(PublicConfiguration):
    """Everything that a deployment computes: its public configuration, and the agent. It holds no state.

    Attributes:
      agent: calibrated for one contribution.
      guarantee: what each *user* is promised, all contributions and (pan-private) one intrusion included.
    """

    agent: AnyLearner
    guarantee: Guarantee

    @classmethod
    def of(
        cls, agent: AnyLearner, guarantee: Guarantee, noise_factor: float, pan_private: bool, source: SecureNoise
    ) -> Self:
        """The mechanism of a calibrated agent; its public configuration is worked out here, once."""
        known, sums = agent.model, private_sums(agent)
        rules, trust, grid = sums.device_rules, guarantee.trust, float(sums.grid)
        name, raw = split(agent.name)
        entry = AGENTS.find(name)
        options = {key: option.default for key, option in entry.options.items()} | entry.read(raw)
        bounds = {
            field: value if isinstance(value, bool) else np.asarray(value)
            for field, value in rules.items()
            if field != "form"
        }
        shuffle = None
        if trust.wire == "messages":
            shuffle = batch_rules(sums, agent.schedule, float(guarantee.settings["honest"]))
        published = PublishedModel(
            "", known.horizon, known.states, known.actions,
            np.asarray(known.transition_features), np.asarray(known.reward_features),
            None if known.successors is None else np.asarray(known.successors),
            Rules(form_named(rules["form"]), grid, np.asarray(sums.noise_scale), bounds, shuffle, visits_of(agent)),
        )  # fmt: skip
        ledger = guarantee.ledger
        public_guarantee = PublicGuarantee(
            guarantee.sentence(), guarantee.not_covered, trust.name, trust.wire, trust.noised_reports,
            guarantee.adjacency, guarantee.epsilon, guarantee.delta, guarantee.participation, ledger.account,
            ledger.shares, ledger.exposure, ledger.round_ends,
            {key: str(value) for key, value in guarantee.settings.items()},
        )  # fmt: skip
        names = known.about.names
        return cls(
            name=agent.name, method=agent.method, counter=sums.counter.name,
            options={key: str(value) for key, value in options.items()}, schedule=agent.schedule, published=published,
            model_digest=fingerprint(known), initial=np.asarray(known.initial),
            names=None if names is None else names.to_dict(),
            contribution_bound=np.asarray(sums.contribution_bound), floor=float(getattr(agent, "floor", 0.0)),
            public_guarantee=public_guarantee, epsilons={}, noise_factor=noise_factor, pan_private=pan_private,
            source=source, agent=agent, guarantee=guarantee,
        )  # fmt: skip

    @functools.cached_property
    def configuration(self) -> PublicConfiguration:
        """What workers are handed: everything but the agent, with the ε of (most) releases looked up beforehand."""
        _, firsts = np.unique(self.public_guarantee.exposure, return_index=True)
        for number in firsts[:LOOKED_UP]:
            self.spent(int(number) + 1)
        self.spent(0)
        return PublicConfiguration(
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(PublicConfiguration)}
        )

    @functools.cached_property
    def sums(self) -> PrivateSums:
        return private_sums(self.agent)

    @functools.cached_property
    def _nameless(self) -> AnyLearner:
        """The agent for compiled programs: a name is no reason for another one."""
        return dataclasses.replace(self.agent, name="")

    # -- one round ----------------------------------------------------------------------------------------------------

    def round_noise(self) -> np.ndarray | None:
        """Fresh noise for the end of a round; None in the local model. Store what it made before showing it.

        It is zero where a sealed sum has all of its noise: in the shuffle model, where it came with the coins of its users,
        and in pan-private mode, where it was closed with the second half.
        """
        prefix = self.sums.counter.noise_shape_prefix
        if self.wire == "messages" or self.in_halves:
            return np.zeros(prefix + self.noise_scale.shape, np.int64)
        return self._draw(prefix) if self._server_noises else None

    def close(
        self,
        number: int,
        state: AgentState,
        served: Billboard,
        total: np.ndarray,
        noise: np.ndarray | None,
        reference: Billboard | None = None,
        lost: bool = False,
        control: tuple[Billboard, ControlPlaces] | None = None,
    ) -> tuple[AgentState, np.ndarray]:
        """The state after round ``number`` with this sum, and the sums released with it, ``(H, D)``.

        ``served`` is what its users acted by, and ``reference`` what their contributions were formed under; None where the
        latter is each user's own affair. ``lost``: the sum is of dummies alone, so that no user is learned from. Those at
        the places of ``control`` acted by its billboard instead.
        """
        if self._server_noises:  # what makes the release exact; elsewhere a sum may be what dishonest users made it
            whole(total)
        closed = self._closed(number, state, served, total, noise, reference, lost, control)
        return closed, np.asarray(self.sums.released_sums(closed.aggregate))

    def rehearse(
        self,
        number: int,
        state: AgentState,
        served: Billboard,
        reference: Billboard | None,
        control: tuple[Billboard, ControlPlaces] | None,
    ) -> None:
        """:meth:`close` a round like this one without users and without noise, and forget it: its programs are compiled
        then."""
        empty = np.zeros(self.noise_scale.shape, np.int64)
        prefix = self.sums.counter.noise_shape_prefix
        silence = None if self.wire == "report" else np.zeros(prefix + empty.shape, np.int64)
        self._closed(number, state, served, empty, silence, reference, False, control)

    @staticmethod
    def is_referred(number: int, served: Billboard, reference: Billboard | None, controls: bool) -> bool:
        """Whether a round is closed with another plan than the one that was made for it: its users were served something
        else, or some of them were (``controls``), and contributions refer to the round."""
        return reference is not None and (controls or {reference.version, served.version} != {number})

    def _closed(
        self,
        number: int,
        state: AgentState,
        served: Billboard,
        total: np.ndarray,
        noise: np.ndarray | None,
        reference: Billboard | None,
        lost: bool,
        control: tuple[Billboard, ControlPlaces] | None,
    ) -> AgentState:
        size = int(self.schedule.round_sizes[number])
        values = None if noise is None else jnp.asarray(noise * self.grid)
        plan = self.plan_of(served)
        if reference is not None and self.is_referred(number, served, reference, control is not None):
            group = None
            if control is not None:
                board, places = control
                group = ControlGroup(
                    self.plan_of(board), ControlPlaces(*(jnp.asarray(one, jnp.int64) for one in places))
                )
            plan = _refer(self._nameless, plan, self.plan_of(reference), size, group)
        closed: AgentState = _close(
            self._nameless, state, plan, jnp.asarray(total * self.unit), 0 if lost else size, values
        )
        return closed

    def billboard(self, version: int, state: AgentState) -> Billboard:
        """The plan after ``version`` releases."""
        plan = _plan(self._nameless, state)
        return Billboard(
            version,
            np.asarray(plan.policy),
            np.asarray(plan.values),
            {name: np.asarray(value) for name, value in self.sums.version_rules(plan).items()},
            [np.asarray(leaf) for leaf in jax.tree.leaves(plan)],
            [np.asarray(leaf) for leaf in jax.tree.leaves(public_memory(self.agent, state))],
            self.published.rules.form.name,
            self.agent.model.actions,
            self.floor,
        )

    def plan_of(self, billboard: Billboard) -> AnyPlan:
        """The plan that a billboard publishes, for the agent's own functions: every leaf as it was."""
        leaves, shape = billboard.plan, self._shapes[0]
        if len(leaves) == len(jax.tree.leaves(shape)) + 2:
            # Stored before 0.2, when plans of every family had centres and scales after policy and values.
            leaves = [*leaves[:2], *leaves[4:]]
        plan: AnyPlan = _unflatten(shape, leaves)
        return plan

    def memory_of(self, billboard: Billboard) -> Any:
        """What is public of the agent's memory with it."""
        return _unflatten(self._shapes[1], billboard.memory)

    @functools.cached_property
    def _shapes(self) -> tuple[Any, Any]:
        """The trees of a plan and of the public memory, without computing one."""
        state = jax.eval_shape(self.agent.init)
        return jax.eval_shape(self.agent.plan, state), jax.eval_shape(
            functools.partial(public_memory, self.agent), state
        )

    def require_exact_sums(self) -> None:
        """Refuse a grid on which sums would not be exact, or noise not what it is accounted as. A public matter.

        In the local model, also refuse rules that a device would refuse: its own account of a report must agree.

        Raises:
          InvalidInput: the grid is too coarse for the noise, or too fine for so many users.
        """
        users, grid = self.schedule.episodes, self.grid
        noise = TAIL * math.sqrt(users) * self.noise_scale
        require_exact((users * self.contribution_bound + noise) / grid)
        if self.wire != "messages":
            require_fine(self._share * self.noise_scale, grid)
        if self.wire == "report":
            promised = self.guarantee.epsilon if self.guarantee.adjacency == "replace" else None
            require_promise(self.published, promised, self.guarantee.delta, self.guarantee.contributions)

    # -- the state as bytes -------------------------------------------------------------------------------------------

    def to_bytes(self, state: AgentState) -> bytes:
        """The agent's state, bit for bit."""
        return arrays.to_bytes({f"leaf{index}": leaf for index, leaf in enumerate(jax.tree.leaves(state))})

    def from_bytes(self, data: bytes) -> AgentState:
        """The inverse of :meth:`to_bytes`."""
        leaves = arrays.from_bytes(data)
        ordered = [leaves[f"leaf{index}"] for index in range(len(leaves))]
        state: AgentState = _unflatten(jax.eval_shape(self.agent.init), ordered)
        return state

    def diagnostics(self, billboard: Billboard, released: np.ndarray) -> Diagnostics | None:
        """What the sums ``(H, D)`` released before a billboard say about themselves; None if its family says nothing."""
        plan, memory = self.plan_of(billboard), self.memory_of(billboard)
        figures: Diagnostics | None = diagnostics(self.agent, released, billboard.version, plan, memory)
        return figures


@double_precision
def make_mechanism(
    spec: str, model: Model, episodes: int, source: SecureNoise, *, contributions: int = 1, pan_private: bool = False
) -> Mechanism:
    """The mechanism that keeps the promise of ``spec`` for every user.

    Raises:
      InvalidInput: the agent is not private, or its noise cannot be drawn exactly, or two settings exclude each other.
    """
    require_deployable(source)
    agent = make_deployable(spec, model, episodes, 1.0)
    trust = promise_of(agent).trust
    if contributions > 1 and promise_of(agent).participation != ONCE:
        raise InvalidInput(
            "contributions", contributions, "1 with an agent that has an option of this name",
            "say it in one place: the agent's own knows rounds, and needs less noise",
        )  # fmt: skip
    if trust.wire == "messages":
        _require_shuffled_once(promise_of(agent), contributions, pan_private)
    halves = pan_private and trust.wire == "trajectory"
    factor = contributions * (math.sqrt(2) if halves else 1.0)
    promised = promise_of(agent).epsilon
    if factor > 1:
        agent = make_deployable(spec, model, episodes, factor)
    if halves and not private_sums(agent).counter.keeps_noisy_sums_only:
        raise InvalidInput(
            "counter", private_sums(agent).counter.name, "epochs in pan-private mode",
            "a tree keeps exact sums of past rounds",
        )  # fmt: skip
    guarantee = promise_of(agent).for_contributions(
        promised, factor, contributions=contributions,
        also_seen=", together with one look into the sums in the server's store in every round," if halves else "",
    )  # fmt: skip
    mechanism = Mechanism.of(agent, guarantee, factor, pan_private, source)
    mechanism.require_exact_sums()
    return mechanism


def _require_shuffled_once(guarantee: Guarantee, contributions: int, pan_private: bool) -> None:
    """Refuse settings that the shuffle model's account does not cover, or that would waste users' messages."""
    for field, value, wanted, remedy in (
        ("contributions", contributions, 1, "coins are counted for one contribution per user"),
        ("pan_private", pan_private, False, "drop it: no sum is ever in the store without its users' coins"),
        (
            "final_release",
            guarantee.settings["final_release"],
            True,
            "the last round's messages would be sent for nothing",
        ),
    ):
        if value != wanted:
            raise InvalidInput(field, value, f"{wanted} with trust=shuffle", remedy)


@jax.jit
def _close(agent: AnyLearner, state: AgentState, plan: Any, total: Any, users: Any, noise: Any) -> AgentState:
    return agent.close(agent.absorb(state, total), plan, users, noise)


@jax.jit
def _refer(
    agent: AnyLearner, served: AnyPlan, reference: AnyPlan, users: Any, control: ControlGroup[Any] | None
) -> AnyPlan:
    return rebase_plan(agent, served, reference, users, control)


def _unflatten(template: Any, leaves: Sequence[np.ndarray]) -> Any:
    """The tree of ``template``'s structure with these leaves."""
    return jax.tree.unflatten(jax.tree.structure(template), [on_device(leaf) for leaf in leaves])


@jax.jit
def _plan(agent: AnyLearner, state: AgentState) -> Any:
    return agent.plan(state)
