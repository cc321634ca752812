# SPDX-License-Identifier: Apache-2.0
"""What each release may depend on, recomputed from what a test itself has sent: the oracle of the rule machines.

The oracle keeps which episodes are counted in which round, by its own rules, and a source of noise that remembers its
draws. From these alone it says what a round's stored sum and its release must be: the sum of its counted users' integers
plus draws that no other round has. An equation that does not hold is a *violation*: a user is in a sum twice, in none, in
two sums, or under noise that covers something else too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn
from unittest import mock

import numpy as np
from numpy.typing import ArrayLike

from reticent.privacy.noise import GridNoise, SecureNoise
from reticent.service.durability.journal import Journal
from reticent.service.durability.rollback_guard import RollbackGuard
from reticent.service.store.engine import Store


class Search:
    """How long a search has taken: examples begun, releases checked, and at which example a violation was found first."""

    def __init__(self) -> None:
        self.examples, self.releases, self._began = 0, 0, time.perf_counter()
        self.found: tuple[str, int, float] | None = None

    def violated(self, message: str) -> NoReturn:
        """A privacy promise does not hold in this example."""
        if self.found is None:
            self.found = message, self.examples, time.perf_counter() - self._began
        raise AssertionError(message)


@dataclasses.dataclass(frozen=True)
class RecordedNoise(SecureNoise):
    """The deployment's own noise; every draw is remembered."""

    draws: list[np.ndarray] = dataclasses.field(default_factory=list)

    def draw(self, scale: ArrayLike, *, grid: float | None = None) -> GridNoise:
        drawn = super().draw(scale, grid=grid)
        self.draws.append(drawn.integers.copy())
        return drawn


class Look(NamedTuple):
    """What somebody who opens a round's sum finds: under which draws, and whose integers."""

    sealed: bool
    draws: frozenset[int]
    counted: frozenset[str]
    total: bytes


class Oracle:
    """Which episodes each round's sum has; ``draws`` are those of the deployment's noise."""

    def __init__(self, search: Search, noised: np.ndarray, draws: list[np.ndarray], halves: bool) -> None:
        self.search, self._noised, self.draws, self._halves = search, noised, draws, halves
        self.rounds: dict[int, dict[str, np.ndarray]] = {}
        self.users: dict[str, str] = {}
        self._looks: dict[int, list[Look]] = {}
        self._released: dict[int, bytes] = {}
        self._owner: dict[int, int] = {}

    def count(self, number: int, episode: str, user: str, integers: np.ndarray) -> None:
        """An episode is in a round from now on."""
        self.users[episode] = user
        self.rounds.setdefault(number, {})[episode] = integers

    def forget_from(self, number: int, drawn: int) -> None:
        """A restore after ``drawn`` draws: what was not published begins again from nothing, with noise of its own."""
        self.rounds = {old: kept for old, kept in self.rounds.items() if old < number}
        self._looks = {old: kept for old, kept in self._looks.items() if old < number}
        self._released = {old: kept for old, kept in self._released.items() if old < number}
        for draw in range(drawn):  # no sum of after the restore may have it
            if self._owner.get(draw, number) >= number:
                self._owner[draw] = -1

    def look(self, number: int, sealed: bool, total: np.ndarray) -> None:
        """Hold the sum that the store keeps of an unreleased round to what it may depend on."""
        kind = "sealed" if sealed else "open"
        most = (2 if sealed else 1) if self._halves else 0
        draws = self._explained(number, total, range(most + 1), f"the {kind} sum")
        seen = Look(sealed, draws, frozenset(self.rounds.get(number, {})), total.tobytes())
        before = self._looks.setdefault(number, [])
        for one in before:
            if one.sealed and one.total != seen.total:
                self.search.violated(f"two looks at the sealed round {number} differ")
            if self._halves and sealed and not one.sealed and one.draws == draws and one.counted != seen.counted:
                self.search.violated(
                    f"two looks at round {number} have the same noise: their difference is users' data"
                )
        before.append(seen)
        if self._halves and len(draws) < most:
            self.search.violated(f"the {kind} sum of round {number} has {len(draws)} draws of noise instead of {most}")

    def released(self, number: int, total: np.ndarray) -> None:
        """Hold a release, in steps of the grid, to what it may depend on."""
        self.search.releases += number not in self._released
        if self._released.setdefault(number, total.tobytes()) != total.tobytes():
            self.search.violated(f"round {number} is released twice")
        wanted = 2 if self._halves else 1
        self._explained(number, total, (wanted,), "the release")
        users = [self.users[episode] for counted in range(number + 1) for episode in self.rounds.get(counted, {})]
        if len(set(users)) < len(users):
            self.search.violated("one user is in the released sums twice")
        sealed = [one for one in self._looks.get(number, []) if one.sealed]
        if self._halves and any(one.total != total.tobytes() for one in sealed):
            self.search.violated(f"round {number} keeps something else than its release")

    def _explained(self, number: int, total: np.ndarray, wanted: Any, what: str) -> frozenset[int]:
        """The draws that a sum has beside its counted users' integers."""
        rest = total - sum(self.rounds.get(number, {}).values(), np.zeros_like(total))
        if not rest[~self._noised].any():
            for many in wanted:
                draws = self._draws_of(rest[self._noised], many)
                if draws is not None:
                    for draw in draws:
                        if self._owner.setdefault(draw, number) != number:
                            self.search.violated(f"{what} of round {number} has another one's noise")
                    return draws
        self.search.violated(f"{what} of round {number} is not the sum of its counted users and its noise")

    def _draws_of(self, rest: np.ndarray, many: int) -> frozenset[int] | None:
        if many == 0:
            return None if rest.any() else frozenset()
        for index, draw in enumerate(self.draws):
            if many == 1 and np.array_equal(rest, draw):
                return frozenset({index})
            if many == 2:
                other = self._draws_of(rest - draw, 1)
                if other is not None and other != {index}:
                    return other | {index}
        return None


class Killed(BaseException):
    """The process is dead."""


@contextlib.contextmanager
def killed_at(point: int) -> Iterator[None]:
    """The process dies at its ``point``-th write, before or after it, if it has so many; the dead write no more.

    Writes are commits of the store, and what the rollback guard and its journal put on disk.
    """
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1
        if count >= point:
            raise Killed

    commit, write, append = Store.write, RollbackGuard._write, Journal.append

    @contextlib.contextmanager
    def committing(self: Store, **given: Any) -> Iterator[Any]:
        with commit(self, **given) as tx:
            yield tx
            tick()
        tick()

    def around(real: Callable[..., Any]) -> Callable[..., Any]:
        def writing(*given: Any) -> Any:
            tick()
            done = real(*given)
            tick()
            return done

        return writing

    with (
        mock.patch.object(Store, "write", committing),
        mock.patch.object(RollbackGuard, "_write", around(write)),
        mock.patch.object(Journal, "append", around(append)),
        contextlib.suppress(Killed),
    ):
        yield
