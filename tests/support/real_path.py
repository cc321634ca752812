# SPDX-License-Identifier: Apache-2.0
"""Replay and attack of the deployed path: neighbours that differ by what one user sends, or does not, or too late.

A *story* is a sequence of events: users are admitted, and some of them send. Two stories of one kind differ in user
:data:`SHE` alone. Both are played on the real entry (:class:`Embedded`, :class:`InOrder`, :class:`Served`), with the noise
of the second moved by what her change moved in each round's sum. Everything published must then be the same, byte for
byte, since sums are integers; and what the noise was moved by, in its own units, is what the change costs.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
import pytest
from durable import SECRET

from reticent.errors import InvalidInput
from reticent.privacy.noise import SecureNoise
from reticent.service import embedded
from reticent.service.embedded import DeployedAgent
from reticent.service.mechanism import Mechanism
from reticent.service.rounds import public_views
from reticent.service.rounds.context import Context
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.refusals import Refusal
from reticent.service.rounds.submit import Sent, Submission
from reticent.service.secrets import Secrets
from reticent.service.store.engine import Store
from reticent.worlds import Episode, make_world
from reticent_wire.boundary import Raw

MODEL = make_world("random-blend:states=3,actions=2,horizon=2,d=2").model
USERS, SIZE, SHE = 8, 4, 1
"""Two rounds of four users; she is the second of the first."""

AGENTS = {
    "flagship": "private-score-vi:first=0.4,growth=1,epsilon=12",
    "regressions": "private-linopt-vi:first=4,growth=1,epsilon=4",
}

KINDS = ("swap", "refusal", "malformed", "silence", "expiry", "lateness", "retries", "order")
LOGGERS = ("reticent", "reticent_client", "reticent_wire", "uvicorn")
"""Whose lines neighbours must have in common."""

FREE = ("retries", "order")
"""Kinds that must not even move a sum."""


class Event(NamedTuple):
    """``act`` is a method of :class:`Entry`; ``seed`` chooses the episode (None is hers, −1 a wild one)."""

    act: str
    user: int
    seed: int | None = None


def story(kind: str, changed: bool) -> list[Event]:
    """What happens; ``changed`` is the neighbour."""
    events: list[Event] = []
    for user in range(USERS):
        events.append(Event("admit", user))
        if kind == "order":  # all send at the end of their round
            if user % SIZE == SIZE - 1:
                members = range(user - SIZE + 1, user + 1)
                events += [Event("send", one) for one in (reversed(members) if changed else members)]
            continue
        if user != SHE or not changed:
            events.append(Event("send", user))
            if changed and kind == "lateness" and user == SIZE:  # the second round is open by now
                events.append(Event("send", SHE))
            continue
        events += {
            "swap": [Event("send", SHE, 99)],
            "refusal": [Event("send", SHE, -1)],
            "malformed": [Event("malformed", SHE), Event("empty", SHE)],
            "silence": [],
            "expiry": [Event("expire", SHE)],
            "lateness": [],
            "retries": [Event("send", SHE), Event("readmit", SHE), Event("send", SHE), Event("send", SHE, 99)],
        }[kind]
    return events


def played(user: int, seed: int | None = None) -> Episode:
    """A user's episode, or a wild one: states and actions that are none, rewards far out and no numbers."""
    steps = MODEL.horizon
    if seed == -1:
        return Episode(np.full(steps + 1, 10**6), np.full(steps, -5), np.array([np.nan, 1e300][:steps]))
    draw = np.random.default_rng(user if seed is None else seed)
    return Episode(
        draw.integers(0, MODEL.states, steps + 1), draw.integers(0, MODEL.actions, steps), draw.random(steps)
    )


class Entry(Protocol):
    """A way into a deployment."""

    mechanism: Mechanism

    def admit(self, user: int) -> None: ...
    def readmit(self, user: int) -> None: ...
    def send(self, user: int, episode: Episode) -> None: ...
    def malformed(self, user: int) -> None: ...
    def empty(self, user: int) -> None: ...
    def expire(self, user: int) -> None: ...
    def finish(self) -> None: ...
    def public(self) -> Any: ...
    def close(self) -> None: ...


