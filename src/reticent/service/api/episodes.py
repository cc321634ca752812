"""Episodes: open, act, submit; and the batches of a shuffler."""

from __future__ import annotations

import dataclasses
import time
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Path, Request, Response
from starlette.concurrency import run_in_threadpool

from reticent.service.admissions import Opened
from reticent.service.api import schemas
from reticent.service.api.problems import documented
from reticent.service.api.security import BEARER
from reticent.service.deployment import Deployment
from reticent.service.enrolment import Enrolment
from reticent.service.gathering import Gathering
from reticent.service.submissions import Submission
from reticent_client.wire import arrays

router = APIRouter(prefix="/v1", tags=["episodes"], dependencies=[Depends(BEARER)])
Episode = Annotated[str, Path(pattern=schemas.IDENTITY, description="The episode's id.")]


def deployment_of(request: Request) -> Deployment:
    """The deployment that the app serves."""
    found: Deployment = request.app.state.deployment
    return found


Served = Annotated[Deployment, Depends(deployment_of)]


class Gatherings(NamedTuple):
    """Where admissions and submissions of one worker wait for each other (:mod:`reticent.service.gathering`)."""

    admissions: Gathering[tuple[str, str | None], Opened]
    submissions: Gathering[Submission, int]

    @classmethod
    def of(cls, deployment: Deployment, linger: float) -> Gatherings:
        return cls(Gathering(deployment.admit_all, linger), Gathering(deployment.count_all, linger))

    def close(self) -> None:
        for one in self:
            one.close()


def gatherings_of(request: Request) -> Gatherings:
    """Those of the app."""
    found: Gatherings = request.app.state.gatherings
    return found


Gathered = Annotated[Gatherings, Depends(gatherings_of)]


@router.post("/episodes", status_code=201, responses=documented(403, 409))
async def open_episode(
    request: Request, body: schemas.Open, deployment: Served, gathered: Gathered, response: Response
) -> schemas.Opened:
    """Serve a user: her policy version is pinned until the episode ends. Repeat it with the same id at will."""
    response.headers["Cache-Control"] = "no-store"
    enrolment: Enrolment | None = request.app.state.enrolment
    if enrolment is not None:
        enrolment.require(body.user, body.enrolment, time.time())
    opened = await gathered.admissions.join((body.user, body.episode))
    return schemas.Opened.model_validate(
        {
            **dataclasses.asdict(opened),
            "trust": deployment.mechanism.guarantee.trust.name,
            "horizon": deployment.mechanism.agent.model.horizon,
        }
    )


@router.post("/episodes/{episode}/actions", responses=documented(404))
async def act(episode: Episode, body: schemas.Act, deployment: Served) -> schemas.Action:
    """The action of the pinned version at one step. Nothing is stored."""
    version = deployment.secrets.read(body.token).version
    if not deployment.remembers(version):
        await run_in_threadpool(deployment.billboard, version)
    action, version = deployment.act(body.token, episode, body.step, body.state)
    return schemas.Action(action=action, version=version)


@router.post("/episodes/{episode}/trajectory", responses=documented(404, 409, 410))
async def submit_trajectory(
    episode: Episode, body: schemas.Trajectory, deployment: Served, gathered: Gathered
) -> schemas.Receipt:
    """Joint model: learn from the whole episode. Only its statistics, added to the open round's sum, are kept.

    States, actions and rewards out of range are taken for the nearest ones that are not: her values are never refused.
    """
    submission = deployment.trajectory(body.token, episode, body.states, body.actions, body.rewards)
    return schemas.Receipt(episode=episode, version=await gathered.submissions.join(submission))


@router.post("/episodes/{episode}/empty", responses=documented(404, 409, 410))
async def submit_empty(
    episode: Episode, body: schemas.Empty, deployment: Served, gathered: Gathered
) -> schemas.Receipt:
    """Joint model: the user shows nothing of her episode; it counts, and contributes nothing."""
    version = await gathered.submissions.join(deployment.empty(body.token, episode))
    return schemas.Receipt(episode=episode, version=version)


@router.post("/episodes/{episode}/report", responses=documented(404, 409, 410))
async def submit_report(
    episode: Episode, body: schemas.Report, deployment: Served, gathered: Gathered
) -> schemas.Receipt:
    """Local model: learn from a report that was noised on the user's device."""
    shape = deployment.mechanism.report_limit.shape
    report = arrays.from_json("report", body.report.model_dump(), dtype="<i8", shape=shape)
    submission = deployment.report(body.token, episode, report, body.reference)
    return schemas.Receipt(episode=episode, version=await gathered.submissions.join(submission))


@router.post("/batches", responses=documented(403, 409))
def submit_batch(body: schemas.Batch, deployment: Served) -> schemas.BatchReceipt:
    """Shuffle model: learn from all users of a round at once, from how many of their bits are ones."""
    shape = deployment.mechanism.noise_scale.shape
    ones, messages = (
        arrays.from_json(field, content.model_dump(), dtype="<i8", shape=shape)
        for field, content in (("ones", body.ones), ("messages", body.messages))
    )
    users = deployment.submit_batch(body.batch, body.round, body.users, ones, messages)
    return schemas.BatchReceipt(batch=body.batch, round=body.round, users=users)
