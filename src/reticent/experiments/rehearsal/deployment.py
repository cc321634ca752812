# SPDX-License-Identifier: Apache-2.0
"""The file that ``reticent serve`` reads, as a rehearsal would have it."""

from __future__ import annotations

import textwrap

from reticent.errors import InvalidInput
from reticent.experiments.rehearsal.rehearsal import Rehearsal


def deployment_text(found: Rehearsal, *, model_file: str | None = None, world: str | None = None) -> str:
    """``deployment.yaml`` for the chosen agent, with what the rehearsal says of it as a comment.

    ``model_file`` or ``world`` says where the service finds the model.

    Raises:
      InvalidInput: nothing private was run, so there is nothing to deploy.
    """
    chosen = found.chosen
    if chosen is None:
        raise InvalidInput("rehearsal", "without any private agent", "at least one that applies", "see what is absent")
    remark = "\n".join(f"# {line}" for line in textwrap.wrap(answer(found), 116))
    where = f"model_file: {_quoted(model_file)}" if model_file is not None else f"world: {_quoted(world or '')}"
    return (
        f"# Written by reticent rehearse; read by reticent serve --config.\n{remark}\n"
        f"{where}\nagent: {_quoted(chosen.agent)}\nepisodes: {found.users}\n"
    )


def answer(found: Rehearsal) -> str:
    """What to deploy and how good it will be, in words that need no background."""
    chosen = found.chosen
    if chosen is None and found.interrupted:
        return "Nothing private was finished: there is no answer, and nothing to serve."
    if chosen is None:
        return "Nothing private applies to this model."
    target = f"{100 * found.target:g}%"
    regret, end, until = chosen.total_regret, chosen.end, chosen.reached(found.target)
    words = (
        f"{chosen.agent}: over {found.truths:,} drawn truths, {found.users:,} users lose {regret.mean:,.0f} in all "
        f"on average ({regret.low_end:,.0f} to {regret.high_end:,.0f} in nine of ten truths); the final gap is "
        f"{percent(end.mean)} of what acting at random loses, at most {percent(end.high)} in nine of ten."
    )
    if end.high > found.target:
        words += (
            f" No trust model at ε = {chosen.epsilon:g} ends below {target} in nine of ten truths: this loses least."
        )
    words = f"{words} {users_words(until.median, until.high, target, found.users)} {worth(found, regret.mean)}"
    if found.belief is not None:
        words = f"Users without a kind: {words} {found.belief.words()}"
    origin = found.model.about.provenance
    if origin is not None and origin.doubt:
        words = f"DO NOT RELY ON THIS: the candidates rest on too little ({origin.doubt}). {words}"
    mixed = found.with_shuffler
    if mixed is not None:
        words += (
            f" With a shuffler, trust={mixed.trust} would ask less of users and lose {mixed.total_regret.mean:,.0f}: "
            f"choose it with --trust {mixed.trust}, and see docs/shuffle.md for the shuffler that it needs."
        )
    elif chosen.needs_shuffler:
        words += (
            " It needs a shuffler beside the service: docs/shuffle.md; `reticent users` runs one for simulated users."
        )
    return words


def worth(found: Rehearsal, regret: float) -> str:
    """Whether learning pays, in words: compared with one plan for all truths, which needs no data."""
    fixed = found.unlearned_regret.mean
    beside = f"One plan for all truths, without any learning, would lose {fixed:,.0f}"
    if regret < fixed:
        return f"{beside}: learning pays, it saves {100 * (1 - regret / fixed):.0f}% of that."
    return f"{beside}: LEARNING DOES NOT PAY with {found.users:,} users at this promise."


def users_words(median: float, high: float, target: str, users: int) -> str:
    """How many users it takes to the target, in words."""
    if median == float("inf"):
        return f"In most truths the gap is not below {target} for good within {users:,} users: plan for more of them."
    most = f"{high:,.0f}" if high != float("inf") else f"more than {users:,}"
    return f"The gap stays below {target} after {median:,.0f} users in half of the truths; nine in ten need K = {most}."


def percent(share: float) -> str:
    """A share of what acting at random loses, in percent."""
    return f"{100 * share:.1f}%"


def _quoted(text: str) -> str:
    """A YAML string that nothing inside it can end."""
    return "'" + text.replace("'", "''") + "'"