class Embedded:
    """The agent inside a program, with tickets for users who overlap."""

    def __init__(self, spec: str) -> None:
        self.agent = DeployedAgent(spec, MODEL, USERS, SecureNoise())
        self.mechanism = self.agent.mechanism
        self.tickets: dict[int, Any] = {}

    def admit(self, user: int) -> None:
        self.tickets[user] = self.agent.begin(user)

    def readmit(self, user: int) -> None:
        """She comes again, and is turned away."""
        with contextlib.suppress(InvalidInput):
            self.agent.begin(user)

    def send(self, user: int, episode: Episode) -> None:
        with contextlib.suppress(InvalidInput):  # a ticket that is used up: she alone is told
            self.agent.submit(self.tickets[user], episode)

    def malformed(self, user: int) -> None:
        with contextlib.suppress(InvalidInput):
            self.agent.submit(self.tickets[user], played(user)._replace(rewards=np.zeros(MODEL.horizon + 1)))

    def empty(self, user: int) -> None:
        self.agent.skip(user)

    def expire(self, user: int) -> None:
        self.agent.expire(user)

    def finish(self) -> None:
        self.agent.finish()

    def public(self) -> Any:
        agent = self.agent
        leaves = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(agent.plan)]
        return agent.users, agent.version, agent.place, agent.ledger, leaves

    def close(self) -> None:
        """Nothing is open."""


class InOrder(Embedded):
    """The agent inside a program, one user after another: a place is used up by what comes of it."""

    def admit(self, user: int) -> None:
        """Who comes next is known; nothing is asked of the agent."""

    def readmit(self, user: int) -> None:
        with contextlib.suppress(InvalidInput):
            self.agent.submit(user, played(user, 99))

    def send(self, user: int, episode: Episode) -> None:
        with contextlib.suppress(InvalidInput):
            self.agent.submit(user, episode)

    def malformed(self, user: int) -> None:
        with contextlib.suppress(InvalidInput):
            self.agent.submit(user, played(user)._replace(rewards=np.zeros(MODEL.horizon + 1)))

    def expire(self, user: int) -> None:
        self.agent.skip(user)

    def finish(self) -> None:
        """The last user has ended the last round."""


class Served:
    """The service's own functions on a database, with a clock that stands still unless a user is to be too late."""

    def __init__(self, spec: str, url: str) -> None:
        self.mechanism = embedded.make_mechanism(spec, MODEL, USERS, SecureNoise())
        self.now = 1_000.0
        self.service = Deployment(
            Context(
                self.mechanism,
                Store(url),
                Secrets(SECRET),
                inline=True,
                now=lambda: self.now,
                steady=lambda: self.now,
                ticket_lifetime=100.0,
            )
        )
        self.service.set_up()
        self.tokens: dict[int, Any] = {}

    def admit(self, user: int) -> None:
        self.tokens[user] = self.service.admit(f"user {user}", f"{user:032x}")

    def readmit(self, user: int) -> None:
        """She comes again: the same request, and a new episode, which is served and not learned from."""
        self.admit(user)
        again = self.service.admit(f"user {user}", f"{user + 1000:032x}")
        with contextlib.suppress(Refusal):
            self.service.submit_trajectory(again.token, again.episode, *played(user, 99))

    def send(self, user: int, episode: Episode) -> None:
        opened = self.tokens[user]
        self.service.submit_trajectory(opened.token, opened.episode, *episode)

    def malformed(self, user: int) -> None:
        with contextlib.suppress(InvalidInput):
            self.send(user, played(user)._replace(rewards=np.zeros(MODEL.horizon + 1)))

    def empty(self, user: int) -> None:
        opened = self.tokens[user]
        self.service.submit_empty(opened.token, opened.episode)

    def expire(self, user: int) -> None:
        """Her time is over: she comes and is turned away."""
        stood, self.now = self.now, self.now + 1_000.0
        with contextlib.suppress(Refusal):
            self.send(user, played(user))
        self.service.expire()
        self.now = stood

    def finish(self) -> None:
        self.service.finish()
        self.service.advance()

    def public(self) -> Any:
        service = self.service
        versions = range(int(service.clock()[0].served_version) + 1)
        return (
            public_views.status(service), public_views.ledger(service), public_views.metrics(service), service.open_round(),
            [service.billboard(version).to_bytes() for version in versions],
        )  # fmt: skip

    def close(self) -> None:
        self.service.store.close()


