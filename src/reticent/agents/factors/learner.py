# SPDX-License-Identifier: Apache-2.0
r"""Factors: each device learns its own user's tastes, the mean of tastes is learned from all users.

A plan publishes the estimated mean μ of users' vectors. Each device starts at N(μ, I), learns from every reward in closed
form, and shows the best item not shown yet (:mod:`reticent.agents.factors.belief`); at the end the user sends one clipped
vector, and the released sum of a round moves μ (:mod:`reticent.agents.factors.rule`).

Formal guarantee. **Theorem.** The releases of ``private-factors`` are (ε, δ)-differentially private, in the trust model
that is chosen, for a person and all that they contribute, and what all *other* users are shown is (ε, δ)-jointly private.
Only sums of clipped vectors are released (:mod:`reticent.agents.factors.vectors`); μ, the rules and the plans follow from
them and from public random numbers. A user's belief and items are functions of what is published and of their own data
(billboard lemma). Proof: docs/tastes.md.

The party that *serves* an item sees it, and it tells about the user's whole past in the episode: under local trust, content
must be chosen on the device.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.factors.belief import after_episode
from reticent.agents.factors.rule import MeanPosterior, Rule, learned, make_rule
from reticent.learning.aggregator import Noise
from reticent.learning.learner import AgentState, Learner
from reticent.learning.personal_value import simulated_returns
from reticent.learning.plan import ControlGroup, Plan
from reticent.worlds import Episode
from reticent_wire.forms.factors import Items, Taste, best_item, newcomer, observed, taste_vector

if TYPE_CHECKING:
    from reticent.agents.factors.audit_hooks import TasteHooks

SIMULATED = 1024
"""Simulated users behind a round's rule, half of them with draws opposite to the others'."""

VALUED = 4096
"""Simulated episodes behind the value of a plan; a matter of simulations only."""


class FactorsPlan(NamedTuple):
    """What is published beside the list of a new user: the mean μ ``(m,)`` and how vectors are formed.

    ``number`` is of the rounds closed before.
    """

    mean: Array
    rule: Rule
    number: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class FactorsLearner(Learner[Array, Array, Array, FactorsPlan]):
    """See the module docstring.

    Attributes:
      items: what is public of items.
      prior: standard deviation of the unknown mean around the pilot's. bonus: of an item's score, in standard deviations.
      noise_scale: standard deviation of the noise on one coordinate of a sum, or of a report where reports are noised.
      sizes: users of every round, ``(rounds,)``.
      noised_reports: whether noise is on every report. seed: of the public random numbers.
    """

    items: Items
    prior: Array
    noise_scale: Array
    sizes: Array
    bonus: float = dataclasses.field(metadata={"static": True})
    noised_reports: bool = dataclasses.field(metadata={"static": True})
    seed: int = dataclasses.field(default=0, metadata={"static": True})

    @property
    def dimension(self) -> int:
        """m: the numbers of one vector."""
        return int(self.items.loadings.shape[-1])

    @property
    def starts(self) -> int:
        """The numbers of a vector that tell where users begin: none, as there is one state."""
        return 0

    @property
    def visits(self) -> int:
        """Visits that one report is about: one."""
        return 1

    # -- the learner's interface --------------------------------------------------------------------------------------

    def init(self) -> AgentState:
        dtype = self.noise_scale.dtype
        nothing = jnp.zeros(self.dimension, dtype)
        posterior = MeanPosterior(jnp.eye(self.dimension, dtype=dtype) / self.prior**2, nothing, nothing)
        return AgentState(self.aggregator.init(), None, jnp.zeros((), jnp.int32), posterior)

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan[FactorsPlan]:
        posterior: MeanPosterior = state.past
        users = self.sizes[jnp.minimum(state.rounds, self.sizes.shape[0] - 1)]
        tastes, scores = self._simulate(posterior.mean, posterior.mean, state.rounds)
        rule = make_rule(tastes, scores, posterior.precision, self._noise(users), users)
        # The list of a user who is never asked: its values are shown on a dashboard, devices act on beliefs.
        horizon = self.model.horizon
        means = jnp.clip(self.items.intercepts + self.items.loadings @ posterior.mean, 0.0, 1.0)
        listed = jnp.argsort(-means)[:horizon, None].astype(jnp.int32)
        values = jnp.append(jnp.cumsum(means[listed[::-1, 0]])[::-1], 0.0)[:, None]
        expected = means + values[1:, :, None]
        return Plan(
            listed, values, FactorsPlan(posterior.mean, rule, state.rounds), expected if action_values else None
        )

    def rebase_plan(
        self,
        served: Plan[FactorsPlan],
        reference: Plan[FactorsPlan],
        users: Array | int,
        control: ControlGroup[FactorsPlan] | None = None,
    ) -> Plan[FactorsPlan]:
        """The reference, whose vectors have the means of users who acted by the ``served`` plan or as the control group."""
        scored = reference.extension
        groups, shares = [served], [jnp.ones((), self.noise_scale.dtype)]
        if control is not None:
            share = control.places.controls / jnp.asarray(users, self.noise_scale.dtype)
            groups, shares = [served, control.plan], [1 - share, share]
        simulated = [
            self._simulate(group.extension.mean, scored.mean, scored.number, index)
            for index, group in enumerate(groups)
        ]
        # Opposite users stay half of all apart.
        halves = [[part.reshape(2, SIMULATED // 2, -1) for part in one] for one in simulated]
        tastes, scores = (
            jnp.concatenate(parts, axis=1).reshape(-1, self.dimension) for parts in zip(*halves, strict=True)
        )
        weights = jnp.tile(jnp.repeat(jnp.log(jnp.stack(shares)), SIMULATED // 2), 2)
        return reference._replace(extension=scored._replace(rule=scored.rule.of(tastes, scores, weights)))

    def empty_memory(self, plan: Plan[FactorsPlan]) -> Taste:
        """A newcomer."""
        return newcomer(plan.extension.mean, self.model.actions, jnp)

    def act_from(
        self, plan: Plan[FactorsPlan], memory: Taste, step: Array | int, state: Array | int, uniform: Array | float
    ) -> Array:
        del plan, step, state, uniform
        shown: Array = best_item(self.items, memory, self.bonus, jnp)
        return shown

    def remember(
        self, plan: Plan[FactorsPlan], memory: Taste, state: Array, action: Array, reward: Array, following: Array
    ) -> Taste:
        del plan, state, following
        return observed(self.items, memory, action, reward, jnp)

    def statistic(self, plan: Plan[FactorsPlan], episode: Episode) -> Array:
        """The user's vector in units of the round's radius, without a clip."""
        extension = plan.extension
        known = after_episode(self.items, extension.mean, episode.actions, episode.rewards)
        vector: Array = taste_vector(known.mean, extension.mean, extension.rule.whiten, extension.rule.radius)
        return vector

    def close(self, state: AgentState, plan: Plan[FactorsPlan], users: Array | int, noise: Noise = None) -> AgentState:
        """End the round: the released sum enters the posterior of the mean."""
        after = super().close(state, plan, users, noise)
        extension = plan.extension
        count = jnp.asarray(users, self.noise_scale.dtype)
        released = self.aggregator.released(after.aggregate)
        return after._replace(
            past=learned(state.past, extension.rule, extension.mean, released, self._noise(count), count)
        )

    def plan_value(self, plan: Plan[FactorsPlan], world: Any) -> Array:
        """Mean return of :data:`VALUED` simulated users of ``world``, the same random numbers for every plan."""
        return self.simulated_value(plan, world, VALUED)

    def simulated_value(self, plan: Plan[FactorsPlan], world: Any, users: int) -> Array:
        """Mean return of so many simulated users: of their expected rewards, given their tastes."""
        return simulated_returns(self, plan, world, users, self.noise_scale.dtype).mean()

    def public_memory(self, state: AgentState) -> MeanPosterior:
        """What is known of the mean: a function of releases."""
        posterior: MeanPosterior = state.past
        return posterior

    def audit_hooks(self) -> TasteHooks:
        from reticent.agents.factors.audit_hooks import TasteHooks

        return TasteHooks(self)  # type: ignore[arg-type]  # of ScoreLearner it reads what both have

    # -- parts --------------------------------------------------------------------------------------------------------

    def _noise(self, users: Array) -> Array:
        """Variance of the noise on one coordinate of a round's sum."""
        return self.noise_scale**2 * (users if self.noised_reports else 1.0)

    def _simulate(self, acting: Array, mean: Array, number: Array, group: int = 0) -> tuple[Array, Array]:
        """z and x ``(N, m)``, from the published ``mean`` on, of simulated users of that mean who are shown items by a plan
        that published the mean ``acting``. The random numbers are public."""
        horizon, size = self.model.horizon, self.dimension
        key = jax.random.fold_in(jax.random.key(self.seed + group), number)
        half = jax.random.normal(key, (SIMULATED // 2, size + horizon), self.noise_scale.dtype)
        same = acting is mean

        def user(draws: Array) -> tuple[Array, Array]:
            tastes = mean + draws[:size]

            def step(known: tuple[Taste, Taste], scatter: Array) -> tuple[tuple[Taste, Taste], None]:
                action = best_item(self.items, known[0], self.bonus, jnp)
                reward = self.items.intercepts[action] + self.items.loadings[action] @ tastes
                reward = reward + jnp.sqrt(self.items.noise[action]) * scatter
                followed = observed(self.items, known[0], action, reward, jnp)
                return (followed, followed if same else observed(self.items, known[1], action, reward, jnp)), None

            items = self.items.noise.shape[0]
            begin = newcomer(acting, items, jnp), newcomer(mean, items, jnp)
            _, counted = jax.lax.scan(step, begin, draws[size:])[0]
            return draws[:size], counted.mean - mean

        return jax.vmap(user)(jnp.concatenate([half, -half]))
