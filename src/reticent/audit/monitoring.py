# SPDX-License-Identifier: Apache-2.0
r"""Canaries under watch: from what is published about them to the e-processes of :mod:`reticent.audit.sequential`.

**In a running service.** The service's canary rounds (:mod:`reticent.service.rounds.canaries`) are released *beside* those
of the schedule: they are not counted in K, take no user's place and are in no sum of users' rounds.

**In a schedule of one's own** canaries may also take places among the K: what they contribute is public. A report of a
canary, where users noise their own, or a *round* of canaries alone then shows its noise to every reader:
:func:`canary_noise` computes it from public releases, and :class:`~reticent.audit.sequential.NoiseMonitor` bets on it.
Nothing here reads users' data, so watching costs no privacy. A round with users in it must not be read: its noise is what
hides them, and knowing it is knowing their sum.

**Before a deployment.** :func:`monitor` plays runs of an agent one after another, as :func:`reticent.audit.audit` does,
and stops as soon as the evidence suffices: after every run the coin of its canary is guessed and the noise of its
releases is betted on. Noise is measured in the units of the *guarantee* (:func:`~reticent.audit.distribution
.promised_scales`), not in those of the code that draws it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.audit.attack import Progress
from reticent.audit.distribution import promised_scales
from reticent.audit.hooks import OwnReleases
from reticent.audit.releases import best_test, noise_reader, noiseless, transcript
from reticent.audit.response import Response
from reticent.audit.sequential import COARSEST, DEFAULT_ALPHA, GuessMonitor, Law, NoiseMonitor, largest_accuracy
from reticent.audit.subject import Subject
from reticent.audit.worst_pair import worst_pair
from reticent.errors import InvalidInput
from reticent.learning.aggregator import PyTree
from reticent.learning.capabilities import audit_hooks
from reticent.privacy.guarantee import Guarantee
from reticent.privacy.neighbouring_datasets import Pair
from reticent.privacy.sums import PrivateSums
from reticent.runtime import double_precision

__all__ = ["Monitoring", "canary_noise", "monitor", "noise_monitor"]

LAWS: dict[str, Law] = {"Gaussian": "gaussian", "Laplace": "laplace", "binomial": "gaussian"}
"""By the account's name of a law, the one whose ratios are fair to it."""

BATCH = 256
"""Runs between two looks of a program's progress; the monitors look after every run."""


@dataclasses.dataclass(frozen=True)
class Monitoring:
    """The state of a sequential audit after ``runs`` runs; either monitor has half of α.

    Attributes:
      noise: None where the noise of releases cannot be read off them.
    """

    agent: str
    world: str
    guarantee: Guarantee
    alpha: float
    seed: int
    runs: int
    guesses: GuessMonitor
    noise: NoiseMonitor | None

    @property
    def verdict(self) -> Literal["consistent", "violated"]:
        return "violated" if self.guesses.alarm or (self.noise is not None and self.noise.alarm) else "consistent"

    def sentence(self) -> str:
        """The state in plain words."""
        evidence = f"guesses {_times(self.guesses.log_capital)}"
        if self.noise is not None:
            evidence = f"noise {_times(self.noise.log_capital)}, {evidence}"
        return (
            f"{self.verdict} after {self.runs:,} runs: capital against the promise: {evidence}; an alarm is raised at "
            f"{2 / self.alpha:,.0f} and is false with probability at most {self.alpha:g}, however often one looks"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "verdict": self.verdict,
            "alpha": self.alpha,
            "runs": self.runs,
            "agent": self.agent,
            "world": self.world,
            "claimed_epsilon": self.guarantee.epsilon,
            "delta": self.guarantee.delta,
            "seed": self.seed,
            "guesses": self.guesses.to_dict(),
            "noise": None if self.noise is None else self.noise.to_dict(),
        }


def noise_monitor(subject: Subject, alpha: float = DEFAULT_ALPHA) -> NoiseMonitor | None:
    """A monitor that is fair to the promised noise; None if there is none for its law, or its grid is too coarse."""
    scale = subject.noise_scale
    resolution = float(subject.sums.grid) / float(scale[scale > 0].min())
    law = LAWS.get(subject.guarantee.ledger.account.law)
    return None if law is None or resolution > COARSEST else NoiseMonitor(alpha, law, resolution)


