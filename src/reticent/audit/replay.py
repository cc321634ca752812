# SPDX-License-Identifier: Apache-2.0
r"""Replay: the privacy proof, carried out on the running code.

Two sequences of users differ in one user. The proof says: the item that reaches the counter moves by at most the
declared sensitivity, and if the *noise* is moved the other way by as much, everything published is the same. So the
same agent is run three times,

1. with the first sequence, recording what reaches the counter and what is published;
2. with the second sequence and the *same noise*, every user being shown the *same plans* as in run 1: how far the
   counter's input moved is compared with the promise, group by group and step by step;
3. with the second sequence and the *noise that hides the difference* (:meth:`Response.hiding`), plans made by the
   agent itself: every release, plan, published memory, count, shape, noise request and log line must be as in run 1.

If run 3 agrees, the published numbers are functions of noisy sums alone, and what it costs is the length of the moved
noise in its own units, the *realised μ*. Nothing is compiled here: the code runs operation by operation, so branches on
data and printed lines show too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.audit.hooks import OwnReplay
from reticent.audit.response import Response
from reticent.audit.subject import Subject
from reticent.learning.aggregator import PyTree
from reticent.learning.capabilities import audit_hooks, public_memory
from reticent.learning.learner import AgentState
from reticent.learning.plan import AnyPlan, Plan, without_ties
from reticent.privacy.neighbouring_datasets import Group, Replay, User, cost_of, in_noise, length_of
from reticent.runtime import double_precision
from reticent.worlds import Episode

__all__ = ["Group", "Replay", "User", "replay", "seen_as", "user_of"]

TOLERANCE = 1e-6
"""Relative; moved noise cancels an item only up to rounding, which estimation may amplify."""


def user_of(subject: Subject, episode: Episode) -> User:
    """A user who lives this episode."""
    return lambda plan: subject.agent.statistic(plan, episode)


def seen_as(observation: PyTree) -> User:
    """A user whose observation is this, whatever plan is shown: an attacker at the level of statistics."""
    return lambda _: observation


@dataclasses.dataclass
class _Trace:
    """What one run did: private (items) and public (the rest)."""

    items: list[np.ndarray] = dataclasses.field(default_factory=list)
    reports: list[np.ndarray] = dataclasses.field(default_factory=list)
    releases: list[np.ndarray] = dataclasses.field(default_factory=list)
    plans: list[AnyPlan] = dataclasses.field(default_factory=list)
    memories: list[Any] = dataclasses.field(default_factory=list)
    statistics: list[Any] = dataclasses.field(default_factory=list)
    counts: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    shapes: list[Any] = dataclasses.field(default_factory=list)
    requests: list[Any] = dataclasses.field(default_factory=list)
    secrets: set[str] = dataclasses.field(default_factory=set)
    log: str = ""
    findings: list[str] = dataclasses.field(default_factory=list)


@double_precision
def replay(subject: Subject, users: Sequence[User], changed: int, other: User, *, seed: int = 1_845_201_937) -> Replay:
    """Compare the runs of ``users`` and of the same users with number ``changed`` (0-based) replaced by ``other``.

    Raises:
      InvalidInput: what the agent releases has no such proof.
    """
    hooks = audit_hooks(subject.agent)
    # A broken clip may let NaN through; that is a finding and no reason to stop.
    with np.errstate(all="ignore"):
        if isinstance(hooks, OwnReplay):
            return hooks.replay(users, changed, other, seed)
        return _replay(subject, users, changed, other, seed)


def _replay(subject: Subject, users: Sequence[User], changed: int, other: User, seed: int) -> Replay:
    neighbours = [*users[:changed], other, *users[changed + 1 :]]
    first = _run(subject, users, seed)
    same_noise = _run(subject, neighbours, seed, plans=first.plans)
    hidden = _run(subject, neighbours, seed, hide=first, response=subject.response, changed=(changed,))

    findings = [*first.findings]
    ends = subject.agent.schedule.ends
    own_round = int(np.searchsorted(ends, changed, side="right"))
    released = own_round < len(first.items)
    if subject.noised_reports:
        moved = first.reports[changed] - same_noise.reports[changed]
    else:
        moved = first.items[own_round] - same_noise.items[own_round] if released else 0 * first.items[0]
    for t, (before, after) in enumerate(zip(first.items, same_noise.items, strict=True)):
        if t != own_round and not np.array_equal(before, after):
            findings.append(f"the user of round {own_round + 1} also moved what reached the counter in round {t + 1}")
    exposure, declared = subject.exposure, subject.declared_exposure
    if exposure > declared * (1 + 1e-9):
        findings.append(f"a round's exposure is {exposure:.6g}, but the calibration counts {declared:.6g}")
    groups = _groups(subject, moved)
    # Every user is promised the same, so the item is charged at the most exposed round's price.
    realised = cost_of(subject.sums, moved) * exposure
    findings += _over_bounds(groups)
    if not realised <= subject.promised * (1 + 1e-9):
        unit = "epsilon" if subject.pure else "mu"
        findings.append(f"this pair has {unit} = {realised:.6g}, but the promise allows {subject.promised:.6g}")
    findings += _public_differences(subject, first, hidden)
    for what, run in (("same noise", same_noise), ("hidden", hidden)):
        if run.shapes != first.shapes or run.requests != first.requests or run.counts != first.counts:
            findings.append(f"{what}: rounds, shapes or noise requests depend on the user's data")
    return Replay(tuple(dict.fromkeys(findings)), realised, subject.promised, tuple(groups), exposure, declared)


def _run(
    subject: Subject,
    users: Sequence[User],
    seed: int,
    *,
    plans: Sequence[AnyPlan] | None = None,
    hide: _Trace | None = None,
    response: Response | None = None,
    changed: Collection[int] = (),
) -> _Trace:
    agent, sums = subject.agent, subject.sums
    trace = _Trace()
    shifts: list[np.ndarray] = []
    noisy = subject.noise_scale > 0
    keys = jax.random.split(jax.random.key(seed), 2)
    trace.secrets |= {str(seed), *_words(keys[0]), *_words(keys[1])}
    with jax.disable_jit(), _listening() as log:
        state = agent.init()
        plan = agent.plan(state, action_values=True)
        trace.plans.append(plan)
        number = 0
        for t, size in enumerate(agent.schedule.round_sizes.tolist()):
            shown = plan if plans is None else plans[min(t, len(plans) - 1)]
            for place in range(size):
                served = agent.served(shown, place)
                key = jax.random.fold_in(keys[0], number)
                trace.secrets |= _words(key)
                own = sums.simulate_user_noise(key)
                report = sums.report(users[number](served), own)
                if hide is not None and subject.noised_reports and number in changed and own is not None:
                    own = own + jnp.where(noisy, hide.reports[number] - report, 0.0)
                    report = sums.report(users[number](served), own)
                trace.reports.append(np.asarray(report))
                state = agent.absorb(state, report)
                number += 1
            if t >= agent.schedule.releases:
                break
            trace.items.append(np.asarray(state.aggregate.open))
            key = jax.random.fold_in(keys[1], t)
            trace.secrets |= _words(key)
            noise = sums.simulate_round_noise(key)
            trace.requests.append(None if noise is None else (noise.shape, str(noise.dtype)))
            if noise is not None and not np.array_equal(noise, np.asarray(sums.simulate_round_noise(key))):
                trace.findings.append("a retried round draws other noise: its two releases could be averaged")
            if hide is not None and response is not None and noise is not None and t < len(hide.items):
                moved = np.stack([a - b for a, b in zip(hide.items[: t + 1], trace.items, strict=True)])
                earlier = np.array(shifts) if shifts else np.zeros((0, response.noise.shape[-1], *noisy.shape))
                shifts.append(np.where(noisy, response.hiding(t, moved, earlier), 0.0))
                noise = noise + shifts[-1].reshape(noise.shape)
            state = agent.close(state, shown, size, noise)
            plan = agent.plan(state, action_values=True)
            trace.plans.append(plan)
            trace.memories.append(jax.tree.map(np.asarray, public_memory(agent, state)))
            trace.releases.append(np.asarray(sums.released_sums(state.aggregate)))
            trace.statistics.append(jax.tree.map(np.asarray, agent.aggregator.released(state.aggregate)))
            trace.counts.append((int(state.rounds), int(state.aggregate.rounds)))
            trace.shapes.append([(np.shape(leaf), str(np.asarray(leaf).dtype)) for leaf in jax.tree.leaves(state)])
        _past_the_horizon(subject, state, plan, users[0](agent.served(plan, 0)), keys, trace)
    trace.log = log.getvalue()
    if trace.secrets & set(re.findall(r"\d+", trace.log)):
        trace.findings.append("a log line shows the seed of the noise")
    return trace


def _words(key: jax.Array) -> set[str]:
    """The numbers a key is made of, as a log would show them; short ones say nothing."""
    return {str(word) for word in np.asarray(jax.random.key_data(key)).ravel().tolist() if word > 999}


def _past_the_horizon(
    subject: Subject, state: AgentState, plan: AnyPlan, seen: PyTree, keys: jax.Array, trace: _Trace
) -> None:
    """One more user after the last round: nothing of theirs may be released."""
    agent, sums = subject.agent, subject.sums
    before = np.asarray(sums.released_sums(state.aggregate))
    extra = sums.simulate_user_noise(jax.random.fold_in(keys[0], 10**6))
    state = agent.absorb(state, sums.report(seen, extra))
    for _ in range(2):
        noise = sums.simulate_round_noise(jax.random.fold_in(keys[1], 10**6))
        state = agent.close(state, plan, 1, noise)
    if not np.array_equal(before, np.asarray(sums.released_sums(state.aggregate))):
        trace.findings.append("a round closed after the last one is still released")


def _public_differences(subject: Subject, first: _Trace, hidden: _Trace) -> list[str]:
    """What an outsider could tell apart although the noise hides the user."""
    findings = []
    if first.log != hidden.log:
        findings.append("a log line depends on the user's data")
    for name in ("releases", "statistics", "plans", "memories"):
        before, after = getattr(first, name), getattr(hidden, name)
        if len(before) != len(after):
            findings.append(f"the number of {name} depends on the user's data")
            continue
        for t, (left, right) in enumerate(zip(before, after, strict=True)):
            if not _close(_comparable(subject, left), _comparable(subject, right)):
                findings.append(f"{name} are not a function of noisy sums (round {t + 1})")
                break
    if subject.noised_reports and not all(_close(a, b) for a, b in zip(first.reports, hidden.reports, strict=True)):
        findings.append("a report is not covered by its own noise")
    return findings


def _comparable(subject: Subject, plan: Any) -> Any:
    """A plan's greedy choice blanked where two actions are as good: rounding may decide those either way."""
    if not isinstance(plan, Plan) or subject.agent.method != "value-iteration":
        return plan
    own = getattr(audit_hooks(subject.agent), "comparable", None)
    if own is not None:
        return own(plan)
    return plan._replace(policy=without_ties(plan.policy, plan.action_values))


