# SPDX-License-Identifier: Apache-2.0
r"""Score-VI where states are real vectors: plans and users' vectors between the quadrature nodes.

On a :class:`~reticent.worlds.continuous.ContinuousModel` plans, occupancies, F, C, W and replicas are computed on the
nodes, where it is a finite model. Users are elsewhere. Nothing is interpolated: Q at a real state needs the features at
(s, a) and V on the nodes, and those features exist everywhere,

.. math:: Q_h(s,a)=\varphi^\top\hat\theta_r+c+\langle\phi_{V_{h+1}-c}(s,a),\hat\theta\rangle+\text{bonus},\qquad
          V_h(s)=[\max_aQ_h(s,a)]_{[0,H-h+1]},

with the bonus of the curious plan for explorers. A user's statistic is that of :mod:`reticent.agents.score.vector`:
``values`` takes V at their real next state, ``likelihood`` the candidates' densities there, divided by the same masses as
the rows on the nodes.

**What quadrature costs.** The mean of a surprise is :math:`xx^\top(\eta^*-\eta_0)` up to the quadrature error of φ, and F
is that of users who jump from node to node: the estimate is as good as the nodes are. **Privacy does not depend on it**:
the vector is clipped to the unit ball after it was formed, by the same :class:`~reticent.agents.score.unit_ball.UnitBall`,
whatever nodes, densities and states are (docs/privacy.md, section 7).
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.dynamic_programming import HIGHEST, SMALLEST, frame, group_of
from reticent.agents.score.learner import ScoreLearner
from reticent.agents.score.model_moments import root_of
from reticent.agents.score.posterior import Posteriors, summarize
from reticent.agents.score.round_plan import ScorePlan, randomised, taken
from reticent.agents.score.vector import weighed
from reticent.learning.learner import AgentState
from reticent.learning.plan import Plan
from reticent.worlds import Episode
from reticent.worlds.continuous.model import ContinuousModel, Rows
from reticent.worlds.models.model import Model


class Between(NamedTuple):
    """The numbers behind a plan, by which it goes on between the nodes; all of them are published.

    Attributes:
      theta, reward_theta: the estimate, ``(G, d1)`` and ``(G, d2)``.
      root, reward_root: the bonus as roots, ``(G, d1, k)`` and ``(G, d2, r)``.
    """

    theta: Array
    reward_theta: Array
    root: Array
    reward_root: Array


def unclipped_values(between: Between, values: Array, curious: Array | bool, step: Array, rows: Rows) -> Array:
    """Q_h of all actions ``(A,)`` at the state with feature ``rows``, before it is clipped; ``values`` are V on the nodes.

    ``curious``: whether with the bonus.
    """
    theta, reward_theta, root, reward_root = (leaf[group_of(leaf.shape[0], step)] for leaf in between)
    following = values[step + 1]
    middle = (following.max() + following.min()) / 2
    features = jnp.matmul(rows.transition, following - middle, precision=HIGHEST)
    table = jnp.clip(reward_theta @ rows.reward, 0.0, 1.0) + middle + theta @ features
    doubt = _length(root, features) + _length(reward_root, rows.reward)
    return table + jnp.where(curious, doubt, 0.0)


def _length(root: Array, features: Array) -> Array:
    """Standard deviations of ⟨features, θ⟩ by a root of θ's covariance: ``(A,)`` from ``(d, k)`` and ``(d, A)``."""
    return jnp.sqrt((jnp.matmul(root.T, features, precision=HIGHEST) ** 2).sum(axis=0))


