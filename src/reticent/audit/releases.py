# SPDX-License-Identifier: Apache-2.0
r"""The strong adversary: sees every released sum, or every report where users noise their own; knows all users but one.

A trial runs the agent's own privatizer with its own noise over all its rounds, once with the canary and once with its
replacement; all other contributions are known to the adversary, so they are taken to be zero. Releases are Gaussian with
a known covariance, hence by Neyman and Pearson no test is better than a threshold on the *matched filter*

.. math:: s=\sum_{t,c}\frac{u_t\,\Delta_c}{\sigma_c^2}\,y_{t,c}\Big/\mu ,\qquad u=(BB^\top)^{-1}Ae_r ,

with :math:`y_{t,c}` coordinate c of release t, Δ the canary's difference, r its round, and A, B the counter's measured
response. Under the promise s has variance 1 and its means are μ apart.

A broken mechanism may have another covariance. With ``learn=True`` the adversary estimates it from separate trials and
uses the linear discriminant of what it saw; for small transcripts only.

Laplace noise has another best test: the likelihood ratio of the noise that explains what was seen. With
:math:`\hat z=B^{-1}y` less what the replacement would add, :math:`d=B^{-1}Ae_r` and Δ the canary's difference,

.. math:: s=\sum_{t,c}\big(|\hat z_{t,c}|-|\hat z_{t,c}-d_t\Delta_c|\big)/b_c .

Where B can be inverted, every trial is also searched for noise that is missing or repeated
(:mod:`reticent.privacy.degenerate_noise`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.audit.response import Response
from reticent.audit.subject import Subject
from reticent.errors import InvalidInput
from reticent.learning.aggregator import PyTree
from reticent.privacy.degenerate_noise import DegenerateDraws, HonestNoise, NoiseReader, count_degenerate, make_reader
from reticent.privacy.neighbouring_datasets import Pair, Scores, Tell, realised_strength, report_of
from reticent.privacy.sums import PrivateSums, SumState
from reticent.runtime import double_precision

__all__ = ["MATCHED_LIMIT", "Test", "best_test", "noise_reader", "noiseless", "play_releases", "transcript"]

LOCAL_REPORTS = 3
"""Reports that a trial contains where users noise their own: the canary's first, then of users who did nothing."""

LEARNED_LIMIT = 1024
"""Largest transcript, in numbers, whose covariance is estimated."""

MATCHED_LIMIT = 1024
"""Largest number of rounds whose response is measured."""

ATOM_ROUNDS, ATOM_CONDITION = 64, 1e5
"""Most rounds whose noise is read off releases one by one, and how much rounding may be amplified by that."""

LIVE_NUMBERS = 3_000_000
"""Numbers of one batch of trials that are alive at a time, roughly."""


class Filter(NamedTuple):
    """The matched filter ``(T, H, D)``, scaled to unit variance under the promise."""

    weights: Array

    def score(self, seen: Array) -> Array:
        return (self.weights * seen).sum()


class Likelihood(NamedTuple):
    """What the likelihood ratio of Laplace noise needs; ``noises`` counts what explains a transcript.

    Attributes:
      inverse: from releases to the noises that explain them, ``(noises, T)``.
      centre: what the replacement adds to them, ``(noises, H, D)``.
      shift: what the canary adds beyond that.
      scale: b, ``(H, D)``.
    """

    inverse: Array
    centre: Array
    shift: Array
    scale: Array

    def score(self, seen: Array) -> Array:
        noise = jnp.tensordot(self.inverse, seen, axes=1) - self.centre
        return ((jnp.abs(noise) - jnp.abs(noise - self.shift)) / self.scale).sum()


Test = Filter | Likelihood


def transcript(sums: PrivateSums, seen: PyTree, at_round: int, key: Array) -> Array:
    """Everything released in one trial, ``(T, H, D)``: the canary's round is ``at_round``, all others are empty."""
    if sums.trust.noised_reports:
        empty = jax.tree.map(jnp.zeros_like, seen)
        noises = [sums.simulate_user_noise(jax.random.fold_in(key, user)) for user in range(LOCAL_REPORTS)]
        return jnp.stack([sums.report(seen if user == 0 else empty, noise) for user, noise in enumerate(noises)])

    def a_round(state: SumState, t: Array) -> tuple[SumState, Array]:
        report = sums.report(seen, None)
        state = sums.absorb(state, jnp.where(t == at_round, report, jnp.zeros_like(report)))
        state = sums.close(state, sums.simulate_round_noise(jax.random.fold_in(key, t)))
        return state, sums.released_sums(state)

    return jax.lax.scan(a_round, sums.init(), jnp.arange(sums.counter.rounds))[1]


