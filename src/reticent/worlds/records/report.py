# SPDX-License-Identifier: Apache-2.0
"""What a fit rests on and how far it is to be trusted, in words, in numbers and as a piece of a page."""

from __future__ import annotations

import dataclasses
import html
from typing import Any

from reticent.worlds.records.evidence import CandidateInterval, RewardEvidence
from reticent.worlds.records.misfit import Misfit
from reticent.worlds.records.statistics import Pooling

SHOWN = 8
"""How many names of pairs are listed before the rest is counted."""

LITTLE = 0.05
"""A gain over acting at random, as a share of what that earns, below which little is at stake."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """How well d candidates explain held-out users.

    Attributes:
      candidates: d.
      likelihood: held-out log-likelihood per user.
      behind: how much less that is than the best one's, and ``error``, the standard error of this difference (paired).
    """

    candidates: int
    likelihood: float
    behind: float
    error: float


@dataclasses.dataclass(frozen=True)
class Depth:
    """A length of history and what held-out users say of it.

    Attributes:
      depth: how many observations are in the state. ``states``: how many there are then.
      likelihood: held-out log-likelihood per user.
      behind, error: how much less that is than the best one's, and the standard error of this difference (paired).
      value: mean return of its plan in held-out users' own model; None where nothing is paid.
      gain, gain_error: how much more that is than without a history, and its standard error (jackknife).
    """

    depth: int
    states: int
    likelihood: float
    behind: float
    error: float
    value: float | None = None
    gain: float | None = None
    gain_error: float | None = None


@dataclasses.dataclass(frozen=True)
class FitReport:
    """What the candidates of a fit rest on.

    Attributes:
      source: the log. ``users``, ``rows``, ``transitions``: its size; ``groups``: 0 where users are of one kind each.
      horizon, states, actions: of the model.
      shorter, longer: how many users have fewer and more rows than the horizon. ``notes``: what was changed in reading.
      trained: number of users that the candidates were fitted to; the others were held out.
      single: how many users have one row.
      smoothing, pooling: pseudo-counts that held-out users chose, or as given. ``starts``, ``seed``: as given.
      choices: held-out likelihood by number of candidates; empty if no user was held out.
      candidates: d of the model; ``shares`` of the candidates among training users.
      intervals: what each candidate pays where training users went, with 90 % intervals.
      apart, rewards_apart: least and mean distance between two candidates, averaged over what training users visited: total
        variation of transitions, and mean rewards.
      depth: how many observations are in the state; ``depths``: what held-out users say of it and of others, if they
        were asked.
      alike: where entries are declared, the share of training users' weight that all have alike; None elsewhere.
      room: for kinds of users, what the blend's plan earns and what plans would that are told the kind; None elsewhere.
      evidence: whether the log has enough rewards to learn from; None where rewards never differ.
      untried: names of (state, action) that no training user tried although the state was met; ``untried_share`` of
        all such pairs.
      unmet: how many states no training user acted in.
      misfit: what held-out users say; None if no user was held out.
    """

    source: str
    users: int
    rows: int
    transitions: int
    groups: int
    horizon: int
    states: int
    actions: int
    shorter: int
    longer: int
    notes: tuple[str, ...]
    trained: int
    single: int
    smoothing: float
    pooling: Pooling
    starts: int
    seed: int
    choices: tuple[Choice, ...]
    candidates: int
    shares: tuple[float, ...]
    intervals: tuple[CandidateInterval, ...]
    apart: tuple[float, float]
    rewards_apart: tuple[float, float]
    depths: tuple[Depth, ...]
    depth: int
    alike: float | None
    room: tuple[float, float] | None
    evidence: RewardEvidence | None
    untried: tuple[str, ...]
    untried_share: float
    unmet: int
    misfit: Misfit | None

    @property
    def doubt(self) -> str:
        """Why nothing should be learned from this log; empty if it says enough."""
        if self.evidence is None:
            return (
                f"all {self.rows:,} rewards are the same: nothing tells what pays more, and there is nothing to learn"
            )
        return "" if self.evidence.enough else self.evidence.sentence()

    @property
    def stake(self) -> str:
        """What the right actions are worth, where that is little; empty otherwise."""
        values = None if self.misfit is None else self.misfit.values
        if values is None or values.random <= 0 or self.doubt:
            return ""
        best = max(values.own, values.blend, values.pilot)
        gain = best / values.random - 1
        if gain >= LITTLE:
            return ""
        return (
            f"little is at stake: the best plan earns {best:.4f} and acting at random {values.random:.4f} "
            f"({100 * gain:+.1f}%) with held-out users"
        )

    def warnings(self) -> tuple[str, ...]:
        """What a person should know before using the candidates."""
        told = [text for text in (self.doubt, self.stake) if text]
        if self.untried:
            listed = "; ".join(self.untried[:SHOWN]) + (
                f"; and {len(self.untried) - SHOWN} more" * (len(self.untried) > SHOWN)
            )
            told.append(
                f"{len(self.untried)} pairs were never tried ({100 * self.untried_share:.0f}% of the pairs of states that "
                f"were met), and are guessed from the other actions of their state: {listed}"
            )
        if self.unmet:
            told.append(
                f"{self.unmet} of {self.states} states were never met; there nothing happens and nothing is paid"
            )
        if self.groups and self.groups < self.candidates:
            told.append(f"{self.groups} groups cannot tell {self.candidates} candidates apart: use fewer candidates")
        known = self._pair_error
        if self.candidates > 1 and self.apart[0] < 0.02 and self.rewards_apart[0] < known:
            told.append(
                f"two candidates are only {self.apart[0]:.3f} apart in transitions, and {self.rewards_apart[0]:.2g} in "
                f"rewards, which are known to ± {known:.2g}: use fewer candidates"
            )
        if self.candidates > 1 and not self.groups and self.single == self.users and not self.transitions:
            told.append(
                "every user has one row: nothing tells kinds of users apart, and candidates are arbitrary; name a column "
                "of public groups (--group)"
            )
        best = max(self.choices, key=lambda choice: choice.likelihood, default=None)
        if best is not None and best.candidates == 1:
            told.append("one model for all explains held-out users best: there is no blend to learn from this log")
        if self.misfit is not None and self.misfit.unseen > 0.01:
            told.append(
                f"{100 * self.misfit.unseen:.1f}% of held-out transitions were made by no training user: candidates call "
                "them impossible; use coarser states or more records"
            )
        return tuple(told)

    @property
    def _pair_error(self) -> float:
        """Half of a 90 % interval of one pair's reward, averaged over candidates."""
        return sum(interval.share * interval.pair_error for interval in self.intervals)

    def __str__(self) -> str:
        lines = [
            f"{self.source}: {self.users:,} users, {self.rows:,} rows, {self.transitions:,} transitions"
            + (f", {self.groups} groups" if self.groups else ""),
            f"model: {self.states} states, {self.actions} actions, horizon {self.horizon}, {self.candidates} candidates "
            f"from {self.trained:,} users; shares " + ", ".join(f"{share:.2f}" for share in self.shares),
            f"rows per user: {self.shorter:,} users have fewer than {self.horizon}, {self.longer:,} have more",
            *(f"reading: {note}" for note in self.notes),
            *_entry_lines(self.alike),
            *_depth_lines(self.depths, self.depth),
            *_room_lines(self.room),
        ]
        if self.candidates > 1:
            lines.append(
                f"candidates are {self.apart[1]:.3f} apart in transitions on average (total variation), the nearest two "
                f"{self.apart[0]:.3f}; in mean rewards {self.rewards_apart[1]:.2g}, the nearest two "
                f"{self.rewards_apart[0]:.2g}"
            )
        if self.evidence is not None:
            lines.append(
                f"rewards: {self.evidence.rewards:,} other than the usual one in {self.rows:,} rows, for "
                f"{self.evidence.pairs:,} pairs; candidates pay "
                + ", ".join(f"{each.reward:.3g} ± {each.error:.2g}" for each in self.intervals)
                + f" on average (90% intervals; of a single pair ± {self._pair_error:.2g})"
            )
        lines.append(
            f"shrinkage chosen by held-out users: pairs by {self.pooling.transitions:g} pseudo-counts (transitions) and "
            f"{self.pooling.rewards:g} (rewards), candidates by {self.smoothing:g}"
            + (f", histories towards shorter ones by {self.pooling.history:g}" if self.depth > 1 else "")
        )
        if self.choices:
            lines.append("held-out log-likelihood per user, by number of candidates:")
            lines += [
                f"  {choice.candidates:>3}  {choice.likelihood:>12.4f}  "
                + ("best" if choice.behind == 0 else f"−{choice.behind:.4f} ± {choice.error:.4f}")
                + ("  ← used" if choice.candidates == self.candidates else "")
                for choice in self.choices
            ]
        if self.misfit is not None:
            lines += _misfit_lines(self.misfit, self.horizon)
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings())])

    def to_html(self) -> str:
        """A piece of a page: no head, no styles, everything escaped."""
        paragraphs = [f"<li>{html.escape(warning)}</li>" for warning in self.warnings()]
        body = html.escape(str(self).split("\nwarning: ", maxsplit=1)[0])
        warned = f"<ul class='warnings'>{''.join(paragraphs)}</ul>" if paragraphs else ""
        title = f"<h2>Candidates from {html.escape(self.source)}</h2>"
        return f"<section class='fit'>{title}<pre>{body}</pre>{warned}</section>"

    def to_dict(self) -> dict[str, Any]:
        """For a JSON document, the warnings included."""
        content = dataclasses.asdict(self)
        return {**content, "pooling": self.pooling._asdict(), "doubt": self.doubt, "warnings": list(self.warnings())}