def likelihoods(model: ContinuousModel, state: Array, action: Array, following: Array) -> Array:
    """The candidates' densities ``(d1,)`` at a real next state, in the scale of the rows on the nodes."""
    masses = jax.vmap(model.densities, in_axes=(None, None, 0), out_axes=1)(state, action, model.nodes) * model.weights
    densities: Array = model.densities(state, action, following) / masses.sum(axis=1)
    return densities


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class OffGridScoreLearner(ScoreLearner):
    """Score-VI on real states; see the module docstring. Its tables ``(H, S)`` are those of the nodes."""

    model: ContinuousModel

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan[ScorePlan]:
        plan = super().plan(state, action_values=action_values)
        posteriors: Posteriors = state.past
        transitions = summarize(self.coordinates, posteriors.transitions)
        rewards = summarize(self.reward_coordinates, posteriors.rewards)
        roots = (
            self.bonus * jnp.einsum("dk,gkl->gdl", coordinates.basis, root_of(posterior.covariance), precision=HIGHEST)
            for coordinates, posterior in ((self.coordinates, transitions), (self.reward_coordinates, rewards))
        )
        between = Between(self.coordinates.theta(transitions.mean), self.reward_coordinates.theta(rewards.mean), *roots)
        return plan._replace(extension=plan.extension._replace(between=between))

    def on_nodes(self) -> ScoreLearner:
        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(ScoreLearner)}
        return ScoreLearner(**{**own, "model": self.model.on_nodes()})

    def for_many(self, plan: Plan[ScorePlan]) -> Plan[ScorePlan]:
        return plan

    def act(self, plan: Plan[ScorePlan], step: Array | int, state: Array | int, uniform: Array | float) -> Array:
        table = self._table(plan, jnp.asarray(step), self.model.rows_at(jnp.asarray(state)))
        return taken(plan.extension, table.argmax().astype(jnp.int32), uniform, self.model.actions, self.floor)

    def plan_value(self, plan: Plan[ScorePlan], world: Any) -> Array:
        extension = plan.extension
        share, actions, dtype = extension.share, self.model.actions, self.noise_scale.dtype
        exploring, exploiting = (
            world.policy_value(randomised(choices, actions, self.floor, dtype) if self.floor else choices)
            for choices in (self.choices_at(self.served(plan, place), world.judged_states) for place in (-1, 2**30))
        )
        exploring = jnp.where(extension.at_random, world.policy_value(world.uniform_policy), exploring)
        value: Array = share * exploring + (1 - share) * exploiting
        return value

    def statistic(self, plan: Plan[ScorePlan], episode: Episode) -> Array:
        """The user's vector in units of the round's radius, as yet without a clip; their states are ``(H + 1, m)``."""
        extension = plan.extension
        model, reference, basis = self.model, extension.reference, self.coordinates.basis
        here, there, steps = episode.states[:-1], episode.states[1:], jnp.arange(model.horizon)
        theta = reference.theta[group_of(reference.theta.shape[0], steps)]
        framed = frame(plan.values[1:])[0]
        if self.score == "values":
            features = jax.vmap(model.value_features_at)(framed, here, episode.actions)
            surprises = self._reached(plan, there) - (features * theta).sum(axis=-1)
        else:
            psi = jax.vmap(likelihoods, in_axes=(None, 0, 0, 0))(model, here, episode.actions, there)
            stated = (psi * theta).sum(axis=-1, keepdims=True)
            features = jnp.where(stated > SMALLEST, psi / jnp.where(stated > SMALLEST, stated, 1.0), 0.0)
            surprises = jnp.ones(model.horizon)
        contrasts = jnp.matmul(features, basis, precision=HIGHEST)
        return weighed(
            model, self.reward_coordinates, reference, contrasts, surprises, episode, self.groups == 1
        )  # fmt: skip

    def choices_at(self, plan: Plan[ScorePlan], states: Array) -> Array:
        """What a plan, as one user is served it, chooses at real ``states`` ``(n, m)``: ``(H, n)`` integers."""
        steps = jnp.arange(self.model.horizon)

        def at(state: Array) -> Array:
            rows = self.model.rows_at(state)
            tables = jax.vmap(lambda step: self._table(plan, step, rows))(steps)
            return tables.argmax(axis=-1).astype(jnp.int32)

        # A few states at a time, without a remainder: the rows of all of them at once would be a large table.
        together = max(size for size in range(1, 33) if states.shape[0] % size == 0)
        return jnp.swapaxes(jax.lax.map(at, states, batch_size=together), 0, 1)

    def _table(self, plan: Plan[ScorePlan], step: Array, rows: Rows) -> Array:
        """Q_h ``(A,)``, not clipped, under a plan as one user is served it."""
        extension = plan.extension
        curious = False if extension.exploring is None else extension.exploring & ~extension.at_random
        assert extension.between is not None  # every plan of this learner has it
        return unclipped_values(extension.between, plan.values, curious, step, rows)

    def _reached(self, plan: Plan[ScorePlan], there: Array) -> Array:
        """V_{h+1} ``(H,)`` at the real states after each step, in the frame of its values on the nodes."""
        model, following = self.model, plan.values[1:]
        top, bottom = following.max(axis=-1), following.min(axis=-1)
        half = (top - bottom) / 2

        def at(step: Array, state: Array) -> Array:
            table = self._table(plan, step, model.rows_at(state))
            worth = table.max()
            if self.floor:
                random = model.actions * self.floor
                worth = (1 - random) * worth + random * table.mean()
            return jnp.clip(worth, 0, model.horizon - step)

        # After the last step nothing is earned; its transition is left out of the vector in any case.
        later = jnp.arange(1, model.horizon)
        reached = jnp.concatenate([jax.vmap(at)(later, there[:-1]), jnp.zeros(1, following.dtype)])
        return jnp.where(half > 1e-9, (reached - (top + bottom) / 2) / jnp.where(half > 1e-9, half, 1.0), 0.0)


def learner_for(model: Model) -> type[ScoreLearner]:
    """The learner of worlds like this one."""
    return OffGridScoreLearner if isinstance(model, ContinuousModel) else ScoreLearner
