# SPDX-License-Identifier: Apache-2.0
r"""A user who returns: replay and attack with all of their contributions exchanged at once.

:mod:`reticent.audit.replay` exchanges one contribution. Here a person has several, in the rounds of a pattern; what they
cost together is measured with the counter's own response, :math:`\mu^2=\sum_c m_c^\top G\,m_c/\sigma_c^2` with :math:`m_c`
the movement of coordinate c over rounds and G the measured inner products, and compared with the promise. Whether the
pattern is one that the guarantee allows is not asked: a service that counts more than it may is what is looked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.audit.replay import _public_differences, _run
from reticent.audit.subject import Subject
from reticent.learning.aggregator import PyTree
from reticent.privacy.neighbouring_datasets import (
    Pair,
    Replay,
    Scores,
    User,
    cost_of,
    in_noise,
    realised_strength,
    report_of,
)
from reticent.privacy.sums import PrivateSums, SumState
from reticent.runtime import double_precision

__all__ = ["pattern_strength", "play_returning", "replay_returning"]


@double_precision
def replay_returning(
    subject: Subject, users: Sequence[User], places: Sequence[int], other: User, *, seed: int = 1_845_201_937
) -> Replay:
    """Compare the runs of ``users`` and of the same with all ``places`` (0-based numbers, one person's) replaced."""
    with np.errstate(all="ignore"):
        changed = set(places)
        neighbours = [other if number in changed else user for number, user in enumerate(users)]
        first = _run(subject, users, seed)
        same_noise = _run(subject, neighbours, seed, plans=first.plans)
        hidden = _run(subject, neighbours, seed, hide=first, response=subject.response, changed=changed)
        findings = [*first.findings]
        ends = subject.agent.schedule.ends
        theirs = {int(np.searchsorted(ends, place, side="right")) for place in places}
        if subject.response is None:
            reports = [first.reports[place] - same_noise.reports[place] for place in places]
            realised = math.hypot(*(cost_of(subject.sums, moved) for moved in reports))
        else:
            moved = np.stack(first.items) - np.stack(same_noise.items)
            strays = [t for t in range(len(moved)) if t not in theirs and moved[t].any()]
            findings += [f"a user who is not in round {t + 1} moved what reached the counter there" for t in strays]
            white = in_noise(moved, subject.noise_scale).reshape(len(moved), -1)
            realised = math.sqrt(float(np.einsum("tc,ts,sc->", white, subject.response.gram, white)))
        if not realised <= subject.promised * (1 + 1e-9):
            findings.append(f"this pair has mu = {realised:.6g}, but the promise allows {subject.promised:.6g}")
        findings += _public_differences(subject, first, hidden)
        for what, run in (("same noise", same_noise), ("hidden", hidden)):
            if run.shapes != first.shapes or run.requests != first.requests or run.counts != first.counts:
                findings.append(f"{what}: rounds, shapes or noise requests depend on the user's data")
        return Replay(
            tuple(dict.fromkeys(findings)), realised, subject.promised, (), subject.exposure, subject.declared_exposure
        )


def pattern_strength(subject: Subject, pair: Pair[PyTree], times: np.ndarray) -> float:
    """μ of exchanging a person who contributes ``times[t]`` times in round t, by the agent's own report and response."""
    charged = times.sum() if subject.response is None else times @ subject.response.gram @ times
    return realised_strength(subject.sums, pair) * math.sqrt(float(charged))


@double_precision
def play_returning(subject: Subject, pair: Pair[PyTree], times: np.ndarray, trials: int, seed: int) -> Scores:
    """Scores of ``trials`` trials each with the replacement and with the canary, which contributes ``times[t]`` times in
    round t; by the matched filter over all these rounds."""
    sums, scale = subject.sums, subject.noise_scale
    moved = np.asarray(report_of(sums, pair.canary) - report_of(sums, pair.replacement))
    strength = pattern_strength(subject, pair, times)
    response = subject.response
    over_time = np.ones(int(times.sum())) if response is None else response.filters @ times
    weights = jnp.asarray(over_time[:, None, None] * moved / scale**2 / strength)

    @jax.jit
    def play(seen: PyTree, key: Array) -> Array:
        def trial(own: Array) -> Array:
            return (weights * _transcript(sums, seen, times, own)).sum()

        return jax.vmap(trial)(jax.random.split(key, trials))

    keys = jax.random.split(jax.random.key(seed), 2)
    without, present = (
        np.asarray(play(seen, key)) for seen, key in zip((pair.replacement, pair.canary), keys, strict=True)
    )
    return Scores(without, present, strength)


def _transcript(sums: PrivateSums, seen: PyTree, times: np.ndarray, key: Array) -> Array:
    """Everything released in one trial in which no other user contributes."""
    if sums.trust.noised_reports:
        keys = jax.random.split(key, int(times.sum()))
        return jax.vmap(lambda own: sums.report(seen, sums.simulate_user_noise(own)))(keys)

    def a_round(state: SumState, at: tuple[Array, Array]) -> tuple[SumState, Array]:
        t, count = at
        state = sums.absorb(state, count * sums.report(seen, None))
        state = sums.close(state, sums.simulate_round_noise(jax.random.fold_in(key, t)))
        return state, sums.released_sums(state)

    return jax.lax.scan(a_round, sums.init(), (jnp.arange(len(times)), jnp.asarray(times, float)))[1]
