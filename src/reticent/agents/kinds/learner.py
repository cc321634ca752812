# SPDX-License-Identifier: Apache-2.0
r"""Kinds: belief about the own user on the device, the kinds' shares learned from all users.

A plan publishes the optimal tables :math:`Q_z` of M kinds and of their blend, and the estimated shares w. Each user acts on
their own belief (:mod:`reticent.agents.kinds.belief`) and sends one clipped vector (:mod:`reticent.agents.kinds.rule`).
After a round of n users with released sum Y,

.. math:: \Lambda\leftarrow\Lambda+J^\top\Sigma^{-1}J,\qquad m\leftarrow m+J^\top\Sigma^{-1}(Y/n-\bar Tc),

and w is the point of the simplex nearest to :math:`c+B\Lambda^{-1}m` in the metric Λ, at least :data:`LEAST_SHARE` each.

**The blend is one more kind.** If users are blends and not kinds, belief alone would lose; the learned share of the blend
decides how much it counts. The blend is remade from w after every round, from shares β to β'. Earlier releases speak of
shares :math:`(w_z,w_b)` beside the blend of β. With :math:`w'_z=w_z+w_b(\beta_z-\beta'_z)`, :math:`w'_b=w_b`, which makes
the same users on average of all kinds, Λ and m are referred to the new blend: exactly where no user is of the blend, and to
first order in β' − β where all are.

Formal guarantee. Only the sums of clipped vectors are released (:mod:`reticent.agents.kinds.vectors`); w, the rules and the
plans follow from them and from public random numbers. A user's belief and actions are functions of what is published and of
their own data (billboard lemma). The party that *serves* an action sees it, and it tells about the user's whole past in the
episode: under local trust, content must be chosen on the device.

**A stay.** With V = ``visits`` above 1 a user comes V times, acts on one belief from visit to visit, and reports once: L is
the likelihood of all visits, the vector is clipped once, and the promise is about the person. All visits of a stay are by
the version that was served at the first, so that :math:`\bar T` is simulated for exactly what its users do.

**Where asking tells something.** With ``points`` above 0 a version carries a plan over beliefs
(:mod:`reticent.agents.kinds.point_based`) in place of the optimal tables. It is made anew from the public laws, w and the
remade blend of every version.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.kinds.belief import Laws, best_action, told, with_blend
from reticent.agents.kinds.point_based import BeliefPlan, Published, better_plan, chosen, of_actions
from reticent.agents.kinds.rule import Rule, evidence, make_rule, mean_vectors
from reticent.agents.score.coordinates import Coordinates
from reticent.agents.score.posterior import nearest_weights
from reticent.learning.aggregator import Noise
from reticent.learning.learner import AgentState, Learner
from reticent.learning.personal_value import simulated_returns
from reticent.learning.plan import ControlGroup, Plan
from reticent.worlds import Episode, Model, exact_solutions
from reticent.worlds.episode import by_visit
from reticent.worlds.world import invert
from reticent_wire.forms.kinds import VectorRule, belief

if TYPE_CHECKING:
    from reticent.agents.kinds.audit_hooks import KindHooks

LEAST_SHARE = 0.005
"""Least share of every kind: a kind that is ruled out could never be found again."""

SIMULATED = 512
"""Simulated episodes of every kind behind a round's rule."""

VALUED = 4096
"""Simulated episodes behind the value of a plan; a matter of simulations only."""

LEAST_VALUED = 256
"""Simulated stays behind the value of a plan, however many visits each has."""


class SharePosterior(NamedTuple):
    """What is known of the shares: Λ ``(k, k)``, m ``(k,)``, w ``(Z,)``, and the shares of the blend ``(M,)``."""

    information: Array
    moment: Array
    shares: Array
    blend: Array


