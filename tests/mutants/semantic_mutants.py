# SPDX-License-Identifier: Apache-2.0
"""Broken variants that bit-for-bit goldens or nothing would notice: of meaning, of options, of what may be read.

Importing this registers them.
"""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import fixes_taken_out as planted
import interrupted_examinations as interrupted
import jax
import jax.numpy as jnp
import numpy as np
import semantic_examinations as meaning
from option_replay import SEEN, SEVERAL

from mutants import QUICK, Patch, mutant
from reticent.agents.score import options, planning, posterior
from reticent.agents.score.dynamic_programming import Backward, Moments
from reticent.agents.score.learner import ScoreLearner
from reticent.cli import rehearse as rehearse_command
from reticent.experiments.rehearsal import rehearsal
from reticent.inference import contrast
from reticent.privacy import noise
from reticent.privacy.accounting import account
from reticent.service.embedded import DeployedAgent
from reticent.simulation import engine
from reticent.worlds.records import disjoint, fitting

MANY, LIKELIHOOD, CONTROLS = (
    meaning.option_replayed(option) for option in (SEVERAL, "likelihood, contributions", "control group")
)
PUBLIC = SEEN

QUICK |= {
    "drift-alarm-reads-raw-rewards",
    "control-group-counted-by-raw-data",
    "bonus-of-the-wrong-sign",
    "moments-mixed-with-the-wrong-share",
    "mean-not-projected",
    "local-noise-counted-once",
    "radius-of-another-round",
    "known-rewards-in-the-vector",
    "rehearsal-of-the-hidden-truth",
    "outcomes-as-they-come",
    "noise-with-a-guessable-sign",
    "discrete-delta-left-out",
    "origin-assumed-public",
    "pilot-among-the-protected",
    "interrupted-round-drawn-again",
    "interrupted-report-counted-twice",
}


# -- options that are off by default ------------------------------------------------------------------------------------


def _closing(patch: Patch, change: Any) -> None:
    """The flagship ends a round, and then ``change(agent, raw sum, posteriors before, posteriors after)`` is believed."""
    real = ScoreLearner.close

    def close(self: ScoreLearner, state: Any, plan: Any, users: Any, drawn: Any = None) -> Any:
        after = real(self, state, plan, users, drawn)
        return after._replace(past=change(self, state.aggregate.open, state.past, after.past))

    patch.setattr(ScoreLearner, "close", close)


@mutant("flagship, alarm on: the alarm looks at the raw sum of the round", MANY, PUBLIC)
def drift_alarm_reads_raw_rewards(patch: Patch) -> None:
    def change(self: ScoreLearner, raw: Any, before: Any, after: Any) -> Any:
        if not math.isfinite(self.alarm):
            return after
        quiet = jnp.abs(raw).sum() < 0.1
        return jax.tree.map(lambda new, old: jnp.where(quiet, 0 * new, new), after, before)

    _closing(patch, change)


@mutant("flagship, half-life on: what is forgotten follows the raw sum", MANY, PUBLIC)
def forgetting_follows_raw_data(patch: Patch) -> None:
    def change(self: ScoreLearner, raw: Any, before: Any, after: Any) -> Any:
        kept = 1 / (1 + jnp.abs(raw).sum()) if math.isfinite(self.half_life) else 1.0
        return after._replace(transitions=jax.tree.map(lambda leaf: kept * leaf, after.transitions))

    _closing(patch, change)


@mutant("flagship, unknown start: where users begin is read from the raw sum", MANY, PUBLIC)
def first_states_read_raw(patch: Patch) -> None:
    def change(self: ScoreLearner, raw: Any, before: Any, after: Any) -> Any:
        if not self.starts:
            return after
        began = raw.ravel()[-self.starts :]
        return after._replace(
            starts=jax.tree.map(lambda leaf: leaf + (began if leaf.shape == began.shape else 0), after.starts)
        )

    _closing(patch, change)


