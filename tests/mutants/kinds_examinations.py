# SPDX-License-Identifier: Apache-2.0
"""Examinations of devices that act on a belief about their own user: the real client against a scripted service."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from client_tests import forbid  # noqa: F401  (first: it knows the way to the two below)
from examinations import Examination, _named
from make_vectors import example_billboard, example_model, example_trajectory
from scripted_service import Sent, admitting, serving

from reticent.agents import make_agent
from reticent.errors import InvalidInput
from reticent.runtime import double_precision
from reticent.worlds import Episode
from reticent.worlds.kinds import random_kinds
from reticent_client import Budget, Client, StayFile, Unreachable, discrete_gaussian
from reticent_wire.billboard import Billboard

KINDS = example_model("kinds")
DOCUMENTED = {"episodes": {"user", "episode"}, "report": {"token", "report", "reference"}}
LIVES = ([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.5, 1.0, 0.0])
"""Rewards of three users, whose beliefs differ."""


def _sent(rewards: list[float], board: Billboard | None = None) -> list[Sent]:
    """Everything that leaves the device of a user with these rewards, in the local model, without noise."""
    with pytest.MonkeyPatch.context() as quiet:
        quiet.setattr(discrete_gaussian, "draw", lambda scale, _: np.zeros(scale.shape, np.int64))
        with (
            serving(admitting(KINDS, board)) as (url, sent),
            Client(url, "key", trust="local", budget=Budget.in_memory()) as client,
        ):
            episode = client.episode("ann", episode="a" * 32).open()
            for step, reward in enumerate(rewards):
                episode.act(step)
                episode.observe(reward, step + 1)
            episode.submit()
            return list(sent)


def _device(about: str) -> Any:
    return lambda examine: _named(examine, "device", {"kinds": about})


@_device("fields")
def fields() -> list[str]:
    """Which fields leave, at which addresses: the same for all, and the documented ones."""
    findings = []
    for rewards in LIVES:
        for one in _sent(rewards):
            if one.method == "POST" and (one.kind not in DOCUMENTED or set(one.content) != DOCUMENTED[one.kind]):
                findings.append(f"other fields than the documented ones leave with {one.kind}")
    return list(dict.fromkeys(findings))


@_device("requests")
def requests() -> list[str]:
    """Whether and what a device asks and sends, but for the numbers of the report: the same whatever happened."""
    shown = {
        tuple((one.method, one.path, len(one.body), tuple(sorted(one.headers))) for one in _sent(rewards))
        for rewards in LIVES
    }
    return [] if len(shown) == 1 else ["requests depend on what happened to the user"]


@_device("clip")
def clipped() -> list[str]:
    """Long vectors by a hostile billboard: whatever leaves has length 1 at the most, the grid aside."""
    lengths = []
    for seed in range(8):
        steps = KINDS.steps(example_billboard(KINDS, stretch=50.0), example_trajectory(KINDS, seed))
        lengths.append(np.linalg.norm(steps * KINDS.rules.grid))
    return [] if max(lengths) <= 1 + 3 * KINDS.rules.grid else ["a vector leaves the device unclipped"]


@_device("server acts")
def acting() -> list[str]:
    """An action without the episode so far is refused, in every state alike."""
    board, answers = example_billboard(KINDS), set()
    for state in range(KINDS.states):
        try:
            answers.add(str(board.choose(0, state, 0, 0.5)))
        except InvalidInput as refusal:
            answers.add(str(refusal))
    return (
        [] if len(answers) == 1 and "act='device'" in answers.pop() else ["a server acts for a user of a hidden kind"]
    )


@lambda examine: _named(examine, "worst pair", {"kinds": "stays"})
@double_precision
def stays() -> list[str]:
    """Stays of users who saw anything: exchanging one for another moves the sum by at most 2, however many visits."""
    draw, visits, findings = np.random.default_rng(0), 4, []
    world = random_kinds(states=4, actions=2, horizon=2, kinds=3, apart=1.0, successors=2, seed=2)
    steps = visits * world.model.horizon
    for name in ("private-kinds", "private-score-vi"):
        agent = make_agent(f"{name}:visits={visits}", world.model, 50)
        plan = agent.served(agent.plan(agent.init()), 0)
        met = Episode(
            jnp.asarray(draw.integers(4, size=(60, steps + visits))),
            jnp.asarray(draw.integers(2, size=(60, steps))),
            jnp.asarray(draw.random((60, steps)).round()),
        )
        reports = np.asarray(jax.vmap(lambda stay: agent.report(plan, stay, None))(met))[:, 0]  # noqa: B023
        if np.linalg.norm(reports[:, None] - reports[None], axis=-1).max() > 2 + 1e-9:
            findings.append(f"{name}: a stay moves a sum by more than two")
    return findings


@_device("one report of a stay")
def kept_stays() -> list[str]:
    """A stay whose app is closed after every visit and dies as it sends: nothing leaves between visits, then one report."""
    model = dataclasses.replace(KINDS, rules=dataclasses.replace(KINDS.rules, visits=2))
    findings, reports = [], set()
    with tempfile.TemporaryDirectory() as folder, serving(admitting(model, changes={"report": None})) as (url, sent):
        for process in range(4):
            kept = StayFile(Path(folder) / "stays.json")
            with Client(url, "key", trust="local", budget=Budget.in_memory(), stays=kept, deadline=0.2) as client:
                episode = client.resume_stay("ann") or (client.episode("ann").open() if process == 0 else None)
                asked = len(sent)
                if episode is None:
                    continue
                for step in range(0 if episode.complete else model.horizon):
                    episode.act(step)
                    episode.observe(1.0, step + 1)
                if not episode.complete:
                    findings += ["a device tells between visits that its user came"] if len(sent) > asked else []
                    continue
                with contextlib.suppress(Unreachable):
                    episode.submit()
                reports |= {one.body for one in sent if one.kind == "report"}
    return findings + (["a second report of a stay leaves the device"] if len(reports) > 1 else [])


EXAMINATIONS: tuple[Examination, ...] = (fields, requests, clipped, acting, stays, kept_stays)
