# SPDX-License-Identifier: Apache-2.0
"""A deployed agent interrupted anywhere: at every bytecode of its own methods and at every call below them.

Python can be interrupted between any two bytecodes (Ctrl-C), and every call can raise. A recorder keeps all sums that were
closed with their noise: two attempts to release one round must be the same attempt.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import reticent
from reticent.privacy.noise import SecureNoise
from reticent.service import embedded
from reticent.service.embedded import DeployedAgent
from reticent.service.mechanism import Mechanism
from reticent.worlds import Episode
from reticent.worlds.registry import make_world

MODEL = make_world("riverswim:states=3,horizon=3").model
EPSILON, DELTA = 1.0, 1e-5
BELOW, OWN = str(Path(reticent.__file__).parent), embedded.__file__
INTERRUPTS = (KeyboardInterrupt, MemoryError)


def episode(seed: int) -> Episode:
    draw = np.random.default_rng(seed)
    steps = MODEL.horizon
    return Episode(
        draw.integers(0, MODEL.states, steps + 1), draw.integers(0, MODEL.actions, steps), draw.random(steps)
    )


class Closed(NamedTuple):
    """One attempt to end a round: which, the sum, and its noise."""

    number: int
    total: bytes
    noise: bytes


@contextlib.contextmanager
def recorded_attempts() -> Iterator[list[Closed]]:
    """All attempts to end a round within the block."""
    seen: list[Closed] = []
    real = Mechanism.close

    def close(
        self: Mechanism, number: int, state: Any, served: Any, total: Any, noise: Any, *rest: Any, **more: Any
    ) -> Any:
        seen.append(Closed(number, np.asarray(total).tobytes(), np.asarray(noise).tobytes()))
        return real(self, number, state, served, total, noise, *rest, **more)

    with mock.patch.object(Mechanism, "close", close):
        yield seen


@functools.cache
def fresh_agent() -> DeployedAgent:
    """Rounds of two users; nobody has come yet, and its programs are compiled. Take a :func:`twin`."""
    spec = f"private-ucb-vi:counter=epochs,first=2,growth=1,epsilon={EPSILON},delta={DELTA}"
    agent = DeployedAgent(spec, MODEL, 8, SecureNoise())
    warm = twin(agent)
    for user in range(4):
        warm.submit(user, episode(user))
    return agent


def twin(agent: DeployedAgent) -> DeployedAgent:
    """Another deployed agent in the same state."""
    other = copy.copy(agent)
    for name in ("_users", "_out", "_out_by_version", "_versions"):
        setattr(other, name, copy.copy(getattr(agent, name)))
    return other


def interrupted(action: Callable[[], Any], at: int, how: type[BaseException]) -> bool:
    """Whether ``action`` was interrupted: at the ``at``-th bytecode of a deployed agent or call below it, if it has one."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1
        if count == at:
            raise how

    def inside(_: FrameType, event: str, __: Any) -> Any:
        if event == "opcode":
            tick()
        return inside

    def entered(frame: FrameType, _: str, __: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(BELOW):
            return None
        tick()
        frame.f_trace_opcodes = file == OWN
        return inside if file == OWN else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        action()
    except how:
        return True
    finally:
        sys.settrace(before)
    return False


def every_interruption(
    start: DeployedAgent, action: Callable[[DeployedAgent], Any]
) -> Iterator[tuple[int, DeployedAgent]]:
    """The agent after ``action`` was interrupted at its first, second, … point, until it has no more."""
    for at in range(1, 100_000):
        agent = twin(start)
        if not interrupted(functools.partial(action, agent), at, INTERRUPTS[at % 2]):
            return
        yield at, agent
