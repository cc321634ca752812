r"""The agent of a deployment on integers: what a user's episode adds, what noise covers it, what a round's end makes of it.

The same pure functions as everywhere (``report``, ``absorb``, ``close``, ``plan``), compiled once. Sums are kept as whole
multiples of the calibration's grid, so that adding is exact and the order of users cannot show.

**The price of g contributions and of pan-privacy.** The promise is per *user*: if she may contribute g times, she moves
the released vector by up to g times as much, so each contribution is calibrated to μ/g (Gaussian group privacy). In
pan-private mode a round's sum starts with noise of its own and the release adds as much again, each of variance σ²/2
where the agent plans with σ²; whoever sees the open sum once and all releases sees noise of variance σ²/2 at the least,
so the agent is calibrated to :math:`\mu/(g\sqrt2)`. The proof is in docs/service.md.

With a shuffler the sum of a round comes with the noise that its users flipped (:mod:`reticent.service.batches`), and none
is added here.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.privacy_plan import PrivacyPlan, PrivateOptions
from reticent.agents.linear_mixture.private_linopt import make_private
from reticent.agents.registry import AGENTS
from reticent.errors import InvalidInput
from reticent.learning.learner import AgentState, Method
from reticent.naming import split
from reticent.privacy.accounting.gaussian import epsilon_of, mu_of
from reticent.privacy.ledger import Ledger
from reticent.privacy.noise import SecureNoise, require_deployable
from reticent.service import arrays
from reticent.service.batches import BatchRules, batch_rules
from reticent.service.billboards import Billboard
from reticent.service.embedded import EXACT_COUNTERS
from reticent.worlds import Episode, Model

TAIL = 13.0
"""Standard deviations that an honest report may be away from its statistic: exceeded with probability below 1e-37."""


@dataclasses.dataclass(frozen=True, eq=False)
class Mechanism:
    """Everything that a deployment computes; it holds no state.

    Attributes:
      agent: calibrated for one contribution.
      privacy: its plan.
      promised: the options with the ε that each *user* is promised.
      noise_factor: how many times as much noise as for one contribution and no intrusion: g, or √2·g.
      pan_private: whether a round's noise comes in two halves, the first before its first user.
    """

    agent: LinOptLearner
    privacy: PrivacyPlan
    promised: PrivateOptions
    noise_factor: float
    pan_private: bool
    source: SecureNoise

    @property
    def joint(self) -> bool:
        return self.promised.trust == "joint"

    @property
    def shuffled(self) -> bool:
        return self.promised.trust == "shuffle"

    @property
    def grid(self) -> float:
        return float(self.privacy.calibration.grid)

    @property
    def unit(self) -> float:
        """What one in a round's stored sum stands for: the grid, or half of it, since coins may be odd in number."""
        return self.grid / 2 if self.shuffled else self.grid

    @functools.cached_property
    def batches(self) -> BatchRules:
        """What batches must look like, in the shuffle model."""
        return batch_rules(self.privacy, self.agent.model)

    @functools.cached_property
    def noise_scale(self) -> np.ndarray:
        """σ per coordinate, ``(H, D)``."""
        return np.asarray(self.agent.aggregator.noise_scale)

    @functools.cached_property
    def report_limit(self) -> np.ndarray:
        """The largest integer that an honest local report has in each coordinate, ``(H, D)``."""
        privatizer, d1, d2 = self.agent.aggregator, self.agent.model.d1, self.agent.model.d2
        bound = np.asarray(privatizer.feature_bound)
        target = np.maximum(np.abs(privatizer.target_low), np.abs(privatizer.target_high))
        transition = np.maximum(bound**2, bound * target)[:, None]
        wide = np.concatenate(
            [np.repeat(transition, d1 * (d1 + 3) // 2, axis=1), np.ones((len(bound), d2 * (d2 + 3) // 2))], axis=1
        )
        return np.ceil((wide + TAIL * self.noise_scale) / self.grid).astype(np.int64)

    # -- one user -----------------------------------------------------------------------------------------------------

    def report(self, billboard: Billboard, states: Any, actions: Any, rewards: Any) -> np.ndarray:
        """An episode's clipped statistics in the joint model, in units of the grid; the episode has been checked."""
        episode = Episode(
            np.asarray(states, np.int32), np.asarray(actions, np.int32), np.asarray(rewards, np.float64)  # type: ignore[arg-type]
        )  # fmt: skip
        return self.integers(_report(self.agent, billboard.plan, episode))

    def integers(self, values: Any) -> np.ndarray:
        """Multiples of the grid as integers; exact."""
        return np.rint(np.asarray(values) / self.grid).astype(np.int64)

    # -- one round ----------------------------------------------------------------------------------------------------

    def first_sum(self) -> np.ndarray:
        """What a round's sum starts with: zero, or in pan-private mode the first half of its noise."""
        if self.pan_private and self.joint:
            return self._draw(())
        return np.zeros(self.noise_scale.shape, np.int64)

    def round_noise(self) -> np.ndarray | None:
        """Fresh noise for the end of a round; None in the local model. Store what it made before showing it.

        It is zero in the shuffle model, where the sum came with the coins of its users.
        """
        prefix = self.agent.aggregator.counter.noise_shape_prefix
        if self.shuffled:
            return np.zeros(prefix + self.noise_scale.shape, np.int64)
        return self._draw(prefix) if self.joint else None

    def close(
        self, state: AgentState, billboard: Billboard, total: np.ndarray, noise: np.ndarray | None
    ) -> tuple[AgentState, np.ndarray]:
        """The state after the round with this sum, and the sums released with it, ``(H, D)``."""
        size = int(self.agent.schedule.round_sizes[billboard.version])
        values = None if noise is None else jnp.asarray(noise * self.grid)
        closed = _close(self.agent, state, billboard.plan, jnp.asarray(total * self.unit), size, values)
        counter = self.agent.aggregator.counter
        return closed, np.asarray(counter.release(closed.aggregate.counter))

    def billboard(self, version: int, state: AgentState) -> Billboard:
        """The plan after ``version`` releases."""
        return Billboard.of(version, _plan(self.agent, state))

    def _draw(self, prefix: tuple[int, ...]) -> np.ndarray:
        scale = np.broadcast_to(self.noise_scale, prefix + self.noise_scale.shape)
        share = math.sqrt(0.5) if self.pan_private else 1.0
        noise = np.zeros(scale.shape, np.int64)
        noise[scale > 0] = self.source.draw(share * scale[scale > 0], grid=self.grid).integers
        return noise

    # -- the state as bytes -------------------------------------------------------------------------------------------

    def to_bytes(self, state: AgentState) -> bytes:
        """The agent's state, bit for bit."""
        return arrays.to_bytes({f"leaf{index}": leaf for index, leaf in enumerate(jax.tree.leaves(state))})

    def from_bytes(self, data: bytes) -> AgentState:
        """The inverse of :meth:`to_bytes`."""
        template = jax.eval_shape(self.agent.init)
        leaves = arrays.from_bytes(data)
        ordered = [jnp.asarray(leaves[f"leaf{index}"]) for index in range(len(leaves))]
        return jax.tree.unflatten(jax.tree.structure(template), ordered)  # type: ignore[no-any-return]

    # -- the account --------------------------------------------------------------------------------------------------

    @functools.cached_property
    def ledger(self) -> Ledger:
        """The account of one contribution."""
        return self.privacy.ledger

    @functools.cached_property
    def _mu_squared(self) -> np.ndarray:
        one = self.ledger.mu_squared(1) / float(self.ledger.exposure[0])
        return np.concatenate([[0.0], self.ledger.exposure]) * one * self.noise_factor**2

    def spent(self, releases: int) -> tuple[float, float]:
        """μ² and ε per user after so many releases, all her contributions and (pan-private) one intrusion included."""
        mu_squared = float(self._mu_squared[releases])
        account = self.privacy.calibration.account
        if account is not None:
            return mu_squared, account.epsilon_of(math.sqrt(mu_squared), self.promised.delta)
        return mu_squared, _epsilon(mu_squared, self.promised.delta)


def make_mechanism(
    spec: str, model: Model, episodes: int, source: SecureNoise, *, contributions: int = 1, pan_private: bool = False
) -> Mechanism:
    """The mechanism that keeps the promise of ``spec`` for every user.

    Raises:
      InvalidInput: the agent is not private, or its noise cannot be drawn exactly, or two settings exclude each other.
    """
    import reticent.agents  # noqa: F401  (registers every agent)

    require_deployable(source)
    name, raw = split(spec)
    if not name.startswith("private-linopt-"):
        raise InvalidInput("agent", name, "private-linopt-vi or private-linopt-po", "serve real users privately")
    promised = PrivateOptions(**{**AGENTS.find(name).read(raw), "deployment": True})
    method: Method = "policy-optimization" if name.endswith("-po") else "value-iteration"
    if promised.calibration == "paper":
        raise InvalidInput("calibration", "paper", "'exact' in a deployment", "the paper's noise has no integer grid")
    if promised.trust == "shuffle":
        _require_shuffled_once(promised, contributions, pan_private)
    halves = pan_private and promised.trust == "joint"
    factor = contributions * (math.sqrt(2) if halves else 1.0)
    epsilon = promised.epsilon
    if factor > 1:
        epsilon = epsilon_of(mu_of(promised.epsilon, promised.delta) / factor, promised.delta)
    agent, privacy = make_private(model, episodes, method, dataclasses.replace(promised, epsilon=epsilon))
    counter = privacy.calibration.counter.name
    if counter not in EXACT_COUNTERS:
        raise InvalidInput(
            "counter", counter, f"one of {', '.join(EXACT_COUNTERS[:-1])} in a deployment",
            "its factorization leaves the integer grid that secure noise needs",
        )  # fmt: skip
    if halves and counter != "epochs":
        raise InvalidInput("counter", counter, "epochs in pan-private mode", "a tree keeps exact sums of past rounds")
    if privacy.calibration.arrival_ratio > 1:
        raise InvalidInput(
            "arrival_ratio", privacy.calibration.arrival_ratio, "1 for users who overlap",
            "the noise covers users in order only; see reticent.privacy.arrivals",
        )  # fmt: skip
    kept = dataclasses.replace(privacy.options, epsilon=promised.epsilon)
    return Mechanism(dataclasses.replace(agent, name=spec), privacy, kept, factor, pan_private, source)


def _require_shuffled_once(promised: PrivateOptions, contributions: int, pan_private: bool) -> None:
    """Refuse settings that the shuffle model's account does not cover, or that would waste users' messages."""
    for field, value, wanted, remedy in (
        ("contributions", contributions, 1, "coins are counted for one contribution per user"),
        ("pan_private", pan_private, False, "drop it: no sum is ever in the store without its users' coins"),
        ("final_release", promised.final_release, True, "the last round's messages would be sent for nothing"),
    ):
        if value != wanted:
            raise InvalidInput(field, value, f"{wanted} with trust=shuffle", remedy)


@functools.lru_cache(maxsize=4096)  # most releases of a counter expose users equally
def _epsilon(mu_squared: float, delta: float) -> float:
    return epsilon_of(math.sqrt(mu_squared), delta) if mu_squared else 0.0


@jax.jit
def _report(agent: LinOptLearner, plan: Any, episode: Episode) -> Any:
    return agent.report(plan, episode)


@jax.jit
def _close(agent: LinOptLearner, state: AgentState, plan: Any, total: Any, users: Any, noise: Any) -> AgentState:
    return agent.close(agent.absorb(state, total), plan, users, noise)


@jax.jit
def _plan(agent: LinOptLearner, state: AgentState) -> Any:
    return agent.plan(state)
