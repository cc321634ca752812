r"""Replay: the privacy proof, carried out on the running code.

Two sequences of users differ in one user. The proof says: the item that reaches the counter moves by at most the
declared sensitivity, and if the *noise* is moved the other way by as much, everything published is the same. So the
same agent is run three times,

1. with the first sequence, recording what reaches the counter and what is published;
2. with the second sequence and the *same noise*, every user being shown the *same plans* as in run 1: how far the
   counter's input moved is compared with the promise, group by group and step by step;
3. with the second sequence and the *noise that hides the difference* (:meth:`Response.hiding`), plans made by the
   agent itself: every release, plan, count, shape, noise request and log line must be as in run 1.

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
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.audit.response import Response, probe
from reticent.audit.subject import Subject, in_noise
from reticent.learning.plan import Plan
from reticent.worlds import Episode

__all__ = ["Group", "Replay", "User", "replay", "seen_as", "user_of"]

User = Callable[[Plan], Any]
"""A user's data: what her agent sees of her under whatever plan she is shown."""

TOLERANCE = 1e-6
"""Relative; moved noise cancels an item only up to rounding, which estimation may amplify."""


def user_of(subject: Subject, episode: Episode) -> User:
    """A user who lives this episode."""
    return lambda plan: subject.agent.see(plan, episode)


def seen_as(observation: Any) -> User:
    """A user whose observation is this, whatever she is shown: an attacker at the level of statistics."""
    return lambda _: observation


@dataclasses.dataclass(frozen=True)
class Group:
    """How far one declared group of sums of one step moved: against its sensitivity, and in units of its noise."""

    name: str
    step: int
    moved: float
    declared: float
    mu: float


@dataclasses.dataclass(frozen=True)
class Replay:
    """What a replay measured. ``findings`` is empty if the promise held for this pair of sequences.

    Attributes:
      realised_mu: the μ that this pair has, all releases together (ε under Laplace noise).
      promised_mu: what the promise allows.
      groups: the movement by declared group and step.
      exposure: the largest measured exposure of any round, and ``exposure_declared`` what the counter says.
    """

    findings: tuple[str, ...]
    realised_mu: float
    promised_mu: float
    groups: tuple[Group, ...]
    exposure: float
    exposure_declared: float


@dataclasses.dataclass
class _Trace:
    """What one run did: private (items) and public (the rest)."""

    items: list[np.ndarray] = dataclasses.field(default_factory=list)
    reports: list[np.ndarray] = dataclasses.field(default_factory=list)
    releases: list[np.ndarray] = dataclasses.field(default_factory=list)
    plans: list[Plan] = dataclasses.field(default_factory=list)
    regularized: list[Any] = dataclasses.field(default_factory=list)
    counts: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    shapes: list[Any] = dataclasses.field(default_factory=list)
    requests: list[Any] = dataclasses.field(default_factory=list)
    secrets: set[str] = dataclasses.field(default_factory=set)
    log: str = ""
    findings: list[str] = dataclasses.field(default_factory=list)


def replay(subject: Subject, users: Sequence[User], changed: int, other: User, *, seed: int = 1_845_201_937) -> Replay:
    """Compare the runs of ``users`` and of the same users with number ``changed`` (0-based) replaced by ``other``."""
    # A broken clip may let NaN through; that is a finding and no reason to stop.
    with np.errstate(all="ignore"):
        return _replay(subject, users, changed, other, seed)


def _replay(subject: Subject, users: Sequence[User], changed: int, other: User, seed: int) -> Replay:
    neighbours = [*users[:changed], other, *users[changed + 1 :]]
    response = None if subject.local else probe(subject.privatizer.counter)
    first = _run(subject, users, seed)
    same_noise = _run(subject, neighbours, seed, plans=first.plans)
    hidden = _run(subject, neighbours, seed, hide=first, response=response, changed=changed)

    findings = [*first.findings]
    ends = subject.agent.schedule.ends
    own_round = int(np.searchsorted(ends, changed, side="right"))
    released = own_round < len(first.items)
    if subject.local:
        moved = first.reports[changed] - same_noise.reports[changed]
    else:
        moved = first.items[own_round] - same_noise.items[own_round] if released else 0 * first.items[0]
    for t, (before, after) in enumerate(zip(first.items, same_noise.items, strict=True)):
        if t != own_round and not np.array_equal(before, after):
            findings.append(f"the user of round {own_round + 1} also moved what reached the counter in round {t + 1}")
    exposure = subject.exposure(response)
    declared = 1.0 if subject.local else float(subject.plan.calibration.counter_sensitivity)
    if exposure > declared * (1 + 1e-9):
        findings.append(f"a round's exposure is {exposure:.6g}, but the calibration counts {declared:.6g}")
    groups = _groups(subject, moved)
    # Every user is promised the same, so the item is charged at the most exposed round's price.
    realised = subject.cost(moved) * exposure
    findings += _over_bounds(groups)
    if not realised <= subject.promised_mu * (1 + 1e-9):
        unit = "epsilon" if subject.pure else "mu"
        findings.append(f"this pair has {unit} = {realised:.6g}, but the promise allows {subject.promised_mu:.6g}")
    findings += _public_differences(subject, first, hidden)
    for what, run in (("same noise", same_noise), ("hidden", hidden)):
        if run.shapes != first.shapes or run.requests != first.requests or run.counts != first.counts:
            findings.append(f"{what}: rounds, shapes or noise requests depend on the user's data")
    return Replay(tuple(dict.fromkeys(findings)), realised, subject.promised_mu, tuple(groups), exposure, declared)


