# SPDX-License-Identifier: Apache-2.0
r"""MSNBC: one suggestion per session for readers of a news site, recorded on one day of 1999.

**Origin.** "MSNBC.com Anonymous Web Data", UCI Machine Learning Repository, given by D. Heckerman "thanks to msnbc.com"
(Cadez, Heckerman, Meek, Smyth and White, "Visualization of navigation patterns on a Web site using model-based
clustering", KDD 2000): 989 818 sessions of 28 September 1999, each a line of page categories from 1 to 17. File:
``msnbc990928.zip``, as UCI offers it, with seven header lines.

**The problem.** A reader moves from section to section; repeats of a section are dropped, and H page changes are an
episode. The service may suggest *one* section per session, at any page, and is paid 1 if the reader goes there next.
State: whether the suggestion is still to be made, whether the page was entered from outside or moved to, and the
section; those who leave are *over*. Actions: nothing, or one of 17 sections.

**A linear mixture, faithfully.** Readers never saw these suggestions, so pages do not depend on them; with candidate
chains :math:`C_i(x'\mid x)` over (how entered, section) the candidates are

.. math:: P_i\big((b',x')\mid(b,x),a\big)=C_i(x'\mid x)\,[b'=b\wedge a\text{ is nothing}],\qquad
          r_i\big((b,x),a\big)=b\sum_{x'\text{ shows }a}C_i(x'\mid x):

both blend with the weights of the chains, and what a recorded reader would have done under any policy is known exactly.

**Pilot and deployment.** A pilot is recruited where that is easy: nine in ten of its readers entered by the front
page. The service then meets those who enter elsewhere, from search engines and mails. Candidates come from the pilot,
each entry section being a group that blends them (:mod:`reticent.worlds.records.mixture`).

**History.** Sessions are not Markov in the section. With a history (:func:`fit_pilot`) the chain is one over the last
sections, as many as held-out pilot readers choose, and how the page was arrived at is part of that.
"""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from reticent.errors import InvalidInput
from reticent.worlds.models.model import About
from reticent.worlds.models.names import Names
from reticent.worlds.models.provenance import Provenance
from reticent.worlds.people.data import Published, find
from reticent.worlds.people.recorded import RecordedUsers
from reticent.worlds.records import Categories, Coding, Columns, Fitted, fit
from reticent.worlds.records.fitting import model_of
from reticent.worlds.records.kernel import Kernel
from reticent.worlds.records.mixture import best_blend
from reticent.worlds.records.remembering import states_of
from reticent_wire.history import History

PUBLISHED = Published(
    "msnbc990928.zip",
    "the recorded readers of MSNBC",
    "https://archive.ics.uci.edu/ml/datasets/MSNBC.com+Anonymous+Web+Data",
    "af10d7be592f",
)
SECTIONS = (
    "frontpage", "news", "tech", "local", "opinion", "on-air", "misc", "weather", "msn-news", "health", "living",
    "business", "msn-sports", "sports", "summary", "bbs", "travel",
)  # fmt: skip
NOTHING, YES, NO, ENTERED, MOVED = "nothing", "yes", "no", "entered", "moved"
LEFT = len(SECTIONS)
"""What stands for a page after the reader has left."""

Who = Literal["all", "changing"]

CODING = Coding(
    (Categories("suggestion left", (YES, NO)), Categories("arrived", (ENTERED, MOVED)), Categories("page", SECTIONS)),
    Categories("suggest", (NOTHING, *SECTIONS)),
    over=True,
)
"""States and actions of the decision problem: 2 × 2 × 17 + 1 states, 18 actions."""

CHAIN = Columns(state=("arrived", "page"), group="entry")
"""The columns of :func:`pilot_log`, for :func:`reticent.worlds.fit`."""


class Sessions(NamedTuple):
    """All sessions, end to end: ``pages`` from 0 to 16, and where each session ``starts`` and ``ends``."""

    pages: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def changes(self, horizon: int) -> np.ndarray:
        """The first H + 1 sections of every session without repeats, ``(sessions, H + 1)``; :data:`LEFT` after the last."""
        kept = np.ones(len(self.pages), bool)
        kept[1:] = self.pages[1:] != self.pages[:-1]
        kept[self.starts] = True
        before = np.concatenate([[0], np.cumsum(kept)])
        starts, lengths = before[self.starts], before[self.ends] - before[self.starts]
        pages = self.pages[kept]
        result = np.full((len(starts), horizon + 1), LEFT, np.int8)
        for step in range(horizon + 1):
            longer = lengths > step
            result[longer, step] = pages[starts[longer] + step]
        return result


