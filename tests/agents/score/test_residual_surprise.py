# SPDX-License-Identifier: Apache-2.0
"""Users who change, told from candidates that are wrong: the surprise of blend and residuals together."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

from reticent.agents import make_agent
from reticent.agents.score.coordinates import simplex_coordinates
from reticent.agents.score.evidence import Evidence
from reticent.agents.score.joint_posterior import joint_posterior
from reticent.agents.score.posterior import Posterior
from reticent.agents.score.residual_surprise import Cells, surprise_of_cells
from reticent.runtime import double_precision
from reticent.simulation.non_stationary import simulate_non_stationary
from reticent.simulation.simulate import simulate
from reticent.worlds.registry import make_world
from reticent.worlds.transforms.non_stationary import phases_of

PAIRS, SIZE, DIRECTIONS = 5, 3, 4


def spd(draw: np.random.Generator, *shape: int) -> np.ndarray:
    root = draw.normal(size=shape)
    return root @ np.swapaxes(root, -1, -2)


class Case:
    """Random numbers in the place of what releases and plans say; one group of steps."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        self.coordinates = simplex_coordinates(SIZE + 1, 1.0)
        self.covariance = spd(draw, DIRECTIONS, DIRECTIONS) / 20
        self.information = 10 * spd(draw, PAIRS, DIRECTIONS, 2)  # not of full rank: few directions were asked for
        self.slopes, self.centre = draw.normal(size=(PAIRS, DIRECTIONS, SIZE)), draw.normal(size=(PAIRS, DIRECTIONS))
        self.own = 5 * spd(draw, SIZE, SIZE)
        self.coupling, self.response = 3 * draw.normal(size=(2, PAIRS, SIZE, DIRECTIONS))
        self.jacobian, self.gain = draw.normal(size=(2, SIZE, SIZE))
        self.noise, self.start = spd(draw, SIZE, SIZE) + np.eye(SIZE), draw.normal(size=SIZE) / 10
        self.draw = draw

    def joint(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of (η, δ, newest release) the prior precision of (η, δ), and how the releases depend on them, written out."""
        return (
            np.diag(np.full(SIZE, 1 / float(self.coordinates.variance))),
            np.kron(np.eye(PAIRS), np.linalg.inv(self.covariance)),
            np.concatenate([self.own, *self.coupling], axis=1),
            np.concatenate([self.jacobian, *(self.gain @ one for one in self.response)], axis=1),
        )

    def cells_see(self) -> np.ndarray:
        """Ψ_q η + δ_q of all cells, as a matrix on (η, δ)."""
        return np.concatenate([self.slopes.reshape(-1, SIZE), np.eye(PAIRS * DIRECTIONS)], axis=1)

    def block_diagonal(self) -> np.ndarray:
        every = np.zeros((PAIRS * DIRECTIONS,) * 2)
        for pair, one in enumerate(self.information):
            at = slice(pair * DIRECTIONS, (pair + 1) * DIRECTIONS)
            every[at, at] = one
        return every

    def drawn(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Moments of both blocks and the newest release, as the model says they are."""
        draw, prior = self.draw, float(self.coordinates.variance)
        eta = draw.normal(size=SIZE) * prior**0.5
        delta = draw.multivariate_normal(np.zeros(DIRECTIONS), self.covariance, PAIRS)
        own = self.own @ eta + np.einsum("qkz,qz->k", self.coupling, delta)
        own = own + draw.multivariate_normal(np.zeros(SIZE), self.own)
        rows = self.centre + self.slopes @ eta + delta
        cells = np.stack([one @ row for one, row in zip(self.information, rows, strict=True)])
        cells += np.stack([draw.multivariate_normal(np.zeros(DIRECTIONS), one) for one in self.information])
        released = self.jacobian @ (eta - self.start) + np.einsum("ij,qjz,qz->i", self.gain, self.response, delta)
        return own, cells, released + draw.multivariate_normal(np.zeros(SIZE), self.noise)

    def surprise(self, own: np.ndarray, cells: np.ndarray, released: np.ndarray) -> jax.Array:
        """By the code that is tested."""
        mine = Posterior(jnp.asarray(self.own)[None], jnp.asarray(own)[None])
        around = cells - np.einsum("qij,qj->qi", self.information, self.centre)
        both = joint_posterior(
            jnp.asarray(self.information), jnp.asarray(around), jnp.asarray(self.slopes), jnp.asarray(self.covariance),
            Posterior(mine.information[0], mine.moment[0]), jnp.asarray(self.coupling),
        )  # fmt: skip
        evidence = Evidence(*(
            jnp.asarray(one)[None] for one in (self.jacobian, self.noise, released, self.start, self.gain)
        ))  # fmt: skip
        known = Cells(
            jnp.asarray(self.information)[None], jnp.asarray(cells)[None], jnp.asarray(self.centre),
            jnp.asarray(self.slopes), jnp.asarray(self.covariance), jnp.asarray(self.coupling)[None],
            jnp.asarray(self.response)[None],
        )  # fmt: skip
        return surprise_of_cells(
            self.coordinates, mine, Posterior(both.information[None], both.moment[None]), evidence, known
        )


@double_precision
@pytest.mark.parametrize("seed", range(4))
def test_the_surprise_is_that_of_one_gaussian_of_blend_and_all_residuals(seed: int) -> None:
    """Written out: condition (η, δ_1 … δ_Q) on both blocks at once, and ask what is left of the newest release."""
    case = Case(seed)
    own, cells, released = case.drawn()
    blend, residuals, seen, newest = case.joint()
    prior = np.zeros((SIZE + PAIRS * DIRECTIONS,) * 2)
    prior[:SIZE, :SIZE], prior[SIZE:, SIZE:] = blend, residuals
    by_cells, every = case.cells_see(), case.block_diagonal()
    precision = prior + by_cells.T @ every @ by_cells + seen.T @ np.linalg.solve(case.own, seen)
    around = cells - np.einsum("qij,qj->qi", case.information, case.centre)
    mean = np.linalg.solve(precision, by_cells.T @ around.ravel() + seen.T @ np.linalg.solve(case.own, own))
    left = released - (newest @ mean - case.jacobian @ case.start)
    spread = case.noise + newest @ np.linalg.solve(precision, newest.T)
    assert float(case.surprise(own, cells, released)) == pytest.approx(left @ np.linalg.solve(spread, left), rel=1e-6)


@double_precision
def test_the_surprise_has_its_distribution() -> None:
    """Mean of χ² with 3 degrees of freedom, and its 5 % tail, over 4 000 draws: within 5 s.e. (false alarm below 1e-6)."""
    case = Case(11)
    drawn = [case.drawn() for _ in range(4000)]
    parts = (np.stack(part) for part in zip(*drawn, strict=True))
    lengths = np.asarray(jax.vmap(lambda *one: case.surprise(*one))(*parts))
    assert abs(lengths.mean() - 3) < 5 * np.sqrt(6 / 4000)
    assert abs((lengths > chi2.isf(0.05, 3)).mean() - 0.05) < 5 * np.sqrt(0.05 * 0.95 / 4000)


@pytest.mark.verify
def test_wrong_candidates_are_no_alarm_and_changed_users_are() -> None:
    wrong = make_world("random-blend:misspecification=0.2")
    agent = make_agent("private-score-vi:alarm=0.001", wrong.model, 20_000)
    # One early alarm is no loss: before the second round nothing tells wrong candidates from other users. Without residuals
    # in the surprise it is 3 to 7 alarms a run, and twice the regret.
    curves = simulate(agent, wrong, range(8))
    assert int(curves.carry.state.past.alarms.max()) <= 2
    assert curves.regret[:, -1].mean() < 750
    world = make_world("random-blend:states=4,actions=3,horizon=3,d=3")
    phases = phases_of(world, [4000], seed=10)
    agent = make_agent("private-score-vi:epsilon=4,growth=1.2,alarm=0.001,residual=on", world.model, 8000)
    alarms = simulate_non_stationary(agent, phases, [0, 1, 2, 3]).carry.state.past.alarms
    assert (np.asarray(alarms) >= 1).all()
