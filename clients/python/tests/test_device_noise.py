# SPDX-License-Identifier: Apache-2.0
"""The device's noise: its law exactly, coin by coin, and at the scales of a deployment.

Two kinds of checks. *Exhaustive*: a sampler that is fed every possible sequence of uniform integers, with its weight, has
a law that can be added up; it must be the formula's, up to the sequences that were cut off. *Statistical*: chi-square
tests on draws from the operating system, each with a false-alarm rate of 1e-6.
"""

from __future__ import annotations

import ast
import collections
import inspect
import math
import random
import secrets
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from device_laws import normal_below, pearson_fits, squares_fit
from hypothesis import given, settings
from hypothesis import strategies as st
from only_secure_entropy import PredictableEntropy

import reticent_client
import reticent_wire
from reticent_client import InvalidInput, discrete_gaussian
from reticent_client.discrete_gaussian import DiscreteGaussian, discrete_laplace, draw, exponential_coin
from reticent_wire.grid import LARGEST_SCALE


class OutOfBranches(Exception):
    """The sequence of answers that a sampler is being fed has ended."""


def exact_law(sampler, least: Fraction) -> tuple[dict, Fraction]:
    """Probability of every outcome, by following each sequence of answers until its weight falls below ``least``.

    Answers that lead to the same decision are not merged: the sampler is a black box that asks for uniform integers.
    Returns the law found so far and the weight of what was cut off.
    """
    law, lost = collections.defaultdict(Fraction), Fraction(0)
    waiting = [((), Fraction(1))]
    while waiting:
        answers, weight = waiting.pop()
        asked = []

        def uniform(n: int, asked=asked, answers=answers) -> int:
            if len(asked) == len(answers):
                asked.append(n)
                raise OutOfBranches
            asked.append(n)
            return answers[len(asked) - 1]

        try:
            law[sampler(uniform)] += weight
        except OutOfBranches:
            share = weight / asked[-1]
            if share < least:
                lost += weight
            else:
                waiting += [((*answers, answer), share) for answer in range(asked[-1])]
    return law, lost


@pytest.mark.parametrize(("above", "below"), [(0, 1), (1, 3), (1, 1), (3, 2), (5, 2)])
def test_the_coin_has_its_exact_probability(above: int, below: int) -> None:
    law, lost = exact_law(lambda uniform: exponential_coin(above, below, uniform), Fraction(1, 10**5))
    assert law[True] <= math.exp(-above / below) * (1 + 1e-12)
    assert law[True] + lost >= math.exp(-above / below) * (1 - 1e-12)
    assert lost < 0.02


def test_the_laplace_law_is_exact() -> None:
    law, lost = exact_law(lambda uniform: discrete_laplace(2, uniform), Fraction(1, 10**6))
    total = sum(math.exp(-abs(k) / 2) for k in range(-200, 201))
    assert lost < 0.1
    for k in range(-3, 4):
        exact = math.exp(-abs(k) / 2) / total
        assert law[k] <= exact <= law[k] + lost
    # Signs are fair to the last fraction, which a second way to make zero would not leave.
    assert law[2] == law[-2]


