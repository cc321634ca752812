"""Episodes: open, act, submit; and the batches of a shuffler."""

from __future__ import annotations

import dataclasses
import time
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response
from starlette.concurrency import run_in_threadpool

from reticent.service.api import schemas
from reticent.service.api.problems import documented
from reticent.service.api.security import BEARER
from reticent.service.deployment import Deployment
from reticent.service.enrolment import Enrolment
from reticent_client.wire import arrays

router = APIRouter(prefix="/v1", tags=["episodes"], dependencies=[Depends(BEARER)])
Episode = Annotated[str, Path(pattern=schemas.IDENTITY, description="The episode's id.")]


def deployment_of(request: Request) -> Deployment:
    """The deployment that the app serves."""
    found: Deployment = request.app.state.deployment
    return found


Served = Annotated[Deployment, Depends(deployment_of)]


@router.post("/episodes", status_code=201, responses=documented(403, 409))
def open_episode(request: Request, body: schemas.Open, deployment: Served, response: Response) -> schemas.Opened:
    """Serve a user: her policy version is pinned until the episode ends. Repeat it with the same id at will."""
    response.headers["Cache-Control"] = "no-store"
    enrolment: Enrolment | None = request.app.state.enrolment
    if enrolment is not None:
        enrolment.require(body.user, body.enrolment, time.time())
    opened = deployment.admit(body.user, body.episode)
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
    token = deployment.secrets.read(body.token)
    if not deployment.remembers(token.version):
        await run_in_threadpool(deployment.billboard, token.version)
    action, version = deployment.act(body.token, episode, body.step, body.state)
    board = deployment.billboard(version).published
    probability = board.probability(body.step, body.state, token.place, action)
    return schemas.Action(action=action, probability=probability, version=version)


@router.post("/episodes/{episode}/trajectory", responses=documented(404, 409, 410))
def submit_trajectory(episode: Episode, body: schemas.Trajectory, deployment: Served) -> schemas.Receipt:
    """Joint model: learn from the whole episode. Only its statistics, added to the open round's sum, are kept.

    States, actions and rewards out of range are taken for the nearest ones that are not: her values are never refused.
    """
    version = deployment.submit_trajectory(body.token, episode, body.states, body.actions, body.rewards)
    return schemas.Receipt(episode=episode, version=version)


@router.post("/episodes/{episode}/empty", responses=documented(404, 409, 410))
def submit_empty(episode: Episode, body: schemas.Empty, deployment: Served) -> schemas.Receipt:
    """Joint model: the user shows nothing of her episode; it counts, and contributes nothing."""
    return schemas.Receipt(episode=episode, version=deployment.submit_empty(body.token, episode))


@router.post("/episodes/{episode}/report", responses=documented(404, 409, 410))
def submit_report(episode: Episode, body: schemas.Report, deployment: Served) -> schemas.Receipt:
    """Local model: learn from a report that was noised on the user's device."""
    shape = deployment.mechanism.report_limit.shape
    report = arrays.from_json("report", body.report.model_dump(), dtype="<i8", shape=shape)
    version = deployment.submit_report(body.token, episode, report, body.reference)
    return schemas.Receipt(episode=episode, version=version)


@router.post("/batches", responses=documented(403, 409, 410))
def submit_batch(body: schemas.Batch, deployment: Served) -> schemas.BatchReceipt:
    """Shuffle model: learn from all users of a round at once, from how many of their bits are ones."""
    shape = deployment.mechanism.noise_scale.shape
    ones, messages = (
        arrays.from_json(field, content.model_dump(), dtype="<i8", shape=shape)
        for field, content in (("ones", body.ones), ("messages", body.messages))
    )
    users = deployment.submit_batch(body.batch, body.round, body.users, ones, messages)
    return schemas.BatchReceipt(batch=body.batch, round=body.round, users=users)
