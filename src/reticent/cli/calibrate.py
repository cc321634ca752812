# SPDX-License-Identifier: Apache-2.0
"""``reticent calibrate``: what a promise costs in noise, or what a noise is worth as a promise."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli.options import Json

if TYPE_CHECKING:
    from reticent.agents.linear_mixture.privacy_plan import PrivacyPlan
    from reticent.privacy.guarantee import Guarantee
    from reticent.privacy.ledger import CounterShare


@dataclasses.dataclass(frozen=True)
class DeclaredSizes:
    """The sizes of a model that need not exist yet."""

    horizon: int
    d1: int
    d2: int
    stationary: bool
    sums_to_one: bool = False
    nonnegative_rewards: bool = False

    @property
    def transition_bound(self) -> float:
        return math.sqrt(self.d1)

    @property
    def transition_theta_bound(self) -> float:
        return math.sqrt(self.d1)

    @property
    def reward_theta_bound(self) -> float:
        return math.sqrt(self.d2)


def calibrate(
    agent: Annotated[
        str | None,
        typer.Option(
            help="A private agent, such as private-ucb-vi:law=laplace, in --world.",
            show_default="private-linopt-vi, by the sizes below",
        ),
    ] = None,
    world: Annotated[str, typer.Option(help="With --agent: the world whose model it gets.")] = "mobile-health",
    epsilon: Annotated[float | None, typer.Option(help="The promise ε.")] = None,
    delta: Annotated[float, typer.Option(help="The promise δ; less than one over the number of users.")] = 1e-5,
    horizon: Annotated[int, typer.Option(help="H, steps per episode.")] = 5,
    episodes: Annotated[int, typer.Option(help="K, number of users.")] = 10_000,
    d1: Annotated[int, typer.Option(help="Number of candidate transition models.")] = 4,
    d2: Annotated[int, typer.Option(help="Number of reward features.")] = 4,
    counter: Annotated[
        str | None, typer.Option(help="epochs, blt, toeplitz, tree-reduced or tree [default: epochs; paper: tree]")
    ] = None,
    calibration: Annotated[str, typer.Option(help="exact, or paper (its formulas to the letter).")] = "exact",
    adjacency: Annotated[
        str | None, typer.Option(help="replace or zero-out [default: replace; paper: zero-out, as its proof states]")
    ] = None,
    trust: Annotated[
        str, typer.Option(help="joint (the server is trusted), shuffle (a shuffler is) or local.")
    ] = "joint",
    alpha: Annotated[float, typer.Option(help="Failure probability of the confidence sets.")] = 0.05,
    final_release: Annotated[
        bool, typer.Option(help="Whether the policy learned from all K users is published too.")
    ] = True,
    span: Annotated[str, typer.Option(help="Range of values assumed: seen, step or horizon.")] = "seen",
    centred: Annotated[bool, typer.Option(help="Centre values before they become features.")] = True,
    split: Annotated[str, typer.Option(help="How the budget is shared out: optimised or even.")] = "optimised",
    pool: Annotated[bool, typer.Option(help="Add up the sums of all steps (for a stationary model).")] = False,
    noise_multiplier: Annotated[
        float | None,
        typer.Option(help="The reverse: σ/sensitivity of every counter is given, ε is the answer."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the noise that a promise (ε, δ) needs, or with --noise-multiplier the promise that a noise gives.

    With --agent, for any private agent in a world; without, for private-linopt-vi by the sizes of a model that need not
    exist yet.
    """
    from reticent.errors import InvalidInput

    if agent is not None:
        _show_guarantee(_promised(agent, world, episodes, {"epsilon": epsilon, "delta": delta}), as_json)
        return
    if (epsilon is None) == (noise_multiplier is None):
        given = "both" if epsilon is not None else "neither"
        raise InvalidInput("--epsilon and --noise-multiplier", given, "exactly one of the two", "give one of them")
    for field, value in (("horizon", horizon), ("episodes", episodes), ("d1", d1), ("d2", d2)):
        if value < 1:
            raise InvalidInput(field, value, "at least 1", "correct the value")
    sizes = DeclaredSizes(horizon, d1, d2, stationary=pool)
    options = {
        "trust": trust,
        "delta": delta,
        "counter": counter,
        "calibration": calibration,
        "adjacency": adjacency or ("zero-out" if calibration == "paper" else "replace"),
        "alpha": alpha,
        "final_release": final_release,
        "span": span,
        "centred": centred,
        "split": split,
        "pool": pool,
        "shift_scale": 1.0,
    }
    if noise_multiplier is None:
        content = _forward(sizes, episodes, {**options, "epsilon": epsilon})
    else:
        content = _reverse(sizes, episodes, {**options, "epsilon": 1.0}, noise_multiplier)
    _show(content, as_json)


