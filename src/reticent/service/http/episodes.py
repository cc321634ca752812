# SPDX-License-Identifier: Apache-2.0
"""Episodes: open, act, submit; and the batches of a shuffler.

Admissions and submissions of one worker wait for each other for a moment and share a transaction
(:mod:`reticent.service.processes.micro_batching`). Well-formed requests come here directly
(:mod:`reticent.service.http.fast_path`).
"""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from starlette.concurrency import run_in_threadpool

from reticent.service.http import schemas
from reticent.service.http.problems import documented
from reticent.service.http.rates import prove
from reticent.service.http.security import BEARER
from reticent.service.processes.micro_batching import MicroBatcher
from reticent.service.rounds.admit import Opened
from reticent.service.rounds.enrolment import Enrolment
from reticent.service.rounds.frontend import Frontend
from reticent.service.rounds.submit import Submission
from reticent_wire import arrays

router = APIRouter(prefix="/v1", tags=["episodes"], dependencies=[Depends(BEARER)])
Episode = Annotated[str, Path(pattern=schemas.IDENTITY, description="The episode's id.")]


class RequestHandlers:
    """Where users are met: the deployment, the backend that vouches for them, and where requests wait for each other."""

    def __init__(self, deployment: Frontend, enrolment: Enrolment | None, linger: float) -> None:
        self.deployment, self.enrolment = deployment, enrolment
        inline = deployment.context.inline  # then an admission may wait for a plan
        self.admissions: MicroBatcher[tuple[str, str | None], Opened] = MicroBatcher(
            deployment.admissions.admit_all, linger, patient=inline
        )
        self.submissions: MicroBatcher[Submission, int] = MicroBatcher(
            deployment.submissions.count_all, linger, follows=self.admissions, patient=inline
        )
        configuration = deployment.configuration
        self.constant = {
            "trust": configuration.public_guarantee.trust, "horizon": configuration.published.horizon,
            "rules": configuration.rules_digest,
        }  # fmt: skip
        """Of every answer to an admission."""

    def close(self) -> None:
        """Serve those who wait, and no more."""
        self.admissions.close()
        self.submissions.close()


def handlers_of(request: Request) -> RequestHandlers:
    """The request handlers of the app."""
    found: RequestHandlers = request.app.state.handlers
    return found


def deployment_of(request: Request) -> Frontend:
    """The deployment that the app serves."""
    found: Frontend = request.app.state.deployment
    return found


Served = Annotated[Frontend, Depends(deployment_of)]
At = Annotated[RequestHandlers, Depends(handlers_of)]


@router.post("/episodes", status_code=201, responses=documented(403, 409))
async def open_episode(body: schemas.Open, handlers: At) -> schemas.Opened:
    """Serve a user: the policy version is pinned until the episode ends. Repeat it with the same id at will."""
    return opened_answer(await handlers.admissions.join(comer(body, handlers, time.time())), handlers)


def comer(asked: schemas.Open, handlers: RequestHandlers, now: float) -> tuple[str, str | None]:
    """Who comes, and with which episode.

    Raises:
      Refusal: the backend does not vouch for the user.
    """
    if handlers.enrolment is not None:
        handlers.enrolment.require(asked.user, asked.enrolment, now)
    return asked.user, asked.episode


def opened_answer(opened: Opened, handlers: RequestHandlers) -> schemas.Opened:
    """What a user is told on admission, for the wire."""
    return schemas.Opened.model_validate({**vars(opened), **handlers.constant})


@router.post("/episodes/{episode}/actions", responses=documented(404))
async def act(episode: Episode, body: schemas.Act, handlers: At) -> schemas.Action:
    """The action of the pinned version at one step. Nothing is stored."""
    deployment = handlers.deployment
    pinned = deployment.submissions.token(body.token, episode)
    prove()
    if not deployment.context.plans.remembers(pinned.version):
        await run_in_threadpool(deployment.billboard, pinned.version)
    action, probability = deployment.actions.decide(pinned, body.step, body.state).value
    return schemas.Action(action=action, probability=probability, version=pinned.version)


@router.post("/episodes/{episode}/trajectory", responses=documented(404, 409, 410))
async def submit_trajectory(episode: Episode, body: schemas.Trajectory, handlers: At) -> schemas.Receipt:
    """Joint model: learn from the whole episode. Only its statistics, added to the open round's sum, are kept.

    States, actions and rewards out of range are taken for the nearest ones that are not: values are never refused.
    """
    submission = handlers.deployment.submissions.trajectory(body.token, episode, body.sent)
    prove()
    return schemas.Receipt(episode=episode, version=await handlers.submissions.join(submission))


@router.post("/episodes/{episode}/empty", responses=documented(404, 409, 410))
async def submit_empty(episode: Episode, body: schemas.Empty, handlers: At) -> schemas.Receipt:
    """Joint model: the user shows nothing of the episode; it counts, and contributes nothing."""
    submission = handlers.deployment.submissions.empty(body.token, episode)
    prove()
    return schemas.Receipt(episode=episode, version=await handlers.submissions.join(submission))


@router.post("/episodes/{episode}/report", responses=documented(404, 409, 410))
async def submit_report(episode: Episode, body: schemas.Report, handlers: At) -> schemas.Receipt:
    """Local model: learn from a report that was noised on the user's device."""
    submission = report_of(episode, body, handlers)
    prove()
    return schemas.Receipt(episode=episode, version=await handlers.submissions.join(submission))


def report_of(episode: str, sent: schemas.Report, handlers: RequestHandlers) -> Submission:
    """A report off the wire.

    Raises:
      InvalidInput, Refusal: it cannot be counted.
    """
    shape = handlers.deployment.configuration.report_limit.shape
    report = arrays.from_json("report", sent.report.model_dump(), dtype="<i8", shape=shape)
    return handlers.deployment.submissions.report(sent.token, episode, report, sent.reference)


@router.post("/batches", responses=documented(403, 409, 410))
def submit_batch(body: schemas.Batch, deployment: Served) -> schemas.BatchReceipt:
    """Shuffle model: learn from all users of a round at once, from how many of their bits are ones."""
    shape = deployment.configuration.noise_scale.shape
    ones, messages = (
        arrays.from_json(field, content.model_dump(), dtype="<i8", shape=shape)
        for field, content in (("ones", body.ones), ("messages", body.messages))
    )
    users = deployment.submit_batch(body.batch, body.round, body.users, ones, messages, body.restores)
    return schemas.BatchReceipt(batch=body.batch, round=body.round, users=users)