@double_precision
def play_releases(
    subject: Subject,
    pair: Pair[PyTree],
    trials: int,
    seed: int,
    *,
    learn: bool = False,
    tell: Tell | None = None,
) -> Scores:
    """Scores of ``trials`` trials each without the canary (the replacement in its place) and with it."""
    at_round, test = best_test(subject, pair)
    root = jax.random.key(seed)
    batch = _batch(subject, trials)
    if learn:
        test = _learned_filter(subject, pair, at_round, jax.random.fold_in(root, 2), min(trials, 20_000), batch)
    program = _program(at_round, batch)
    reader = noise_reader(subject, at_round, subject.noise_scale)
    sides, degenerate = [], []
    done = 0
    for arm, seen in enumerate((pair.replacement, pair.canary)):
        keys, silent = jax.random.fold_in(root, arm), noiseless(subject, seen, at_round)
        parts = []
        for start in range(0, trials, batch):
            scores, run = program(subject.sums, seen, test, reader, silent, jax.random.fold_in(keys, start))
            kept = min(batch, trials - start)
            parts.append(np.asarray(scores)[:kept])
            degenerate.append(jax.tree.map(lambda leaf, kept=kept: np.asarray(leaf)[:kept], run))
            done += kept
            if tell is not None:
                tell(done)
        # What is not a number cannot be mistaken for noise.
        sides.append(np.nan_to_num(np.concatenate(parts), nan=1e12, posinf=1e12, neginf=-1e12))
    possible = realised_strength(subject.sums, pair) * subject.exposure
    if reader is None:
        return Scores(sides[0], sides[1], possible)
    sums, scale = subject.sums, subject.noise_scale
    honest = HonestNoise.of(sums.law, scale, float(sums.grid), len(reader.inverse))
    return Scores(sides[0], sides[1], possible, count_degenerate(degenerate, honest))


def _program(at_round: int, batch: int) -> Callable[..., tuple[Array, DegenerateDraws | None]]:
    """The compiled trials; compiled anew for every audit, so that what runs is the code in force."""

    def trials(
        sums: PrivateSums, seen: PyTree, test: Test | None, reader: NoiseReader | None, silent: Array, key: Array
    ) -> tuple[Array, DegenerateDraws | None]:
        def trial(own: Array) -> tuple[Array, DegenerateDraws | None]:
            released = transcript(sums, seen, at_round, own)
            score = released.ravel() if test is None else test.score(released)
            return score, None if reader is None else reader.read(released, silent)

        return jax.vmap(trial)(jax.random.split(key, batch))

    return jax.jit(trials)


def noiseless(subject: Subject, seen: PyTree, at_round: int) -> Array:
    """What a trial would release without any noise, ``(T, H, D)``: by the measured response, not by running it."""
    report = report_of(subject.sums, seen)
    if subject.response is None:
        idle = report_of(subject.sums, jax.tree.map(jnp.zeros_like, seen))
        return jnp.stack([report, *[idle] * (LOCAL_REPORTS - 1)])
    return jnp.asarray(subject.response.items[:, at_round])[:, None, None] * report


def noise_reader(subject: Subject, at_round: int, scale: np.ndarray) -> NoiseReader | None:
    """Reads noise off releases, in units of ``scale``.

    None where several draws make one release, or there are too many rounds to compare.
    """
    if subject.response is None:
        return make_reader(np.eye(LOCAL_REPORTS), scale, 0)
    mixing = subject.response.noise
    if mixing.shape[-1] > 1 or len(mixing) > ATOM_ROUNDS or np.linalg.cond(mixing[..., 0]) > ATOM_CONDITION:
        return None
    return make_reader(np.linalg.inv(mixing[..., 0]), scale, at_round)


def best_test(subject: Subject, pair: Pair[PyTree]) -> tuple[int, Test]:
    """The canary's round (the most exposed one), and the best test between it and its replacement."""
    return likelihood(subject, pair) if subject.pure else matched_filter(subject, pair)


