# SPDX-License-Identifier: Apache-2.0
"""The law of the noise of every path that adds any: its size per coordinate, its tails, and that no draw comes twice.

Expected scales are worked out here from the promise, not read from the code under test. Tests are chi-square tests over a
few hundred real draws; false alarms are below 1e-6 in all.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from durable import deployment
from scipy.stats import binom, chi2

from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import mu_of
from reticent.privacy.noise import SecureNoise
from reticent.service.embedded import DeployedAgent
from reticent.service.mechanism import Mechanism, make_mechanism
from reticent.service.store import records
from reticent.worlds import Episode, make_world
from reticent_client.report import noised_report
from reticent_wire.boundary import Clipped

RIVER = make_world("riverswim:states=3,horizon=2").model
COUNTS = "private-ucb-vi:counter=epochs,first=2,growth=1,epsilon=3"
LOCAL = "private-ucb-vi:trust=local,first=2,growth=1,epsilon=3"
DRAWS = 300
FALSE_ALARM = 1e-7

SIGMA = math.sqrt(2) * math.sqrt(3 * RIVER.horizon) / mu_of(3.0, 1e-5)
"""σ of counts under replace adjacency: three tables a step, each moved by √2, together of strength μ(ε, δ)."""


def nobody() -> Episode:
    """An episode whose contribution is known: rewards are 0, and she stays in the first state."""
    steps = RIVER.horizon
    return Episode(np.zeros(steps + 1, int), np.zeros(steps, int), np.zeros(steps))


def mechanism_draw(spec: str, **options: Any) -> Callable[[], np.ndarray]:
    mechanism = make_mechanism(spec, RIVER, 4, SecureNoise(), **options)
    return lambda: mechanism._draw(()) * mechanism.grid


def server_round() -> np.ndarray:
    mechanism = make_mechanism(COUNTS, RIVER, 4, SecureNoise())
    noise = mechanism.round_noise()
    assert noise is not None
    return noise.reshape(mechanism.noise_scale.shape) * mechanism.grid


def embedded_release() -> np.ndarray:
    """What one round of two users whose contribution is known releases, less that."""
    agent = DeployedAgent(COUNTS, RIVER, 4, SecureNoise())
    exact = 2 * agent.report(nobody()) * agent.mechanism.grid
    for user in range(2):
        agent.submit(user, nobody())
    return np.asarray(agent.mechanism.sums.released_sums(agent._state.aggregate)) - exact


def embedded_report() -> np.ndarray:
    agent = DeployedAgent(LOCAL, RIVER, 4, SecureNoise())
    silent = make_mechanism(LOCAL, RIVER, 4, SecureNoise()).published
    board = agent.mechanism.billboard(0, agent.mechanism.agent.init())
    return (agent.report(nobody()) - silent.steps(board.published, nobody())) * agent.mechanism.grid


def device_report() -> np.ndarray:
    mechanism = make_mechanism(LOCAL, RIVER, 4, SecureNoise())
    board, known = mechanism.billboard(0, mechanism.agent.init()).published, mechanism.published
    return (noised_report(known, board, Clipped(nobody())) - known.steps(board, nobody())) * known.rules.grid


def repeated(draw: Callable[[], np.ndarray], times: int) -> np.ndarray:
    return np.array([draw().ravel() for _ in range(times)])


def looks_wrong(noise: np.ndarray, sigma: float) -> list[str]:
    """What is wrong with draws ``(n, D)`` of independent noise of this standard deviation."""
    units, wrong = noise / sigma, []
    draws, width = units.shape
    low, high = chi2.ppf([FALSE_ALARM / width, 1 - FALSE_ALARM / width], draws)
    squares = (units**2).sum(axis=0)
    wrong += [f"size of coordinate {i}" for i in np.flatnonzero((squares < low) | (squares > high))]
    low, high = chi2.ppf([FALSE_ALARM, 1 - FALSE_ALARM], units.size)
    wrong += ["size"] if not low < squares.sum() < high else []
    for reach, chance in ((3.0, math.erfc(3 / math.sqrt(2))), (4.0, math.erfc(4 / math.sqrt(2)))):
        beyond = int((np.abs(units) > reach).sum())
        if not binom.ppf(FALSE_ALARM, units.size, chance) <= beyond <= binom.isf(FALSE_ALARM, units.size, chance):
            wrong.append(f"tail beyond {reach:g}σ")
    if abs(units.mean()) * math.sqrt(units.size) > 5.5:
        wrong.append("mean")
    if not units.any(axis=1).all():
        wrong.append("a draw of zeros")
    if len({row.tobytes() for row in units}) < draws:
        wrong.append("a draw came twice")
    # Neighbouring draws and neighbouring coordinates are independent: their correlations are of order 1/√n.
    for name, one, other in (("draws", units[1:], units[:-1]), ("coordinates", units[:, 1:], units[:, :-1])):
        if abs((one * other).mean()) * math.sqrt(one.size) > 5.5:
            wrong.append(f"neighbouring {name} are correlated")
    return wrong


PATHS: dict[str, tuple[Callable[[], Callable[[], np.ndarray]], float]] = {
    "round noise": (lambda: mechanism_draw(COUNTS), SIGMA),
    "round noise of three contributions": (lambda: mechanism_draw(COUNTS, contributions=3), 3 * SIGMA),
    "half of pan-private noise": (lambda: mechanism_draw(COUNTS, pan_private=True), SIGMA),
    "local noise": (lambda: mechanism_draw(LOCAL), SIGMA),
    "local noise of a pan-private deployment": (lambda: mechanism_draw(LOCAL, pan_private=True), SIGMA),
}


@pytest.mark.parametrize("path", PATHS)
def test_every_draw_of_the_mechanism_has_the_promised_law(path: str) -> None:
    """In pan-private mode the agent plans with √2·σ, in two halves of σ each."""
    make, sigma = PATHS[path]
    noise = repeated(make(), DRAWS)
    assert looks_wrong(noise, sigma) == []
    # It can fail: noise that is 15% too small, or 15% of it forgotten, is seen.
    assert looks_wrong(0.85 * noise, sigma) != []
    assert looks_wrong(np.where(np.arange(DRAWS)[:, None] % 7 == 0, 0.0, noise), sigma) != []


@pytest.mark.parametrize("path", [server_round, embedded_release, embedded_report, device_report])
def test_every_entry_adds_it_once(path: Callable[[], np.ndarray]) -> None:
    """From a fresh agent each time, as an entry is used: what comes out less what went in."""
    noise = repeated(path, 60)
    assert looks_wrong(noise, SIGMA) == []
    assert looks_wrong(0.85 * noise, SIGMA) != []


def test_the_services_releases_have_it_too(tmp_path: Path) -> None:
    """Sixty rounds of one user in the store: each release less the exact sums is noise of its own."""
    service = deployment(tmp_path, COUNTS.replace("first=2", "first=1"), 60, RIVER)
    mechanism, released = service.mechanism, []
    exact = mechanism.contribution(service.billboard(0), nobody()) * mechanism.grid
    for user in range(60):
        opened = service.admit(f"user {user}")
        service.submit_trajectory(opened.token, opened.episode, *nobody())
    service.finish()
    service.advance()
    with service.store.read() as tx:
        for number in range(60):
            released.append(np.frombuffer(records.round_of(tx, number).release, "<f8"))
    # Rounds of one size: a release is the running sum, so differences are single rounds.
    noise = np.diff(np.array(released), axis=0, prepend=0.0) - exact.ravel()
    assert looks_wrong(noise, SIGMA) == []
    assert looks_wrong(0.85 * noise, SIGMA) != []


@pytest.mark.parametrize(("contrasts", "places"), [(False, (0, 3, 5, 8)), (True, (0, 3, 5, 6))])
def test_scales_follow_from_the_promise(contrasts: bool, places: tuple[int, ...]) -> None:
    """The regressions' noise: the groups' μ² add up to the promise's, each from its own sensitivity, recomputed here."""
    blend = make_world("random-blend:states=4,actions=3,horizon=3,d=2").model
    mechanism: Mechanism = make_mechanism(
        f"private-linopt-vi:epsilon=2,contrasts={contrasts}", blend, 60, SecureNoise()
    )
    bounds, scale = mechanism.published.rules.bounds, mechanism.noise_scale
    square = 0.0
    for step in range(blend.horizon):
        gram_p, moment_p, gram_r, moment_r = (scale[step, at] for at in places)
        reach = max(abs(bounds["target_low"][step]), abs(bounds["target_high"][step]))
        longest = bounds["feature_bound"][step]
        if longest > 0:
            ratio = (gram_p / moment_p * reach / longest) ** 2
            assert ratio <= 2
            square += (math.sqrt(2) * longest**2 * (1 + ratio / 2) / gram_p) ** 2
        ratio = (gram_r / moment_r * max(abs(bounds["reward_low"][step]), abs(bounds["reward_high"][step]))) ** 2
        distance = math.sqrt(1 + ratio) if bounds["nonnegative_rewards"] else 1 + ratio / 2
        square += (math.sqrt(2) * distance / gram_r) ** 2
    assert math.sqrt(square) == pytest.approx(mu_of(2.0, 1e-5), rel=1e-5)
    drawn = repeated(lambda: mechanism._draw(())[scale > 0] * mechanism.grid / scale[scale > 0], DRAWS)
    assert looks_wrong(drawn, 1.0) == []


