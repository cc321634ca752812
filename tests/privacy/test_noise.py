# SPDX-License-Identifier: Apache-2.0
"""Noise sources: the right distribution (and not 10% off), fork, types, and the exact grid arithmetic.

Statistical tests fail on correct code with probability at most 1e-6 each; simulation keys are fixed, secure draws
cannot be.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from client_tests import PredictableEntropy, forbid
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import chi2, kstest

from reticent.errors import InvalidInput
from reticent.privacy import noise as noise_module
from reticent.privacy.noise import (
    GRID_BITS,
    MINIMUM_BITS,
    GridNoise,
    SecureNoise,
    delta_for_gaussian,
    discretization_delta,
    grid_for,
    quantize,
    quantized_sensitivity,
    require_deployable,
    touched_draws,
)
from reticent.privacy.simulation_noise import SimulationNoise


@pytest.fixture(autouse=True)
def only_secure_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of a deployment that asks ``random`` or NumPy fails, in every test."""
    SecureNoise()  # OpenDP asks ``random`` when it is imported, for something else
    forbid(monkeypatch.setattr)


N = 40_000
FALSE_ALARM = 5e-7  # for each of the two parts of ``fits``


def fits(sample: np.ndarray, sigma: float) -> bool:
    """Shape by Kolmogorov-Smirnov and scale by the chi-square law of the sum of squares.

    With N = 40 000 the sum of squares lies 20 of its standard deviations off at a scale of 0.9, so the test's power
    there is 1 for all purposes.
    """
    z = sample.ravel() / sigma
    tail = min(chi2.cdf((z**2).sum(), z.size), chi2.sf((z**2).sum(), z.size))
    return bool(2 * tail > FALSE_ALARM and kstest(z, "norm").pvalue > FALSE_ALARM)


def simulated(sigma: float) -> np.ndarray:
    return np.asarray(SimulationNoise(jax.random.key(7)).draw(jnp.full((N,), sigma)))


def secure(sigma: float) -> np.ndarray:
    return SecureNoise().draw(np.full((N,), sigma)).values


@pytest.mark.parametrize("source", [simulated, secure])
def test_distribution_passes_at_its_scale_and_fails_ten_percent_off(source: Callable[[float], np.ndarray]) -> None:
    sigma = 3.7
    assert fits(source(sigma), sigma)
    assert not fits(source(0.9 * sigma), sigma)
    assert not fits(source(1.1 * sigma), sigma)


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_shape_alone_tells_ten_percent(factor: float) -> None:
    # the Kolmogorov-Smirnov part must not be a passenger
    assert kstest(simulated(factor) / 1.0, "norm").pvalue < FALSE_ALARM


def test_secure_noise_on_the_coarsest_grid_is_still_gaussian_and_fills_all_residues() -> None:
    noise = SecureNoise().draw(np.full((8_000,), 1.0), grid=2.0**-MINIMUM_BITS)
    assert fits(noise.values, 1.0)
    # Every residue mod 8 equally likely up to 1e-100: χ² with 7 degrees of freedom, false alarm 1e-6.
    counts = np.bincount(noise.integers % 8, minlength=8)
    assert ((counts - 1000.0) ** 2 / 1000.0).sum() < chi2.isf(1e-6, 7)


def test_secure_noise_scales_by_coordinate() -> None:
    scale = np.stack([np.full(4_000, 1.0), np.full(4_000, 6.0)], axis=1)
    noise = SecureNoise().draw(scale)
    assert isinstance(noise, GridNoise)
    assert noise.integers.dtype == np.int64
    assert noise.integers.shape == scale.shape
    assert noise.grid == grid_for(1.0)
    np.testing.assert_array_equal(noise.values / noise.grid, noise.integers)
    assert fits(noise.values[:, 0], 1.0)
    assert fits(noise.values[:, 1], 6.0)
    # Independence of the two columns: the correlation is N(0, 1/4000) up to 1e-3; 5 sd is a false alarm of 6e-7.
    assert abs(np.corrcoef(noise.values.T)[0, 1]) < 5 / math.sqrt(4_000)


FORK = """
import json, os, sys
from reticent.privacy.noise import SecureNoise
import numpy as np
source, scale = SecureNoise(), np.ones(8)
source.draw(scale)  # whatever state there is exists before the fork
draws = []
for _ in range(2):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, json.dumps(source.draw(scale).integers.tolist()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        draws.append(json.loads(pipe.read()))
    os.waitpid(child, 0)
draws.append(source.draw(scale).integers.tolist())
print(json.dumps(draws))
"""