def cells(draws: np.ndarray, scale: float, law_scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Observed and expected counts of every integer within 1.7 scales, and of the two tails."""
    reach = math.floor(1.7 * scale)
    support = np.arange(-math.ceil(40 * law_scale) - 2, math.ceil(40 * law_scale) + 3)
    mass = np.exp(-(support**2) / (2 * law_scale**2))
    mass /= mass.sum()
    clipped = np.clip(draws, -reach - 1, reach + 1)
    counts = np.bincount(clipped + reach + 1, minlength=2 * reach + 3)
    expected = np.bincount(np.clip(support, -reach - 1, reach + 1) + reach + 1, weights=mass)
    return counts, expected * len(draws)


@pytest.mark.parametrize("scale", [0.6, 1.0, 1.75, 4.3])
def test_small_scales_have_the_discrete_law(scale: float) -> None:
    draws = draw(np.full(20_000, scale), 1.0)
    assert pearson_fits(*cells(draws, scale, scale))
    # The test has power: the law of a scale 15% off is told apart (non-centrality above 250 in every case here).
    assert not pearson_fits(*cells(draws, scale, 1.15 * scale))


@pytest.mark.parametrize("scale", [2.0**24 * 1.37, 2.0**40 / 3])
def test_deployment_scales_are_gaussian_and_use_every_low_digit(scale: float) -> None:
    size = 20_000
    draws = draw(np.full(size, scale), 1.0)
    # Twenty equally likely cells; the discrete law is the Gaussian's up to 1e-13.
    place = (normal_below((draws + 0.5) / scale) * 20).astype(int)
    assert pearson_fits(np.bincount(place, minlength=20), np.full(20, size / 20))
    assert pearson_fits(np.bincount(draws % 16, minlength=16), np.full(16, size / 16))
    far = (normal_below((draws + 0.5) / (1.1 * scale)) * 20).astype(int)
    assert not pearson_fits(np.bincount(far, minlength=20), np.full(20, size / 20))


def test_each_coordinate_has_its_own_scale_in_units_of_the_grid() -> None:
    scale = np.array([[0.0, 3.0, 48.0]] * 6_000)
    draws = draw(scale, 0.25)
    assert draws.dtype == np.int64
    assert (draws[:, 0] == 0).all()
    # Sums of squares of Gaussian-like draws: chi-square up to the discreteness, which at scale 12 is below 1e-300.
    for column, wide in ((1, 12.0), (2, 192.0)):
        assert squares_fit((draws[:, column] / wide) @ (draws[:, column] / wide), 6_000)
    # 5 standard deviations of a correlation of 6 000 independent pairs: false alarm 6e-7.
    assert abs(np.corrcoef(draws[:, 1:].T)[0, 1]) < 5 / math.sqrt(6_000)


@given(st.floats(2.0**-20, 2.0**50), st.integers(-30, 4))
@settings(max_examples=60, deadline=None)
def test_the_scale_is_the_exact_quotient(scale: float, exponent: int) -> None:
    quotient = Fraction(scale) / Fraction(2.0**exponent)
    if not 0 < quotient <= LARGEST_SCALE:
        return
    law = DiscreteGaussian.of(quotient)
    assert Fraction(law.numerator, law.denominator) == quotient**2
    assert law.width - 1 <= quotient < law.width
    assert isinstance(int(draw(np.array([scale]), 2.0**exponent)[0]), int)


@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf, 2.0**50])
def test_impossible_scales_are_refused(scale: float) -> None:
    with pytest.raises(InvalidInput, match="noise scale"):
        draw(np.array([scale]), 1.0)


@pytest.mark.parametrize("grid", [0.0, -1.0, math.nan, math.inf])
def test_impossible_grids_are_refused(grid: float) -> None:
    with pytest.raises(InvalidInput, match="noise scale"):
        draw(np.array([1.0]), grid)


def test_sampling_is_free_of_floating_point_numbers() -> None:
    """From the law's making to the integer that comes out: no float literal, no math function, no true division."""
    for piece in (DiscreteGaussian.draw, discrete_laplace, exponential_coin, discrete_gaussian._short_coin):
        code = inspect.unwrap(piece).__code__
        assert not [constant for constant in code.co_consts if isinstance(constant, float)]
        assert not {"math", "float", "np", "exp"} & set(code.co_names)
    answers: list[type] = []

    def uniform(n: int) -> int:
        answers.append(type(n))
        return (len(answers) * 7919) % n  # anything that ends

    DiscreteGaussian.of(Fraction(7, 3)).draw(uniform)
    assert set(answers) == {int}


# -- entropy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda n: random.randrange(0, n),
        lambda n: int(random.random() * n),
        lambda n: random.Random(n).randrange(n),
        lambda n: int(np.random.default_rng().integers(n)),
        lambda n: int(np.random.randint(n)),  # noqa: NPY002  (what must be found)
    ],
)
def test_a_predictable_generator_is_found_where_noise_is_drawn(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the draw itself and in a redraw alone, which one draw in some needs."""
    secure = secrets.randbelow
    for redraws in (0, 3):
        asked: list[int] = []

        def below(n: int, asked: list[int] = asked, redraws: int = redraws) -> int:
            asked.append(n)
            return secure(n) if len(asked) <= redraws else ask(n)

        monkeypatch.setattr(secrets, "randbelow", below)
        with pytest.raises(PredictableEntropy, match=r"was asked by reticent_client\.discrete_gaussian"):
            draw(np.full(50, 7.0), 1.0)
    assert ask(5) in range(5)  # a test's own data may come from it


def test_no_module_of_the_device_names_a_predictable_generator() -> None:
    """Also one that would be made when a module is imported, before any test begins."""
    for package in (reticent_client, reticent_wire):
        for path in Path(str(package.__file__)).parent.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom):
                    assert node.module not in ("random", "numpy.random"), path
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random":
                    assert node.attr == "SystemRandom", path
                if (
                    isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Attribute)
                    and node.value.attr == "random"
                ):
                    assert node.attr == "Generator", path  # a type: whoever calls gives one
