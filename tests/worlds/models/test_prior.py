# SPDX-License-Identifier: Apache-2.0
"""WorldBatch from the public prior: worlds of the model, as the prior says, and always the same ones."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from reticent.errors import InvalidInput
from reticent.worlds import make_model, make_world
from reticent.worlds.models.prior import draw_truths

BLEND = make_world("random-blend:states=4,actions=2,horizon=2,d=3").model


def test_weights_are_on_the_simplex_and_uniform_there() -> None:
    weights = np.stack([world.transition_theta[0] for world in draw_truths(BLEND, 500, seed=3)])
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    # Dirichlet(1, 1, 1): mean 1/3 and variance 1/18. Ten standard errors: a false alarm in 10^22.
    np.testing.assert_allclose(weights.mean(axis=0), 1 / 3, atol=10 * np.sqrt(1 / 18 / 500))
    np.testing.assert_allclose(weights.var(axis=0), 1 / 18, rtol=0.4)


def test_a_longer_list_begins_with_the_shorter_one() -> None:
    few, many = draw_truths(BLEND, 2, seed=1), draw_truths(BLEND, 3, seed=1)
    np.testing.assert_array_equal(few[1].rows, many[1].rows)
    assert all(world.model is BLEND for world in many)


def test_rewards_with_the_same_weights_or_their_own() -> None:
    same = draw_truths(BLEND, 1, rewards="same")[0]
    np.testing.assert_allclose(same.reward_theta, BLEND.reward_total * same.transition_theta)
    own = draw_truths(BLEND, 1)[0]
    assert not np.allclose(own.reward_theta, BLEND.reward_total * own.transition_theta)


def test_every_step_has_its_own_weights_where_the_model_says_so() -> None:
    model = make_world("random-blend:states=4,actions=2,horizon=2,d=3,per_step=true").model
    weights = draw_truths(model, 1)[0].transition_theta
    assert not np.allclose(weights[0], weights[1])


def test_known_rewards_are_what_is_paid() -> None:
    known = np.linspace(0, 1, 8).reshape(4, 2)
    model = dataclasses.replace(BLEND, known_rewards=make_model_rewards(known))
    np.testing.assert_array_equal(draw_truths(model, 1)[0].reward_means[0], known)


def make_model_rewards(table: np.ndarray) -> np.ndarray:
    """A table as a model keeps it."""
    return make_model(BLEND.transition_features, BLEND.reward_features, 2, known_rewards=table).known_rewards


def test_free_rewards_stay_between_0_and_1() -> None:
    model = make_model(BLEND.transition_features, BLEND.reward_features, 2, sums_to_one=True, stationary=True)
    means = np.stack([world.reward_means for world in draw_truths(model, 50)])
    assert means.min() >= 0
    assert means.max() <= 1 + 1e-12


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (make_model(BLEND.transition_features, BLEND.reward_features, 2), {}, "not declared to sum to one"),
        (
            make_model(BLEND.transition_features, -BLEND.reward_features, 2, sums_to_one=True),
            {},
            "reward_features is with negative entries",
        ),
        (BLEND, {"count": 0}, "truths is 0"),
        (BLEND, {"concentration": 0.0}, "concentration is 0.0"),
        (make_world("random-blend:states=4,d1=2,d2=3").model, {"rewards": "same"}, "rewards is same"),
    ],
)
def test_what_has_no_prior_is_refused(model, options, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        draw_truths(model, **{"count": 1, **options})