def _entry_lines(alike: float | None) -> list[str]:
    """How far users who enter otherwise than declared count."""
    if alike is None:
        return []
    return [f"entries: held-out users want training users to count {1 - alike:g} × as declared, and {alike:g} × alike"]


def _room_lines(room: tuple[float, float] | None) -> list[str]:
    """How much there is to earn from a user's own kind."""
    if room is None:
        return []
    blend, known = room
    return [
        f"kinds: within the model one plan for all earns {blend:.4f}, and plans that are told the kind {known:.4f} "
        f"({100 * (known / blend - 1) if blend > 0 else 0:+.1f}%): a belief closes part of that, more in long episodes"
    ]


def _depth_lines(depths: tuple[Depth, ...], used: int) -> list[str]:
    """How much history is in the state, and why."""
    if not depths:
        return [f"history: the last {used} observations are the state"] if used > 1 else []
    chosen = next(one for one in depths if one.depth == used)
    first = depths[0]
    if used == 1:
        told = "history does not matter: the present observation explains held-out users as well as more"
    else:
        told = (
            f"history matters: the last {used} observations are the state, as held-out users are explained better by "
            f"{chosen.likelihood - first.likelihood:.4f} per user (± {first.error:.4f})"
        )
        if chosen.gain is not None and chosen.value is not None:
            told += f", and the plan earns {chosen.value:.4f} ({chosen.gain:+.4f} ± {chosen.gain_error:.4f})"
    rows = [
        f"  {one.depth:>3}  {one.states:>6} states  {one.likelihood:>12.4f}  "
        + ("best" if one.behind == 0 else f"−{one.behind:.4f} ± {one.error:.4f}")
        + ("" if one.value is None else f"  plan {one.value:.4f}")
        + ("  ← used" if one.depth == used else "")
        for one in depths
    ]
    return [told, "held-out log-likelihood per user, by observations in the state:", *rows]


def _misfit_lines(misfit: Misfit, horizon: int) -> list[str]:
    zeta, paid, values = misfit.transition, misfit.reward, misfit.values
    lines = [
        f"held-out users ({misfit.users:,}, {misfit.transitions:,} transitions) against the blend that explains them best "
        f"({', '.join(f'{weight:.2f}' for weight in misfit.weights)}):",
        f"  misspecification ζ = {zeta.estimate:.3f} (between {zeta.lower:.3f} and {zeta.upper:.3f}; 90% interval "
        f"{zeta.interval[0]:.3f} to {zeta.interval[1]:.3f}), of rewards {paid.estimate:.3f} "
        f"({paid.lower:.3f} to {paid.upper:.3f})",
        f"  what it may cost: at most {misfit.bound:.3f} of {horizon} per episode (simulation lemma)",
    ]
    if values is not None:
        lines.append(
            f"  what it does cost, in their own model: plan of the blend {values.blend:.4f}, of others' own model "
            f"{values.own:.4f} ({values.loss:+.4f} ± {values.loss_error:.4f}), of the training users' shares "
            f"{values.pilot:.4f}, at random {values.random:.4f}"
        )
    return lines