def matched_filter(subject: Subject, pair: Pair[PyTree]) -> tuple[int, Test]:
    """The canary's round (the most exposed one) and the filter, scaled to unit variance."""
    moved = np.asarray(report_of(subject.sums, pair.canary) - report_of(subject.sums, pair.replacement))
    scale = subject.noise_scale
    # Where there is no noise but a difference, the least weight that drowns everything else.
    sigma = np.where(scale > 0, scale, 1e-6 * scale.max())
    size = np.sqrt(max(float((moved**2 / sigma**2).sum()), 1e-300))
    response = _response(subject)
    if response is None:
        at_round, over_time = 0, np.eye(1, LOCAL_REPORTS)[0]
    else:
        at_round = int(np.argmax(response.exposures))
        over_time = response.filters[:, at_round]
        size *= float(response.exposures[at_round]) if np.isfinite(response.exposures[at_round]) else 1.0
    return at_round, Filter(jnp.asarray(over_time[:, None, None] * moved / sigma**2 / size))


def likelihood(subject: Subject, pair: Pair[PyTree]) -> tuple[int, Test]:
    """The canary's round (the most exposed one) and the likelihood ratio of the noise."""
    canary, replacement = (np.asarray(report_of(subject.sums, side)) for side in (pair.canary, pair.replacement))
    scale = np.where(subject.noise_scale > 0, subject.noise_scale, 1e-6 * subject.noise_scale.max())
    response = _response(subject)
    if response is None:
        inverse, at_round, moved = np.eye(1, LOCAL_REPORTS), 0, np.ones(1)
    else:
        at_round = int(np.argmax(response.pure_exposures))
        inverse = np.linalg.pinv(response.noise.reshape(response.rounds, -1), rcond=1e-13)
        moved = inverse @ response.items[:, at_round]
    along = moved[:, None, None]
    parts = (inverse, along * replacement, along * (canary - replacement), scale)
    return at_round, Likelihood(*(jnp.asarray(part) for part in parts))


def _response(subject: Subject) -> Response | None:
    rounds = subject.sums.counter.rounds
    if not subject.noised_reports and rounds > MATCHED_LIMIT:
        raise InvalidInput("rounds", rounds, f"at most {MATCHED_LIMIT} in an audit", "audit with fewer --episodes")
    return subject.response


def _learned_filter(subject: Subject, pair: Pair[PyTree], at_round: int, key: Array, trials: int, batch: int) -> Filter:
    """The linear discriminant of transcripts of a pilot, with the covariance that they have."""
    releases = LOCAL_REPORTS if subject.noised_reports else subject.sums.counter.rounds
    shape = (releases, *subject.noise_scale.shape)
    size = int(np.prod(shape))
    if size > LEARNED_LIMIT:
        raise InvalidInput("transcript", size, f"at most {LEARNED_LIMIT} numbers", "audit with the matched filter")
    program = _program(at_round, batch)
    sides = []
    for arm, seen in enumerate((pair.replacement, pair.canary)):
        own, silent = jax.random.fold_in(key, arm), jnp.zeros(())
        parts = [
            np.asarray(program(subject.sums, seen, None, None, silent, jax.random.fold_in(own, start))[0])
            for start in range(0, trials, batch)
        ]
        sides.append(np.concatenate(parts)[:trials])
    gap = sides[1].mean(axis=0) - sides[0].mean(axis=0)
    spread = np.concatenate([side - side.mean(axis=0) for side in sides])
    scale = spread.std(axis=0)
    quiet = scale <= 1e-12 * scale.max()
    scale = np.where(quiet, scale.max(), scale)
    covariance = np.cov((spread / scale).T) + 1e-9 * np.eye(size)
    return Filter(jnp.asarray((np.linalg.solve(covariance, gap / scale) / scale).reshape(shape)))


def _batch(subject: Subject, trials: int) -> int:
    live = subject.noise_scale.size
    releases = LOCAL_REPORTS if subject.noised_reports else min(subject.sums.counter.rounds, ATOM_ROUNDS)
    live *= 2 * releases + (0 if subject.noised_reports else 2 + subject.sums.counter.memory)
    return max(1, min(trials, LIVE_NUMBERS // live))
