# SPDX-License-Identifier: Apache-2.0
r"""ICU-Sepsis: fluids and vasopressors for patients whose phenotype is unknown.

**What is real.** The hidden truth is the ICU-Sepsis benchmark of Choudhary, Gupta and Thomas (2024), estimated by its
authors from the records of MIMIC-III: 713 clinical states, death, survival and the end, 25 treatments (five levels of
intravenous fluid × five of vasopressor), and the first states of real admissions. The numbers are those of the package
``icu-sepsis``, which the extra ``reticent[icu]`` installs; they are read from its data file, unchanged. One patient is one
episode, and reward is 1 for survival and 0 otherwise, undiscounted. So V* is the benchmark's.

**What is ours.** The candidate models: four phenotypes, no more than hypotheses of the kind that clinicians debate. The
records say how outcomes were distributed after a treatment, :math:`P(\cdot\mid s,a)`; they do not say *who* had the good
ones. Rank outcomes from bad to good (death, living states by falling SOFA score, survival) and phenotypes by how well the
treatment suits them (:data:`PHENOTYPES`). Phenotype i, a share :math:`w_i` of the patients, then has the band of width
:math:`w_i` of the ranked outcomes that belongs to its place: with F the distribution function over ranks and :math:`\ell_i`
the share of the phenotypes that fare worse under a,

.. math:: P_i(s'\mid s,a)=\tfrac1{w_i}\,\big|[F(s'-1),F(s')]\cap[\ell_i,\ell_i+w_i]\big|.

The bands tile [0, 1], hence :math:`\sum_iw_iP_i=P` exactly: the linear mixture assumption holds, and blended by the hidden
shares the phenotypes are the real ward. No candidate can do what was never seen. But the candidates could not have been
written down without knowing P and the shares (the bands' widths reveal them; no learner here uses this):
this is a test of learning a blend on real dynamics, not advice on treatment.

**Time.** The package pays on the transition into survival; here the state *survival* pays when it is left, one step later,
which keeps reward a function of the state and each patient's return 0 or 1. ``horizon`` counts treatment decisions, as
the literature does; the model has one step more, for the outcome.

Values in the real world, by number of decisions (without limit: 0.8751, 0.7818 and 0.7801):

=========================  ======  ======  ======  ======
decisions                       5      10      20      40
=========================  ======  ======  ======  ======
optimal                    0.4389  0.6364  0.7922  0.8612
the clinicians             0.3605  0.5292  0.6920  0.7705
any treatment at random    0.3554  0.5218  0.6854  0.7674
all ischaemia-prone        0.4256  0.6146  0.7547  0.7970
all fluid-responsive       0.3653  0.5377  0.7043  0.7848
all overload-prone         0.3646  0.5348  0.6971  0.7736
all pressor-dependent      0.3578  0.5236  0.6859  0.7707
an even blend              0.3674  0.5371  0.7120  0.8203
=========================  ======  ======  ======  ======

The last five rows are policies that are optimal under a wrong belief (``benchmarks/icu_sepsis_values.py``).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reticent.errors import InvalidInput, MissingExtra
from reticent.worlds.models.blend import Bounds, blend
from reticent.worlds.models.names import Names
from reticent.worlds.registry import register_world
from reticent.worlds.world import World

DEATH, SURVIVAL, END = 713, 714, 715
LEVELS = 5


class Phenotype(NamedTuple):
    """A kind of patients: its share, and how it takes to each of the five levels of one of the two drugs."""

    share: float
    drug: str
    suits: tuple[int, ...]


# Where a treatment suits two phenotypes equally well, the later one fares better.
PHENOTYPES = {
    "ischaemia-prone": Phenotype(0.3, "vasopressor", (2, 1, 0, -1, -2)),
    "fluid-responsive": Phenotype(0.4, "fluid", (-2, -1, 0, 1, 2)),
    "overload-prone": Phenotype(0.2, "fluid", (2, 1, 0, -1, -2)),
    "pressor-dependent": Phenotype(0.1, "vasopressor", (-2, -1, 0, 1, 2)),
}
SHARES = tuple(phenotype.share for phenotype in PHENOTYPES.values())
TREATMENTS = tuple(f"fluid {fluid}, vasopressor {pressor}" for fluid in range(LEVELS) for pressor in range(LEVELS))
STATE_NAMES = (*(f"clinical state {state}" for state in range(DEATH)), "death", "survival", "the end")


def data_file() -> Path:
    """The benchmark's data file.

    The package itself is not imported: that would load two generations of Gym, pandas and scikit-learn for a file of
    numbers.

    Raises:
      MissingExtra: the package is not installed.
    """
    found = importlib.util.find_spec("icu_sepsis")
    if found is None or not found.submodule_search_locations:
        raise MissingExtra("the world icu-sepsis", "icu-sepsis", "icu")
    return Path(found.submodule_search_locations[0], "envs", "assets", "dynamics.npz")


@register_world("icu-sepsis", episodes=50_000, sizes=(716, 25, 11, 4, 1), requires=data_file)
def icu_sepsis(*, horizon: int = 10, bounds: Bounds = "paper") -> World:
    """Sepsis in intensive care: fluids and vasopressors, on the real dynamics of the ICU-Sepsis benchmark.

    716 states, 25 treatments (5 × fluid + vasopressor), up to 213 successors; ``horizon`` decisions and a last step in
    which survival pays. d1 = 4 phenotypes, d2 = 1: that survival is what counts is known. At the default horizon
    V* = 0.636 and the uniform policy has 0.522. Needs ``pip install 'reticent[icu]'``.
    """
    if horizon < 1:
        raise InvalidInput("icu-sepsis: horizon", horizon, "at least 1", "give the number of treatment decisions")
    ward = load_ward()
    successors, outcomes = ranked_outcomes(ward)
    survived = np.zeros((1, *outcomes.shape[:2]))
    survived[:, SURVIVAL] = 1
    return blend(
        candidates(outcomes),
        survived,
        SHARES,
        [1.0],
        horizon + 1,
        initial=ward.initial,
        rewards_known=True,
        name="icu-sepsis",
        bounds=bounds,
        successors=successors,
        names=Names(STATE_NAMES, TREATMENTS),
    )


class Ward(NamedTuple):
    """The package's data: transitions ``(S, A, S)``, first states ``(S,)``, SOFA scores ``(S,)``, and what the
    clinicians did, as probabilities ``(S, A)``."""

    transitions: np.ndarray
    initial: np.ndarray
    sofa: np.ndarray
    clinicians: np.ndarray


def load_ward() -> Ward:
    """Read the benchmark's data file.

    Raises:
      MissingExtra: the package is not installed.
    """
    with np.load(data_file()) as data:
        return Ward(data["tx_mat"], data["d_0"], data["sofa_scores"], data["expert_policy"])


def ranked_outcomes(ward: Ward) -> tuple[np.ndarray, np.ndarray]:
    """Successors ``(S, A, n)`` of every pair from the worst to the best, and their true probabilities."""
    health = -ward.sofa
    health[[DEATH, END, SURVIVAL]] = -np.inf, -np.inf, np.inf
    worst_first = np.argsort(health, kind="stable")
    ranked = ward.transitions[:, :, worst_first]
    count = int((ranked > 0).sum(axis=-1).max())
    # Stable: successors keep their ranks, and states that cannot follow pad the row behind them.
    places = np.argsort(ranked == 0, axis=-1, kind="stable")[..., :count]
    return worst_first[places], np.take_along_axis(ranked, places, axis=-1)


def candidates(outcomes: np.ndarray) -> np.ndarray:
    """The phenotypes' transitions ``(4, S, A, n)``, from the probabilities of ranked outcomes ``(S, A, n)``."""
    fluid, vasopressor = np.divmod(np.arange(LEVELS**2), LEVELS)
    level = {"fluid": fluid, "vasopressor": vasopressor}
    suits = np.stack([np.array(each.suits)[level[each.drug]] for each in PHENOTYPES.values()])
    place = suits.argsort(axis=0, kind="stable").argsort(axis=0)
    upper = np.cumsum(outcomes, axis=-1)
    lower = upper - outcomes
    bands = []
    for own, share in zip(place, SHARES, strict=True):
        worse = (np.array(SHARES)[:, None] * (place < own)).sum(axis=0)[:, None]
        band = np.clip(np.minimum(upper, worse + share) - np.maximum(lower, worse), 0, None)
        bands.append(band / band.sum(axis=-1, keepdims=True))
    return np.stack(bands)
