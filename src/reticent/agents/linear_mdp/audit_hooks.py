# SPDX-License-Identifier: Apache-2.0
r"""Attack and replay of model-free learners, whose releases depend on each other.

The releases of :mod:`reticent.agents.linear_mdp.private_moments` are not one linear map of the data: a round's moments
hold the value function that earlier releases led to. So the attack is not one fixed filter but the likelihood ratio
itself, summed up along the way. Of all other users' data the adversary knows all, so they are taken to be nothing; given
the past, a release y of the canary's epoch has mean :math:`m_1` with them and :math:`m_0` with their replacement, both
computable from what was published, and noise of known scale:

.. math:: \log\frac{p_1}{p_0}=\sum_{\text{releases}}\frac{\langle y-\tfrac12(m_0+m_1),\,m_1-m_0\rangle}{\sigma^2} .

By Neyman and Pearson no test is better.

:meth:`LinearMdpHooks.replay` carries out the proof: the same run with a user exchanged and the noise moved by the
difference must publish the same numbers; the length of the move in units of the noise is the realised μ.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.linear_mdp.learner import LinearMdpLearner, Published
from reticent.agents.linear_mdp.moments import MomentSums, TargetFrame, Visits, framed_moment
from reticent.agents.linear_mdp.private_moments import PrivateMoments, RoundNoise
from reticent.errors import InvalidInput
from reticent.learning.aggregator import PyTree
from reticent.learning.learner import AgentState
from reticent.learning.plan import Plan
from reticent.privacy.degenerate_noise import DegenerateDraws, HonestNoise, count_degenerate, reader_of_units
from reticent.privacy.guarantee import guarantee_of
from reticent.privacy.neighbouring_datasets import Pair, Replay, Scores, Tell, User
from reticent.privacy.packing import pack_symmetric
from reticent.runtime import double_precision_methods
from reticent.worlds import Episode, Model, World

TOLERANCE = 1e-6
LIVE_NUMBERS = 2_000_000
"""Numbers of one batch of trials that are alive at a time, roughly."""


def opposite_users(model: Model, features: Array) -> tuple[Episode, Episode]:
    """Two users in the pair of the longest features at every step, one with all rewards, the other with none."""
    longest = np.asarray(jnp.linalg.norm(features, axis=0))
    state, action = np.unravel_index(int(longest.argmax()), longest.shape)
    stays, acts = jnp.full(model.horizon + 1, int(state)), jnp.full(model.horizon, int(action))
    rewards = jnp.ones(model.horizon, features.dtype)
    return Episode(stays, acts, rewards), Episode(stays, acts, 0 * rewards)


@double_precision_methods
@dataclasses.dataclass(frozen=True)
class LinearMdpHooks:
    """What the audit must know of a model-free learner (:mod:`reticent.audit.hooks`)."""

    agent: LinearMdpLearner

    @property
    def moments(self) -> PrivateMoments:
        if not isinstance(self.agent.aggregator, PrivateMoments):
            raise InvalidInput("agent", self.agent.name, "one with private moments", "this one adds no noise")
        return self.agent.aggregator

    def nothing(self) -> Visits:
        """Visits that contribute nothing."""
        horizon, d = self.agent.model.horizon, self.agent.features.shape[0]
        dtype = self.agent.features.dtype
        return Visits(jnp.zeros((horizon, d), dtype), jnp.zeros(horizon, dtype), jnp.zeros(horizon, jnp.int32))

    def canaries(self, world: World, seed: int) -> list[tuple[str, Pair[Visits]]]:
        """One that any world can produce up to its transitions: the longest features, opposite rewards."""
        del world, seed
        shown = self.agent.plan(self.agent.init())
        canary, replacement = (
            self.agent.statistic(shown, user) for user in opposite_users(self.agent.model, self.agent.features)
        )
        guarantee = guarantee_of(self.agent)
        if guarantee is not None and guarantee.adjacency == "zero-out":
            return [("trajectory", Pair(canary, self.nothing(), "all rewards, against nothing"))]
        return [("trajectory", Pair(canary, replacement, "opposite rewards"))]

    # -- the attack ---------------------------------------------------------------------------------------------------

    def play(self, pair: Pair[Visits], trials: int, seed: int, tell: Tell | None = None) -> Scores:
        """Log-likelihood ratios of ``trials`` runs without and with the canary, in epoch 1."""
        agent, moments = self.agent, self.moments
        numbers = agent.features.shape[0] ** 2 * agent.model.horizon * 4 * agent.model.states
        batch = max(1, min(trials, LIVE_NUMBERS // numbers))
        reports = tuple(moments.report(seen, None) for seen in (pair.canary, pair.replacement))

        rounds, width = moments.counter.rounds, moments.packed + moments.dimension
        reader = reader_of_units(rounds, (moments.horizon, width))

        @jax.jit
        def scores(agent: LinearMdpLearner, played: MomentSums, key: Array) -> tuple[Array, DegenerateDraws]:
            def run(own: Array) -> tuple[Array, DegenerateDraws]:
                score, noise = _score(agent, played, reports, own)
                return score, reader.read(noise, jnp.zeros_like(noise))

            return jax.vmap(run)(jax.random.split(key, batch))

        sides, degenerate = [], []
        for arm, played in enumerate((reports[1], reports[0])):
            own = jax.random.fold_in(jax.random.key(seed), arm)
            parts = []
            for start in range(0, trials, batch):
                score, run = scores(agent, played, jax.random.fold_in(own, start))
                kept = min(batch, trials - start)
                parts.append(np.asarray(score)[:kept])
                degenerate.append(jax.tree.map(lambda leaf, kept=kept: np.asarray(leaf)[:kept], run))
                if tell is not None:
                    tell(arm * trials + min(start + batch, trials))
            sides.append(np.concatenate(parts))
        without, present = sides
        distance = float(np.sqrt(max(0.0, present.mean() - without.mean())))  # of two normal log-likelihood ratios: μ
        honest = HonestNoise.of("gaussian", np.ones((moments.horizon, width)), 0.0, rounds)
        return Scores(without, present, distance, count_degenerate(degenerate, honest))

    # -- the replay ---------------------------------------------------------------------------------------------------

    def replay(self, users: Sequence[User], changed: int, other: User, seed: int) -> Replay:
        """Run ``users``, then again with number ``changed`` (0-based) replaced by ``other`` and the noise that hides it.

        The second run gets the first one's noise, moved by what the exchange changes under the *first* run's values.
        """
        agent, moments = self.agent, self.moments
        guarantee = guarantee_of(agent)
        assert guarantee is not None
        rounds, ends = moments.counter.rounds, agent.schedule.ends
        sizes = moments.counter.sizes
        noises = [moments.simulate_round_noise(key) for key in jax.random.split(jax.random.key(seed), rounds)]
        shown, first = _run(agent, users, noises)
        epoch = int(np.searchsorted(ends, changed, side="right"))
        old, new = (moments.report(user(shown[min(epoch, rounds)]), None) for user in (users[changed], other))
        moved, squares = [], 0.0
        for t, (noise, (published, plan)) in enumerate(zip(noises, first, strict=True)):
            matrix = pack_symmetric(old.gram - new.gram) * (t == epoch)
            weight = sizes[epoch] / sizes[t] if epoch <= t else 0.0
            vector = weight * (
                _moments(old, plan.values[1:], published.frame) - _moments(new, plan.values[1:], published.frame)
            )
            moved.append(RoundNoise(noise.gram + matrix, noise.moment + vector))
            squares += float(((matrix / moments.gram_scale[:, None]) ** 2).sum())
            squares += float(((vector / moments.moment_scale[:, None]) ** 2).sum())
        neighbours = [*users[:changed], other, *users[changed + 1 :]]
        findings = []
        _, second = _run(agent, neighbours, moved)
        for t, (before, after) in enumerate(zip(first, second, strict=True)):
            for name, left, right in zip(("what is published", "plan"), before, after, strict=True):
                if not _alike(left, right):
                    findings.append(
                        f"round {t + 1}: the {name} tells the neighbours apart although the noise hides them"
                    )
        realised, promised = float(np.sqrt(squares)), guarantee.promised_strength
        if realised > promised * (1 + 1e-9):
            findings.append(f"hiding one user takes mu = {realised:.4g}, promised are {promised:.4g}")
        return Replay(tuple(findings), realised, promised)


def _score(
    agent: LinearMdpLearner, played: MomentSums, pair: tuple[MomentSums, ...], key: Array
) -> tuple[Array, Array]:
    """One run with ``played`` in its first epoch and no other user: the ratio of what it published, and its noise.

    The noise is in units of its scale, ``(rounds, H, d(d+1)/2 + d)``: of matrices and moments.
    """
    moments = agent.aggregator
    assert isinstance(moments, PrivateMoments)
    sizes = jnp.asarray(moments.counter.sizes, agent.features.dtype)
    state = agent.absorb(agent.init(), played)
    idle = agent.plan(state)

    def a_round(state: AgentState, t: Array) -> tuple[AgentState, tuple[Array, Array]]:
        noise = moments.simulate_round_noise(jax.random.fold_in(key, t))
        before = moments.counter.release(state.aggregate.counter)
        state = agent.close(state, idle, 1, noise)
        published: Published = state.past
        # The epoch's own noisy matrix, from two releases of the weighted sum.
        item = moments.counter.release(state.aggregate.counter) - before * sizes[jnp.maximum(t - 1, 0)] / sizes[t]
        canary, replacement = (pack_symmetric(report.gram) for report in pair)
        matrices = _ratio(item, canary, replacement, moments.gram_scale)
        seen = jnp.einsum("hij,hkj,hk->hi", published.factor, published.factor, published.weights)
        values, weight = agent.plan(state).values[1:], sizes[0] / sizes[t]
        canary, replacement = (weight * _moments(report, values, published.frame) for report in pair)
        ratio = jnp.where(t == 0, matrices, 0.0) + _ratio(seen, canary, replacement, moments.moment_scale)
        of_matrices = (item - jnp.where(t == 0, pack_symmetric(played.gram), 0.0)) / moments.gram_scale[:, None]
        of_moments = (seen - weight * _moments(played, values, published.frame)) / moments.moment_scale[:, None]
        return state, (ratio, jnp.concatenate([of_matrices, of_moments], axis=-1))

    ratios, noises = jax.lax.scan(a_round, state, jnp.arange(moments.counter.rounds))[1]
    return ratios.sum(), noises


def _moments(report: MomentSums, values: Array, frame: TargetFrame) -> Array:
    """A user's own moments ``(H, d)`` under the value functions ``(H, S)`` and frames of a round."""
    return jax.vmap(framed_moment)(report.rewards, report.arrivals, values, frame)


def _ratio(seen: Array, canary: Array, replacement: Array, scale: Array) -> Array:
    return (((seen - (canary + replacement) / 2) * (canary - replacement)) / scale[:, None] ** 2).sum()


def _run(
    agent: LinearMdpLearner, users: Sequence[User], noises: Sequence[RoundNoise]
) -> tuple[list[Plan[None]], list[tuple[Published, Plan[None]]]]:
    """The plans that were shown, the first before the first user came; after every release what was published, and the
    plan."""
    state, number = agent.init(), 0
    shown, seen = [agent.plan(state)], []
    for size, noise in zip(agent.schedule.round_sizes.tolist(), noises, strict=False):
        for user in users[number : number + size]:
            state = agent.absorb(state, agent.aggregator.report(user(shown[-1]), None))
        number += size
        state = agent.close(state, shown[-1], size, noise)
        shown.append(agent.plan(state))
        seen.append((state.past, shown[-1]))
    return shown, seen


def _alike(left: PyTree, right: PyTree) -> bool:
    leaves = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.allclose(before, after, rtol=TOLERANCE, atol=TOLERANCE) for before, after in leaves)
