# SPDX-License-Identifier: Apache-2.0
"""Before launch: the deployment of a file meets recorded users, beside what it must beat.

The deployed agent meets the log's users in a random order, with real noise. Beside it: what was done as logged, the best
fixed action, the plan of the public candidates alone, the same learner without privacy, and a private learner that starts
from nothing (tabular). The best of many noisy estimates is too high; so the fixed action is chosen on one half of the users
and valued on the other, both ways, and the mean of the two is shown. Learners are measured on all users that they met, the
first ones included, and on the last tenth.

Values are means over recorded users with 1.96 standard errors. They are computed from the log without noise: for the
owner of the log, and not to be published.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from reticent.agents.registry import make_agent
from reticent.errors import InvalidInput, ReticentError
from reticent.learning.learner import AnyLearner
from reticent.naming import join, split
from reticent.privacy.guarantee import guarantee_of
from reticent.privacy.noise import SecureNoise
from reticent.replay.deployed import meet_deployed
from reticent.replay.logs import Replayable
from reticent.replay.simulated import meet_recorded
from reticent.service.config import Settings
from reticent.service.embedded import DeployedAgent
from reticent.worlds import Model, world_from_parameters
from reticent.worlds.models.model_file import ModelFile, load_model
from reticent.worlds.people.recorded import Estimate, RecordedUsers, mean_of

CAUTION = "computed from the log without noise: not to be published"

LEARNER = "score-vi"
FROM_SCRATCH = "dp-ucbvi"
TAIL = 0.1
"""Share of the users met last, on which the plan that was learned is measured."""

Told = Callable[[str, int, int], None]


@dataclasses.dataclass(frozen=True)
class Row:
    """One way of acting: its mean return, 1.96 standard errors, the same of the last tenth, and how many it met.

    ``value`` and ``error`` are None if fewer than two records were accepted, ``learned`` and ``learned_error`` besides for
    what does not learn. ``orders``: of the users that were tried.
    """

    name: str
    value: float | None
    error: float | None
    learned: float | None
    learned_error: float | None
    met: int
    orders: int
    seconds: float
    remark: str = ""


@dataclasses.dataclass(frozen=True)
class LogReplay:
    """What a replay found: ``rows``, why it is honest (``why``), and the promise that was kept (``sentence``)."""

    source: str
    users: int
    agent: str
    why: str
    sentence: str
    rows: tuple[Row, ...]
    absent: tuple[tuple[str, str], ...]

    def to_dict(self) -> dict[str, Any]:
        """For a JSON document; it says that the promise in it is not about these figures."""
        return {"caution": CAUTION, **dataclasses.asdict(self)}


def deployed_model(settings: Settings) -> ModelFile:
    """The model file of a deployment, with its coding.

    Raises:
      InvalidInput: the deployment has none, or the model has no coding, so that a log cannot be read with it.
    """
    if settings.model_file is None:
        raise InvalidInput(
            "deployment", f"world: {settings.world}", "with a model_file", "replay needs the coding of a fitted model"
        )
    loaded = load_model(settings.model_file)
    if loaded.coding is None:
        raise InvalidInput(
            "model_file", settings.model_file, "one with a coding of columns", "use what reticent fit wrote"
        )
    return loaded


def replay_log(
    settings: Settings,
    loaded: ModelFile,
    users: Replayable,
    logged: np.ndarray,
    *,
    source: str = "the log",
    orders: int = 4,
    seed: int = 0,
    told: Told | None = None,
) -> LogReplay:
    """Replay a deployment on recorded users; see the module.

    Args:
      settings: the deployment. loaded: its model. users: as they can be met. logged: their returns as logged, ``(n,)``.
      orders: in how many orders the learners that are compared with meet them.
      seed: of orders and of simulated noise; the deployed agent's noise has none.
      told: what is being done, how many records are behind, and of how many.

    Raises:
      InvalidInput: the agent cannot be deployed, or the users are not the model's.
    """
    model = loaded.model
    _check_fits(users, model)
    promise = guarantee_of(make_agent(settings.agent, model, settings.episodes))
    if promise is None:
        raise InvalidInput("agent", settings.agent, "one that promises privacy", "deploy a private agent")
    listed = [np.random.default_rng([seed, number]).permutation(users.users) for number in range(orders)]
    rows = [_fixed("as logged", mean_of(logged), users.users)]
    rows.append(_best_fixed(users, model, np.random.default_rng([seed, 10**6 + 1])))
    rows.append(_fixed("the plan of the candidates alone", users.value(pilot_plan(loaded)), users.users))
    absent: list[tuple[str, str]] = []

    def say(what: str) -> Callable[[int], None] | None:
        return None if told is None else (lambda done: told(what, done, users.users))

    rows.append(_deployed(settings, model, users, listed, seed, promise.trust.wire == "messages", say("deployed")))
    epsilon = {"epsilon": f"{promise.epsilon:g}", "delta": f"{promise.delta:g}"}
    trust = "local" if promise.trust.noised_reports else "joint"
    for title, spec in (
        ("the same learner without privacy", LEARNER),
        ("private, from scratch (tabular)", join(FROM_SCRATCH, {"trust": trust, **epsilon})),
    ):
        try:
            agent = make_agent(spec, model, settings.episodes)
        except ReticentError as problem:
            absent.append((title, str(problem)))
            continue
        rows.append(_simulated(title, agent, users, listed, seed, say(title)))
    return LogReplay(
        source, users.users, settings.agent, users.why, promise.sentence(), tuple(rows), tuple(absent)
    )  # fmt: skip


def pilot_plan(loaded: ModelFile) -> np.ndarray:
    """The best choices ``(H, S)`` if the deployed people were the public records' blend; an even one if that is unknown."""
    model = loaded.model
    shares = np.full(model.d1, 1 / model.d1) if loaded.shares is None else loaded.shares
    if model.reward_total is None:
        paid = np.full(model.d2, 0.5 / max(1.0, float(np.asarray(model.reward_features).sum(axis=0).max())))
    elif model.d2 == model.d1:
        paid = model.reward_total * shares
    else:
        paid = np.full(model.d2, model.reward_total / model.d2)
    world = world_from_parameters(model, shares / shares.sum(), paid)
    if model.known_rewards is not None:
        world = dataclasses.replace(world, reward_means=model.known_rewards[None])
    return np.asarray(world.optimal_choices)


