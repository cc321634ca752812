# SPDX-License-Identifier: Apache-2.0
"""Episodes: open, act, submit; and the batches of a shuffler.

Admissions and submissions of one worker wait for each other for a moment and share a transaction
(:mod:`reticent.service.gathering`). Well-formed requests come here directly (:mod:`reticent.service.api.quick`).
"""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from starlette.concurrency import run_in_threadpool

from reticent.service.admissions import Opened
from reticent.service.api import schemas
from reticent.service.api.problems import documented
from reticent.service.api.security import BEARER
from reticent.service.enrolment import Enrolment
from reticent.service.gathering import Gathering
from reticent.service.reception import Reception
from reticent.service.submissions import Submission
from reticent_wire import arrays

router = APIRouter(prefix="/v1", tags=["episodes"], dependencies=[Depends(BEARER)])
Episode = Annotated[str, Path(pattern=schemas.IDENTITY, description="The episode's id.")]


class Desk:
    """Where users are met: the deployment, the backend that vouches for them, and where requests wait for each other."""

    def __init__(self, deployment: Reception, enrolment: Enrolment | None, linger: float) -> None:
        self.deployment, self.enrolment = deployment, enrolment
        self.admissions: Gathering[tuple[str, str | None], Opened] = Gathering(deployment.admit_all, linger)
        self.submissions: Gathering[Submission, int] = Gathering(deployment.count_all, linger)
        terms = deployment.terms
        self.constant = {"trust": terms.promised.trust, "horizon": terms.published.horizon}
        """Of every answer to an admission."""

    def close(self) -> None:
        """Serve those who wait, and no more."""
        self.admissions.close()
        self.submissions.close()


def desk_of(request: Request) -> Desk:
    """The desk of the app."""
    found: Desk = request.app.state.desk
    return found


def deployment_of(request: Request) -> Reception:
    """The deployment that the app serves."""
    found: Reception = request.app.state.deployment
    return found


Served = Annotated[Reception, Depends(deployment_of)]
At = Annotated[Desk, Depends(desk_of)]


@router.post("/episodes", status_code=201, responses=documented(403, 409))
async def open_episode(body: schemas.Open, desk: At) -> schemas.Opened:
    """Serve a user: her policy version is pinned until the episode ends. Repeat it with the same id at will."""
    return opened_answer(await desk.admissions.join(comer(body, desk, time.time())), desk)


def comer(asked: schemas.Open, desk: Desk, now: float) -> tuple[str, str | None]:
    """Who comes, and with which episode.

    Raises:
      Refusal: the backend does not vouch for her.
    """
    if desk.enrolment is not None:
        desk.enrolment.require(asked.user, asked.enrolment, now)
    return asked.user, asked.episode


def opened_answer(opened: Opened, desk: Desk) -> schemas.Opened:
    """What a user is told when she comes, for the wire."""
    return schemas.Opened.model_validate({**vars(opened), **desk.constant})


@router.post("/episodes/{episode}/actions", responses=documented(404))
async def act(episode: Episode, body: schemas.Act, desk: At) -> schemas.Action:
    """The action of the pinned version at one step. Nothing is stored."""
    deployment = desk.deployment
    pinned = deployment.pinned(body.token, episode)
    if not deployment.remembers(pinned.version):
        await run_in_threadpool(deployment.billboard, pinned.version)
    action = deployment.act(pinned, body.step, body.state)
    board = deployment.billboard(pinned.version).published
    probability = board.probability(body.step, body.state, pinned.place, action)
    return schemas.Action(action=action, probability=probability, version=pinned.version)


@router.post("/episodes/{episode}/trajectory", responses=documented(404, 409, 410))
async def submit_trajectory(episode: Episode, body: schemas.Trajectory, desk: At) -> schemas.Receipt:
    """Joint model: learn from the whole episode. Only its statistics, added to the open round's sum, are kept.

    States, actions and rewards out of range are taken for the nearest ones that are not: her values are never refused.
    """
    submission = desk.deployment.trajectory(body.token, episode, body.states, body.actions, body.rewards)
    return schemas.Receipt(episode=episode, version=await desk.submissions.join(submission))


@router.post("/episodes/{episode}/empty", responses=documented(404, 409, 410))
async def submit_empty(episode: Episode, body: schemas.Empty, desk: At) -> schemas.Receipt:
    """Joint model: the user shows nothing of her episode; it counts, and contributes nothing."""
    submission = desk.deployment.empty(body.token, episode)
    return schemas.Receipt(episode=episode, version=await desk.submissions.join(submission))


@router.post("/episodes/{episode}/report", responses=documented(404, 409, 410))
async def submit_report(episode: Episode, body: schemas.Report, desk: At) -> schemas.Receipt:
    """Local model: learn from a report that was noised on the user's device."""
    return schemas.Receipt(episode=episode, version=await desk.submissions.join(report_of(episode, body, desk)))


def report_of(episode: str, sent: schemas.Report, desk: Desk) -> Submission:
    """A report off the wire.

    Raises:
      InvalidInput, Refusal: it cannot be counted.
    """
    shape = desk.deployment.terms.report_limit.shape
    report = arrays.from_json("report", sent.report.model_dump(), dtype="<i8", shape=shape)
    return desk.deployment.report(sent.token, episode, report, sent.reference)


@router.post("/batches", responses=documented(403, 409, 410))
def submit_batch(body: schemas.Batch, deployment: Served) -> schemas.BatchReceipt:
    """Shuffle model: learn from all users of a round at once, from how many of their bits are ones."""
    shape = deployment.terms.noise_scale.shape
    ones, messages = (
        arrays.from_json(field, content.model_dump(), dtype="<i8", shape=shape)
        for field, content in (("ones", body.ones), ("messages", body.messages))
    )
    users = deployment.submit_batch(body.batch, body.round, body.users, ones, messages)
    return schemas.BatchReceipt(batch=body.batch, round=body.round, users=users)
