r"""Replay and audit of model-free learners, whose releases depend on each other.

The releases of :mod:`reticent.agents.linear_mdp.private_moments` are not one linear map of the data: a round's moments hold the value
function that earlier releases led to. So the attack is not one fixed filter but the likelihood ratio itself, summed up
along the way. Of everybody else's data the adversary knows all, so they are taken to be nothing; given the past, a
release y of the canary's epoch has mean :math:`m_1` with her and :math:`m_0` with her replacement, both computable from
what was published, and noise of known scale:

.. math:: \log\frac{p_1}{p_0}=\sum_{\text{releases}}\frac{\langle y-\tfrac12(m_0+m_1),\,m_1-m_0\rangle}{\sigma^2} .

By Neyman and Pearson no test is better. :func:`audit_moments` bounds ε from its scores as every audit here does.

:func:`replay_moments` carries out the proof: the same run with a user exchanged and the noise moved by the difference
must publish the same numbers; the length of the move in units of the noise is the realised μ.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.linear_mdp.learner import LinearMdpLearner
from reticent.agents.linear_mdp.linear_mdp_plan import LinearMdpPlan
from reticent.agents.linear_mdp.moments import Frame, MomentSums, framed_moment
from reticent.agents.linear_mdp.private_moments import RoundNoise
from reticent.audit.attack import DEFAULT_CONFIDENCE, Attack, Audit
from reticent.audit.bounds import lower_bounds
from reticent.errors import InvalidInput
from reticent.learning.plan import Plan
from reticent.privacy.accounting.gaussian import mu_of
from reticent.privacy.packing import pack_symmetric
from reticent.worlds import Episode, Model

__all__ = ["MomentReplay", "audit_moments", "opposite_users", "play_moments", "replay_moments"]

TOLERANCE = 1e-6
LIVE_NUMBERS = 2_000_000


def opposite_users(model: Model, features: Array) -> tuple[Episode, Episode]:
    """Two users in the pair of the longest features at every step, one with all rewards, the other with none."""
    longest = np.asarray(jnp.linalg.norm(features, axis=0))
    state, action = np.unravel_index(int(longest.argmax()), longest.shape)
    stays, acts = jnp.full(model.horizon + 1, int(state)), jnp.full(model.horizon, int(action))
    rewards = jnp.ones(model.horizon, features.dtype)
    return Episode(stays, acts, rewards), Episode(stays, acts, 0 * rewards)


# -- the attack -----------------------------------------------------------------------------------------------------------


def play_moments(
    agent: LinearMdpLearner,
    pair: tuple[Episode, Episode],
    trials: int,
    seed: int,
    *,
    progress: Callable[[int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Log-likelihood ratios of ``trials`` runs without (``pair[1]``) and with (``pair[0]``) the canary, in epoch 1."""
    numbers = agent.features.shape[0] ** 2 * agent.model.horizon * 4 * agent.model.states
    batch = max(1, min(trials, LIVE_NUMBERS // numbers))
    idle = agent.plan(agent.init())
    reports = tuple(agent.report(idle, episode) for episode in pair)

    @jax.jit
    def scores(played: MomentSums, key: Array) -> Array:
        return jax.vmap(lambda own: _score(agent, played, reports, own))(jax.random.split(key, batch))

    sides = []
    for arm, played in enumerate((reports[1], reports[0])):
        own = jax.random.fold_in(jax.random.key(seed), arm)
        parts = []
        for start in range(0, trials, batch):
            parts.append(np.asarray(scores(played, jax.random.fold_in(own, start))))
            if progress is not None:
                progress(arm * trials + min(start + batch, trials))
        sides.append(np.concatenate(parts)[:trials])
    return sides[0], sides[1]


def _score(agent: LinearMdpLearner, played: MomentSums, pair: tuple[MomentSums, ...], key: Array) -> Array:
    """One run with ``played`` in its first epoch and nobody else, and the ratio of what it published."""
    moments = agent.aggregator
    sizes = jnp.asarray(moments.counter.sizes, agent.features.dtype)
    state = agent.absorb(agent.init(), played)
    idle = agent.plan(state)

    def a_round(state: Any, t: Array) -> tuple[Any, Array]:
        noise = moments.simulate_round_noise(jax.random.fold_in(key, t))
        before = moments.counter.release(state.aggregate.sums.counter)
        state = agent.close(state, idle, 1, noise)
        books = state.aggregate
        # The epoch's own noisy matrix, from two releases of the weighted sum.
        item = moments.counter.release(books.sums.counter) - before * sizes[jnp.maximum(t - 1, 0)] / sizes[t]
        one, other = (pack_symmetric(report.gram) for report in pair)
        matrices = _ratio(item, one, other, moments.gram_scale)
        seen = jnp.einsum("hij,hkj,hk->hi", books.published.factor, books.published.factor, books.published.weights)
        values, weight = agent.plan(state).values[1:], sizes[0] / sizes[t]
        one, other = (weight * _moments(report, values, books.published.frame) for report in pair)
        return state, jnp.where(t == 0, matrices, 0.0) + _ratio(seen, one, other, moments.moment_scale)

    return jax.lax.scan(a_round, state, jnp.arange(moments.counter.rounds))[1].sum()


def _moments(report: MomentSums, values: Array, frame: Frame) -> Array:
    """A user's own moments ``(H, d)`` under the value functions ``(H, S)`` and frames of a round."""
    return jax.vmap(framed_moment)(report.rewards, report.arrivals, values, frame)


def _ratio(seen: Array, one: Array, other: Array, scale: Array) -> Array:
    return (((seen - (one + other) / 2) * (one - other)) / scale[:, None] ** 2).sum()


def audit_moments(
    agent: LinearMdpLearner,
    plan: LinearMdpPlan,
    *,
    world: str = "custom",
    pair: tuple[Episode, Episode] | None = None,
    trials: int = 20_000,
    seed: int = 0,
    confidence: float = DEFAULT_CONFIDENCE,
    progress: Callable[[int], None] | None = None,
) -> Audit:
    """Attack the agent and bound its ε from below; what it *does* against what the plan's (ε, δ) *promise*.

    Raises:
      InvalidInput: too few trials.
    """
    if trials < 1000:
        raise InvalidInput("trials", trials, "at least 1000", "10^4 tell noise that forgets the number of rounds")
    users = opposite_users(agent.model, agent.features) if pair is None else pair
    without, present = play_moments(agent, users, trials, seed, progress=progress)
    options = plan.options
    evidence = lower_bounds(without, present, options.delta, confidence)
    distance = float(np.sqrt(max(0.0, present.mean() - without.mean())))  # of two normal log-likelihood ratios: μ
    return Audit(
        agent=agent.name,
        world=world,
        adversary="releases",
        trust=options.trust,
        adjacency=options.adjacency,
        counter=plan.ledger.counter,
        calibration=options.calibration,
        episodes=agent.schedule.episodes,
        claimed_epsilon=options.epsilon,
        delta=options.delta,
        claimed_mu=mu_of(options.epsilon, options.delta),
        trials=trials,
        confidence=confidence,
        seed=seed,
        attacks=(Attack("trajectory", "opposite rewards", distance, evidence, without, present),),
    )


# -- the replay -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class MomentReplay:
    """What a replay measured; ``findings`` is empty if the same was published and the promise held for this pair."""

    findings: tuple[str, ...]
    realised_mu: float
    promised_mu: float


def replay_moments(
    agent: LinearMdpLearner,
    plan: LinearMdpPlan,
    users: Sequence[Sequence[Episode]],
    exchanged: tuple[int, int],
    instead: Episode,
    *,
    seed: int = 0,
) -> MomentReplay:
    """Run ``users`` (a list per round), then again with user ``exchanged`` = (round, place) living ``instead``.

    The second run gets the first one's noise, moved by what the exchange changes under the *first* run's values.
    """
    moments = agent.aggregator
    sizes = moments.counter.sizes
    noises = [moments.simulate_round_noise(key) for key in jax.random.split(jax.random.key(seed), len(users))]
    first = _run(agent, users, noises)
    epoch, place = exchanged
    idle = first[0][1]
    old, new = (agent.report(idle, episode) for episode in (users[epoch][place], instead))
    moved, squares = [], 0.0
    for t, (noise, (state, shown)) in enumerate(zip(noises, first, strict=True)):
        frame, weight = state.aggregate.published.frame, sizes[epoch] / sizes[t]
        matrix = pack_symmetric(old.gram - new.gram) * (t == epoch)
        vector = weight * (
            _moments(old, shown.values[1:], frame) - _moments(new, shown.values[1:], frame)
        ) * (t >= epoch)  # fmt: skip
        moved.append(RoundNoise(noise.gram + matrix, noise.moment + vector))
        squares += float(((matrix / moments.gram_scale[:, None]) ** 2).sum())
        squares += float(((vector / moments.moment_scale[:, None]) ** 2).sum())
    neighbours = [list(row) for row in users]
    neighbours[epoch][place] = instead
    findings = []
    for t, ((state, shown), (other, seen)) in enumerate(zip(first, _run(agent, neighbours, moved), strict=True)):
        pairs = {"what is published": (state.aggregate.published, other.aggregator.published), "plan": (shown, seen)}
        for name, (left, right) in pairs.items():
            if not _alike(left, right):
                findings.append(f"round {t + 1}: the {name} tells the neighbours apart although the noise hides them")
    realised, promised = float(np.sqrt(squares)), mu_of(plan.options.epsilon, plan.options.delta)
    if realised > promised * (1 + 1e-9):
        findings.append(f"hiding one user takes mu = {realised:.4g}, promised are {promised:.4g}")
    return MomentReplay(tuple(findings), realised, promised)


def _run(
    agent: LinearMdpLearner, users: Sequence[Sequence[Episode]], noises: Sequence[RoundNoise]
) -> list[tuple[Any, Plan]]:
    """State and plan after every round."""
    state, seen = agent.init(), []
    for episodes, noise in zip(users, noises, strict=True):
        shown = agent.plan(state)
        for episode in episodes:
            state = agent.absorb(state, agent.report(shown, episode))
        state = agent.close(state, shown, len(episodes), noise)
        seen.append((state, agent.plan(state)))
    return seen


def _alike(left: Any, right: Any) -> bool:
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE) for one, other in pairs)
