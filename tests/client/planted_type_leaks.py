# SPDX-License-Identifier: Apache-2.0
"""Leaks that mypy must refuse, one a line: what a careless edit of the client or of the wire would look like.

Lines that end in ``# refused`` must have an error, all others none; ``test_user_value_types.py`` runs mypy on this file
with the project's configuration. Nothing here is run.
"""

from __future__ import annotations

import logging

from reticent_client import ServiceError
from reticent_client.submission import Played
from reticent_wire import InvalidInput
from reticent_wire.boundary import Clipped, Raw, Released

LOG = logging.getLogger(__name__)


# -- a branch, which a status, a retry or a grouping would follow ----------------------------------------------------


def status_by_truth(reward: Raw[float]) -> int:
    return 422 if reward else 200  # refused


def retry_while(state: Clipped[int]) -> None:
    while state:  # refused
        pass


def left_out(state: Raw[int]) -> bool:
    return not state  # refused


def required(reward: Raw[float]) -> None:
    assert reward  # refused


def refused_if_large(reward: Raw[float]) -> bool:
    return reward > 1.0  # refused


def refused_if_equal(state: Raw[int]) -> bool:
    return bool(state == 3)  # refused


def grouped_with(state: Raw[int], other: Raw[int]) -> bool:
    return bool(state == other)  # refused


def among(state: Raw[int]) -> bool:
    return state in (1, 2)  # refused


def by_length(states: Raw[list[int]]) -> int:
    return len(states)  # refused


def one_by_one(states: Raw[list[int]]) -> None:
    for _ in states:  # refused
        pass


def looked_up(state: Clipped[int]) -> str:
    return ["a", "b"][state]  # refused


# -- a text, which a log, an exception or a problem's detail would show ------------------------------------------------


def logged(reward: Raw[float]) -> None:
    LOG.debug("reward %s", reward)  # refused


def logged_with_others(rewards: list[Raw[float]]) -> None:
    LOG.warning("rewards %s", rewards)  # refused


def printed(state: Clipped[int]) -> None:
    print(state)  # refused


def in_a_text(reward: Raw[float]) -> str:
    return f"the reward is {reward}"  # refused


def formatted(reward: Raw[float]) -> str:
    return "the reward is {}".format(reward)  # noqa: UP032  # refused


def as_text(state: Raw[int]) -> str:
    return str(state)  # refused


def shown_as_it_is(state: Raw[int]) -> str:
    return repr(state)  # refused


def quoted_by_a_refusal(reward: Raw[float]) -> InvalidInput:
    return InvalidInput("reward", reward, "in [0, 1]", "correct it")  # refused


def raised(reward: Raw[float]) -> None:
    raise ValueError(reward)  # refused


# -- a number that leaves ------------------------------------------------------------------------------------------------


def as_a_status(state: Clipped[int]) -> ServiceError:
    return ServiceError(state)  # refused


def as_a_number(reward: Clipped[float]) -> float:
    return reward  # refused


def as_a_sum(reward: Clipped[float]) -> float:
    return 1.0 + reward  # refused


def sent_without_noise(reward: Clipped[float]) -> Released[float]:
    return reward  # refused


def sent_without_a_clip(reward: Raw[float]) -> Released[float]:
    return reward.release(lambda value: value)  # refused


# -- the value itself, and its ways on, elsewhere than where they are ----------------------------------------------------


def taken_out(reward: Raw[float]) -> bool:
    return reward._value > 0.5  # refused


def decided_elsewhere(state: Clipped[int]) -> bool:
    return state.on_device(lambda value: value > 3)  # refused


def released_elsewhere(reward: Clipped[float]) -> Released[float]:
    return reward.release(lambda value: value)  # refused


def kind_of_submission(played: Played) -> str:
    return "empty" if played.seen is not None and played.seen.rewards.max() == 0 else "report"  # refused


# -- and what is in order ------------------------------------------------------------------------------------------------


def in_order(reward: Raw[float], released: Released[float]) -> str:
    kept: list[Clipped[float]] = []
    kept.append(reward.clip(lambda value: min(max(value, 0.0), 1.0)))
    kept[0].within(lambda value: value / 2)
    return f"{released.value:.1f}" if released.value > 0.5 else str(released.value)
