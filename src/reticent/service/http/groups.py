# SPDX-License-Identifier: Apache-2.0
"""Many users in one request: for an app's backend that has them anyway, a request each is most of what they cost.

Members are independent: each gets, at its position, the answer of a request of its own, and a refused member does
not keep others from being admitted or counted. That holds for a member's *form* too: members are read one by one
(:mod:`reticent.service.http.members`), so that the form of one member changes no other's answer, nor the
status of the request. Only a body that is no list of 1 to 256 members and a store that fails concern the whole group; it
may be sent again then, as every request may.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

from fastapi import APIRouter, Depends

from reticent.errors import InvalidInput, ReticentError
from reticent.service.http import schemas
from reticent.service.http.episodes import At, RequestHandlers, comer, opened_answer, report_of
from reticent.service.http.problems import documented, of_member
from reticent.service.http.rates import charge, owe, prove, take_of
from reticent.service.http.security import BEARER
from reticent.service.rounds.refusals import Refusal
from reticent.service.rounds.submit import Submission

router = APIRouter(prefix="/v1/groups", tags=["groups"], dependencies=[Depends(BEARER)])
Item = TypeVar("Item")
Answer = TypeVar("Answer")


@router.post("/episodes", responses=documented())
async def open_all(body: schemas.OpenAll, handlers: At) -> schemas.AllOpened:
    """Serve users who come together, each as `POST /v1/episodes` would; places are theirs in this order."""
    charge(len(body.each))
    now = time.time()
    answers = await _answered([_comer(handlers, one, now) for one in body.each], handlers.admissions.join_all)
    return schemas.AllOpened(
        opened=[of_member(one) if isinstance(one, Exception) else opened_answer(one, handlers) for one in answers]
    )


@router.post("/trajectories", responses=documented())
async def submit_trajectories(body: schemas.Trajectories, handlers: At) -> schemas.Receipts:
    """Joint model: learn from whole episodes, each as `POST /v1/episodes/{episode}/trajectory` would."""
    owe(len(body.each))
    read = [one for one in body.each if not isinstance(one, InvalidInput)]
    sent = [(one.token, one.episode, one.sent) for one in read]
    formed = iter(handlers.deployment.submissions.trajectories(sent))
    return await _receipts(handlers, [one if isinstance(one, InvalidInput) else next(formed) for one in body.each])


@router.post("/reports", responses=documented())
async def submit_reports(body: schemas.Reports, handlers: At) -> schemas.Receipts:
    """Local model: learn from reports that were noised on their users' devices, each by itself."""
    owe(len(body.each))
    return await _receipts(handlers, [_report(handlers, one) for one in body.each])


def _comer(
    handlers: RequestHandlers, asked: schemas.Open | InvalidInput, now: float
) -> tuple[str, str | None] | ReticentError:
    """A user who may be admitted, or why not."""
    try:
        return asked if isinstance(asked, InvalidInput) else comer(asked, handlers, now)
    except ReticentError as refusal:
        return refusal


def _report(handlers: RequestHandlers, sent: schemas.ReportOf | InvalidInput) -> Submission | ReticentError:
    try:
        return sent if isinstance(sent, InvalidInput) else report_of(sent.episode, sent, handlers)
    except ReticentError as refusal:
        return refusal


def _within_its_limit(one: Submission | ReticentError) -> Submission | ReticentError:
    """A submission, or why it has to come again, as it would by itself."""
    if isinstance(one, Submission) and take_of(one.token.episode):
        return Refusal("too-many-requests", "slow down")
    return one


async def _receipts(handlers: RequestHandlers, well_formed: Sequence[Submission | ReticentError]) -> schemas.Receipts:
    if any(isinstance(one, Submission) for one in well_formed):
        prove()
    formed = [_within_its_limit(one) for one in well_formed]
    versions = await _answered(formed, handlers.submissions.join_all)
    return schemas.Receipts(
        receipts=[
            schemas.Receipt(episode=one.token.episode, version=version)
            if isinstance(one, Submission) and not isinstance(version, Exception)
            else of_member(cast(Exception, version))
            for one, version in zip(formed, versions, strict=True)
        ]
    )


async def _answered(
    members: Sequence[Item | ReticentError], join: Callable[[Sequence[Item]], Awaitable[list[Answer | Exception]]]
) -> list[Answer | Exception]:
    """What members are answered, in their order; those who are refused already are not asked about."""
    going = [one for one in members if not isinstance(one, ReticentError)]
    answers = iter(await join(going) if going else ())
    return [one if isinstance(one, ReticentError) else next(answers) for one in members]