class InGroups(Served):
    """A backend's groups: whoever comes or sends does so together with everybody who has before her, again."""

    def __init__(self, spec: str, url: str) -> None:
        super().__init__(spec, url)
        self.sent: dict[int, Sent] = {}

    def admit(self, user: int) -> None:
        users = [*self.tokens, user]
        answers = self.service.admit_all([(f"user {one}", f"{one:032x}") for one in users])
        self.tokens |= dict(zip(users, answers, strict=True))

    def send(self, user: int, episode: Episode) -> None:
        self._submit({**self.sent, user: Sent(*episode)})
        self.sent.setdefault(user, Sent(*episode))

    def expire(self, user: int) -> None:
        """A user who came too late is in no later group: the clock is set back here, and would let them in again."""
        super().expire(user)
        self.sent.pop(user, None)

    def malformed(self, user: int) -> None:
        """The others of her group are counted as ever."""
        self._submit({user: Sent(*played(user)._replace(rewards=np.zeros(MODEL.horizon + 1))), **self.sent})

    def _submit(self, sent: dict[int, Sent]) -> None:
        members = [(self.tokens[user].token, self.tokens[user].episode, Raw(one)) for user, one in sent.items()]
        formed = self.service.submissions.trajectories(members)
        self.service.submissions.count_all([one for one in formed if isinstance(one, Submission)])


Make = Callable[[], Entry]


class Transcript(NamedTuple):
    """What one story left: every round's raw sum and release, what was published, in order, and what was logged."""

    totals: list[np.ndarray]
    releases: list[np.ndarray]
    public: list[tuple[int, Any]]
    findings: list[str]
    logs: list[str]


class _Lines(logging.Handler):
    """Keeps every line that the library writes, at every level, and what its exceptions say."""

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        said = "" if record.exc_info is None else repr(record.exc_info[1])
        self.lines.append(f"{record.levelname} {record.name} {record.getMessage()} {said}")


@contextlib.contextmanager
def logged() -> Iterator[list[str]]:
    """What our loggers are told while this lasts, down to the last detail that a setting could show."""
    handler, before = _Lines(), [(log, log.level) for log in map(logging.getLogger, LOGGERS)]
    for log, _ in before:
        log.addHandler(handler)
        log.setLevel(1)
    try:
        yield handler.lines
    finally:
        for log, level in before:
            log.removeHandler(handler)
            log.setLevel(level)


