# SPDX-License-Identifier: Apache-2.0
r"""Score-VI: value iteration from one vector per user.

A round goes: *plans* (greedy in the posterior mean, and a curious one with a bonus of posterior standard deviations for the
explorers), a *reference* for the users' vectors, the users, one released sum Y, and the *posterior*. With J = n·W·F the
model's own Jacobian and :math:`\Sigma=\sigma^2I+n\,WCW^\top` the covariance of Y,

.. math:: \Lambda\leftarrow\Lambda+J^\top\Sigma^{-1}J,\qquad
          b\leftarrow b+J^\top\Sigma^{-1}(Y+J\eta_0).

No Gram matrix is released: F and C follow from the public model's occupancies under the public plans
(:mod:`reticent.agents.score.dynamic_programming`), with the estimate in the place of the truth
and once more with the new estimate.
Where the model does not declare where users begin, that is estimated as well (:mod:`reticent.agents.score.first_states`).

**Exploration.** In the first round all users act at random. In later ones the users at the first places are
*explorers*, in number :math:`\min(n,\max(n_1,\beta\sqrt n/\Delta))` with Δ the predicted loss of exploring; the
others are served the greedy plan. Who explores follows from their place, never from data.

**The clip's effect** is undone to first order: clipping turns a vector u into a·u plus a rest, on average, with a
matrix a and an offset that are measured on *replicas*, users who are drawn from the public model with public random
numbers (:mod:`reticent.agents.score.replicas`).

**The blend is a prior.** Where the option ``residual`` is on, users' vectors have a second block about what the blend
leaves unexplained (:mod:`reticent.agents.score.residual_block`). Plans are then made from rows with their residuals, and
explorers are as many as the larger of the rule above and :math:`0.1\,n\cdot\text{hope}/\Delta`, with hope the explorers'
optimistic value less the greedy plan's: a round may spend on exploring a tenth of what it hopes to gain.

**A stay.** With V = ``visits`` above 1 a user comes V times under one version and reports once: the sum of the visits'
vectors, clipped once. By the model it has the moments V·F and V·C, so that whitened it is as long as one visit's and tells
V times as much beside the same noise.

Everything but the sum Y is a function of earlier releases and of public numbers. Nothing here knows whether Y carries
noise.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.score.coordinates import Coordinates
from reticent.agents.score.dynamic_programming import (
    HIGHEST,
    Moments,
    Score,
    Statistic,
    frame,
)
from reticent.agents.score.estimates import estimate_of
from reticent.agents.score.first_states import empty_start_posterior
from reticent.agents.score.mixed_policies import mix_policies, moments_of
from reticent.agents.score.planning import plan_round
from reticent.agents.score.posterior import Posteriors, empty_posterior, no_surprise
from reticent.agents.score.posterior_update import learned
from reticent.agents.score.residual_block import (
    ResidualBlock,
    initial_state,
)
from reticent.agents.score.round_plan import ScorePlan, choose, probabilities, randomised, serve
from reticent.agents.score.summed_reports import summed_reports, sums_at_once
from reticent.agents.score.vector import tabulate, user_vector
from reticent.learning.aggregator import Noise
from reticent.learning.learner import AgentState, Learner
from reticent.learning.plan import ControlGroup, Plan
from reticent.worlds import Episode
from reticent.worlds.episode import by_visit
from reticent_wire.forms.score_residual import residual_vector, stacked

if TYPE_CHECKING:
    from reticent.agents.score.audit_hooks import ScoreHooks
    from reticent.learning.diagnostics import Diagnostics


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreLearner(Learner[Array, Array, Array, ScorePlan]):
    """See the module docstring.

    Attributes:
      coordinates, reward_coordinates: in which the blend is learned.
      noise_scale: standard deviation of the noise on one coordinate, in units of the radius: of a round's sum, or of one
        report where reports are noised.
      radii: R of every round, never falling, ``(rounds,)``; 1 without privacy.
      sizes: users of every round, ``(rounds,)``.
      first_moments: of a user of the first round, who acts at random, by the prior mean.
      bonus: posterior standard deviations in the curious plan. explore: β. ridge: κ of the whitening.
      score: which statistic. clipped: whether vectors are clipped. noised_reports: whether noise is on every report.
      seed: of the public random numbers.
      floor: least probability of every action (docs/randomisation.md); 0 is none.
      start_share: τ, where the model does not declare where users begin and vectors are clipped.
      half_life: users after which a release counts half; infinite is never.
      alarm: squared length of a surprise at which everything learned before it is given up; infinite is never.
      residual: what is chosen about residuals; None where only the blend is learned.
      visits: V, of one stay, which is one report.
    """

    coordinates: Coordinates
    reward_coordinates: Coordinates
    noise_scale: Array
    radii: Array
    sizes: Array
    first_moments: Moments
    bonus: Array
    explore: Array
    ridge: Array
    score: Score = dataclasses.field(metadata={"static": True})
    clipped: bool = dataclasses.field(metadata={"static": True})
    noised_reports: bool = dataclasses.field(metadata={"static": True})
    seed: int = dataclasses.field(default=0, metadata={"static": True})
    floor: float = dataclasses.field(default=0.0, metadata={"static": True})
    start_share: float = dataclasses.field(default=0.0, metadata={"static": True})
    half_life: float = dataclasses.field(default=math.inf, metadata={"static": True})
    alarm: float = dataclasses.field(default=math.inf, metadata={"static": True})
    residual: ResidualBlock | None = None
    visits: int = dataclasses.field(default=1, metadata={"static": True})

    # -- shapes -------------------------------------------------------------------------------------------------------

    @property
    def groups(self) -> int:
        """G: groups of steps that have parameters of their own; 1 for a stationary model."""
        return 1 if self.model.stationary else self.model.horizon

    @property
    def moving_groups(self) -> int:
        """T: groups of steps whose transitions matter. After the last step nothing is earned."""
        if self.model.horizon == 1:
            return 0
        return 1 if self.model.stationary else self.model.horizon - 1

    @property
    def score_dimension(self) -> int:
        """The numbers of what is told about the blend."""
        return self.moving_groups * self.coordinates.size + self.groups * self.reward_coordinates.size

    @property
    def starts(self) -> int:
        """The numbers of what is told about where users begin: nothing where the model declares it."""
        return 0 if self.model.initial_known else self.model.states

    @property
    def cells(self) -> int:
        """Q: pairs of state and action, of every group of steps."""
        return self.groups * self.model.states * self.model.actions

    @property
    def residual_dimension(self) -> int:
        """The numbers of what is told about residuals."""
        if self.residual is None:
            return 0
        return self.cells * (self.residual.directions + 2)

    @property
    def dimension(self) -> int:
        """D: the numbers of one vector."""
        return self.score_dimension + self.residual_dimension + self.starts

    @property
    def part_weights(self) -> tuple[float, float]:
        """By what the two parts of a vector are multiplied, after they were clipped."""
        return (math.sqrt(1 - self.start_share), math.sqrt(self.start_share)) if self.clipped else (1.0, 1.0)

    @property
    def contrasts(self) -> Array:
        """Reward features in their coordinates, ``(r, S, A)``."""
        basis = self.reward_coordinates.basis
        return jnp.einsum("dr,dsa->rsa", basis, self.model.reward_features, precision=HIGHEST)

    def on_nodes(self) -> ScoreLearner:
        """The same learner on finitely many states: itself, unless states are real vectors."""
        return self

    # -- the learner's interface --------------------------------------------------------------------------------------

    def init(self) -> AgentState:
        posteriors = Posteriors(
            empty_posterior(self.coordinates, self.groups), empty_posterior(self.reward_coordinates, self.groups),
            no_surprise(self.noise_scale.dtype), jnp.zeros((), jnp.int32), empty_start_posterior(self.model),
            None if self.residual is None else initial_state(self, self.residual),
        )  # fmt: skip
        return AgentState(self.aggregator.init(), None, jnp.zeros((), jnp.int32), posteriors)

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan[ScorePlan]:
        return plan_round(self, state, action_values)

    def for_many(self, plan: Plan[ScorePlan]) -> Plan[ScorePlan]:
        extension = plan.extension
        if self.score != "values":
            return plan
        own, other = (
            tabulate(self.model, self.coordinates, extension.reference.theta, frame(values[1:])[0])
            for values in (plan.values, extension.hoped)
        )
        tables = own, other
        return plan._replace(extension=extension._replace(tables=tables))

    def served(self, plan: Plan[ScorePlan], place: Array | int) -> Plan[ScorePlan]:
        return serve(plan, place)

    def rebase_plan(
        self,
        served: Plan[ScorePlan],
        reference: Plan[ScorePlan],
        users: Array | int,
        control: ControlGroup[ScorePlan] | None = None,
    ) -> Plan[ScorePlan]:
        """The served plan's choices and explorers with the reference's statistic, and the moments that belong to both and
        to the control group."""
        own, chosen = served.extension, reference.extension
        count = jnp.asarray(users, self.noise_scale.dtype)
        statistic = Statistic(self.coordinates, self.contrasts, chosen.reference.theta)
        mixed_policies = mix_policies(served, reference, users, control)
        moments = moments_of(self, mixed_policies, statistic, estimate_of(self, chosen), reference.values, chosen.hoped)
        extension = chosen._replace(
            curious=own.curious, explorers=own.explorers, share=jnp.minimum(own.explorers, count) / count,
            at_random=own.at_random, moments=moments, mixed_policies=mixed_policies,
        )  # fmt: skip
        return reference._replace(policy=served.policy, extension=extension)

    def act(self, plan: Plan[ScorePlan], step: Array | int, state: Array | int, uniform: Array | float) -> Array:
        return choose(plan, step, state, uniform, self.model.actions, self.floor)

    def action_probabilities(self, plan: Plan[ScorePlan]) -> Array:
        """With what probabilities :meth:`act` takes each action under a plan as one user is served it, ``(H, S, A)``."""
        return probabilities(plan, self.model.actions, self.floor, self.noise_scale.dtype)

    def plan_value(self, plan: Plan[ScorePlan], world: Any) -> Array:
        extension = plan.extension
        share, actions, dtype = extension.share, self.model.actions, self.noise_scale.dtype
        random = jnp.full((self.model.horizon, self.model.states, actions), 1 / actions)
        exploring, exploiting = (
            world.policy_value(randomised(choices, actions, self.floor, dtype) if self.floor else choices)
            for choices in (extension.curious, plan.policy)
        )
        exploring = jnp.where(extension.at_random, world.policy_value(random), exploring)
        value: Array = share * exploring + (1 - share) * exploiting
        return value

    def blend_vector(self, plan: Plan[ScorePlan], episode: Episode) -> Array:
        """What the user tells about the blend, in units of the round's radius, without a clip; the sum of all visits."""
        extension = plan.extension
        tables = None if extension.tables is None else extension.tables[0]
        framed = frame(plan.values[1:])[0]

        def of_visit(visit: Episode) -> Array:
            return user_vector(
                self.model, self.coordinates, self.reward_coordinates, extension.reference, framed,
                visit, self.score, self.groups == 1, tables,
            )  # fmt: skip

        return of_visit(episode) if self.visits == 1 else jax.vmap(of_visit)(by_visit(episode, self.visits)).sum(axis=0)

    def residual_vector(self, plan: Plan[ScorePlan], episode: Episode) -> Array:
        """What the user tells about residuals, in units of its radius, without a clip."""
        return jnp.asarray(residual_vector(plan.extension.asked.reference, episode, jnp))

    def statistic(self, plan: Plan[ScorePlan], episode: Episode) -> Array:
        """The user's vector in units of the round's radius, without a clip of the whole; with residuals and with where they
        began where these are learned."""
        residual = None if self.residual is None else self.residual_vector(plan, episode)
        return self.stack(plan, self.blend_vector(plan, episode), residual, episode)

    def stack(self, plan: Plan[ScorePlan], vector: Array, residual: Array | None, episode: Episode) -> Array:
        """The parts of a user's vector as one."""
        if residual is not None and self.clipped:
            share = plan.extension.asked.reference.share
            vector = jnp.asarray(stacked(vector, residual, share, jnp))
        elif residual is not None:
            vector = jnp.concatenate([vector, residual])
        if not self.starts:
            return vector
        return jnp.concatenate([vector, jax.nn.one_hot(episode.states[0], self.starts, dtype=vector.dtype)])

    @property
    def sums_reports(self) -> bool:
        return sums_at_once(self)

    def summed_reports(self, plan: Plan[ScorePlan], places: Array, episodes: Episode, present: Array) -> Array:
        return summed_reports(self, plan, places, episodes, present)

    def close(self, state: AgentState, plan: Plan[ScorePlan], users: Array | int, noise: Noise = None) -> AgentState:
        """End the round: the released sum enters the posteriors."""
        after = super().close(state, plan, users, noise)
        released = self.aggregator.released(after.aggregate)
        return after._replace(past=learned(self, state, plan, users, released))

    def public_memory(self, state: AgentState) -> Posteriors:
        """What is believed: a function of releases. Releases themselves are published as such."""
        posteriors: Posteriors = state.past
        if posteriors.residual is None:
            return posteriors
        return posteriors._replace(residual=posteriors.residual._replace(releases=None))

    def diagnostics(self, released: np.ndarray, version: int, plan: Plan[ScorePlan], memory: Any) -> Diagnostics:
        from reticent.agents.score.diagnostics import diagnostics_of

        return diagnostics_of(self, released, version, plan, memory)

    def audit_hooks(self) -> ScoreHooks:
        from reticent.agents.score.audit_hooks import ScoreHooks

        return ScoreHooks(self)

    # -- inside -------------------------------------------------------------------------------------------------------

    def public_key(self, rounds: Array) -> Array:
        return jax.random.fold_in(jax.random.key(self.seed), rounds)