def load_sessions(folder: str | Path | None = None) -> Sessions:
    """Read the sessions as UCI offers them.

    Raises:
      MissingData: the file is not there.
      InvalidInput: it is something else.
    """
    path = find(PUBLISHED, folder)
    with zipfile.ZipFile(path) as archive:
        member = next((name for name in archive.namelist() if name.endswith(".seq") and "MACOSX" not in name), None)
        if member is None:
            raise InvalidInput(path.name, "without a .seq file", "UCI's archive", f"get it from {PUBLISHED.where}")
        text = archive.read(member)
    lines = text.split(b"\n", 7)
    if len(lines) < 8 or tuple(lines[2].decode().split()) != SECTIONS:
        raise InvalidInput(
            path.name, "with another header", "UCI's seven header lines", f"get it from {PUBLISHED.where}"
        )
    # Every line becomes its pages and a 0, so that one conversion reads them all.
    numbers = np.fromstring(lines[7].rstrip().replace(b"\n", b" 0 ") + b" 0", dtype=np.int64, sep=" ").astype(np.int8)
    ends = np.flatnonzero(numbers == 0)
    order = np.arange(len(ends))
    return Sessions(numbers[numbers != 0] - np.int8(1), np.concatenate([[0], ends[:-1] - order[:-1]]), ends - order)


class Populations(NamedTuple):
    """Two populations of readers, each ``(readers, H + 1)`` sections."""

    pilot: np.ndarray
    deployed: np.ndarray


def populations(
    sessions: Sessions,
    *,
    horizon: int = 5,
    pilot: int = 50_000,
    front_share: float = 0.9,
    who: Who = "all",
    seed: int = 0,
) -> Populations:
    """A pilot of which ``front_share`` entered by the front page, and all others who entered elsewhere.

    ``who`` is ``all`` sessions, or those that are ``changing`` section at least once, which can only be known
    afterwards.
    """
    if not 0 < front_share <= 1:
        raise InvalidInput("front_share", front_share, "in (0, 1]", "give the pilot's share of front-page readers")
    pages = sessions.changes(horizon)
    if who == "changing":
        pages = pages[pages[:, 1] != LEFT]
    random = np.random.default_rng(seed)
    front = pages[:, 0] == 0
    by_front, elsewhere = (random.permutation(np.flatnonzero(mask)) for mask in (front, ~front))
    split = round(pilot * front_share)
    if not (0 < split <= len(by_front) and pilot - split < len(elsewhere)):
        bound = f"at most {len(by_front):,} by the front page and {len(elsewhere) - 1:,} elsewhere"
        raise InvalidInput("pilot", pilot, bound, "use a smaller pilot")
    chosen = np.sort(np.concatenate([by_front[:split], elsewhere[: pilot - split]]))
    return Populations(pages[chosen], pages[np.sort(elsewhere[pilot - split :])])


def pilot_log(pages: np.ndarray) -> pl.DataFrame:
    """The long table for :func:`reticent.worlds.fit`: how readers moved, without any suggestion.

    One row per page change: user, step, arrived and page (the state), the next ones (empty where the reader left),
      the entry section (a public group), one action and no reward.
    """
    horizon = pages.shape[1] - 1
    present = pages[:, :-1] != LEFT
    user, step = np.nonzero(present)
    sections = pl.Series([*SECTIONS, None])
    following = pages[user, step + 1]
    return pl.DataFrame(
        {
            "user": user,
            "step": step,
            "arrived": pl.Series(np.where(step == 0, ENTERED, MOVED)),
            "page": sections.gather(pages[user, step].astype(np.int64)),
            "action": pl.Series(["browse"]).gather(np.zeros(len(user), np.int64)),
            "reward": np.zeros(len(user)),
            "next_arrived": pl.Series([MOVED, None]).gather((following == LEFT).astype(np.int64)),
            "next_page": sections.gather(following.astype(np.int64)),
            "entry": sections.gather(pages[user, 0].astype(np.int64)),
        }
    ).filter(pl.col("step") < horizon)