def _run(
    subject: Subject,
    users: Sequence[User],
    seed: int,
    *,
    plans: Sequence[Plan] | None = None,
    hide: _Trace | None = None,
    response: Response | None = None,
    changed: int = -1,
) -> _Trace:
    agent, privatizer = subject.agent, subject.privatizer
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
            for _ in range(size):
                key = jax.random.fold_in(keys[0], number)
                trace.secrets |= _words(key)
                own = privatizer.simulate_user_noise(key)
                report = privatizer.report(users[number](shown), own)
                if hide is not None and subject.local and number == changed and own is not None:
                    own = own + jnp.where(noisy, hide.reports[number] - report, 0.0)
                    report = privatizer.report(users[number](shown), own)
                trace.reports.append(np.asarray(report))
                state = agent.absorb(state, report)
                number += 1
            if t >= agent.schedule.releases:
                break
            trace.items.append(np.asarray(state.aggregate.open))
            key = jax.random.fold_in(keys[1], t)
            trace.secrets |= _words(key)
            noise = privatizer.simulate_round_noise(key)
            trace.requests.append(None if noise is None else (noise.shape, str(noise.dtype)))
            if noise is not None and not np.array_equal(noise, np.asarray(privatizer.simulate_round_noise(key))):
                trace.findings.append("a retried round draws other noise: its two releases could be averaged")
            if hide is not None and response is not None and noise is not None and t < len(hide.items):
                moved = np.stack([a - b for a, b in zip(hide.items[: t + 1], trace.items, strict=True)])
                earlier = np.array(shifts) if shifts else np.zeros((0, response.noise.shape[-1], *noisy.shape))
                shifts.append(np.where(noisy, response.hiding(t, moved, earlier), 0.0))
                noise = noise + shifts[-1].reshape(noise.shape)
            state = agent.close(state, shown, size, noise)
            plan = agent.plan(state, action_values=True)
            trace.plans.append(plan)
            trace.releases.append(np.asarray(privatizer.counter.release(state.aggregate.counter)))
            trace.regularized.append(jax.tree.map(np.asarray, privatizer.regularized(state.aggregate)))
            trace.counts.append((int(state.rounds), int(state.aggregate.rounds)))
            trace.shapes.append([(np.shape(leaf), str(np.asarray(leaf).dtype)) for leaf in jax.tree.leaves(state)])
        _past_the_horizon(subject, state, plan, users[0](plan), keys, trace)
    trace.log = log.getvalue()
    if trace.secrets & set(re.findall(r"\d+", trace.log)):
        trace.findings.append("a log line shows the seed of the noise")
    return trace


def _words(key: jax.Array) -> set[str]:
    """The numbers a key is made of, as a log would show them; short ones say nothing."""
    return {str(word) for word in np.asarray(jax.random.key_data(key)).ravel().tolist() if word > 999}


def _past_the_horizon(subject: Subject, state: Any, plan: Plan, seen: Any, keys: jax.Array, trace: _Trace) -> None:
    """One more user after the last round: nothing of hers may come out."""
    agent, privatizer = subject.agent, subject.privatizer
    before = np.asarray(privatizer.counter.release(state.aggregate.counter))
    extra = privatizer.simulate_user_noise(jax.random.fold_in(keys[0], 10**6))
    state = agent.absorb(state, privatizer.report(seen, extra))
    for _ in range(2):
        noise = privatizer.simulate_round_noise(jax.random.fold_in(keys[1], 10**6))
        state = agent.close(state, plan, 1, noise)
    if not np.array_equal(before, np.asarray(privatizer.counter.release(state.aggregate.counter))):
        trace.findings.append("a round closed after the last one is still released")


def _public_differences(subject: Subject, first: _Trace, hidden: _Trace) -> list[str]:
    """What an outsider could tell apart although the noise hides the user."""
    findings = []
    if first.log != hidden.log:
        findings.append("a log line depends on the user's data")
    for name in ("releases", "regularized", "plans"):
        before, after = getattr(first, name), getattr(hidden, name)
        if len(before) != len(after):
            findings.append(f"the number of {name} depends on the user's data")
            continue
        for t, (one, other) in enumerate(zip(before, after, strict=True)):
            if not _close(_comparable(subject, one), _comparable(subject, other)):
                findings.append(f"{name} are not a function of noisy sums (round {t + 1})")
                break
    if subject.local and not all(_close(a, b) for a, b in zip(first.reports, hidden.reports, strict=True)):
        findings.append("a report is not covered by its own noise")
    return findings


def _comparable(subject: Subject, plan: Any) -> Any:
    """A plan's greedy choice blanked where two actions are as good: rounding may decide those either way."""
    if not isinstance(plan, Plan) or subject.agent.method != "value-iteration":
        return plan
    best = np.sort(np.asarray(plan.action_values), axis=-1)
    apart = best[..., -1] - best[..., -2] if best.shape[-1] > 1 else np.ones(best.shape[:-1])
    return plan._replace(policy=jnp.where(apart > 1e-5, plan.policy, -1))


def _close(one: Any, other: Any) -> bool:
    """Equal up to :data:`TOLERANCE`; what is not a number is equal to nothing."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
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
            group.name, group.step, subject.length(moved[group.step - 1, group.columns]), group.sensitivity,
            subject.length(white[group.step - 1, group.columns]),
        )
        for group in subject.declared_groups
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