@mutant("flagship, likelihood: the fit is measured on the raw sum", LIKELIHOOD, PUBLIC)
def fit_measured_on_raw_data(patch: Patch) -> None:
    def change(self: ScoreLearner, raw: Any, before: Any, after: Any) -> Any:
        return after._replace(fit=after.fit._replace(last=(raw**2).sum()) if self.score == "likelihood" else after.fit)

    _closing(patch, change)


@mutant("flagship, control group: its share is weighed by what its users sent", CONTROLS, PUBLIC)
def control_group_counted_by_raw_data(patch: Patch) -> None:
    real = ScoreLearner.close

    def close(self: ScoreLearner, state: Any, plan: Any, users: Any, drawn: Any = None) -> Any:
        mixed = plan.extension.mixed_policies
        if mixed is not None:
            sent = jnp.abs(state.aggregate.open).sum()
            share = mixed.share * (1 + sent * jnp.arange(mixed.share.size))
            moved = mixed._replace(share=share / share.sum())
            plan = plan._replace(extension=plan.extension._replace(mixed_policies=moved))
        return real(self, state, plan, users, drawn)

    patch.setattr(ScoreLearner, "close", close)


# -- what numbers mean --------------------------------------------------------------------------------------------------


@mutant("flagship: the bonus has the wrong sign", meaning.hopeful(), "below the greedy one")
def bonus_of_the_wrong_sign(patch: Patch) -> None:
    real = planning.plan_backward

    def backward(model: Any, estimate: Any, doubt: Any, *rest: Any) -> Backward:
        found = real(model, estimate, doubt, *rest)
        if doubt is None:
            return found
        plain = real(model, estimate, None, *rest)
        return found._replace(values=2 * plain.values - found.values)

    patch.setattr(planning, "plan_backward", backward)


@mutant("flagship: the moments of explorers are weighed by the share of the others", meaning.moments_simulated(),
        "standard errors off")  # fmt: skip
def moments_mixed_with_the_wrong_share(patch: Patch) -> None:
    real = Moments.mixed
    patch.setattr(Moments, "mixed", lambda self, other, share: real(self, other, 1 - share))


@mutant("flagship: the posterior mean is not moved into the simplex", meaning.on_the_simplex(), "outside the simplex")
def mean_not_projected(patch: Patch) -> None:
    patch.setattr(posterior, "nearest_weights", lambda coordinates, theta, strength: theta)


@mutant("flagship, local: the noise of a whole round is taken for one report's", meaning.covered_locally(),
        "local ellipsoids hold")  # fmt: skip
def local_noise_counted_once(patch: Patch) -> None:
    real = options._learner

    def make(*given: Any, **named: Any) -> Any:
        return dataclasses.replace(real(*given, **named), noised_reports=False)

    patch.setattr(options, "_learner", make)


@mutant("flagship: a round's vectors are divided by the first round's radius", meaning.own_round(),
        "radius of another round")  # fmt: skip
def radius_of_another_round(patch: Patch) -> None:
    real = ScoreLearner.plan

    def plan(self: ScoreLearner, state: Any, **asked: Any) -> Any:
        made = real(self, state, **asked)
        reference = made.extension.reference._replace(radius=self.radii[0])
        return made._replace(extension=made.extension._replace(reference=reference))

    patch.setattr(ScoreLearner, "plan", plan)


@mutant("a round is given the noise of the round before it", meaning.own_round(), "the same noise")
def noise_key_of_another_round(patch: Patch) -> None:
    real = engine._round_noise
    patch.setattr(engine, "_round_noise", lambda agent, key, number: real(agent, key, jnp.maximum(number - 1, 0)))


@mutant("flagship: known rewards are learned all the same", meaning.without_rewards(), "numbers are sent")
def known_rewards_in_the_vector(patch: Patch) -> None:
    real = options.reward_coordinates
    patch.setattr(options, "reward_coordinates", lambda model: real(dataclasses.replace(model, known_rewards=None)))


@mutant("flagship: a reward that is known is added to the vector's first number", meaning.without_rewards(),
        "depends on rewards")  # fmt: skip