@contextlib.contextmanager
def watched(
    hide: Sequence[np.ndarray] | None, secure: bool, findings: list[str]
) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Keep each round's sum and release, and hold the sum to its contributions.

    With ``hide``, sums of a neighbour, the noise is moved so that it hides the change.

    Unless ``secure``, noise is the same in every run: whoever draws more or less of it is found by that.
    """
    totals: list[np.ndarray] = []
    releases: list[np.ndarray] = []
    generator, close, draw = np.random.default_rng(11), Mechanism.close, Mechanism._draw
    exact, exact_of_all = Mechanism.exact_contribution, Mechanism.exact_contributions
    formed: list[np.ndarray] = []

    def noted(self: Mechanism, billboard: Any, seen: Any) -> np.ndarray:
        if self.formed_when_counted and billboard.version != len(totals):
            findings.append("a contribution is in the coordinates of another round")
        formed.append(exact(self, billboard, seen))
        return formed[-1]

    def noted_all(self: Mechanism, billboard: Any, seen: Any) -> np.ndarray:
        if self.formed_when_counted and billboard.version != len(totals):
            findings.append("a contribution is in the coordinates of another round")
        rows = exact_of_all(self, billboard, seen)
        formed.extend(rows)
        return rows

    def drawn(self: Mechanism, prefix: tuple[int, ...]) -> np.ndarray:
        if secure:
            return draw(self, prefix)
        scale = self.noise_scale / self.grid
        return np.rint(generator.normal(size=prefix + scale.shape) * scale).astype(np.int64)

    def closed(
        self: Mechanism, number: int, state: Any, served: Any, total: np.ndarray, noise: Any, *rest: Any, **more: Any
    ) -> Any:
        if hide is not None:
            noise = noise + (hide[len(totals)] - total)
        totals.append(np.array(total))
        if self.formed_when_counted and not np.array_equal(total, sum(formed, np.zeros_like(total))):
            findings.append("a round's sum is not the sum of its contributions")
        formed.clear()
        after, release = close(self, number, state, served, total, noise, *rest, **more)
        releases.append(release)
        return after, release

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mechanism, "_draw", drawn)
        patch.setattr(Mechanism, "close", closed)
        patch.setattr(Mechanism, "exact_contribution", noted)
        patch.setattr(Mechanism, "exact_contributions", noted_all)
        yield totals, releases


def play(
    make: Make,
    events: Sequence[Event],
    hide: Sequence[np.ndarray] | None = None,
    *,
    secure: bool = False,
    finished: bool = True,
) -> tuple[Transcript, Mechanism]:
    """Play a story on a fresh entry; a whole one (``finished``) is looked at after every event."""
    findings: list[str] = []
    with watched(hide, secure, findings) as (totals, releases), logged() as lines:
        entry = make()
        try:
            public = [(0, entry.public() if finished else None)]
            for event in events:
                told = (played(event.user, event.seed),) if event.act == "send" else ()
                try:
                    getattr(entry, event.act)(event.user, *told)
                except (InvalidInput, Refusal, KeyError) as refused:  # a user who was not admitted has no ticket
                    findings.append(f"this was refused: {event.act} ({type(refused).__name__})")
                if not finished:
                    continue
                now = (len(totals), entry.public())
                if event.act != "admit" and not isinstance(entry, InOrder) and now != public[-1]:
                    findings.append(f"what is published changed when a user did this: {event.act}")
                if now != public[-1]:
                    public.append(now)
            if finished:
                try:
                    entry.finish()
                except (InvalidInput, Refusal):
                    findings.append("this was refused: the end")
                public.append((len(totals), entry.public()))
        finally:
            entry.close()
    return Transcript(totals, releases, public, findings, lines), entry.mechanism


def replay_path(make: Make, kind: str) -> list[str]:
    """What tells the two stories of a kind apart although noise hides her, or costs more than was promised."""
    first, mechanism = play(make, story(kind, changed=False))
    again, _ = play(make, story(kind, changed=True))  # with the same noise: how far she moves each sum, plans aside
    try:
        hidden, _ = play(make, story(kind, changed=True), hide=first.totals)
    except IndexError:  # there was no such round in the first story
        return [*first.findings, "the number of releases depends on the user"]
    findings = [*first.findings, *again.findings, *hidden.findings]
    if len(hidden.totals) != len(first.totals):
        return [*findings, "the number of releases depends on the user"]
    for number, (one, other) in enumerate(zip(first.releases, hidden.releases, strict=True)):
        if not np.array_equal(one, other):
            findings.append(f"release {number + 1} is not a function of noisy sums")
    if [seen for _, seen in first.public] != [seen for _, seen in hidden.public]:
        findings.append("what is published depends on the user")
    if first.logs != hidden.logs:
        findings.append("what is logged depends on the user")
    moved = np.array(first.totals) - np.array(hidden.totals)
    cost = strength_of(mechanism, moved)
    promised = mechanism.guarantee.promised_strength
    if cost > promised * (1 + 1e-9):
        findings.append(f"this change costs mu = {cost:.4g}, but the promise allows {promised:.4g}")
    if kind in FREE and moved.any():
        findings.append("a sum depends on how often or in which order users sent")
    if kind not in FREE and not moved.any():
        findings.append("the change moved nothing: there was nothing to see")
    return list(dict.fromkeys(findings))


def strength_of(mechanism: Mechanism, moved: np.ndarray) -> float:
    """What sums ``(..., H, D)`` that moved by so many grid steps cost: μ, infinite where no noise hides it."""
    return math.sqrt(float((in_noise(moved, mechanism) ** 2).sum()))


def in_noise(moved: np.ndarray, mechanism: Mechanism) -> np.ndarray:
    """Grid steps in units of the noise on each coordinate."""
    scale = np.broadcast_to(mechanism.noise_scale, moved.shape)
    units = moved * mechanism.grid / np.where(scale > 0, scale, 1.0)
    return np.where((scale == 0) & (moved != 0), math.inf, units)


def attack_scores(make: Make, kind: str, trials: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Scores of the first release under secure noise without and with the change, and the μ that they should be apart.

    The adversary knows everybody else's data and both of her stories; hers is the matched filter.
    """
    unchanged, changed = (_first_round(story(kind, changed)) for changed in (False, True))
    known, mechanism = play(make, unchanged, finished=False)
    other, _ = play(make, changed, finished=False)
    movement = in_noise(other.totals[0] - known.totals[0], mechanism)
    strength = math.sqrt(float((movement**2).sum()))
    scores = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "make_mechanism", lambda *given: mechanism)  # it holds no state, and takes its time
        for events in (unchanged, changed):
            found = []
            for _ in range(trials):
                seen, _ = play(make, events, secure=True, finished=False)
                noise = in_noise(seen.releases[0] / mechanism.grid - known.totals[0], mechanism)
                found.append(float((noise * movement).sum()) / strength)
            scores.append(np.array(found))
    return scores[0], scores[1], strength


def _first_round(events: Sequence[Event]) -> list[Event]:
    """Up to the admission that ends the first round."""
    return [*events[: events.index(Event("admit", SIZE))], Event("admit", SIZE)]