def _promised(spec: str, world: str, episodes: int, flags: dict[str, Any]) -> Guarantee:
    """What the agent promises in that world; flags fill what its spec leaves open, where it has such options."""
    from reticent.agents import AGENTS, make_agent
    from reticent.errors import InvalidInput
    from reticent.naming import split
    from reticent.privacy.guarantee import guarantee_of
    from reticent.worlds import make_world

    options = AGENTS.find(split(spec)[0]).options
    meant = {key: value for key, value in flags.items() if key in options}
    guarantee = guarantee_of(make_agent(spec, make_world(world).model, episodes, **meant))
    if guarantee is None:
        raise InvalidInput("agent", spec, "one that promises privacy", "`reticent agents` says what each promises")
    return guarantee


def _show_guarantee(guarantee: Guarantee, as_json: bool) -> None:
    from reticent.cli.output import print_json, print_table

    if as_json:
        print_json({**guarantee.to_dict(), "counters": [row._asdict() for row in guarantee.sums]})
        return
    print(guarantee.sentence())
    law = guarantee.ledger.account.law
    print(f"{guarantee.releases} releases by {guarantee.ledger.counter}; {law} noise")
    print_table(
        ("sum", "step", "one user moves it by", "noise scale", "largest release noise"),
        [
            (row.name, str(row.step), *(f"{number:.6g}" for number in (row.sensitivity, row.scale, row.largest)))
            for row in guarantee.sums
        ],
    )
    print(f"Not covered: {'; '.join(guarantee.not_covered)}.")


def _plan(sizes: DeclaredSizes, episodes: int, options: dict[str, Any]) -> PrivacyPlan:
    from reticent.agents import AGENTS
    from reticent.agents.linear_mixture.privacy_plan import PrivateOptions, plan_privacy

    # The agent's option reader checks words against their choices and answers with the right ones.
    entry = AGENTS.find("private-linopt-vi")
    words = {key: value for key, value in options.items() if isinstance(value, str)}
    chosen = PrivateOptions(**{**options, **entry.read(words)})
    return plan_privacy(sizes, episodes, "value-iteration", chosen)


def _forward(sizes: DeclaredSizes, episodes: int, options: dict[str, Any]) -> dict[str, Any]:
    plan = _plan(sizes, episodes, options)
    calibration = plan.calibration
    content = {**_summary(plan, episodes, calibration.mu, calibration.epsilon), **_constants(plan)}
    content["counters"] = [_row(share, share.sigma, _largest_std(plan)) for share in calibration.shares()]
    if calibration.trust.wire == "messages":
        content["messages_per_user"] = plan.messages(sizes).tolist()
    return content


def _reverse(sizes: DeclaredSizes, episodes: int, options: dict[str, Any], multiplier: float) -> dict[str, Any]:
    from reticent.errors import InvalidInput

    if not (math.isfinite(multiplier) and multiplier > 0):
        raise InvalidInput("noise_multiplier", multiplier, "a finite number above 0", "it is σ over the sensitivity")
    plan = _plan(sizes, episodes, options)
    rows = [_row(share, multiplier * share.sensitivity, _largest_std(plan)) for share in plan.calibration.shares()]
    mu = plan.calibration.counter_sensitivity * math.sqrt(len(rows)) / multiplier
    content = _summary(plan, episodes, mu, plan.calibration.epsilon_at(mu))
    return {**content, "noise_multiplier": multiplier, "counters": rows}


