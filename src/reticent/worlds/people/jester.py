# SPDX-License-Identifier: Apache-2.0
r"""Jester: six jokes for a newcomer, on people who rated all hundred.

**Origin.** Jester (K. Goldberg, T. Roeder, D. Gupta and C. Perkins, "Eigentaste: a constant time collaborative
filtering algorithm", Information Retrieval 2001): ratings of 100 jokes from −10 to 10, collected from 1999 to 2003 at
Berkeley, whose authors ask for this citation. Files, whichever is there: ``jester5k.npz``, the sample of 5 000 people
of R's recommenderlab (ratings × 100 as integers, 32767 where there is none), or ``jester-data-1.csv``, the original
spreadsheet of 24 983 people saved as CSV (a first column of counts, then 100 ratings, 99 where there is none).

**The problem.** A newcomer is told H = 6 jokes. An action is one of six groups of six jokes; step h tells the group's
h-th joke, in an order drawn for each user, so that no user hears a joke twice. The state is the group of the last joke
and whether the user disliked it, found it so-so or liked it. Reward: the rating, from 0 to 1.

**Pilot and deployment.** The pilot are those who did not rate everything; jokes are grouped by *their* taste, and
candidates are kinds of people among them. The service meets those who rated all, whose answer to any joke is known:
replay is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from reticent.errors import InvalidInput
from reticent.worlds.models.provenance import Provenance
from reticent.worlds.people.data import Published, find, folder_of
from reticent.worlds.people.recorded import RecordedUsers
from reticent.worlds.records import Fitted, fit

PUBLISHED = Published(
    "jester5k.npz",
    "the recorded audience of Jester",
    "R's recommenderlab (Jester5k), or https://eigentaste.berkeley.edu/dataset/ as jester-data-1.csv",
    "23e3fd3b34be",
)
SPREADSHEET = "jester-data-1.csv"
GROUPS, HORIZON = 6, 6
CUTS = (0.45, 0.7)
"""Ratings, from 0 to 1, at which a joke is no longer disliked, and is liked."""

LIKING = ("disliked", "so-so", "liked")
ACTIONS = tuple(f"jokes {letter}" for letter in "ABCDEF")
STATES = ("nothing yet", *(f"{group}, {word}" for group in ACTIONS for word in LIKING))


def load_ratings(folder: str | Path | None = None) -> np.ndarray:
    """Ratings ``(people, 100)`` from −10 to 10, not a number where there is none.

    Raises:
      MissingData: neither file is there.
      InvalidInput: it is something else.
    """
    place = folder_of(folder)
    if place is not None and (place / SPREADSHEET).is_file():
        return read_spreadsheet(place / SPREADSHEET)
    path = find(PUBLISHED, folder)
    with np.load(path, allow_pickle=False) as content:
        hundredths = content["ratings_hundredths"]
    return np.where(hundredths == 32767, np.nan, hundredths / 100.0)


def read_spreadsheet(path: str | Path) -> np.ndarray:
    """The ratings of the original spreadsheet, saved as CSV without a header."""
    table = pl.read_csv(path, has_header=False, infer_schema_length=None).to_numpy().astype(np.float64)
    if table.shape[1] != 101:
        raise InvalidInput(
            f"columns of {Path(path).name}", table.shape[1], "101: a count and 100 ratings", "export it again"
        )
    return np.where(table[:, 1:] == 99, np.nan, table[:, 1:])


class Audience(NamedTuple):
    """Ratings from 0 to 1 of the ``pilot``, who left some out, and of the ``deployed``; ``groups`` of jokes ``(6, 6)``."""

    pilot: np.ndarray
    deployed: np.ndarray
    groups: np.ndarray


def audience(ratings: np.ndarray) -> Audience:
    """The two populations, and the pilot's favourite 36 jokes in groups of one taste."""
    share = (ratings + 10) / 20
    complete = ~np.isnan(share).any(axis=1)
    return Audience(share[~complete], share[complete], groups_of(share[~complete]))