def test_forked_children_and_their_parent_draw_differently() -> None:
    # In a process of its own: pytest's has JAX threads running, which fork does not copy. The chance of one equal
    # coordinate is about 2^-25 and of an equal vector 2^-200.
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, check=True)
    draws = json.loads(run.stdout)
    assert [len(draw) for draw in draws] == [8, 8, 8]
    assert len({tuple(draw) for draw in draws}) == 3


def test_simulation_sources_are_reproducible_and_separate() -> None:
    root, scale = SimulationNoise(jax.random.key(0)), jnp.ones(5)
    np.testing.assert_array_equal(root.for_round(3).draw(scale), root.for_round(3).draw(scale))
    sources = [root, *(root.for_round(t) for t in range(4)), *(root.for_counter(i) for i in range(4))]
    sources += [root.for_counter(i).for_round(t) for i in range(3) for t in range(3)]
    assert len({float(source.draw(scale)[0]) for source in sources}) == len(sources)
    np.testing.assert_array_equal(root.draw([1] * 5), root.draw(scale))  # type: ignore[arg-type]


def test_simulation_noise_under_transformations() -> None:
    root = SimulationNoise(jax.random.key(0))
    scale = jnp.array([1.0, 2.0], jnp.float32)

    def draw(source: SimulationNoise, t: jax.Array) -> jax.Array:
        return source.for_round(t).draw(scale)

    rows = jax.jit(jax.vmap(draw, in_axes=(None, 0)))(root, jnp.arange(3))
    assert rows.dtype == jnp.float32
    np.testing.assert_allclose(rows, jnp.stack([draw(root, jnp.asarray(t)) for t in range(3)]), rtol=1e-6)
    keys = SimulationNoise(jax.random.split(jax.random.key(0), 6))
    assert jax.vmap(lambda source: source.draw(scale))(keys).shape == (6, 2)


def test_only_secure_noise_is_deployable() -> None:
    assert isinstance(require_deployable(SecureNoise()), SecureNoise)
    with pytest.raises(InvalidInput, match=r"SimulationNoise.*reticent\[secure\]"):
        require_deployable(SimulationNoise(jax.random.key(0)))
    with pytest.raises(InvalidInput, match="noise source is int"):
        require_deployable(3)


def test_secure_noise_takes_no_seed() -> None:
    with pytest.raises(TypeError):
        SecureNoise(0)  # type: ignore[call-arg]


def test_missing_opendp_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(ImportError, match=r"pip install 'reticent\[secure\]'"):
        SecureNoise()


@settings(deadline=None)
@given(st.floats(1e-12, 1e12), st.integers(10, 40))
def test_grid_is_the_largest_power_of_two(sigma: float, bits: int) -> None:
    grid = grid_for(sigma, bits)
    assert math.frexp(grid)[0] == 0.5
    assert grid * 2**bits <= sigma < 2 * grid * 2**bits


values = hnp.arrays(np.float64, 6, elements=st.floats(-100.0, 100.0))


@settings(deadline=None)
@given(values, values)
def test_rounding_moves_neighbours_apart_by_at_most_what_is_stated(x: np.ndarray, y: np.ndarray) -> None:
    grid = 0.25
    moved = np.linalg.norm((quantize(x, grid) - quantize(y, grid)) * grid)
    assert moved <= quantized_sensitivity(float(np.linalg.norm(x - y)), grid, 6) * (1 + 1e-12)


def test_rounding_bound_is_nearly_attained() -> None:
    x, y = np.full(6, 0.49999), np.full(6, 0.50001)
    moved = np.linalg.norm(quantize(x, 1.0) - quantize(y, 1.0))
    assert moved >= 0.999 * quantized_sensitivity(float(np.linalg.norm(x - y)), 1.0, 6)


def test_discretization_bound_holds_against_exact_sums() -> None:
    # At the coarsest grid, χ² between the rounded and the discrete Gaussian, by summation over ten deviations.
    from scipy.special import ndtr

    s = 2.0**MINIMUM_BITS
    k = np.arange(-10 * s, 1)  # one side, where the distribution function has full relative precision
    discrete = np.exp(-(k**2) / (2 * s * s)) / math.sqrt(2 * math.pi) / s
    rounded = ndtr((k + 0.5) / s) - ndtr((k - 0.5) / s)
    terms = discrete * (rounded / discrete - 1) ** 2
    divergence = 2 * terms.sum() - terms[-1]
    assert divergence == pytest.approx(2 / 576 / s**4, rel=1e-2)
    assert divergence < 1 / (143 * s**4)
    one = 2 * discretization_delta(1, 0.0, MINIMUM_BITS) / 4  # (1 + e⁰)·TV/2
    assert one >= 0.25 * math.sqrt(divergence)


