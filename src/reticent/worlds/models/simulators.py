# SPDX-License-Identifier: Apache-2.0
r"""Candidate models from simulators, or from trajectories that are already there.

d simulators of how users may react make a linear mixture MDP: each simulator is a candidate
:math:`P_i(s'\mid s,a)`, the truth is taken to be a blend of them, and the shares are what is learned in private.
:func:`blend_from_simulators` writes each one down by counting, from a Gymnasium environment that it explores or from
recorded trajectories, and says how far off the counts may be (:mod:`reticent.worlds.models.estimation`).

**The data must be public.** Candidate models are public before the first user comes. They are not
covered by the guarantee, and whatever is in them is published: use simulators, synthetic or consented records, or the
past release of another private mechanism, never the episodes of the users that are to be protected.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from reticent.errors import InvalidInput
from reticent.worlds.episode import Episode
from reticent.worlds.models.blend import Bounds, blend
from reticent.worlds.models.estimation import (
    CandidateReport,
    EstimationReport,
    Prior,
    Sample,
    dirichlet_means,
    reward_error,
    tally,
    transition_error,
)
from reticent.worlds.models.model import Model
from reticent.worlds.models.sparse import gather
from reticent.worlds.world import World

if TYPE_CHECKING:
    import gymnasium
    from typing_extensions import TypeIs


class Trajectory(NamedTuple):
    """One recorded episode of any length T.

    Attributes:
      states: ``(T + 1,)`` integers.
      actions: ``(T,)`` integers.
      rewards: ``(T,)`` numbers.
      terminated: whether the episode ended in its last state by itself, and was not just cut off there.
    """

    states: ArrayLike
    actions: Any
    rewards: ArrayLike
    terminated: bool = False


Source: TypeAlias = "gymnasium.Env[Any, Any] | Iterable[Trajectory | Episode]"
Place: TypeAlias = "Callable[[gymnasium.Env[Any, Any], int], None]"
Told: TypeAlias = Callable[[int, int], None]


class Estimated(NamedTuple):
    """What was made of the sources: the learner's model, how well it is known, and a world if weights were given."""

    model: Model
    report: EstimationReport
    world: World | None


