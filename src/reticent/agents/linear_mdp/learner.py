# SPDX-License-Identifier: Apache-2.0
r"""LSVI-UCB (Jin et al. 2020): optimistic least-squares value iteration in linear MDPs, over any moment regularizer.

A linear MDP has known features :math:`\phi(s,a)\in\mathbb R^d` with :math:`P_h(s'\mid s,a)=\langle\phi,\mu_h(s')\rangle`
and :math:`r_h=\langle\phi,\theta_h\rangle`, both :math:`\mu_h` and :math:`\theta_h` unknown. Every backup of every
function is then linear, :math:`r_h+P_hV=\langle\phi,w\rangle`, and can be regressed without a model. At the end of a
round, for h = H, …, 1,

.. math::

   \hat w_h=\Lambda_h^{-1}\sum\phi\,(r+V_{h+1}(s')),\qquad
   Q_h=\big[\langle\phi,\hat w_h\rangle+\beta_h\|\phi\|_{\Lambda_h^{-1}}\big]_{[0,\,H-h+1]},\qquad V_h=\max_aQ_h .

The regression of step h needs :math:`V_{h+1}`, which is made from the regression of step h+1; so all of it happens when
a round *closes*, and what is kept is :class:`Published`: weights, factors and frames. A plan is a function of these and
of public numbers, and of nothing else. The sums themselves stay with the server.

Every finite world is a linear MDP with one-hot features, d = SA (:func:`features_of`).
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.linear_mdp.moments import MomentAggregator, MomentSums, TargetFrame, Visits, target_frame
from reticent.errors import InvalidInput
from reticent.learning import small_matrices
from reticent.learning.aggregator import Noise
from reticent.learning.learner import AgentState, Learner
from reticent.learning.plan import Plan
from reticent.learning.ridge import width
from reticent.worlds import Episode, Model
from reticent.worlds.continuous.model import ContinuousModel

if TYPE_CHECKING:
    from reticent.agents.linear_mdp.audit_hooks import LinearMdpHooks

MOST_FEATURES = 64
"""Largest dimension: one-hot features beyond it would need more users per pair than any promise leaves signal for."""


class Published(NamedTuple):
    """All that leaves the regressions of a round: a function of released sums.

    Attributes:
      weights: ŵ in the frame, ``(H, d)``.
      factor: lower Cholesky factors of Λ, ``(H, d, d)``.
      frame: centres and scales of the targets, ``(H,)`` each.
    """

    weights: Array
    factor: Array
    frame: TargetFrame


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class LinearMdpLearner(Learner[Visits, MomentSums, Array, None]):
    """LSVI-UCB; see the module docstring.

    Attributes:
      features: φ, ``(d, S, A)``, each vector of norm at most 1.
      radius: β in units of the frame's scale, after t rounds and per step, ``(rounds + 1, H)`` or ``(1, H)``.
      bonus_scale: multiplies the radii; 1 is the theory.
    """

    aggregator: MomentAggregator
    features: Array
    radius: Array
    bonus_scale: Array

    @property
    def ceilings(self) -> Array:
        """The most that can be earned from each step on, ``(H,)``."""
        return self.model.horizon - jnp.arange(self.model.horizon, dtype=self.features.dtype)

    def init(self) -> AgentState:
        sums = self.aggregator.init()
        horizon, d = self.model.horizon, self.features.shape[0]
        nothing = jnp.zeros((horizon, d), self.features.dtype)
        # Before the first round everything may be worth as much as anything can be.
        frame = TargetFrame(self.ceilings, jnp.ones_like(self.ceilings))
        published = Published(nothing, small_matrices.cholesky(self.aggregator.released(sums)), frame)
        return AgentState(sums, None, jnp.zeros((), jnp.int32), published)

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan[None]:
        published: Published = state.past
        optimistic = jax.vmap(self._optimistic_values)(published, self._radius(state.rounds))
        table = jnp.clip(optimistic, 0, self.ceilings[:, None, None])
        values = table.max(axis=-1)
        return Plan(
            # Not of the clipped table: where all actions look perfect, the least known of them is the one to try.
            policy=optimistic.argmax(axis=-1),
            values=jnp.concatenate([values, jnp.zeros_like(values[:1])]),
            extension=None,
            action_values=table if action_values else None,
        )

    def audit_hooks(self) -> LinearMdpHooks:
        from reticent.agents.linear_mdp.audit_hooks import LinearMdpHooks

        return LinearMdpHooks(self)

    def statistic(self, plan: Plan[None], episode: Episode) -> Visits:
        """The features of the pairs of ``episode``, its rewards and next states; the plan does not matter."""
        del plan
        here, there = episode.states[:-1], episode.states[1:]
        return Visits(self.features[:, here, episode.actions].T, episode.rewards, there)

    def close(self, state: AgentState, plan: Plan[None], users: Array | int, noise: Noise = None) -> AgentState:
        """End the round: regress backwards in h, each step on the values of the next, and publish the weights."""
        del plan, users
        rounds = state.rounds + 1
        sums = self.aggregator.close(state.aggregate, noise)
        after = (sums, self._regress(sums, rounds, noise))
        open_ended = self.aggregator.may_release(state.aggregate)
        kept = jax.tree.map(lambda new, old: jnp.where(open_ended, new, old), after, (state.aggregate, state.past))
        return AgentState(kept[0], None, rounds, kept[1])

    def _regress(self, sums: Any, rounds: Array, noise: Noise) -> Published:
        factor = small_matrices.cholesky(self.aggregator.released(sums))
        radius = self._radius(rounds)

        def back(following: Array, step: Array) -> tuple[Array, Published]:
            frame = target_frame(following)
            moment = self.aggregator.moment(sums, step, following, frame, noise)
            found = Published(small_matrices.solve(factor[step], moment), factor[step], frame)
            optimistic = self._optimistic_values(found, radius[step])
            return jnp.clip(optimistic, 0, self.ceilings[step]).max(axis=-1), found

        end = jnp.zeros(self.model.states, self.features.dtype)
        return jax.lax.scan(back, end, jnp.arange(self.model.horizon), reverse=True)[1]

    def _optimistic_values(self, at: Published, radius: Array) -> Array:
        """Q of one step before it is clipped, ``(S, A)``."""
        estimated = (at.weights[:, None, None] * self.features).sum(axis=0)
        doubt = width(at.factor, self.features)
        return at.frame.centre + at.frame.scale * (estimated + self.bonus_scale * radius * doubt)

    def _radius(self, rounds: Array) -> Array:
        return self.radius[jnp.minimum(rounds, self.radius.shape[0] - 1)]


def features_of(model: Model) -> Array:
    """φ ``(d, S, A)``: what the model declares, or one-hot features of its pairs.

    Raises:
      InvalidInput: the states are real vectors, or d would be over :data:`MOST_FEATURES`.
    """
    if isinstance(model, ContinuousModel):
        raise InvalidInput("model", "a continuous one", "one with finitely many states", "use a model-based agent")
    declared = model.linear_features
    d = model.states * model.actions if declared is None else int(declared.shape[0])
    if d > MOST_FEATURES:
        kind = "states times actions (no linear_features are declared)" if declared is None else "linear_features"
        raise InvalidInput(
            f"d = {kind}", d, f"at most {MOST_FEATURES}",
            "declare features of fewer dimensions (make_model(..., linear_features=...)) or use a model-based agent",
        )  # fmt: skip
    if declared is not None:
        return declared
    return jnp.eye(d, dtype=model.reward_features.dtype).reshape(d, model.states, model.actions)


def theory_radius(d: int, horizon: int, episodes: int, alpha: float) -> float:
    r"""β of Jin et al.'s Theorem 3.1 with its unnamed constant taken as 1, in units of half the targets' length.

    :math:`\beta=c\,dH\sqrt\iota` with :math:`\iota=\ln(2dKH/\alpha)`; targets of length H have half-length H/2, hence
    the factor 2.
    """
    if not 0 < alpha <= 1:
        raise InvalidInput("alpha", alpha, "in (0, 1]", "use 0.05 if in doubt")
    return 2 * d * math.sqrt(math.log(2 * d * episodes * horizon / alpha))


def constant_radius(radius: float, horizon: int) -> Array:
    """A radius that no round changes, as the table that :class:`LinearMdpLearner` takes."""
    return jnp.asarray(np.full((1, horizon), radius))