def canary_noise(
    releases: np.ndarray, known: np.ndarray, canaries: np.ndarray, response: Response, scale: np.ndarray
) -> np.ndarray:
    r"""The noise of canary rounds in units of its scale, ``(rounds, numbers)``, from public numbers alone.

    Releases are :math:`y=Ax+Bz`; with :math:`C=B^{-1}A` the noise of round t is :math:`(B^{-1}y)_t-(Cx)_t`, which is known
    where row t of C meets rounds of canaries only. Under ``epochs`` and ``separate`` those are all of them, in a tree
    the rounds whose own block ends there and holds no user.

    Args:
      releases: of the first T rounds, ``(T, H, D)``.
      known: what canaries contributed to them, ``(T, H, D)``; of users' rounds it is not read.
      canaries: which of the rounds are canaries' alone, ``(T,)``.
      response: of the counter (:func:`reticent.audit.response.probe`).
      scale: of the noise, ``(H, D)``; numbers without noise are left out.

    Raises:
      InvalidInput: several draws make one release of this counter.
    """
    rounds = len(releases)
    if response.noise.shape[-1] > 1:
        raise InvalidInput("counter", "one with several draws a round", "one with one", "its noise cannot be read")
    inverse = np.linalg.inv(response.noise[:rounds, :rounds, 0])
    strategy = inverse @ response.items[:rounds, :rounds]
    strategy = np.where(np.abs(strategy) > 1e-12, strategy, 0.0)
    alone = canaries & ~(strategy[:, ~canaries] != 0).any(axis=1)
    items = np.where(canaries[:, None, None], known, 0.0)
    noise = np.tensordot(inverse, releases, axes=1) - np.tensordot(strategy, items, axes=1)
    return np.asarray((noise[alone] / np.where(scale > 0, scale, 1.0))[:, scale > 0])


@double_precision
def monitor(
    subject: Subject,
    world: Any,
    *,
    trials: int = 100_000,
    alpha: float = DEFAULT_ALPHA,
    seed: int = 0,
    pair: Pair[PyTree] | None = None,
    progress: Progress | None = None,
) -> Monitoring:
    """Audit run by run, until the promise is seen to be broken or ``trials`` runs are over.

    Formal guarantee. A kept promise is called violated with probability at most ``alpha``, for any ``trials``.
    """
    hooks = audit_hooks(subject.agent)
    each = alpha / 2
    guesses = GuessMonitor(largest_accuracy(subject.guarantee), each)
    noise: NoiseMonitor | None
    if isinstance(hooks, OwnReleases):
        canary = hooks.canaries(world, seed)[0][1] if pair is None else pair
        play, noise = _own_player(hooks, canary, seed), None
    else:
        canary = worst_pair(subject, seed=seed, gradient=False)[0] if pair is None else pair
        play, noise = _player(subject, canary, seed), noise_monitor(subject, each)
    runs = 0
    while runs < trials and not guesses.alarm and not (noise is not None and noise.alarm):
        kept = min(BATCH, trials - runs)
        right, numbers = play(runs // BATCH)
        guesses = guesses.observe(right[:kept])
        noise = None if noise is None or numbers is None else noise.observe(numbers[:kept])
        runs += kept
        if progress is not None:
            progress("monitored runs", runs, trials)
    name = getattr(world, "name", "custom")
    return Monitoring(subject.agent.name, name, subject.guarantee, alpha, seed, runs, guesses, noise)


Player = Callable[[int], tuple[np.ndarray, np.ndarray | None]]
"""Plays the batch of this number: which coins were guessed right, and the noise of each run where it can be read."""


def _player(subject: Subject, pair: Pair[PyTree], seed: int) -> Player:
    """Runs of an agent that releases noisy sums."""
    at_round, test = best_test(subject, pair)
    promised = promised_scales(subject.guarantee, subject.noise_scale.shape)
    reader = noise_reader(subject, at_round, promised)
    silent = tuple(noiseless(subject, side, at_round) for side in (pair.canary, pair.replacement))
    middle = (test.score(silent[0]) + test.score(silent[1])) / 2
    active = promised > 0

    @jax.jit
    def play(sums: PrivateSums, key: Array) -> tuple[Array, Array | None]:
        def run(own: Array) -> tuple[Array, Array | None]:
            coin = jax.random.bernoulli(jax.random.fold_in(own, 1_000_003))
            seen = jax.tree.map(lambda canary, other: jnp.where(coin, canary, other), pair.canary, pair.replacement)
            released = transcript(sums, seen, at_round, own)
            right = (test.score(released) > middle) == coin
            if reader is None:
                return right, None
            return right, reader.noise(released, jnp.where(coin, silent[0], silent[1]))[:, active].ravel()

        return jax.vmap(run)(jax.random.split(key, BATCH))

    def batch(number: int) -> tuple[np.ndarray, np.ndarray | None]:
        right, noise = play(subject.sums, jax.random.fold_in(jax.random.key(seed), number))
        return np.asarray(right), None if noise is None else np.asarray(noise)

    return batch


def _own_player(hooks: OwnReleases, pair: Pair[PyTree], seed: int) -> Player:
    """Runs of an agent with an adversary of its own, whose scores are log-likelihood ratios."""

    def batch(number: int) -> tuple[np.ndarray, np.ndarray | None]:
        scores = hooks.play(pair, BATCH, (seed << 20) + number)
        coins = np.random.default_rng((seed, number)).random(BATCH) < 0.5
        return (np.where(coins, scores.present, scores.without) > 0) == coins, None

    return batch


def _times(log_capital: float) -> str:
    return f"{np.exp(min(log_capital, 300.0)):.3g}"