# -- the grid -----------------------------------------------------------------------------------------------------------


def on_grid(spec: str, grid: float, episodes: int = 4) -> Mechanism:
    """The mechanism as made, but on another grid."""
    mechanism = make_mechanism(spec, RIVER, episodes, SecureNoise())
    sums = dataclasses.replace(mechanism.agent.aggregator, grid=jnp.asarray(grid))
    agent = dataclasses.replace(mechanism.agent, aggregator=sums)
    return Mechanism.of(agent, mechanism.guarantee, mechanism.noise_factor, mechanism.pan_private, mechanism.source)


@pytest.mark.parametrize("spec", [COUNTS, LOCAL])
def test_a_grid_that_is_too_coarse_or_too_fine_is_not_deployed(spec: str) -> None:
    """σ/grid ≥ 2^10, and every sum below 2^53 steps: checked when a deployment is made, on public numbers alone."""
    coarse = 2.0 ** math.floor(math.log2(SIGMA) - 10)
    if spec == COUNTS:
        on_grid(spec, coarse).require_exact_sums()
    else:  # rounding to it was not calibrated for, and a device works that out by itself
        with pytest.raises(InvalidInput, match="do not send"):
            on_grid(spec, coarse).require_exact_sums()
    with pytest.raises(InvalidInput, match="grid"):
        on_grid(spec, 2 * coarse).require_exact_sums()
    with pytest.raises(InvalidInput, match=r"2\^53"):
        on_grid(spec, 2.0**-50).require_exact_sums()
    with pytest.raises(InvalidInput, match=r"2\^53"):  # as many users as that would add up to more
        on_grid(spec, 2.0**-40, episodes=10_000).require_exact_sums()
    on_grid(spec, 2.0**-40).require_exact_sums()


def test_a_sum_that_is_not_exact_is_not_released() -> None:
    mechanism = make_mechanism(COUNTS, RIVER, 4, SecureNoise())
    state = mechanism.agent.init()
    board, noise = mechanism.billboard(0, state), mechanism.round_noise()
    total = np.zeros(mechanism.noise_scale.shape, np.int64)
    mechanism.close(0, state, board, total, noise)
    total[0, 0] = 2**53
    with pytest.raises(InvalidInput, match=r"2\^53"):
        mechanism.close(0, state, board, total, noise)
