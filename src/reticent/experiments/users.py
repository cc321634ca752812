# SPDX-License-Identifier: Apache-2.0
"""Simulated users of a running service: many at once, some late, some lost. A load generator, and a demonstration.

The world's truth stays on this side: the service is sent what real devices would send it, by the client that they would
use. Returns are what these users really got, so they are for simulation only; a service must never see or publish them.
"""

from __future__ import annotations

import bisect
import collections
import copy
import dataclasses
import heapq
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from reticent.errors import InvalidInput, ReticentError
from reticent.runtime import double_precision
from reticent.worlds import World
from reticent.worlds.kinds import KindsWorld, kind_means
from reticent.worlds.transforms.non_stationary import Phase
from reticent_client import Budget, Client, Episode, ServiceError

Fate = Literal["counted", "served", "lost", "refused", "unsent"]


class Truth:
    """A world as plain arrays, to be stepped one user at a time from many threads."""

    def __init__(self, world: World) -> None:
        if not isinstance(world, World):
            raise InvalidInput("world", type(world).__name__, "one of finitely many states", "services number states")
        self.horizon, self.states, self.actions = world.model.horizon, world.model.states, world.model.actions
        self._first, self._cumulative = np.asarray(world.first), np.asarray(world.cumulative)
        self._means, self._random_rewards = np.asarray(world.reward_means), world.reward_kind == "bernoulli"
        self._successors = None if world.model.successors is None else np.asarray(world.model.successors)

    def at(self, visit: int, person: int) -> Truth:
        """What is true for the 0-based ``visit`` of ``person``: always the same."""
        del visit, person
        return self

    def start(self, rng: np.random.Generator) -> int:
        """A first state."""
        return _invert(self._first, rng.random())

    def step(self, rng: np.random.Generator, step: int, state: int, action: int) -> tuple[float, int]:
        """Reward and next state."""
        row = self._cumulative[step if len(self._cumulative) > 1 else 0, state, action]
        following = _invert(row, rng.random())
        if self._successors is not None:
            following = int(self._successors[state, action, following])
        mean = float(self._means[step if len(self._means) > 1 else 0, state, action])
        return (float(rng.random() < mean) if self._random_rewards else mean), following


class MovingTruth(Truth):
    """Users who change: the truth of the phase that a visit is in (:mod:`reticent.worlds.transforms.non_stationary`)."""

    def __init__(self, phases: Sequence[Phase]) -> None:
        super().__init__(phases[0].world)
        self._firsts = [phase.first for phase in phases]
        self._truths = [Truth(phase.world) for phase in phases]

    def at(self, visit: int, person: int) -> Truth:
        """What is true for the 0-based ``visit``."""
        del person
        return self._truths[bisect.bisect_right(self._firsts, visit) - 1]


class KindsTruth(Truth):
    """Users of hidden kinds: a person lives by the law of one candidate, in all visits (:mod:`reticent.worlds.kinds`)."""

    def __init__(self, world: World, shares: np.ndarray, seed: int) -> None:
        super().__init__(world)
        self._shares, self._seed = np.cumsum(shares), seed
        laws = np.asarray(world.model.transition_features), np.asarray(double_precision(kind_means)(world.model))
        self._kinds = [self._living_by(*law) for law in zip(*laws, strict=True)]

    def at(self, visit: int, person: int) -> Truth:
        """The law of the person's kind."""
        del visit
        return self._kinds[_invert(self._shares, np.random.default_rng((self._seed, person, 2)).random())]

    def _living_by(self, rows: np.ndarray, means: np.ndarray) -> Truth:
        law = copy.copy(self)
        law._cumulative, law._means, law._random_rewards = np.cumsum(rows, axis=-1)[None], means[None], True
        return law


@dataclasses.dataclass(frozen=True)
class Crowd:
    """Who comes.

    Attributes:
      users: how many. concurrency: how many at a time.
      late: share of users who submit only after others came, up to a tenth of all. lost: share who leave halfway.
      returning: share of visits by users who were here before.
      prefix: of their names; other names are other users.
      seed: of everything they do. What they are told to do, and in which order they come, is the service's.
    """

    users: int
    concurrency: int = 8
    late: float = 0.0
    lost: float = 0.0
    prefix: str = "user"
    seed: int = 0
    returning: float = 0.0

    def person(self, index: int) -> int:
        """Who makes visit ``index``: a new user, or the user of an earlier visit, drawn uniformly."""
        while index > 0:
            draw = np.random.default_rng((self.seed, index, 1))
            if draw.random() >= self.returning:
                break
            index = int(draw.integers(0, index))
        return index

    def __post_init__(self) -> None:
        for field in ("users", "concurrency"):
            if getattr(self, field) < 1:
                raise InvalidInput(field, getattr(self, field), "at least 1", "give a positive number")
        for field in ("late", "lost", "returning"):
            if not 0 <= getattr(self, field) <= 1:
                raise InvalidInput(field, getattr(self, field), "in [0, 1]", "give a share of the users")
        if self.late + self.lost > 1:
            raise InvalidInput("late + lost", self.late + self.lost, "at most 1", "a user is one or the other")