def fit_pilot(
    pages: np.ndarray,
    candidates: int | tuple[int, int] = 4,
    *,
    seed: int = 0,
    grouped: bool = True,
    history: int | Literal["auto"] = 1,
    **options: Any,
) -> Fitted:
    """Candidates for the decision problem from a pilot; ``options`` are those of :func:`reticent.worlds.fit`.

    With ``grouped`` false, readers are of one kind each instead of entry sections being blends. With a ``history`` above
    1, or ``auto``, the last sections are the state instead of (arrived, page).
    """
    horizon = pages.shape[1] - 1
    log, columns = pilot_log(pages), CHAIN
    if history != 1:
        log = log.drop("arrived", "next_arrived").rename({"next_page": "next"})
        columns = dataclasses.replace(CHAIN, state=("page",))
    chain = fit(
        log,
        horizon=horizon,
        candidates=candidates,
        columns=columns if grouped else dataclasses.replace(columns, group=None),
        categories={"arrived": (ENTERED, MOVED), "page": SECTIONS},
        seed=seed,
        source="msnbc.com's readers",
        origin=Provenance("public", f"{len(pages):,} sessions of msnbc.com, 28 September 1999"),
        history=history,
        **options,
    )
    coding = CODING if history == 1 else _coding_of(chain.coding)
    kernel = suggesting(chain.kernel, _shown(coding))
    entered = np.asarray(chain.model.initial)[:-1]
    initial = np.append(entered, np.zeros(coding.states - len(entered)))
    names = Names(coding.state_names, coding.action_names, coding.history)
    model = dataclasses.replace(
        model_of(kernel, horizon, initial, dense=history == 1), about=About(names, chain.model.about.provenance)
    )
    return dataclasses.replace(chain, kernel=kernel, coding=coding, names=names, model=model)


def _coding_of(chain: Coding) -> Coding:
    """The decision problem's coding where the chain remembers pages: whether the suggestion is left is not remembered."""
    left, _, page = CODING.parts
    plain = dataclasses.replace(CODING, parts=(left, page))
    known = chain.history
    contexts = tuple((code,) for code in range(LEFT)) if known is None else known.contexts
    history = History(1 if known is None else known.depth, LEFT, plain.observation_names, contexts)
    return dataclasses.replace(plain, history=history)


def _shown(coding: Coding) -> np.ndarray:
    """The section that is shown in each state of the chain, before it is known whether the suggestion is left."""
    if coding.history is None:
        return np.arange(2 * LEFT) % LEFT
    return np.array([context[-1] for context in coding.history.contexts])


def suggesting(chain: Kernel, shown: np.ndarray | None = None) -> Kernel:
    """The decision problem of candidate chains whose states show a section (by default (arrived, page)), and over."""
    shown = np.arange(2 * LEFT) % LEFT if shown is None else shown
    moments = over = len(shown)
    inside = chain.pair != over
    page, following, chances = chain.pair[inside], chain.following[inside], chain.chances[inside]
    actions, states = CODING.actions, 2 * moments + 1
    last = states - 1
    hits = np.zeros((moments, LEFT + 1, chain.d))
    np.add.at(hits, (page, np.append(shown, LEFT)[following]), chances)
    pairs, nexts, weights = [], [], []
    for left in (0, 1):  # 0: the suggestion is still to be made
        for action in range(actions):
            spent = 1 if left or action else 0
            pairs.append((left * moments + page) * actions + action)
            nexts.append(np.where(following == over, last, spent * moments + following))
            weights.append(chances)
    pairs.append(last * actions + np.arange(actions))
    nexts.append(np.full(actions, last))
    weights.append(np.ones((actions, chain.d)))
    rewards = np.zeros((states, actions, chain.d))
    rewards[:moments, 1:] = hits[:, :LEFT]
    pair, nexts_all, weight = np.concatenate(pairs), np.concatenate(nexts), np.concatenate(weights)
    order = np.lexsort((nexts_all, pair))
    return Kernel(states, actions, pair[order], nexts_all[order], weight[order], rewards.reshape(-1, chain.d))