def blend_from_simulators(
    sources: Sequence[Source],
    horizon: int,
    *,
    seed: int,
    weights: ArrayLike | None = None,
    samples: int = 100_000,
    place: Place | None = None,
    states: int | None = None,
    actions: int | None = None,
    smoothing: float = 1.0,
    prior: Prior = "stay",
    outcomes: int | None = None,
    confidence: float = 0.95,
    reward_range: tuple[float, float] = (0.0, 1.0),
    reward_candidates: ArrayLike | None = None,
    reward_weights: ArrayLike | None = None,
    initial: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    bounds: Bounds = "paper",
    progress: Told | None = None,
) -> Estimated:
    r"""Estimate one candidate model per source; **the sources' data must be public**, see the module.

    Args:
      sources: each a Gymnasium environment with ``Discrete`` observations and actions, or a collection of trajectories
        (:class:`Trajectory`, or :class:`~reticent.worlds.Episode` with any batch axes). All speak of the same states
        and actions.
      horizon: number of steps H of the users' episodes; exploration restarts after as many.
      seed: decides exploration, and each environment's own seed.
      weights: for simulations, a blend on the simplex: the result then has a world too, which mixes the *estimates* by
        it. A learner has no weights to give.
      samples: steps to take in each environment.
      place: how to put an environment into a state, such as ``lambda env, s: setattr(env.unwrapped, "s", s)``. Every
        pair then gets the same number of samples. Without it actions are uniform, from where episodes begin.
      states, actions: sizes S and A; needed only if no source is an environment.
      smoothing, prior: pseudo-counts κ, and where they go: ``stay`` (to the state itself) or ``seen`` (evenly to all
        states that followed this one in any source). A pair without samples is the prior.
      outcomes: the most next states that a pair can have, if known to be below S; the error bound depends on it.
      confidence: probability with which all error bounds of the report hold together.
      reward_range: rewards are mapped from here to [0, 1]. What ends an episode pays 0 *before* that.
      reward_candidates: known tables ``(d2, S, A)`` in [0, 1], instead of one estimated table per source (0 where a
        pair has no samples).
      reward_weights: with ``weights``; by default the same as these for estimated tables, and 1 for a single known one.
      initial: first state or its distribution; by default how all sources' episodes began.
      names: of the sources, for the report.
      bounds: as in :func:`reticent.worlds.blend`.
      progress: told how many of how many steps are done, a hundred times per environment.

    Returns:
      The model, sparse if few states follow any pair; the report; and the world if there are ``weights``.

    Raises:
      InvalidInput: a space is not ``Discrete``, sizes differ, a source has no samples, or a number is out of range.

    >>> import gymnasium
    >>> lakes = [gymnasium.make("FrozenLake-v1", success_rate=rate) for rate in (0.4, 0.9)]
    >>> model, report, _ = blend_from_simulators(lakes, 20, seed=0, samples=2000, outcomes=3)
    >>> model.d1, model.states, report.samples
    (2, 16, 4000)
    """
    _check_options(sources, horizon, samples, smoothing, prior, confidence, reward_range, seed, outcomes)
    states, actions = _sizes(sources, states, actions)
    labels = [_label(source, number) for number, source in enumerate(sources)] if names is None else list(names)
    if len(labels) != len(sources):
        raise InvalidInput("names", f"{len(labels)} names", f"one for each of {len(sources)} sources", "name them all")

    collected = []
    for number, (source, stream) in enumerate(
        zip(sources, np.random.SeedSequence(seed).spawn(len(sources)), strict=True)
    ):
        told = None if progress is None else _offset(progress, number * samples, len(sources) * samples)
        if _is_environment(source):
            sample = explore(source, samples, horizon, stream, place, told)
        else:
            sample = read(source, number, states, actions)
        collected.append(_scaled(sample, number, reward_range))

    tallies = [tally(sample, states, actions) for sample in collected]
    means = dirichlet_means(tallies, smoothing, prior)
    reports = []
    most = states if outcomes is None else outcomes
    for label, sample, one in zip(labels, collected, tallies, strict=True):
        known = one.absorbing[:, None]
        shift = transition_error(one.counts, most, smoothing, len(sources), confidence)
        doubt = reward_error(one.counts, len(sources), confidence)
        reports.append(
            CandidateReport(
                name=label,
                samples=len(sample.states),
                episodes=len(sample.firsts),
                counts=one.counts,
                absorbing=one.absorbing,
                transition_error=np.where(known, 0.0, shift),
                reward_error=np.where(known, 0.0, doubt),
            )
        )
    firsts = np.concatenate([sample.firsts for sample in collected])
    report = EstimationReport(
        tuple(reports), confidence, smoothing, prior, most, first_states=len(firsts) if initial is None else 0
    )

    nothing = (0.0 - reward_range[0]) / (reward_range[1] - reward_range[0])
    estimated = [np.where(one.absorbing[:, None], nothing, one.rewards / np.maximum(one.counts, 1)) for one in tallies]
    tables = np.asarray(estimated if reward_candidates is None else reward_candidates, dtype=np.float64)
    successors, psi = gather(means, states, actions)
    dense = 2 * successors.shape[2] > states
    # What is known does not depend on the weights; a world needs some, and any will do.
    shares = np.full(len(sources), 1 / len(sources)) if weights is None else np.asarray(weights, dtype=np.float64)
    if reward_weights is None:
        reward_weights = shares if reward_candidates is None else np.full(len(tables), 1 / len(tables))
    world = blend(
        np.stack([matrix.toarray().reshape(states, actions, states) for matrix in means]) if dense else psi,
        tables,
        shares,
        reward_weights,
        horizon,
        initial=np.bincount(firsts, minlength=states) / len(firsts) if initial is None else initial,
        name="blend of simulators",
        bounds=bounds,
        successors=None if dense else successors,
    )
    return Estimated(world.model, report, None if weights is None else world)