def simulated_budget(crowd: Crowd) -> Budget:
    """The budgets of a crowd's devices in the local model, one for each user, in memory: they protect no one.

    A user who returns may report at every visit, so that what is seen is how often the service asks.
    """
    return Budget.in_memory(reports=crowd.users if crowd.returning else 1)


@dataclasses.dataclass(frozen=True)
class Visit:
    """Result of one user; ``total`` is the reward, None if the episode did not end."""

    fate: Fate
    version: int
    total: float | None = None
    problem: str | None = None


class Meter:
    """Latencies of every attempt by route; told by the client's connection, from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: dict[str, list[float]] = collections.defaultdict(list)
        self._errors: collections.Counter[str] = collections.Counter()

    def __call__(self, route: str, seconds: float, status: int) -> None:
        with self._lock:
            self._seconds[route].append(seconds)
            self._errors[route] += not 200 <= status < 400

    @property
    def requests(self) -> int:
        return sum(map(len, self._seconds.values()))

    def rows(self) -> list[dict[str, Any]]:
        """One row per route: how many, how many without success, median and 99th percentile in milliseconds."""
        found = []
        for route, seconds in sorted(self._seconds.items()):
            middle, slow = np.percentile(np.array(seconds) * 1e3, [50, 99])
            found.append(
                {
                    "route": route,
                    "requests": len(seconds),
                    "errors": self._errors[route],
                    "p50_ms": float(middle),
                    "p99_ms": float(slow),
                }
            )
        return found


class Traffic:
    """Sends a crowd to a service with so many threads, and keeps what became of each user."""

    def __init__(self, client: Client, truth: Truth, crowd: Crowd) -> None:
        self._client, self._truth, self._crowd = client, truth, crowd
        self.visits: dict[int, Visit] = {}
        self.seconds = 0.0
        self.stopped: ReticentError | None = None
        self._lock = threading.Lock()
        self._next = 0
        self._waiting: list[tuple[int, int, Episode, float]] = []

    @property
    def persons(self) -> int:
        """How many people made the visits."""
        return len({self._crowd.person(index) for index in self.visits})

    def plan_value(self, world: World | KindsWorld, version: int) -> float | None:
        """Exact mean return of a published plan in the users' ``world``, for one who does not explore.

        None where a policy alone does not say what users get: they act on beliefs, or some actions are drawn at random.
        """
        if isinstance(world, KindsWorld):
            return None
        try:
            board = self._client.billboard(version)
        except ReticentError:  # the service went away
            return None
        return None if board.remembers or board.floor else float(world.policy_value(jnp.asarray(board.policy)))

    def run(self, advance: Callable[[int], None] = lambda _: None, should_stop: Callable[[], bool] = bool) -> None:
        """Send all users; ``advance`` is called with how many are done. Stops on request, or if the service is gone."""
        start = time.monotonic()
        threads = [
            threading.Thread(target=self._work, args=(advance, should_stop), daemon=True)
            for _ in range(min(self._crowd.concurrency, self._crowd.users))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # a join without a limit would keep Ctrl-C waiting
                thread.join(0.2)
        self.seconds = time.monotonic() - start
        for _, index, episode, _ in self._waiting:
            self.visits[index] = Visit("unsent", episode.version)

    def _work(self, advance: Callable[[int], None], should_stop: Callable[[], bool]) -> None:
        while not (should_stop() or self.stopped):
            task = self._take()
            if task is None:
                return
            try:
                task()
            except ReticentError as problem:  # not of one user: the service is gone, or admits no user
                self.stopped = problem
                return
            with self._lock:
                advance(len(self.visits))

    def _take(self) -> Callable[[], None] | None:
        """The next thing to do: a late user who is due, else a new user, else one that is still waiting."""
        with self._lock:
            if self._waiting and (self._waiting[0][0] <= self._next or self._next >= self._crowd.users):
                _, index, episode, total = heapq.heappop(self._waiting)
                return lambda: self._submit(index, episode, total)
            if self._next >= self._crowd.users:
                return None
            index, self._next = self._next, self._next + 1
            return lambda: self._visit(index)

    def _visit(self, index: int) -> None:
        """One user: comes, plays, and submits now, later or never."""
        crowd, rng = self._crowd, np.random.default_rng((self._crowd.seed, index))
        mood = rng.random()
        person = crowd.person(index)
        episode = self._client.episode(f"{crowd.prefix}-{person}")
        try:
            episode.open()
            steps = self._truth.horizon * episode.visits
            if mood < crowd.lost:
                steps = int(rng.integers(0, steps))
            total = self._play(self._truth.at(index, person), rng, episode, steps)
        except ServiceError as refusal:
            self._refused(index, episode, refusal)
            return
        if not episode.complete:
            episode.abandon()
            self.visits[index] = Visit("lost", episode.version)
        elif mood < crowd.lost + crowd.late:
            due = index + 1 + int(rng.integers(1, max(2, crowd.users // 10)))
            with self._lock:
                heapq.heappush(self._waiting, (due, index, episode, total))
        else:
            self._submit(index, episode, total)

    def _play(self, truth: Truth, rng: np.random.Generator, episode: Episode, steps: int) -> float:
        state, total = 0, 0.0
        for count in range(steps):
            step = count % truth.horizon
            if step == 0:  # a visit begins
                state = truth.start(rng)
            reward, following = truth.step(rng, step, state, episode.act(state))
            episode.observe(reward, following)
            state, total = following, total + reward
        return total

    def _submit(self, index: int, episode: Episode, total: float) -> None:
        try:
            episode.submit()
        except ServiceError as refusal:
            self._refused(index, episode, refusal, total)
            return
        except InvalidInput:  # the shuffler has fixed the batch of this user's round: they came too late
            self.visits[index] = Visit("unsent", episode.version, total)
            return
        learned_from = episode.status in ("counted", "sent")
        self.visits[index] = Visit("counted" if learned_from else "served", episode.version, total)

    def _refused(self, index: int, episode: Episode, refusal: ServiceError, total: float | None = None) -> None:
        if refusal.status in (401, 403):
            raise refusal
        self.visits[index] = Visit("refused", episode.version, total, refusal.name or f"HTTP {refusal.status}")


def summary(traffic: Traffic, meter: Meter, world: World | KindsWorld, phases: Sequence[Phase] = ()) -> dict[str, Any]:
    """What the crowd met, in plain numbers; phase by phase where its blend moved."""
    visits = [traffic.visits[index] for index in sorted(traffic.visits)]
    fates = collections.Counter(visit.fate for visit in visits)
    versions = sorted({visit.version for visit in visits if visit.version >= 0})
    totals = [visit.total for visit in visits if visit.total is not None]
    tenth = max(1, len(totals) // 10)
    first, last = totals[:tenth], totals[-tenth:]
    return {
        "world": world.name,
        "users": len(visits),
        "persons": traffic.persons,
        "served": sum(visit.version >= 0 for visit in visits),
        "counted": fates["counted"],
        "not_learned_from": fates["served"],
        "abandoned": fates["lost"],
        "refused": fates["refused"],
        "unsent": fates["unsent"],
        "refusals": dict(collections.Counter(visit.problem for visit in visits if visit.problem)),
        "seconds": traffic.seconds,
        "requests": meter.requests,
        "requests_per_second": meter.requests / max(traffic.seconds, 1e-9),
        "routes": meter.rows(),
        "versions": {"first": versions[0], "last": versions[-1], "seen": len(versions)} if versions else None,
        # What a plan is worth changes with the blend; phase by phase, what users got says it.
        "plan_value": {
            "first": traffic.plan_value(world, versions[0]),
            "last": traffic.plan_value(world, versions[-1]),
        }
        if versions and not phases
        else None,
        "mean_return": {
            "first_tenth": float(np.mean(first)) if totals else None,
            "last_tenth": float(np.mean(last)) if totals else None,
            "rise": float(np.mean(last) - np.mean(first)) if totals else None,
            "rise_error": 1.96 * math.sqrt((np.var(first, ddof=1) + np.var(last, ddof=1)) / tenth)
            if tenth > 1
            else None,
            "optimal": world.optimal_value,
            "random": world.uniform_value,
        },
        "phases": [
            _phase(traffic, phase, until)
            for phase, until in zip(phases, [*(later.first for later in phases[1:]), math.inf], strict=False)
        ],
        "stopped": None if traffic.stopped is None else str(traffic.stopped),
    }


def _phase(traffic: Traffic, phase: Phase, until: float) -> dict[str, Any]:
    """What the visits of one phase got, and what they could have got; its last third shows what was learned in it."""
    numbers = sorted(index for index in traffic.visits if phase.first <= index < until)
    totals = [total for index in numbers if (total := traffic.visits[index].total) is not None]
    third = max(1, len(totals) // 3)
    return {
        "first": phase.first + 1,
        "visits": len(numbers),
        "first_third": float(np.mean(totals[:third])) if totals else None,
        "last_third": float(np.mean(totals[-third:])) if totals else None,
        "optimal": phase.world.optimal_value,
        "random": phase.world.uniform_value,
    }


def require_same_sizes(client: Client, truth: Truth) -> None:
    """Refuse a world that cannot be the service's.

    Raises:
      InvalidInput: its horizon, states or actions are others.
    """
    board = client.connection.get("/v1/billboard")
    for field in ("horizon", "states", "actions"):
        if board[field] != getattr(truth, field):
            raise InvalidInput(
                f"world: {field}",
                getattr(truth, field),
                f"{board[field]}, as the service says",
                "name the world that the service was started for",
            )


def _invert(cumulative: np.ndarray, uniform: float) -> int:
    """The outcome of a uniform draw by its running sums."""
    return min(int(np.searchsorted(cumulative, uniform, side="right")), len(cumulative) - 1)