def empirical(pages: np.ndarray) -> Kernel:
    """The decision problem of some readers' own first-order chain; a page that none of them saw ends the session."""
    moments, over = 2 * LEFT, 2 * LEFT
    counts = np.zeros((moments, moments + 1))
    for step in range(pages.shape[1] - 1):
        now, then = pages[:, step].astype(np.int64), pages[:, step + 1].astype(np.int64)
        here = now != LEFT
        state = now[here] + (LEFT if step else 0)
        np.add.at(counts, (state, np.where(then[here] == LEFT, over, LEFT + then[here])), 1)
    counts[counts.sum(axis=1) == 0, over] = 1
    rows = counts / counts.sum(axis=1, keepdims=True)
    pair, following = np.nonzero(rows)
    chain = Kernel(
        moments + 1, 1, np.append(pair, over), np.append(following, over),
        np.append(rows[pair, following], 1.0)[:, None], np.zeros((moments + 1, 1)),
    )  # fmt: skip
    return suggesting(chain)


def nearest_blend(fitted: Fitted, pages: np.ndarray) -> np.ndarray:
    """The weights of a fit's candidates that explain best how some readers moved."""
    kernel, history = fitted.kernel, fitted.coding.history
    if history is None:
        context = pages.astype(np.int64) + np.where(np.arange(pages.shape[1]) == 0, 0, LEFT)
    else:
        context = contexts_of(pages, history)
    user, step = np.nonzero(pages[:, :-1] != LEFT)
    following = np.where(pages[user, step + 1] == LEFT, kernel.states - 1, context[user, step + 1])
    counts = np.zeros((kernel.states, kernel.states))
    np.add.at(counts, (context[user, step], following), 1)
    # Without a suggestion: action 0 in states whose suggestion is still to be made.
    plain = (kernel.pair % kernel.actions == 0) & (kernel.pair // kernel.actions < kernel.states // 2)
    return best_blend(kernel.chances[plain], counts[kernel.pair[plain] // kernel.actions, kernel.following[plain]])


def recorded_users(pages: np.ndarray, coding: Coding = CODING) -> RecordedUsers:
    """Readers for exact replay, whose states are as ``coding`` says: of a fit, if it remembers pages."""
    answers = {"pages": pages.astype(np.int64)}
    first: Callable[[Mapping[str, Any]], Any] = _first
    respond: Callable[[Mapping[str, Any], int, Any, Any], tuple[Any, Any]] = _respond
    if coding.history is not None:
        answers["contexts"] = contexts_of(pages, coding.history)
        first, respond = _first_context, _Remembering(len(coding.history.contexts))
    return RecordedUsers(
        answers,
        first,
        respond,
        coding.states,
        coding.actions,
        pages.shape[1] - 1,
        "pages do not depend on the suggestion, which these readers never saw",
    )


def contexts_of(pages: np.ndarray, history: History) -> np.ndarray:
    """The context of every page of readers ``(readers, H + 1)``; any number after they have left."""
    steps = np.tile(np.arange(pages.shape[1]), len(pages))
    inside = np.minimum(pages, LEFT - 1).astype(np.int64)
    return states_of(history, inside.ravel(), steps).reshape(pages.shape)


def _first_context(answers: Mapping[str, Any]) -> Any:
    return answers["contexts"][..., 0]


@dataclasses.dataclass(frozen=True)
class _Remembering:
    """What a reader does where states are ``size`` contexts, first with and then without the suggestion, and over."""

    size: int

    def __call__(self, answers: Mapping[str, Any], step: int, state: Any, action: Any) -> tuple[Any, Any]:
        now, then = answers["pages"][..., step], answers["pages"][..., step + 1]
        left = (state < self.size) * 1
        spent = 1 - left * (action == 0)
        over = ((now == LEFT) | (then == LEFT)) * 1
        following = spent * self.size + answers["contexts"][..., step + 1]
        return over * 2 * self.size + (1 - over) * following, 1.0 * left * (action - 1 == then) * (1 - over)


def _first(answers: Mapping[str, Any]) -> Any:
    return answers["pages"][..., 0]


def _respond(answers: Mapping[str, Any], step: int, state: Any, action: Any) -> tuple[Any, Any]:
    now, then = answers["pages"][..., step], answers["pages"][..., step + 1]
    gone, leaving = now == LEFT, then == LEFT
    left = (state < 2 * LEFT) * 1
    spent = 1 - left * (action == 0)
    following = spent * 2 * LEFT + LEFT + then
    last = CODING.states - 1
    hit = left * (action - 1 == then) * (1 - leaving * 1)
    over = (gone | leaving) * 1
    return over * last + (1 - over) * following, 1.0 * hit