def test_discretization_is_negligible_at_the_default_grid() -> None:
    assert discretization_delta(10**6, 1.0) < 1e-12
    assert discretization_delta(10**6, 1.0, GRID_BITS) == discretization_delta(10**6, 1.0)
    assert discretization_delta(0, 1.0) == 0.0
    assert discretization_delta(10**30, 0.0, MINIMUM_BITS) == 2.0


def test_an_epsilon_whose_exponential_overflows_is_answered() -> None:
    """Simulations, whose noise is continuous, use ε = 1000 for next to no noise; a deployment's is refused by name."""
    assert discretization_delta(0, 1000.0) == 0.0
    assert delta_for_gaussian(1e-5, 1000.0, 0) == 1e-5
    with pytest.raises(InvalidInput, match="epsilon"):
        delta_for_gaussian(1e-5, 1000.0, 100)


def test_noise_is_below_the_integers_that_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    assert abs(SecureNoise().draw(1e-3).values) < 0.1
    assert not noise_module._discrete_gaussian(1e-3, 20).any()  # so narrow a law is 0 but for a chance of e^-500000
    monkeypatch.setattr(noise_module, "_discrete_gaussian", lambda scale, size: np.full(size, 2**53))
    with pytest.raises(InvalidInput, match=r"2\^53"):
        SecureNoise().draw(1.0)


def test_discrete_noise_has_its_share_of_delta() -> None:
    """A late report is in two rounds; a block of a counter that is half touched is touched; halves of noise are finer."""
    assert (touched_draws(6), touched_draws(6, 2.0), touched_draws(6, 2.5)) == (12, 24, 36)
    cost = discretization_delta(1000, 2.0, GRID_BITS - 1)
    assert delta_for_gaussian(1e-5, 2.0, 1000) == 1e-5 - cost
    assert delta_for_gaussian(1.5 * cost, 2.0, 1000) == pytest.approx(0.5 * cost)
    for nothing_left in (cost, 0.5 * cost):
        with pytest.raises(InvalidInput, match="delta"):
            delta_for_gaussian(nothing_left, 2.0, 1000)


def test_bad_input_is_named() -> None:
    source = SecureNoise()
    for scale in (0.0, -1.0, math.nan, math.inf, []):
        with pytest.raises(InvalidInput, match="scale"):
            source.draw(scale)
    with pytest.raises(InvalidInput, match=r"grid is 0\.3"):
        source.draw(1e6, grid=0.3)
    with pytest.raises(InvalidInput, match=r"grid is 1\.0"):
        source.draw(1.0, grid=1.0)
    with pytest.raises(InvalidInput, match="one grid per counter"):
        source.draw([1.0, 1e30])
    for value in (math.nan, math.inf, 1e30):
        with pytest.raises(InvalidInput, match="clip before rounding"):
            quantize(np.array([0.0, value]), 2.0**-10)
    with pytest.raises(InvalidInput, match=r"jax\.random\.key"):
        SimulationNoise(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="sigma"):
        grid_for(0.0)
    with pytest.raises(InvalidInput, match="sensitivity"):
        quantized_sensitivity(-1.0, 1.0, 2)
    with pytest.raises(InvalidInput, match="dimension"):
        quantized_sensitivity(1.0, 1.0, 0)
    with pytest.raises(InvalidInput, match="draws"):
        discretization_delta(-1, 1.0)
    with pytest.raises(InvalidInput, match="bits"):
        discretization_delta(1, 1.0, 4)


def test_a_predictable_generator_is_found_where_secure_noise_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in (
        lambda scale, size: np.random.default_rng().normal(0, scale, size).round().astype(np.int64),
        lambda scale, size: np.random.normal(0, scale, size).round().astype(np.int64),  # noqa: NPY002
    ):
        monkeypatch.setattr(noise_module, "_discrete_gaussian", draw)
        with pytest.raises(PredictableEntropy, match=r"asked by reticent\.privacy\.noise"):
            SecureNoise().draw(np.full(3, 3.7))
