# SPDX-License-Identifier: Apache-2.0
"""Leaks that mypy must refuse, one a line: what a careless edit of the service's path would look like.

They are written against the service's own types: bodies of requests, submissions, sums of rounds. Lines that end in
``# refused`` must have an error, all others none; ``test_service_user_values.py`` runs mypy on this file with the project's
configuration. Nothing here is run. What mypy cannot see (the truth of a value that may be None, a value as a key in a dict
display) is refused at run time; ``tests/client/test_user_value_types.py`` tests that.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from fastapi import HTTPException

from reticent.errors import InvalidInput
from reticent.service.http import schemas
from reticent.service.http.problems import problem
from reticent.service.rounds.context import AnyContext
from reticent.service.rounds.refusals import Refusal
from reticent.service.rounds.submit import Sent, Submission
from reticent_wire.boundary import Clipped, Raw, Released

LOG = logging.getLogger(__name__)


# -- a branch: a plan, a refusal, a retry, a grouping --------------------------------------------------------------------


def refused_if_empty(body: schemas.Trajectory) -> None:
    if not body.rewards:  # refused
        raise Refusal("unavailable", "send it again")


def refused_if_beyond(body: schemas.Act, states: int) -> None:
    if body.state >= states:  # refused
        raise InvalidInput("state", "out of range", f"below {states}", "correct it")


def compared(body: schemas.Act) -> bool:
    return bool(body.state == 0)  # refused


def same_as(one: Submission, other: Submission) -> bool:
    return one == other  # refused


def counted_only_if_something_came(submission: Submission) -> int:
    return 1 if bool(submission.played) else 0  # refused


def left_out_of_a_sum(total: Clipped[np.ndarray]) -> bool:
    return bool(total > 0)  # refused


def sealed_when_it_is_large(context: AnyContext, number: int, sealed: bytes) -> bool:
    return float(context.total(number, sealed)) > 100.0  # refused


def refused_by_length(body: schemas.Trajectory, horizon: int) -> bool:
    return len(body.rewards) != horizon  # refused


def decided_one_by_one(body: schemas.Trajectory) -> int:
    return sum(1 for reward in body.rewards if reward > 0)  # refused


def first_state(body: schemas.Trajectory) -> Any:
    return body.states[0]  # refused


def grouped_by_state(bodies: list[schemas.Act]) -> dict[Any, list[str]]:
    groups: dict[Any, list[str]] = {}
    for one in bodies:
        groups.setdefault(one.state, []).append(one.token)  # refused
    return groups


def assigned_by_state(body: schemas.Act, cache: dict[Any, int]) -> None:
    cache[body.state] = 1  # refused


def looked_up_by_state(body: schemas.Act, cache: dict[Any, int]) -> int:
    return cache[body.state]  # refused


def seen_before(body: schemas.Act, seen: set[int]) -> bool:
    return body.state in seen  # refused


# -- a text: a log line, an exception, a problem's detail ----------------------------------------------------------------


def logged(body: schemas.Trajectory) -> None:
    LOG.debug("rewards %s", body.rewards)  # refused


def logged_submission(submission: Submission) -> None:
    LOG.info("counted %s", submission)  # refused


def logged_sum(context: AnyContext, number: int, sealed: bytes) -> None:
    LOG.debug("the sum of round %d is %s", number, context.total(number, sealed))  # refused


def told(body: schemas.Act) -> Refusal:
    return Refusal("unavailable", f"there is no state {body.state}")  # refused


def raised(body: schemas.Act) -> None:
    raise ValueError(body.state)  # refused


def quoted(body: schemas.Trajectory) -> InvalidInput:
    return InvalidInput("rewards", body.rewards, "in [0, 1]", "correct them")  # refused


def in_a_detail(body: schemas.Act) -> None:
    raise HTTPException(422, body.state)  # refused


def in_a_problem(body: schemas.Act) -> Any:
    return problem("invalid-input", 422, "out of range", value=body.state)  # refused


# -- a number that leaves ------------------------------------------------------------------------------------------------


def as_a_status(body: schemas.Act) -> None:
    raise HTTPException(body.state)  # refused


def in_an_answer(body: schemas.Act) -> schemas.Action:
    return schemas.Action(action=body.state, probability=1.0, version=0)  # refused


def sum_without_noise(total: Clipped[np.ndarray]) -> np.ndarray:
    return total  # refused


def added_without_a_clip(total: Clipped[np.ndarray], sent: Raw[Sent]) -> Any:
    return total + sent  # refused


def kept_without_a_clip(submission: Submission, sent: Raw[Any]) -> Submission:
    return Submission(submission.token, sent)  # refused


# -- the value itself, and its ways on, elsewhere than where they are ----------------------------------------------------


def taken_out(body: schemas.Act) -> bool:
    return body.state._value > 3  # refused


def used_as_on_a_device(submission: Submission) -> int:
    return submission.played.on_device(lambda seen: seen.states.size) if submission.played is not None else 0  # refused


def released_elsewhere(total: Clipped[np.ndarray]) -> float:
    return float(total.release(np.sum).value)  # refused


# -- and what is in order ------------------------------------------------------------------------------------------------


def in_order(body: schemas.Trajectory, total: Clipped[np.ndarray], released: Released[np.ndarray]) -> bool:
    clipped = body.rewards.clip(lambda values: np.clip(np.asarray(values, np.float64), 0, 1))
    by_token = {body.token: clipped}
    several = [clipped, *by_token.values()]
    Clipped.all_of([total, *several]).within(lambda rows: np.sum(rows, axis=0))
    LOG.info("a release of %d episodes: %s", len(several), released.value)
    return bool(released.value.sum() > 0)