class KindsPlan(NamedTuple):
    """What is published beside the greedy policy of a new user.

    Attributes:
      blend_table: the blend's optimal table, ``(H, S, A)``; those of the kinds never change.
      shares: w, ``(Z,)``. blend: the shares that the blend is made with, ``(M,)``.
      rule: how vectors are formed. number: rounds closed before.
      course: the plan over beliefs that users act by; None where they act by the tables.
    """

    blend_table: Array
    shares: Array
    blend: Array
    rule: Rule
    number: Array
    course: BeliefPlan | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class KindsLearner(Learner[Array, Array, Array, KindsPlan]):
    """See the module docstring.

    Attributes:
      kinds: the laws of the M kinds. tables: their optimal tables, ``(H, M, S, A)``.
      coordinates: of the Z = M + 1 shares. prior: precision before the first user, ``(k, k)``.
      noise_scale: standard deviation of the noise on one coordinate of a sum, or of a report where reports are noised.
      sizes: users of every round, ``(rounds,)``.
      noised_reports: whether noise is on every report. seed: of the public random numbers.
      visits: V, of one stay, which is one report.
      points: beliefs of every step and state at which a plan over beliefs is made; 0 where users act by tables.
    """

    kinds: Laws
    tables: Array
    coordinates: Coordinates
    prior: Array
    noise_scale: Array
    sizes: Array
    noised_reports: bool = dataclasses.field(metadata={"static": True})
    seed: int = dataclasses.field(default=0, metadata={"static": True})
    visits: int = dataclasses.field(default=1, metadata={"static": True})
    points: int = dataclasses.field(default=0, metadata={"static": True})

    @property
    def dimension(self) -> int:
        """k: the numbers of one vector."""
        return self.coordinates.size

    @property
    def starts(self) -> int:
        """The numbers of a vector that tell where users begin: none, as that is declared."""
        return 0

    # -- the learner's interface --------------------------------------------------------------------------------------

    def init(self) -> AgentState:
        count = self.kinds.means.shape[0]
        size, dtype = self.dimension, self.noise_scale.dtype
        even = jnp.full(count, 1 / count, dtype)
        posterior = SharePosterior(
            jnp.zeros((size, size), dtype), jnp.zeros(size, dtype), self.coordinates.centre, even
        )
        return AgentState(self.aggregator.init(), None, jnp.zeros((), jnp.int32), posterior)

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan[KindsPlan]:
        posterior: SharePosterior = state.past
        shares, blend = posterior.shares, posterior.blend
        rows, means = (jnp.tensordot(blend, table, axes=1) for table in self.kinds)
        blend_table = optimal_tables(Laws(rows[None], means[None]), self.model)[:, 0]
        users = self.sizes[jnp.minimum(state.rounds, self.sizes.shape[0] - 1)]
        course = self._course(posterior, blend_table, state.rounds) if self.points else None
        unread = KindsPlan(blend_table, shares, blend, None, state.rounds, course)  # type: ignore[arg-type]  # made below
        rule = make_rule(
            self.coordinates.basis, shares, self._simulate(unread, unread), self._precision(posterior),
            self._noise(users), users,
        )  # fmt: skip
        expected = jnp.einsum("z,hzsa->hsa", shares[:-1], self.tables) + shares[-1] * blend_table
        if course is not None:
            expected = of_actions(course, shares, self.model.actions)
        policy, values = expected.argmax(axis=-1).astype(jnp.int32), expected.max(axis=-1)
        values = jnp.concatenate([values, jnp.zeros_like(values[:1])])
        return Plan(policy, values, unread._replace(rule=rule), expected if action_values else None)

    def rebase_plan(
        self,
        served: Plan[KindsPlan],
        reference: Plan[KindsPlan],
        users: Array | int,
        control: ControlGroup[KindsPlan] | None = None,
    ) -> Plan[KindsPlan]:
        """The reference, whose vectors have the means of users who acted by the ``served`` plan or as the control group."""
        scored = reference.extension
        simulated, weights = self._simulate(served.extension, scored), jnp.ones(SIMULATED) / SIMULATED
        if control is not None:
            share = control.places.controls / jnp.asarray(users, self.noise_scale.dtype)
            simulated = jnp.concatenate([simulated, self._simulate(control.plan.extension, scored)], axis=1)
            weights = jnp.concatenate([(1 - share) * weights, share * weights])
        vectors = self._vector_rule(scored).vector(simulated, jnp)
        rule = mean_vectors(scored.rule.whiten, scored.rule.radius, scored.shares, vectors, weights)
        return reference._replace(extension=scored._replace(rule=rule))

    def empty_memory(self, plan: Plan[KindsPlan]) -> Array:
        """No likelihoods yet, ``(Z,)``."""
        extension = plan.extension
        return jnp.zeros_like(extension.shares)

    def act_from(
        self, plan: Plan[KindsPlan], memory: Array, step: Array | int, state: Array | int, uniform: Array | float
    ) -> Array:
        del uniform
        return self._best(plan.extension, memory, step, state)

    def remember(
        self, plan: Plan[KindsPlan], memory: Array, state: Array, action: Array, reward: Array, following: Array
    ) -> Array:
        extension = plan.extension
        return memory + told(self.kinds, extension.blend, self.model.successors, state, action, reward, following)

    def statistic(self, plan: Plan[KindsPlan], episode: Episode) -> Array:
        """The user's vector in units of the round's radius, without a clip."""
        extension = plan.extension
        states = by_visit(episode, self.visits).states
        each = jax.vmap(told, in_axes=(None, None, None, 0, 0, 0, 0))(
            self.kinds, extension.blend, self.model.successors, states[:, :-1].ravel(), episode.actions,
            jnp.clip(episode.rewards, 0.0, 1.0), states[:, 1:].ravel(),
        )  # fmt: skip
        vector: Array = self._vector_rule(extension).vector(each.sum(axis=0), jnp)
        return vector

    def close(self, state: AgentState, plan: Plan[KindsPlan], users: Array | int, noise: Noise = None) -> AgentState:
        """End the round: the released sum enters the posterior of the shares, and the blend is remade."""
        after = super().close(state, plan, users, noise)
        before: SharePosterior = state.past
        extension = plan.extension
        count = jnp.asarray(users, self.noise_scale.dtype)
        basis, centre, rule = self.coordinates.basis, self.coordinates.centre, extension.rule
        gained, weighted = evidence(basis, rule, self._noise(count), count)
        rest = self.aggregator.released(after.aggregate) / count - rule.responses @ centre
        information, moment = before.information + gained, before.moment + weighted @ rest
        precision = self._precision(before._replace(information=information))
        found = centre + basis @ jnp.linalg.solve(precision, moment)
        shares = nearest_weights(self.coordinates, found[None], precision[None])[0]
        shares = (1 - LEAST_SHARE * shares.size) * shares + LEAST_SHARE
        blend = shares[:-1] + shares[-1] * before.blend
        blend = blend / blend.sum()
        information, moment = self._referred(information, moment, before.blend - blend)
        learned = SharePosterior(information, moment, shares, blend)
        sound = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(learned)]).all()
        kept: SharePosterior = jax.tree.map(lambda new, old: jnp.where(sound, new, old), learned, before)
        return after._replace(past=kept)

    def plan_value(self, plan: Plan[KindsPlan], world: Any) -> Array:
        """Mean return of a visit, in :data:`VALUED` simulated ones of ``world``, the same random numbers for every plan."""
        return self.simulated_value(plan, world, max(VALUED // self.visits, min(VALUED, LEAST_VALUED)))

    def simulated_value(self, plan: Plan[KindsPlan], world: Any, users: int) -> Array:
        """Mean return of a visit of so many simulated users; where kinds are hidden, of their expected rewards."""
        return self.simulated_returns(plan, world, users).mean()

    def simulated_returns(self, plan: Plan[KindsPlan], world: Any, users: int) -> Array:
        """Returns ``(users, V)`` of the visits of simulated users, who carry their belief on from visit to visit."""
        return simulated_returns(self, plan, world, users, self.noise_scale.dtype)

    def public_memory(self, state: AgentState) -> SharePosterior:
        """What is known of the shares: a function of releases."""
        posterior: SharePosterior = state.past
        return posterior

    def audit_hooks(self) -> KindHooks:
        from reticent.agents.kinds.audit_hooks import KindHooks

        return KindHooks(self)  # type: ignore[arg-type]  # of ScoreLearner it reads what both have

    # -- parts --------------------------------------------------------------------------------------------------------

    def _best(self, extension: KindsPlan, memory: Array, step: Array | int, state: Array | int) -> Array:
        """The action of a user with this memory."""
        course = extension.course
        if course is not None:
            return chosen(course, step, state, belief(extension.shares, memory, jnp))
        return best_action(extension.shares, memory, self.tables[step, :, state], extension.blend_table[step, state])

    def _course(self, posterior: SharePosterior, blend_table: Array, number: Array) -> BeliefPlan:
        """The plan over beliefs of a version; its random numbers are public."""
        tables = jnp.concatenate([self.tables, blend_table[:, None]], axis=1)
        known = Published(self.kinds, posterior.blend, tables, posterior.shares)
        key = jax.random.fold_in(jax.random.key(self.seed + 1), number)
        return better_plan(known, self.model, self.points, key)

    def _noise(self, users: Array) -> Array:
        """Variance of the noise on one coordinate of a round's sum."""
        return self.noise_scale**2 * (users if self.noised_reports else 1.0)

    def _precision(self, posterior: SharePosterior) -> Array:
        return posterior.information + self.prior

    def _referred(self, information: Array, moment: Array, moved: Array) -> tuple[Array, Array]:
        """Λ and m referred to a new blend, whose own shares were so much larger before (module docstring)."""
        basis, centre = self.coordinates.basis, self.coordinates.centre
        shear = jnp.eye(centre.size, dtype=centre.dtype).at[:-1, -1].set(moved)
        back = jnp.linalg.inv(basis.T @ shear @ basis)
        information = back.T @ information @ back
        return information, back.T @ moment + information @ (basis.T @ (shear @ centre - centre))

    def _vector_rule(self, extension: KindsPlan) -> VectorRule:
        return VectorRule(self.coordinates.basis, extension.shares, extension.rule.whiten, extension.rule.radius)

    def _simulate(self, acting: KindsPlan, scored: KindsPlan) -> Array:
        """Log-likelihoods ``(Z, N, Z)``, under the blend of ``scored``, of simulated stays of users of each of its kinds,
        who act on their beliefs by ``acting``. The random numbers are public."""
        model, same = self.model, acting is scored
        laws = with_blend(self.kinds, scored.blend)
        cumulative, first = jnp.cumsum(laws.rows, axis=-1), jnp.cumsum(model.initial)
        key = jax.random.fold_in(jax.random.key(self.seed), scored.number)
        draws = self.visits * (1 + 2 * model.horizon)
        uniforms = jax.random.uniform(key, (SIMULATED, draws), self.noise_scale.dtype)

        def user(kind: Array, uniform: Array) -> Array:
            def step(
                at: tuple[Array, Array, Array], now: tuple[Array, Array]
            ) -> tuple[tuple[Array, Array, Array], None]:
                (state, known, counted), (index, draw) = at, now
                action = self._best(acting, known, index, state)
                following = invert(cumulative[kind, state, action], draw[0])
                if model.successors is not None:
                    following = model.successors[state, action, following].astype(following.dtype)
                reward = (draw[1] < laws.means[kind, state, action]).astype(uniform.dtype)
                seen = model.successors, state, action, reward, following
                known = known + told(self.kinds, acting.blend, *seen)
                counted = known if same else counted + told(self.kinds, scored.blend, *seen)
                return (following, known, counted), None

            def visit(before: tuple[Array, Array], own: Array) -> tuple[tuple[Array, Array], None]:
                numbered = jnp.arange(model.horizon), own[1:].reshape(model.horizon, 2)
                _, known, counted = jax.lax.scan(step, (invert(first, own[0]), *before), numbered)[0]
                return (known, counted), None

            nothing = jnp.zeros_like(scored.shares)
            return jax.lax.scan(visit, (nothing, nothing), uniform.reshape(self.visits, -1))[0][1]

        kinds = jnp.arange(scored.shares.shape[0])
        return jax.vmap(lambda kind: jax.vmap(lambda uniform: user(kind, uniform))(uniforms))(kinds)


def optimal_tables(laws: Laws, model: Model) -> Array:
    """Optimal tables of laws, ``(H, Z, S, A)``."""
    tables = jax.vmap(
        lambda rows, means: exact_solutions.optimal_action_values(
            rows[None], means[None], model.successors, model.horizon
        )
    )(laws.rows, laws.means)
    return jnp.swapaxes(tables, 0, 1)
