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

**Exploration.** In the first round everybody acts at random. In later ones the users at the first places are
*explorers*, of whom there are :math:`\min(n,\max(n_1,\beta\sqrt n/\Delta))` with Δ the predicted loss of exploring; the
others are served the greedy plan. Who explores follows from her place, never from data.

**The clip's effect** is undone to first order: clipping turns a vector u into a·u plus a rest, on average, with a
matrix a and an offset that are measured on *replicas*, users who are drawn from the public model with public random
numbers (:mod:`reticent.agents.score.replicas`).

**The blend is a prior.** Where the option ``residual`` is on, users' vectors have a second block about what the blend
leaves unexplained (:mod:`reticent.agents.score.residual_block`). Plans are then made from rows with their residuals, and
explorers are as many as the larger of the rule above and :math:`0.1\,n\cdot\text{hope}/\Delta`, with hope the explorers'
optimistic value less the greedy plan's: a round may spend on exploring a tenth of what it hopes to gain.

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
    Doubt,
    Estimate,
    Moments,
    Score,
    Statistic,
    forward_pass,
    frame,
    plan_backward,
)
from reticent.agents.score.evidence import Evidence, evidence_of, learn, surprise
from reticent.agents.score.first_states import StartPosterior, empty_start_posterior, estimated_starts, learn_starts
from reticent.agents.score.mixed_policies import mix_policies, moments_of
from reticent.agents.score.model_moments import MIXING, REWARD_VARIANCE, mean_rewards, root_of, whitening
from reticent.agents.score.posterior import Fit, Posterior, Posteriors, Summary, empty_posterior, no_surprise, summarize
from reticent.agents.score.replicas import ClipEffect, clip_effect, no_clip_effect, residual_length
from reticent.agents.score.residual_block import (
    ResidualBlock,
    blend_of,
    initial_state,
    plan_residual,
    release_of,
    with_radius,
    with_residual,
    with_residual_doubt,
)
from reticent.agents.score.residual_posterior import ResidualState, believe, faded, remembered, rows_by
from reticent.agents.score.round_plan import ScorePlan, choose, probabilities, randomised, serve
from reticent.agents.score.vector import Reference, tabulate, user_vector
from reticent.learning.aggregator import Noise
from reticent.learning.learner import AgentState, Learner
from reticent.learning.plan import ControlGroup, Plan
from reticent.worlds import Episode
from reticent_wire.forms.score_residual import residual_vector, stacked

