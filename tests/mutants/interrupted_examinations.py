# SPDX-License-Identifier: Apache-2.0
"""Examinations of a deployed agent that is interrupted: a round is released once, and a report is counted once."""

from __future__ import annotations

from examinations import Examination, _named
from interruptions import episode, every_interruption, fresh_agent, recorded_attempts, twin


def in_order() -> Examination:
    """Every point of the call that ends a round; then the next user comes."""

    def examine() -> list[str]:
        start = twin(fresh_agent())
        start.submit("first", episode(1))
        found = []
        with recorded_attempts() as attempts:
            for at, agent in every_interruption(start, lambda one: one.submit("second", episode(2))):
                if "second" not in agent._users:
                    agent.submit("second", episode(2))
                agent.submit("third", episode(3))
                if len({one for one in attempts if one.number == 0}) > 1:
                    found.append(f"interrupted at {at}, round 0 is released with other noise or another sum")
                attempts.clear()
        return found

    return _named(examine, "interruption", {"of": "rounds"})


def reports() -> Examination:
    """Every point of the call that counts a report; then its user tries again."""

    def examine() -> list[str]:
        start = twin(fresh_agent())
        ticket = start.begin("first")
        own = start.report(episode(1), ticket)
        found = []
        for at, agent in every_interruption(start, lambda one: one.submit(ticket, episode(1))):
            if agent.tickets_out:
                agent.submit(ticket, episode(1))
            if agent._open.any() and (agent._open != own).any():
                found.append(f"interrupted at {at}, a report is counted twice")
        return found

    return _named(examine, "interruption", {"of": "reports"})