def _check_fits(users: Replayable, model: Model) -> None:
    actions = users.actions if isinstance(users, RecordedUsers) else users.actions_count
    if (actions, users.horizon) != (model.actions, model.horizon):
        raise InvalidInput(
            "recorded users", f"{actions} actions and {users.horizon} steps",
            f"{model.actions} and {model.horizon}, as the model", "code them as the model does",
        )  # fmt: skip


def _fixed(name: str, found: Any, users: int) -> Row:
    return Row(name, found.value, 1.96 * found.error, None, None, users, 1, 0.0)


def _best_fixed(users: Replayable, model: Model, random: np.random.Generator) -> Row:
    """The action that is best on one half of the users, valued on the other half, and the other way round."""
    halves = [users.subset(part) for part in np.array_split(random.permutation(users.users), 2)]
    table = [
        [half.value(np.full((users.horizon, model.states), action)) for action in range(model.actions)]
        for half in halves
    ]
    best = [max(range(model.actions), key=lambda action, own=own: own[action].value) for own in table]  # type: ignore[misc]
    first, second = table[1][best[0]], table[0][best[1]]
    found = Estimate((first.value + second.value) / 2, float(np.hypot(first.error, second.error)) / 2)
    names = " or ".join(dict.fromkeys(model.names.actions[action] for action in best))
    row = _fixed(f"best fixed action: {names}", found, users.users)
    return dataclasses.replace(row, remark="chosen on half of the users, valued on the others")


def _deployed(
    settings: Settings,
    model: Model,
    users: Replayable,
    listed: list[np.ndarray],
    seed: int,
    shuffled: bool,
    progress: Callable[[int], None] | None,
) -> Row:
    """The deployed agent itself; through the simulation where its users' messages would have to meet a shuffler."""
    if shuffled:
        agent = make_agent(settings.agent, model, settings.episodes)
        row = _simulated("deployed", agent, users, listed, seed, progress)
        without = "" if settings.control is None else ", and without its controls"
        return dataclasses.replace(row, remark=f"simulated noise{without}: messages would have to meet a shuffler")
    began = time.perf_counter()
    control = None if settings.control is None else settings.control.control
    shell = DeployedAgent(settings.agent, model, settings.episodes, SecureNoise(), control)
    returns = meet_deployed(shell, users, listed[0], np.random.default_rng([seed, 10**6]), progress)
    remark = "real noise" if control is None else f"real noise, {100 * control.share:g} % controls among its users"
    return _learner("deployed", [returns], time.perf_counter() - began, remark)


def _simulated(
    name: str,
    agent: AnyLearner,
    users: Replayable,
    listed: list[np.ndarray],
    seed: int,
    progress: Callable[[int], None] | None,
) -> Row:
    began = time.perf_counter()
    met = meet_recorded(agent, users, listed, seed=seed, progress=progress)
    return _learner(name, met, time.perf_counter() - began, f"{split(agent.name)[0]}, simulated")


def _learner(name: str, met: list[np.ndarray], seconds: float, remark: str) -> Row:
    """Mean and error over users, averaged over orders.

    Orders share their users, so the error is that of one order: averaging more of them does not make the users more.
    """
    if min(len(returns) for returns in met) < 2:
        return Row(name, None, None, None, None, 0, len(met), seconds, "too few records were accepted")
    late = [returns[-max(2, round(TAIL * len(returns))) :] for returns in met]
    (value, error), (learned, learned_error) = _over_orders(met), _over_orders(late)
    count = int(np.mean([len(returns) for returns in met]))
    return Row(name, value, error, learned, learned_error, count, len(met), seconds, remark)


def _over_orders(sample: list[np.ndarray]) -> tuple[float, float]:
    """Mean return, averaged over orders, and 1.96 standard errors of one order."""
    estimates = [mean_of(returns) for returns in sample]
    within = float(np.mean([estimate.error**2 for estimate in estimates]))
    return float(np.mean([estimate.value for estimate in estimates])), 1.96 * float(np.sqrt(within))