if TYPE_CHECKING:
    from reticent.agents.score.audit_hooks import ScoreHooks
    from reticent.learning.diagnostics import Diagnostics


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreLearner(Learner[Array, Array, Array]):
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
      half_life: users after whom a release counts half; infinite is never.
      alarm: squared length of a surprise at which everything learned before it is given up; infinite is never.
      residual: what is chosen about residuals; None where only the blend is learned.
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
    def residual_dimension(self) -> int:
        """The numbers of what is told about residuals."""
        if self.residual is None:
            return 0
        return self.groups * self.model.states * self.model.actions * (self.residual.directions + 2)

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

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan:
        posteriors: Posteriors = state.past
        transitions = summarize(self.coordinates, posteriors.transitions)
        rewards = summarize(self.reward_coordinates, posteriors.rewards)
        first = state.rounds == 0
        starts = estimated_starts(self.model, posteriors.starts)
        estimate = self.estimate_from(transitions.mean, rewards.mean, starts, posteriors.residual)
        simplex = self.coordinates.total is not None
        greedy, values, table = plan_backward(self.model, estimate, None, simplex, self.floor)
        doubt = self._doubt(transitions, rewards, posteriors.residual)
        curious, hoped, hopes = plan_backward(self.model, estimate, doubt, simplex, self.floor)
        hoped = jnp.where(first, values, hoped)

        theta = self.coordinates.theta(transitions.mean)
        if self.score == "likelihood":
            theta = MIXING * theta + (1 - MIXING) * self.coordinates.centre
        statistic = Statistic(self.coordinates, self.contrasts, theta)
        index = jnp.minimum(state.rounds, self.sizes.shape[0] - 1)
        users = self.sizes[index]
        exploiting = self._forward_moments(statistic, estimate, greedy, values)
        exploring: Moments = jax.tree.map(
            lambda known, new: jnp.where(first, known, new),
            self.first_moments,
            self._forward_moments(statistic, estimate, curious, hoped),
        )
        loss = jnp.maximum(exploiting.value - exploring.value, 1e-9)
        spent = self.explore * jnp.sqrt(users)
        if self.residual is not None:
            hope = jnp.maximum(((hoped[0] - values[0]) * starts).sum(), 0.0)
            spent = jnp.maximum(spent, self.residual.hope * users * hope)
        explorers = jnp.clip(spent / loss, self.sizes[0], users)
        explorers = jnp.where(first, users, jnp.floor(explorers))
        moments = exploring.mixed(exploiting, explorers / users)
        whiten = whitening(self._by_group(moments.spread, self.moving_groups), self.ridge)
        whiten_rewards = whitening(REWARD_VARIANCE * self._by_group(moments.rewards, self.groups), self.ridge)
        radius, asked = self.radii[index], None
        if self.residual is not None and posteriors.residual is not None:
            believed = posteriors.residual.estimate
            asked = plan_residual(self, self.residual, believed, estimate, values, hoped, users)
            radius = jnp.maximum(self.radii[0], jnp.sqrt(1 - asked.reference.share) * radius)
        reference = Reference(theta, self.reward_coordinates.theta(rewards.mean), whiten, whiten_rewards, radius)
        extension = ScorePlan(
            curious, hoped, explorers.astype(jnp.int32), explorers / users, first, reference,
            self.coordinates.eta(theta), rewards.mean, moments, hopes if action_values else None,
            initial=starts if self.starts else None, residual=asked,
        )  # fmt: skip
        ones = jnp.ones(self.model.horizon, values.dtype)
        plan = Plan(greedy, values, 0 * ones, ones, table if action_values else None, extension)
        if self.residual is not None and asked is not None and self.clipped:
            length = residual_length(self, plan, jax.random.fold_in(self._public_key(state.rounds), 1))
            asked = with_radius(self, self.residual, asked, length, users)
            plan = plan._replace(extension=extension._replace(residual=asked))
        return plan

    def for_many(self, plan: Plan) -> Plan:
        extension: ScorePlan = plan.extension
        if self.score != "values":
            return plan
        own, other = (
            tabulate(self.model, self.coordinates, extension.reference.theta, frame(values[1:])[0])
            for values in (plan.values, extension.hoped)
        )
        tables = own, other
        return plan._replace(extension=extension._replace(tables=tables))

    def served(self, plan: Plan, place: Array | int) -> Plan:
        return serve(plan, place)

    def rebase_plan(
        self, served: Plan, reference: Plan, users: Array | int, control: ControlGroup | None = None
    ) -> Plan:
        """The served plan's choices and explorers with the reference's statistic, and the moments that belong to both and
        to the control group."""
        own, chosen = served.extension, reference.extension
        count = jnp.asarray(users, self.noise_scale.dtype)
        statistic = Statistic(self.coordinates, self.contrasts, chosen.reference.theta)
        mixed_policies = mix_policies(served, reference, users, control)
        moments = moments_of(self, mixed_policies, statistic, self.estimate_of(chosen), reference.values, chosen.hoped)
        extension = chosen._replace(
            curious=own.curious, explorers=own.explorers, share=jnp.minimum(own.explorers, count) / count,
            at_random=own.at_random, moments=moments, mixed_policies=mixed_policies,
        )  # fmt: skip
        return reference._replace(policy=served.policy, extension=extension)

    def act(self, plan: Plan, step: Array | int, state: Array | int, uniform: Array | float) -> Array:
        return choose(plan, step, state, uniform, self.model.actions, self.floor)

    def action_probabilities(self, plan: Plan) -> Array:
        """With what probabilities :meth:`act` takes each action under a plan as one user is served it, ``(H, S, A)``."""
        return probabilities(plan, self.model.actions, self.floor, self.noise_scale.dtype)

    def plan_value(self, plan: Plan, world: Any) -> Array:
        extension: ScorePlan = plan.extension
        share, actions, dtype = extension.share, self.model.actions, self.noise_scale.dtype
        random = jnp.full((self.model.horizon, self.model.states, actions), 1 / actions)
        exploring, exploiting = (
            world.policy_value(randomised(choices, actions, self.floor, dtype) if self.floor else choices)
            for choices in (extension.curious, plan.policy)
        )
        exploring = jnp.where(extension.at_random, world.policy_value(random), exploring)
        value: Array = share * exploring + (1 - share) * exploiting
        return value

    def blend_vector(self, plan: Plan, episode: Episode) -> Array:
        """What the user tells about the blend, in units of the round's radius, without a clip."""
        extension: ScorePlan = plan.extension
        tables = None if extension.tables is None else extension.tables[0]
        return user_vector(
            self.model, self.coordinates, self.reward_coordinates, extension.reference, frame(plan.values[1:])[0],
            episode, self.score, self.groups == 1, tables,
        )  # fmt: skip

    def residual_vector(self, plan: Plan, episode: Episode) -> Array:
        """What the user tells about residuals, in units of its radius, without a clip."""
        return jnp.asarray(residual_vector(plan.extension.residual.reference, episode, jnp))

    def statistic(self, plan: Plan, episode: Episode) -> Array:
        """The user's vector in units of the round's radius, without a clip of the whole; with residuals and with where she
        began where these are learned."""
        vector = self.blend_vector(plan, episode)
        if self.residual is not None:
            residual = self.residual_vector(plan, episode)
            if self.clipped:
                share = plan.extension.residual.reference.share
                vector = jnp.asarray(stacked(vector, residual, share, jnp))
            else:
                vector = jnp.concatenate([vector, residual])
        if not self.starts:
            return vector
        return jnp.concatenate([vector, jax.nn.one_hot(episode.states[0], self.starts, dtype=vector.dtype)])

    def close(self, state: AgentState, plan: Plan, users: Array | int, noise: Noise = None) -> AgentState:
        """End the round: the released sum enters the posterior."""
        after = super().close(state, plan, users, noise)
        extension: ScorePlan = plan.extension
        radius, count = extension.reference.radius, jnp.asarray(users, self.noise_scale.dtype)
        own_weight, start_weight = self.part_weights
        weight: Array | float = own_weight
        if extension.residual is not None and self.clipped:
            weight = own_weight * jnp.sqrt(jnp.maximum(1 - extension.residual.reference.share, 1e-12))
        released, noises = self.aggregator.released(after.aggregate), count if self.noised_reports else 1.0
        summed = radius / weight * released[: self.score_dimension]
        variance = (radius / weight * self.noise_scale) ** 2 * noises
        effect = self._clip_effect(state, plan)
        evidence = self._evidence(extension, extension.moments, summed, variance, effect, count)
        before = self._remembered(state.past, evidence, count)
        if self.starts:
            users_at, doubt = (
                released[self.score_dimension :] / start_weight,
                (self.noise_scale / start_weight) ** 2 * noises,
            )
            before = before._replace(starts=learn_starts(before.starts, users_at, doubt, count))
        posteriors = self._with_residual(_learn(before, evidence), state, plan, released, count)
        # The Jacobian follows the estimate: once more with the new one, but for the first round, whose users act at random.
        estimate = self.estimate_from(
            summarize(self.coordinates, posteriors.transitions).mean,
            summarize(self.reward_coordinates, posteriors.rewards).mean,
            estimated_starts(self.model, posteriors.starts),
            posteriors.residual,
        )
        statistic = Statistic(self.coordinates, self.contrasts, extension.reference.theta)
        renewed = self._renewed(plan, statistic, estimate)
        again = self._evidence(extension, renewed, summed, variance, effect, count)
        posteriors = self._believed(_learn(before, again), posteriors.residual)
        return after._replace(past=self._finite(posteriors, state.past))

    def public_memory(self, state: AgentState) -> Posteriors:
        """What is believed: a function of releases. Releases themselves are published as such."""
        posteriors: Posteriors = state.past
        if posteriors.residual is None:
            return posteriors
        return posteriors._replace(residual=posteriors.residual._replace(releases=None))

    def diagnostics(self, released: np.ndarray, version: int, plan: Plan, memory: Any) -> Diagnostics:
        from reticent.agents.score.diagnostics import diagnostics_of

        return diagnostics_of(self, released, version, plan, memory)

    def audit_hooks(self) -> ScoreHooks:
        from reticent.agents.score.audit_hooks import ScoreHooks

        return ScoreHooks(self)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _public_key(self, rounds: Array) -> Array:
        return jax.random.fold_in(jax.random.key(self.seed), rounds)

    def estimate_of(self, extension: ScorePlan) -> Estimate:
        """The estimate that a plan was made from."""
        theta = extension.reference.theta
        if self.score == "likelihood":
            theta = (theta - (1 - MIXING) * self.coordinates.centre) / MIXING
        starts = self.model.initial if extension.initial is None else extension.initial
        estimate = self.estimate_from(self.coordinates.eta(theta), extension.reward_eta, starts)
        if extension.residual is None:
            return estimate
        return estimate._replace(rewards=extension.residual.reference.rewards, rows=extension.residual.rows)

    def estimate_from(
        self, eta: Array, reward_eta: Array, starts: Array, residual: ResidualState | None = None
    ) -> Estimate:
        """The estimate at these coordinates of transitions and rewards, with these first states and residuals."""
        weights = self.reward_coordinates.theta(reward_eta)
        estimate = Estimate(self.coordinates.theta(eta), mean_rewards(self.model, weights), starts)
        if self.residual is None or residual is None:
            return estimate
        return with_residual(self, self.residual, estimate, residual.estimate)

    def _doubt(self, transitions: Summary, rewards: Summary, residual: ResidualState | None) -> Doubt:
        """The bonus: posterior standard deviations of P V and of the reward, times the scale."""
        root = jnp.einsum("dk,gkl->gdl", self.coordinates.basis, root_of(transitions.covariance), precision=HIGHEST)
        reward_root = root_of(rewards.covariance)
        spread = jnp.einsum("rsa,grl->glsa", self.contrasts, reward_root, precision=HIGHEST)
        doubt = Doubt(self.bonus * root, self.bonus * jnp.sqrt((spread**2).sum(axis=1)))
        if self.residual is None or residual is None:
            return doubt
        return with_residual_doubt(self, self.residual, doubt, residual.estimate)

    def _with_residual(
        self, posteriors: Posteriors, state: AgentState, plan: Plan, released: Array, users: Array
    ) -> Posteriors:
        """A release among those of residuals, and a first guess of the rows around the blend that is believed in."""
        residual = posteriors.residual
        if self.residual is None or residual is None or residual.releases is None:
            return posteriors
        own = released[self.score_dimension : self.score_dimension + self.residual_dimension]
        newest = release_of(self, self.residual, plan, own, users)
        releases = remembered(residual.releases, newest, state.rounds)
        blend = blend_of(self, self._blend_estimate(posteriors))
        estimate = rows_by(self.residual.basis, releases, blend, residual.estimate, self.floor)
        return posteriors._replace(residual=ResidualState(releases, estimate))

    def _believed(self, posteriors: Posteriors, residual: ResidualState | None) -> Posteriors:
        """Posteriors with the residuals around their blend."""
        if self.residual is None or residual is None or residual.releases is None:
            return posteriors
        blend = blend_of(self, self._blend_estimate(posteriors))
        estimate = believe(self.residual.basis, residual.releases, blend, residual.estimate, self.floor)
        return posteriors._replace(residual=ResidualState(residual.releases, estimate))

    def _blend_estimate(self, posteriors: Posteriors) -> Estimate:
        """The estimate of the blend alone."""
        return self.estimate_from(
            summarize(self.coordinates, posteriors.transitions).mean,
            summarize(self.reward_coordinates, posteriors.rewards).mean,
            estimated_starts(self.model, posteriors.starts),
        )

    def _by_group(self, steps: Array, groups: int) -> Array:
        """Matrices of all steps ``(H, k, k)`` added up (stationary) or those of the first ``groups`` steps."""
        return steps.sum(axis=0, keepdims=True)[:groups] if self.groups == 1 else steps[:groups]

    def _clip_effect(self, state: AgentState, plan: Plan) -> ClipEffect:
        moving = self.moving_groups, self.coordinates.size
        paying = self.groups, self.reward_coordinates.size
        if not self.clipped:
            return no_clip_effect((moving, paying), self.noise_scale.dtype)
        return clip_effect(self, plan, self._public_key(state.rounds), (moving, paying))

    def _forward_moments(self, statistic: Statistic, estimate: Estimate, choices: Array, values: Array) -> Moments:
        """The moments of a user who is served these choices, as randomised as they are."""
        return forward_pass(self.model, statistic, estimate, choices, values, self.score, self.floor)

    def _renewed(self, plan: Plan, statistic: Statistic, estimate: Estimate) -> Moments:
        """The moments of a round's user by a new estimate."""
        extension: ScorePlan = plan.extension
        if extension.mixed_policies is not None:
            return moments_of(self, extension.mixed_policies, statistic, estimate, plan.values, extension.hoped)
        curious = self._forward_moments(statistic, estimate, extension.curious, extension.hoped)
        greedy = self._forward_moments(statistic, estimate, plan.policy, plan.values)
        renewed: Moments = jax.tree.map(
            lambda new, old: jnp.where(extension.at_random, old, new),
            curious.mixed(greedy, extension.share),
            extension.moments,
        )
        return renewed

    def _finite(self, posteriors: Posteriors, before: Posteriors) -> Posteriors:
        """The new posteriors, or those before them where a plan made from the new ones would not be finite."""
        summaries = (
            summarize(self.coordinates, posteriors.transitions),
            summarize(self.reward_coordinates, posteriors.rewards),
        )
        used = posteriors, summaries, [root_of(summary.covariance) for summary in summaries]
        sound = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(used)]).all()
        kept: Posteriors = jax.tree.map(lambda new, old: jnp.where(sound, new, old), posteriors, before)
        return kept

    def _remembered(self, posteriors: Posteriors, evidence: tuple[Evidence, Evidence], users: Array) -> Posteriors:
        """What is left of earlier posteriors when a round of so many users ends: less with time, nothing after an alarm."""
        kept = jnp.exp2(-users / self.half_life)
        alarms = posteriors.alarms
        unexpected = surprise(self.coordinates, posteriors.transitions, evidence[0])
        unexpected = unexpected + surprise(self.reward_coordinates, posteriors.rewards, evidence[1])
        earlier = posteriors.fit
        fit = Fit(unexpected, earlier.total + jnp.where(earlier.releases > 0, unexpected, 0.0), earlier.releases + 1)
        if math.isfinite(self.alarm):
            alarmed = unexpected > self.alarm
            kept, alarms = jnp.where(alarmed, 0.0, kept), alarms + alarmed
            fit = Fit(unexpected, jnp.where(alarmed, 0.0, fit.total), jnp.where(alarmed, 1, fit.releases))
        fainter: tuple[Posterior, Posterior, StartPosterior | None] = jax.tree.map(
            lambda leaf: kept * leaf, (posteriors.transitions, posteriors.rewards, posteriors.starts)
        )
        residual = posteriors.residual
        if residual is not None and residual.releases is not None:
            residual = residual._replace(releases=faded(residual.releases, kept))
        return Posteriors(*fainter[:2], fit, alarms, fainter[2], residual)

    def _evidence(
        self,
        extension: ScorePlan,
        moments: Moments,
        summed: Array,
        variance: Array,
        effect: ClipEffect,
        users: Array,
    ) -> tuple[Evidence, Evidence]:
        """What a release says of transitions and of rewards, with these moments of a user."""
        reference = extension.reference
        moving, size = self.moving_groups, self.coordinates.size
        paying, reward_size = self.groups, self.reward_coordinates.size
        cut = moving * size
        centred = summed - users * effect.offset
        transitions = evidence_of(
            reference.whiten, self._by_group(moments.jacobian, moving), self._by_group(moments.spread, moving),
            centred[:cut].reshape(moving, size), effect.transitions, effect.doubt[:cut].reshape(moving, size),
            extension.eta, variance, users,
        )  # fmt: skip
        information = self._by_group(moments.rewards, paying)
        rewards = evidence_of(
            reference.whiten_rewards, information, REWARD_VARIANCE * information,
            centred[cut:].reshape(paying, reward_size), effect.rewards, effect.doubt[cut:].reshape(paying, reward_size),
            extension.reward_eta, variance, users,
        )  # fmt: skip
        return transitions, rewards


def _learn(before: Posteriors, evidence: tuple[Evidence, Evidence]) -> Posteriors:
    """The posteriors after a release."""
    return before._replace(
        transitions=learn(before.transitions, evidence[0]), rewards=learn(before.rewards, evidence[1])
    )
