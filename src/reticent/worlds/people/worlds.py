# SPDX-License-Identifier: Apache-2.0
"""Registered worlds of recorded people; their data and their machinery are loaded when one is made."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
from collections.abc import Callable
from typing import Literal

import numpy as np

from reticent.errors import InvalidInput
from reticent.extras import require
from reticent.worlds.models.model import make_model
from reticent.worlds.models.names import Names
from reticent.worlds.people.data import FOLDER, locate
from reticent.worlds.registry import register_world
from reticent.worlds.world import World, checked_truth, world_from_parameters

Who = Literal["all", "changing"]


# Made once per folder and options: a listing asks for worlds several times, and a million sessions take a while to read.
kept = functools.lru_cache(maxsize=4)


def _folder() -> str | None:
    return os.environ.get(FOLDER)


def _data_of(module: str) -> Callable[[], object]:
    """A check that the file of a data set is there."""

    def check() -> object:
        require("polars", f"the world {module}")
        return locate(importlib.import_module(f"reticent.worlds.people.{module}").PUBLISHED, _folder())

    return check


@register_world("msnbc", episodes=300_000, sizes=(69, 18, 5, 4, 4), requires=_data_of("msnbc"))
def msnbc(
    *,
    candidates: int = 4,
    pilot: int = 50_000,
    front_share: float = 0.9,
    who: Who = "all",
    horizon: int = 5,
    seed: int = 0,
) -> World:
    """One suggestion per session for recorded readers of a news site; needs RETICENT_DATA.

    Candidates come from a pilot, nine in ten of which entered by the front page; the truth is the own first-order chain
    of those who entered elsewhere, which no blend meets exactly. 69 states, 18 actions.
    """
    return _msnbc(_folder(), candidates, pilot, front_share, who, horizon, seed)


@kept
def _msnbc(
    folder: str | None, candidates: int, pilot: int, front_share: float, who: Who, horizon: int, seed: int
) -> World:
    from reticent.worlds.people import msnbc as readers
    from reticent.worlds.people.truth import world_of

    pilots, deployed = readers.populations(
        readers.load_sessions(folder), horizon=horizon, pilot=pilot, front_share=front_share, who=who, seed=seed
    )
    fitted = readers.fit_pilot(pilots, candidates, seed=seed, holdout=0.0)
    firsts = np.bincount(deployed[:, 0], minlength=readers.CODING.states) / len(deployed)
    weights = readers.nearest_blend(fitted, deployed)
    return world_of(fitted, readers.empirical(deployed), firsts, weights, name="msnbc")


@register_world("jester", episodes=20_000, sizes=(19, 6, 6, 3, 3), requires=_data_of("jester"))
def jester(*, candidates: int = 3, seed: int = 0) -> World:
    """Six jokes for a newcomer, from recorded ratings; needs RETICENT_DATA.

    Candidates are kinds of people in a pilot; the truth is how those who rated all jokes answer in each state, which no
    blend meets exactly. 19 states, 6 actions, H = 6.
    """
    return _jester(_folder(), candidates, seed)


@kept
def _jester(folder: str | None, candidates: int, seed: int) -> World:
    from reticent.worlds.people import jester as jokes
    from reticent.worlds.people.truth import world_of

    people = jokes.audience(jokes.load_ratings(folder))
    fitted = jokes.fit_pilot(people, candidates, seed=seed, holdout=0.0)
    own = jokes.recorded_users(people, seed).own_model(passes=20, seed=seed)
    first = np.eye(len(jokes.STATES))[0]
    return world_of(fitted, own.kernel, first, own.nearest_blend(fitted.kernel), name="jester")


@register_world("hillstrom", episodes=35_266, sizes=(6, 3, 1, 1, 3), requires=_data_of("hillstrom"))
def hillstrom() -> World:
    """One of three e-mails for a customer (H = 1), on the visits of a randomised trial; needs RETICENT_DATA.

    The truth is the visit rate of every context and e-mail among customers who bought men's merchandise; d2 = 3 arms
    blend to it up to what contexts matter.
    """
    from reticent.worlds.people import hillstrom as trial

    rates, number = trial.visit_rates(trial.customers(trial.load_customers()).deployed)
    states, arms = rates.shape
    stays = np.broadcast_to(np.eye(states)[None, :, None, :], (1, states, arms, states))
    model = make_model(
        stays,
        np.broadcast_to(np.eye(arms)[:, None, :], (arms, states, arms)),
        1,
        initial=number.sum(axis=1) / number.sum(),
        transition_bound=1.0,
        transition_theta_bound=1.0,
        sums_to_one=True,
        stationary=True,
        names=Names(trial.CODING.state_names, trial.CODING.action_names),
    )
    arm = (rates * number).sum(axis=0) / number.sum(axis=0)
    return dataclasses.replace(
        world_from_parameters(model, [1.0], arm, name="hillstrom"), **checked_truth(stays, rates[None])
    )


@register_world("heartsteps", episodes=20_000, sizes=(12, 3, 5, 3, 3), requires=_data_of("heartsteps"))
def heartsteps(*, candidates: int = 3, population: int = 0, seed: int = 0) -> World:
    """Activity suggestions at five moments of a day, for blends of 37 recorded people; needs RETICENT_DATA.

    ``population`` seeds the hidden blend. 12 states (available, steps before, suggested before), 3 actions.
    """
    if population < 0:
        raise InvalidInput("heartsteps: population", population, "not negative", "give a seed of at least 0")
    return _heartsteps(_folder(), candidates, population, seed)


@kept
def _heartsteps(folder: str | None, candidates: int, population: int, seed: int) -> World:
    from reticent.worlds.people import heartsteps as trial
    from reticent.worlds.people.truth import blend_world

    fitted = trial.fit_people(trial.days_log(trial.load_decisions(folder)), candidates, seed=seed, holdout=0.0)
    weights = np.random.default_rng(population).dirichlet(np.ones(candidates))
    return blend_world(fitted.model, fitted.kernel, weights, "heartsteps")