def _row(share: CounterShare, sigma: float, largest: float) -> dict[str, Any]:
    return {
        "name": share.name,
        "step": share.step,
        "sensitivity": share.sensitivity,
        "sigma": sigma,
        "release_std_max": sigma * largest,
    }


def _largest_std(plan: PrivacyPlan) -> float:
    from reticent.agents.linear_mixture.certificate import release_multipliers

    ends = plan.schedule.ends[: plan.schedule.releases]
    return float(release_multipliers(plan.calibration, ends).max())


def _summary(plan: PrivacyPlan, episodes: int, mu: float, epsilon: float) -> dict[str, Any]:
    from reticent.privacy.accounting.gaussian import zcdp_epsilon, zcdp_of

    delta = plan.options.delta
    tree = plan.calibration.counter.name.startswith("tree")
    return {
        "trust": plan.options.trust,
        "adjacency": plan.options.adjacency,
        "calibration": plan.options.calibration,
        "counter": plan.calibration.counter.name,
        "episodes": episodes,
        "releases": plan.schedule.releases,
        "levels": round(plan.calibration.counter_sensitivity**2) if tree else 1,
        "counter_sensitivity": plan.calibration.counter_sensitivity,
        "late_report_ratio": plan.calibration.late_report_ratio,
        "mu": mu,
        "epsilon": epsilon,
        "epsilon_spent": plan.calibration.epsilon_at(mu),
        "delta": delta,
        "zcdp": zcdp_of(mu),
        "epsilon_by_zcdp": zcdp_epsilon(zcdp_of(mu), delta),
    }


def _constants(plan: PrivacyPlan) -> dict[str, Any]:
    """λ_min, λ_max, ν and β: the worst over rounds, at each regression's most demanding step."""
    certificate, radii = plan.regularization.certificate, plan.radii
    return {
        name: {
            "lambda_min": float(getattr(certificate, f"{name}_lambda_min").max()),
            "lambda_max": float(getattr(certificate, f"{name}_lambda_max").max()),
            "nu": float(getattr(certificate, f"{name}_nu").max()),
            "beta": float(getattr(radii, name).max()),
        }
        for name in ("transition", "reward")
    }


def _show(content: dict[str, Any], as_json: bool) -> None:
    from reticent.cli.output import print_json, print_table

    if as_json:
        print_json(content)
        return
    print(
        f"{content['trust']} privacy, {content['adjacency']} adjacency, calibration {content['calibration']!r}, "
        f"counter {content['counter']!r}: {content['releases']} releases over {content['episodes']} users"
    )
    print(
        f"mu {content['mu']:.6g}   epsilon {content['epsilon']:.6g} at delta {content['delta']:g}   "
        f"really spent {content['epsilon_spent']:.6g}   (zCDP would say {content['epsilon_by_zcdp']:.6g})"
    )
    print_table(
        ("counter", "step", "sensitivity", "sigma", "largest release noise"),
        [
            (row["name"], str(row["step"]), *(f"{row[key]:.6g}" for key in ("sensitivity", "sigma", "release_std_max")))
            for row in content["counters"]
        ],
    )
    if "transition" in content:
        print_table(
            ("regression", "λ_min", "λ_max", "ν", "β"),
            [
                (name, *(f"{content[name][key]:.6g}" for key in ("lambda_min", "lambda_max", "nu", "beta")))
                for name in ("transition", "reward")
            ],
        )
        if "messages_per_user" in content:
            first, *_, last = content["messages_per_user"] * 2
            print(f"one-bit messages per user: {first:,} in the first epoch, {last:,} in the last")
        print("λ, ν and β are the theory's (bonus_scale 1, shift_scale 1), the worst over rounds and steps.")