def explore(
    env: gymnasium.Env[Any, Any],
    samples: int,
    horizon: int,
    stream: np.random.SeedSequence,
    place: Place | None = None,
    progress: Told | None = None,
) -> Sample:
    """Take ``samples`` steps in an environment: uniform actions with restarts, or every pair in turn with ``place``."""
    states, actions = int(env.observation_space.n), int(env.action_space.n)  # type: ignore[attr-defined]
    own, chooser = stream.spawn(2)
    chosen = np.random.default_rng(chooser).integers(actions, size=samples)
    if place is not None:
        pairs = np.arange(samples) % (states * actions)
        chosen = pairs % actions
    table = np.empty((samples, 3), np.int64)
    rewards, ended, firsts = np.empty(samples), np.zeros(samples, bool), []
    state, taken, over = 0, 0, True
    for index, action in enumerate(chosen):
        if over or taken == horizon:
            first = int(own.generate_state(1)[0]) if index == 0 else None
            state, taken = int(env.reset(seed=first)[0]), 0
            firsts.append(state)
        if place is not None:
            state = int(pairs[index] // actions)
            place(env, state)
        following, reward, terminated, truncated, _ = env.step(int(action))
        table[index], rewards[index], ended[index] = (state, action, int(following)), float(reward), terminated
        state, taken, over = int(following), taken + 1, bool(terminated or truncated)
        if progress is not None and (100 * (index + 1)) // samples > (100 * index) // samples:
            progress(index + 1, samples)
    return Sample(table[:, 0], table[:, 1], table[:, 2], rewards, ended, np.array(firsts))


def read(source: Iterable[Trajectory | Episode], number: int, states: int, actions: int) -> Sample:
    """The transitions of recorded trajectories, after a check of every one."""
    parts: list[Sample] = []
    for index, trajectory in enumerate(source):
        place = f"source {number}, trajectory {index}"
        visited, taken = (
            _integers(trajectory.states, f"{place}: states"),
            _integers(trajectory.actions, f"{place}: actions"),
        )
        paid = np.asarray(trajectory.rewards, dtype=np.float64)
        steps = taken.shape[-1] if taken.ndim else 0
        if visited.shape != (*taken.shape[:-1], steps + 1) or paid.shape != taken.shape:
            raise InvalidInput(
                f"{place}: shapes of states, actions, rewards",
                f"{visited.shape}, {taken.shape}, {paid.shape}",
                "(T + 1,), (T,), (T,)",
                "record one state more than actions",
            )
        for field, array, size in (("states", visited, states), ("actions", taken, actions)):
            if array.size and not (array.min() >= 0 and array.max() < size):
                found = f"{array.min()} to {array.max()}"
                raise InvalidInput(f"{place}: {field}", found, f"from 0 to {size - 1}", "number them from 0")
        ended = np.zeros(taken.shape, bool)
        if steps:
            ended[..., -1] = bool(getattr(trajectory, "terminated", False))
        parts.append(
            Sample(
                visited[..., :-1].ravel(),
                taken.ravel(),
                visited[..., 1:].ravel(),
                paid.ravel(),
                ended.ravel(),
                visited[..., 0].ravel(),
            )
        )
    if not sum(len(part.states) for part in parts):
        raise InvalidInput(f"transitions of source {number}", 0, "at least 1", "give trajectories with steps in them")
    return Sample(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _scaled(sample: Sample, number: int, reward_range: tuple[float, float]) -> Sample:
    """The sample with its rewards mapped from ``reward_range`` to [0, 1]."""
    low, high = reward_range
    least, most = sample.rewards.min(), sample.rewards.max()
    if not (least >= low and most <= high):  # written so that NaN fails
        raise InvalidInput(
            f"rewards of source {number}",
            f"{least:g} to {most:g}",
            f"in [{low:g}, {high:g}]",
            "pass reward_range=(…, …)",
        )
    if sample.ended.any() and not low <= 0 <= high:
        raise InvalidInput(
            "reward_range", reward_range, "around 0, which is what comes after the end of an episode", "widen it"
        )
    return sample._replace(rewards=(sample.rewards - low) / (high - low))


def _sizes(sources: Sequence[Source], states: int | None, actions: int | None) -> tuple[int, int]:
    """S and A as all environments, or else the caller, have them."""
    sizes = {"observation_space": states, "action_space": actions}
    for number, source in enumerate(sources):
        for field in sizes if _is_environment(source) else ():
            import gymnasium

            space = getattr(source, field)
            if not isinstance(space, gymnasium.spaces.Discrete) or int(space.start) != 0:
                raise InvalidInput(
                    f"source {number}: {field}",
                    space,
                    "Discrete, starting at 0",
                    "discretise it with a Gymnasium wrapper",
                )
            if sizes[field] not in (None, int(space.n)):
                raise InvalidInput(
                    f"source {number}: {field}",
                    space,
                    f"Discrete({sizes[field]}), as the others",
                    "use the same spaces",
                )
            sizes[field] = int(space.n)
    for field, size in zip(("states", "actions"), sizes.values(), strict=True):
        if size is None or size < 1:
            raise InvalidInput(field, size, "a positive number", f"say how many {field} the trajectories speak of")
    return int(sizes["observation_space"] or 0), int(sizes["action_space"] or 0)


def _check_options(
    sources: Sequence[Source],
    horizon: int,
    samples: int,
    smoothing: float,
    prior: str,
    confidence: float,
    reward_range: tuple[float, float],
    seed: int,
    outcomes: int | None,
) -> None:
    checks = (
        ("sources", len(sources), len(sources) >= 1, "at least 1", "give a simulator or a collection of trajectories"),
        ("horizon", horizon, horizon >= 1, "at least 1", "give the number of steps per episode"),
        ("samples", samples, samples >= 1, "at least 1", "give the number of steps to take in each environment"),
        ("seed", seed, seed >= 0, "not negative", "give a seed of at least 0"),
        ("smoothing", smoothing, 0 <= smoothing < np.inf, "a finite number of at least 0", "1 is a common choice"),
        ("prior", prior, prior in ("stay", "seen"), "'stay' or 'seen'", "choose one of the two"),
        ("confidence", confidence, 0 < confidence < 1, "between 0 and 1", "use 0.95 if in doubt"),
        ("outcomes", outcomes, outcomes is None or outcomes >= 1, "at least 1", "leave it out if it is not known"),
        (
            "reward_range",
            reward_range,
            -np.inf < reward_range[0] < reward_range[1] < np.inf,
            "(least, most), finite and in this order",
            "give the range of a single reward",
        ),
    )
    for field, value, holds, bound, remedy in checks:
        if not holds:
            raise InvalidInput(field, value, bound, remedy)


def _is_environment(source: Source) -> TypeIs[gymnasium.Env[Any, Any]]:
    """Whether a source is a Gymnasium environment; without Gymnasium, which is optional, none can be."""
    loaded = sys.modules.get("gymnasium")
    return loaded is not None and isinstance(source, loaded.Env)


def _label(source: Source, number: int) -> str:
    known = source.spec if _is_environment(source) else None
    return f"{number}: {known.id}" if known is not None else f"{number}"


def _offset(progress: Told, before: int, total: int) -> Told:
    return lambda done, _: progress(before + done, total)


def _integers(values: Any, field: str) -> np.ndarray:
    array = np.asarray(values)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise InvalidInput(f"{field}.dtype", array.dtype, "integers", "give indices, from 0")
    return array.astype(np.int64)
