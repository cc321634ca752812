# SPDX-License-Identifier: Apache-2.0
r"""The privacy plan of private LinUCB with Wishart noise: degrees of freedom, shift and certificate.

After t users the tree's live blocks carry :math:`W-cI`, W Wishart with :math:`K_t=k\cdot\mathrm{popcount}(t)` degrees
of freedom and c its mean :math:`K_tL^2`. With the singular values of a Gaussian matrix in :math:`\sqrt{K_t}\pm(\sqrt
d+q)`, each side with probability at least :math:`1-e^{-q^2/2}` (Davidson and Szarek 2001), the eigenvalues of the
noise lie between :math:`-\Sigma_t` and :math:`\Sigma_t+L^2(\sqrt d+q)^2` for :math:`\Sigma_t=2L^2\sqrt{K_t}(\sqrt
d+q)`. As with Gaussian noise the shift is :math:`2\Sigma_t+1`, so :math:`\lambda_{\min}=\Sigma_t+1`. The noise in the
moment is :math:`G^\top h` with :math:`W=G^\top G` and h independent of G: :math:`\|G^\top h\|\le\|G\|\,\|P_Gh\|`, and
:math:`\|P_Gh\|/L` is χ-distributed with d degrees.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from reticent.agents.bandits.wishart import WishartAccount, WishartPrivatizer, degrees_of_freedom
from reticent.agents.linear_mixture.calibration import Calibration, Noise
from reticent.agents.linear_mixture.certificate import Regularization
from reticent.agents.linear_mixture.frame import Frame
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.privacy_plan import PrivacyPlan, PrivateOptions, make_schedule
from reticent.agents.linear_mixture.private_linopt import assemble
from reticent.agents.linear_mixture.privatizer import Privatizer
from reticent.agents.linear_mixture.radius import radii
from reticent.agents.linear_mixture.regularizer import Certificate
from reticent.agents.linear_mixture.spectrum import chi_quantile
from reticent.errors import InvalidInput
from reticent.privacy.counters import TreeCounter
from reticent.privacy.sensitivity import gram_sensitivity, moment_sensitivity
from reticent.privacy.trust import JOINT
from reticent.worlds import Model
from reticent.worlds.models.model import Sizes

LENGTH = 2.0
"""L²: features and rewards are at most 1, together √2."""


def make_wishart(model: Model, episodes: int, options: PrivateOptions) -> LinOptLearner:
    """Private LinUCB with Wishart noise."""
    plan = plan_wishart(model, episodes, options)
    agent = assemble(model, episodes, "value-iteration", plan)
    plain = agent.aggregator
    assert isinstance(plain, Privatizer)
    fields = {field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)}
    assert isinstance(plan.calibration.account, WishartAccount)
    noisy = WishartPrivatizer(**fields, degrees=plan.calibration.account.degrees, length=LENGTH)
    return dataclasses.replace(agent, aggregator=noisy)


def plan_wishart(sizes: Sizes, episodes: int, options: PrivateOptions) -> PrivacyPlan:
    """The plan for ``episodes`` users.

    Raises:
      InvalidInput: another trust model or counter than joint and tree, for which there is no theorem.
    """
    for field, wanted in (("trust", "joint"), ("counter", "tree"), ("calibration", "exact")):
        if getattr(options, field) != wanted:
            raise InvalidInput(
                field, getattr(options, field), f"{wanted!r} with noise=wishart", "or use noise=gaussian"
            )
    options = options.resolve(sizes, episodes, "value-iteration")
    schedule, frame = make_schedule(options, episodes), Frame(options.centred, options.span)
    counter = TreeCounter(schedule.releases)
    adjacency = options.adjacency
    degrees = degrees_of_freedom(options.epsilon, options.delta, counter.levels, sizes.d2 + 1, adjacency)
    gram = np.array([gram_sensitivity(1.0, adjacency)])
    moment = np.array([moment_sensitivity(1.0, 1.0, adjacency, nonnegative=sizes.nonnegative_rewards)])
    spread = LENGTH * np.sqrt(np.array([2.0 * degrees])), LENGTH * np.sqrt(np.array([1.0 * degrees]))
    reward = Noise(gram, spread[0], moment, moment, spread[1], np.ones(1))
    zero = np.zeros(1)
    nothing = Noise(zero, zero, zero, zero, zero, np.ones(1))
    unit = math.hypot(gram[0] / spread[0][0], moment[0] / spread[1][0])
    calibration = Calibration(
        "exact", JOINT, adjacency, options.epsilon, options.delta, counter, counter.sensitivity, nothing, reward,
        packed=True, grid=0.0, account=WishartAccount(degrees, sizes.d2 + 1, adjacency, unit),
    )  # fmt: skip
    regularization = _regularize(degrees, sizes.d2, counter, options)
    confidence = radii(sizes, frame, regularization.certificate, episodes, options.alpha)
    return PrivacyPlan(options, schedule, frame, calibration, regularization, confidence, sizes.d1, sizes.d2)


def _regularize(degrees: int, dimension: int, counter: TreeCounter, options: PrivateOptions) -> Regularization:
    blocks = np.round(counter.release_std() ** 2)
    root = np.sqrt(degrees * np.concatenate([blocks[:1], blocks]))[:, None]
    probability = options.alpha / (4 * counter.rounds)
    width = math.sqrt(dimension) + math.sqrt(2 * math.log(1 / probability))
    operator = 2 * LENGTH * root * width
    vector = LENGTH * (root + width) * chi_quantile(dimension, probability)
    low, high = operator + 1, 3 * operator + LENGTH * width**2 + 1
    one = np.ones_like(low)
    certificate = Certificate(one, one, 0 * one, low, high, vector / np.sqrt(low))
    scale = options.shift_scale
    return Regularization(one, 2 * scale * operator + 1, one, scale * operator + 1, certificate)