def _close(left: PyTree, right: PyTree) -> bool:
    """Equal up to :data:`TOLERANCE`; what is not a number is equal to nothing."""
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        before, after = np.asarray(a, float), np.asarray(b, float)
        if before.shape != after.shape or not (np.isfinite(before).all() and np.isfinite(after).all()):
            return False
        if np.abs(before - after).max(initial=0.0) > TOLERANCE * (1 + np.abs(before).max(initial=0.0)):
            return False
    return True


def _groups(subject: Subject, moved: np.ndarray) -> list[Group]:
    white = in_noise(moved, subject.noise_scale)
    return [
        Group(
            group.name, group.step, length_of(subject.sums, moved[group.step - 1, group.columns]), group.sensitivity,
            length_of(subject.sums, white[group.step - 1, group.columns]),
        )
        for group in subject.guarantee.groups
    ]  # fmt: skip


def _over_bounds(groups: Sequence[Group]) -> list[str]:
    return [
        f"the {row.name} of step {row.step} moved by {row.moved:.6g}, declared {row.declared:.6g}"
        for row in groups
        if not row.moved <= row.declared * (1 + 1e-9) + 1e-12
    ]


@contextlib.contextmanager
def _listening() -> Iterator[io.StringIO]:
    """Everything printed or logged within the block."""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    root = logging.getLogger("reticent")
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
            yield heard
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