def known_rewards_in_a_value(patch: Patch) -> None:
    real = ScoreLearner.statistic
    patch.setattr(
        ScoreLearner, "statistic", lambda self, plan, episode: real(self, plan, episode).at[0].add(episode.rewards[0])
    )


# -- what may be read ---------------------------------------------------------------------------------------------------


@mutant("a rehearsal is given the world's own truth", meaning.rehearsed_alike(), "hidden truth")
def rehearsal_of_the_hidden_truth(patch: Patch) -> None:
    import reticent.worlds as worlds

    real, last = rehearse_command.the_model, []

    def remembered(given: str) -> Any:
        last[:] = [worlds.make_world(given)]
        return real(given)

    patch.setattr(rehearse_command, "the_model", remembered)
    patch.setattr(rehearsal, "draw_truths", lambda model, count, **_: last * count)


@mutant("effects: outcomes are taken as they come", meaning.outcomes_clipped(), "moves more than")
def outcomes_as_they_come(patch: Patch) -> None:
    class Unclipped:
        def __getattr__(self, name: str) -> Any:
            return (lambda values, low, high: values) if name == "clip" else getattr(np, name)

    patch.setattr(contrast, "np", Unclipped())


@mutant("the sign of secure noise comes from Python's generator", meaning.system_entropy(), "generator of Python")
def noise_with_a_guessable_sign(patch: Patch) -> None:
    real = noise._discrete_gaussian
    patch.setattr(noise, "_discrete_gaussian", lambda scale, size: random.choice([-1, 1]) * real(scale, size))


@mutant("secure noise that is 0 is drawn again by NumPy", meaning.system_entropy(), "generator of Python or NumPy")
def zero_noise_redrawn_by_numpy(patch: Patch) -> None:
    real = noise._discrete_gaussian

    def redrawn(scale: float, size: int) -> Any:
        drawn = real(scale, size)
        return np.where(drawn == 0, np.random.default_rng().integers(1, 3, size), drawn)

    patch.setattr(noise, "_discrete_gaussian", redrawn)


@mutant("what is spent leaves out the delta of discrete noise (we had this one)", meaning.spent_in_full(),
        "leaves out the delta")  # fmt: skip
def discrete_delta_left_out(patch: Patch) -> None:
    real = account.epsilon_spent
    patch.setattr(account, "epsilon_spent", lambda mu, delta, draws: real(mu, delta, 0))


@mutant("records whose origin is not said are taken for public (we had this one)", meaning.origin_asked(),
        "not said are fitted")  # fmt: skip
def origin_assumed_public(patch: Patch) -> None:
    real = fitting.fit
    patch.setattr(fitting, "fit", lambda log, **given: real(log, **{"origin": "public", **given}))


@mutant(
    "candidates are fitted to people who are to be protected", meaning.people_apart(), "who is protected|another reason"
)
def pilot_among_the_protected(patch: Patch) -> None:
    patch.setattr(fitting, "require_disjoint", lambda *given: None)


@mutant("names of people in two tables are compared as they are written: 3 and 3.0 are two (we had this one)",
        meaning.people_apart(), "who is protected")  # fmt: skip
def names_compared_as_they_are_written(patch: Patch) -> None:
    patch.setattr(disjoint, "plain_name", lambda name: name)


# -- interruptions ------------------------------------------------------------------------------------------------------


mutant(
    "an interrupted round is released again with fresh noise (we had this one)",
    interrupted.in_order(),
    "released with other noise",
)(planted.interrupted_round_drawn_again)


@mutant("a report is counted before its ticket is used up (we had this one)", interrupted.reports(), "counted twice")
def interrupted_report_counted_twice(patch: Patch) -> None:
    def late(self: DeployedAgent, user: Any, contribution: Any, reference: int | None) -> None:
        ticket = self._out[user.user]
        self._count(self._reported(self._formed_under(ticket), ticket.place, contribution, reference))
        self._redeem(user.user)

    patch.setattr(DeployedAgent, "_submit_late", late)