def groups_of(ratings: np.ndarray) -> np.ndarray:
    """Six groups of six of the best-liked jokes, by who likes them: balanced k-means on the main directions of taste."""
    mean = np.nanmean(ratings, axis=0)
    best = np.sort(np.argsort(-mean, kind="stable")[: GROUPS * HORIZON])
    taste = ratings[:, best] - np.nanmean(ratings, axis=1, keepdims=True) - (mean[best] - np.nanmean(ratings))
    rated = ~np.isnan(taste)
    _, strength, direction = np.linalg.svd(np.where(rated, taste, 0) / np.sqrt(rated.sum(axis=0)), full_matrices=False)
    place = (strength[:GROUPS, None] * direction[:GROUPS]).T
    # Centres that are far from each other, then twenty rounds in which full groups take no more.
    chosen = [int(np.argmax((place**2).sum(axis=1)))]
    while len(chosen) < GROUPS:
        apart = ((place[:, None] - place[chosen]) ** 2).sum(axis=-1).min(axis=1)
        chosen.append(int(np.argmax(apart)))
    centres, label = place[chosen], np.zeros(len(place), np.int64)
    for _ in range(20):
        far = ((place[:, None] - centres) ** 2).sum(axis=-1)
        free = np.full(GROUPS, HORIZON)
        for joke in np.argsort(far.min(axis=1), kind="stable"):
            label[joke] = next(group for group in np.argsort(far[joke], kind="stable") if free[group])
            free[label[joke]] -= 1
        centres = np.stack([place[label == group].mean(axis=0) for group in range(GROUPS)])
    return np.stack([best[label == group] for group in range(GROUPS)])


def pilot_log(people: Audience, seed: int = 0) -> pl.DataFrame:
    """The long table for :func:`reticent.worlds.fit`: the pilot's ratings of the grouped jokes, in random order.

    A pilot user hears every grouped joke that they rated once, so most have more than six rows.
    """
    random = np.random.default_rng(seed)
    jokes, group = people.groups.ravel(), np.repeat(np.arange(GROUPS), HORIZON)
    order = random.random((len(people.pilot), len(jokes))).argsort(axis=1)
    heard = people.pilot[:, jokes][np.arange(len(people.pilot))[:, None], order]
    user, place = np.nonzero(~np.isnan(heard))
    action, reward = group[order[user, place]], heard[user, place]
    following = 1 + action * len(LIKING) + np.searchsorted(CUTS, reward, side="right")
    starts = np.append(True, user[1:] != user[:-1])
    state = np.where(starts, 0, np.append(0, following[:-1]))
    first = np.flatnonzero(starts)
    names = pl.Series(STATES)
    return pl.DataFrame(
        {
            "user": user,
            "step": np.arange(len(user)) - first[np.cumsum(starts) - 1],
            "state": names.gather(state),
            "action": pl.Series(ACTIONS).gather(action),
            "reward": reward,
            "next": names.gather(following),
        }
    )


def fit_pilot(people: Audience, candidates: int | tuple[int, int] = 3, *, seed: int = 0, **options: Any) -> Fitted:
    """Candidates from the pilot; ``options`` are those of :func:`reticent.worlds.fit`."""
    return fit(
        pilot_log(people, seed),
        horizon=HORIZON,
        candidates=candidates,
        categories={"state": STATES, "action": ACTIONS},
        seed=seed,
        source="Jester's audience",
        origin=Provenance("public", f"{len(people.pilot):,} people of Jester who did not rate all jokes"),
        **options,
    )


def recorded_users(people: Audience, seed: int = 0) -> RecordedUsers:
    """The people who rated all, for exact replay; ``seed`` draws the order of each group's jokes for each of them."""
    random = np.random.default_rng(seed)
    order = random.random((len(people.deployed), GROUPS, HORIZON)).argsort(axis=2)
    jokes = people.groups[np.arange(GROUPS)[None, :, None], order]
    ratings = people.deployed[np.arange(len(people.deployed))[:, None, None], jokes]
    return RecordedUsers(
        {"ratings": ratings}, _first, _respond, len(STATES), GROUPS, HORIZON, "these people rated every joke"
    )


def _first(answers: Mapping[str, Any]) -> Any:
    return (answers["ratings"][..., 0, 0] * 0).astype(int)


def _respond(answers: Mapping[str, Any], step: int, state: Any, action: Any) -> tuple[Any, Any]:
    del state
    told = answers["ratings"][..., step]
    # Written as a sum, so that it reads one user and all of them alike.
    rating = (told * (np.arange(GROUPS) == action[..., None])).sum(axis=-1)
    return 1 + action * len(LIKING) + (rating >= CUTS[0]) * 1 + (rating >= CUTS[1]) * 1, rating
