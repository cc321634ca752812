# SPDX-License-Identifier: Apache-2.0
"""Private agents: which options are in force, what is refused, and that nothing downstream reads raw data."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import AGENTS, make_agent
from reticent.agents.linear_mixture.frame import PAPER_FRAME, Frame
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.privacy_plan import PrivateOptions, plan_privacy
from reticent.agents.linear_mixture.private_linopt import make_private
from reticent.errors import InvalidInput, UnknownName
from reticent.simulation.rollout import episode_uniforms, rollout
from reticent.worlds import World, make_world, tabular

pytestmark = pytest.mark.guard

EPISODES = 40


@functools.cache
def the_world(**options) -> World:
    changes = "".join(f",{key}={value}" for key, value in options.items())
    return make_world("random-blend:states=4,actions=3,horizon=3,d1=3,d2=2" + changes)


def agent_of(options: str = "", method: str = "vi", world: World | None = None) -> LinOptLearner:
    return make_agent(f"private-linopt-{method}:{options}", (world or the_world()).model, EPISODES)


# -- options --------------------------------------------------------------------------------------------------------------


def test_defaults_are_the_best_known():
    plan = plan_privacy(the_world().model, 20_000, "value-iteration", PrivateOptions())
    chosen = plan.options
    assert (chosen.trust, chosen.counter, chosen.calibration, chosen.adjacency) == (
        "joint",
        "epochs",
        "exact",
        "replace",
    )
    assert (chosen.first, chosen.growth) == (512, 1.5)
    assert chosen.pool is True
    assert chosen.normalize is True
    assert plan.frame == Frame(centred=True, span="seen")
    assert plan.schedule.final_release
    assert plan.calibration.epsilon_spent == pytest.approx(1.0, rel=1e-6)


def test_policy_optimization_has_shorter_epochs():
    plan = plan_privacy(the_world().model, 20_000, "policy-optimization", PrivateOptions())
    assert plan.options.growth == 1.5
    slow = plan_privacy(the_world().model, 20_000, "policy-optimization", PrivateOptions(learning_rate="paper"))
    assert slow.options.growth == 1.2


def test_paper_means_the_paper_whatever_else_is_asked_for():
    options = PrivateOptions(
        calibration="paper", shift_scale=0.1, final_release=True, centred=True, span="seen", pool=True, normalize=True
    )
    agent = make_private(the_world().model, EPISODES, "value-iteration", options)
    chosen = agent.theory.privacy.options
    assert chosen.counter == "tree"
    assert chosen.shift_scale == 1.0
    assert agent.theory.privacy.frame == PAPER_FRAME == agent.frame
    assert (chosen.pool, chosen.normalize, chosen.final_release) == (False, False, False)
    assert agent.schedule.sizes is None
    assert agent.schedule.releases == EPISODES - 1
    assert not agent.aggregator.pooled
    assert not agent.normalize


@pytest.mark.parametrize("counter", ["blt", "epochs", "toeplitz", "tree-reduced"])
def test_the_paper_has_one_counter(counter):
    with pytest.raises(InvalidInput, match="'tree' with calibration='paper'"):
        agent_of(f"calibration=paper,counter={counter}")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("counter=btree", "btree"), ("trust=nobody", "nobody"), ("calibration=loose", "loose"),
        ("adjacency=add-one", "add-one"), ("span=all", "all"), ("split=odd", "odd"), ("epsilom=1", "epsilom"),
    ],
)  # fmt: skip
def test_unknown_names_are_told_with_those_there_are(options, words):
    with pytest.raises(UnknownName, match=words) as error:
        agent_of(options)
    assert error.value.known


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ("epsilon=0", "epsilon"), ("epsilon=-1", "epsilon"), ("epsilon=nan", "epsilon"), ("epsilon=inf", "epsilon"),
        ("delta=0", "delta"), ("delta=1", "delta"), ("alpha=0", "alpha"), ("bonus_scale=-1", "bonus_scale"),
        ("shift_scale=nan", "shift_scale"), ("moment_share=0", "moment_share"), ("growth=0.9", "growth"),
        ("first=0", "first"), ("epsilon=one", "private-linopt-vi: epsilon"),
    ],
)  # fmt: skip
def test_bad_numbers_are_named(options, field):
    with pytest.raises(InvalidInput) as error:
        agent_of(options)
    assert error.value.field == field


def test_only_po_has_a_learning_rate():
    assert "learning_rate" in AGENTS.find("private-linopt-po").options
    with pytest.raises(UnknownName, match="learning_rate"):
        agent_of("learning_rate=1")
    assert float(agent_of("learning_rate=0.25", "po").learning_rate) == 0.25


def test_steps_are_pooled_only_where_that_is_declared():
    changing = the_world(per_step=True)
    assert not changing.model.stationary
    assert not agent_of(world=changing).aggregator.pooled
    with pytest.raises(InvalidInput, match="stationary") as error:
        agent_of("pool=true", world=changing)
    assert error.value.field == "pool"
    assert agent_of("pool=false").aggregator.pooled is False


def test_estimates_are_normalised_only_where_that_is_declared():
    rows = np.random.default_rng(0).dirichlet(np.ones(3), size=(3, 2))
    table = tabular(rows, np.full((3, 2), 0.5), 2)
    assert not table.model.sums_to_one
    assert not make_agent("private-linopt-vi", table.model, EPISODES).normalize
    with pytest.raises(InvalidInput, match="sums to one"):
        make_agent("private-linopt-vi:normalize=true", table.model, EPISODES)


def test_every_option_is_in_the_registry():
    given = set(AGENTS.find("private-linopt-po").options)
    assert {"trust", "epsilon", "delta", "counter", "calibration", "adjacency", "bonus_scale"} <= given


# -- nothing downstream reads raw data ------------------------------------------------------------------------------------

SPECS = [
    "",
    "counter=tree",
    "counter=tree-reduced",
    "counter=blt",
    "counter=toeplitz",
    "calibration=paper",
    "trust=local",
]


planned = jax.jit(lambda agent, state: agent.plan(state))


@jax.jit
def one_life(agent: LinOptLearner, world: World, state, plan, key: jax.Array):
    episode = rollout(agent, world, plan, episode_uniforms(key, 0, world.model.horizon))
    noises = agent.aggregator.simulate_user_noise(key), agent.aggregator.simulate_round_noise(key)
    return agent.update(state, plan, episode, *noises)


def lived(agent: LinOptLearner, world: World, key: jax.Array, rounds: int = 2):
    """A state after some rounds of one user each, and the plan in force."""
    state = agent.init()
    for index in range(rounds):
        state = one_life(agent, world, state, planned(agent, state), jax.random.fold_in(key, index))
    return state, planned(agent, state)


def same(one, other) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


@pytest.mark.parametrize(
    ("options", "method"),
    [(spec, "vi") for spec in SPECS] + [("", "po"), ("counter=tree", "po"), ("trust=local", "po")],
)
def test_the_plan_reads_releases_only(options, method):
    """Raw sums of the open round, however disturbed, change neither bonus nor policy nor the time of the next plan."""
    agent = agent_of(options, method)
    state, plan = lived(agent, the_world(), jax.random.key(0))
    for disturbance in (1e6, jnp.nan):
        raw = state.aggregate._replace(open=state.aggregate.open + disturbance)
        assert same(planned(agent, state._replace(aggregate=raw)), plan)
        assert int(state._replace(aggregate=raw).rounds) == 2


@pytest.mark.parametrize(("options", "secret"), [("counter=tree", "noise"), ("counter=tree-reduced", "exact")])
def test_what_a_tree_keeps_for_later_is_not_read_either(options, secret):
    """The noise in the last release, or exact sums of live blocks: a plan must come from noisy sums alone."""
    agent = agent_of(options)
    state, plan = lived(agent, the_world(), jax.random.key(0))
    counter = state.aggregate.counter
    raw = state.aggregate._replace(counter=counter._replace(**{secret: getattr(counter, secret) + 1e6}))
    assert same(planned(agent, state._replace(aggregate=raw)), plan)


@pytest.mark.verify
def test_a_local_agent_receives_nothing_but_noised_reports():
    """All the server is ever given is report = statistics + noise; with the same sum, it is in the same state."""
    agent = agent_of("trust=local")
    plan = agent.plan(agent.init())
    reports = []
    for user in (0, 1):
        key = jax.random.key(user)
        episode = rollout(agent, the_world(), plan, episode_uniforms(key, user, 3))
        noise = agent.aggregator.simulate_user_noise(key)
        report = agent.report(plan, episode, noise)
        exact = agent.report(plan, episode, jnp.zeros_like(noise))
        active = np.asarray(agent.aggregator.noise_scale) > 0
        assert (np.asarray(report != exact) == active).all()
        # Other data with the noise that makes up for it is the very same report: data enter through it alone.
        reports.append((report, exact, noise))
    (first, exact, _), (_, other, _) = reports
    noise = first - other
    assert float(jnp.abs(noise).max()) > 0
    swapped = other + noise
    one, two = (agent.absorb(agent.init(), sent) for sent in (first, swapped))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    with pytest.raises(InvalidInput, match="local model"):
        agent.report(plan, rollout(agent, the_world(), plan, episode_uniforms(jax.random.key(0), 0, 3)), None)


@pytest.mark.verify
def test_without_noise_a_joint_round_cannot_end():
    agent = agent_of("counter=tree")
    with pytest.raises(InvalidInput, match="fresh noise for every round"):
        agent.close(agent.init(), agent.plan(agent.init()), 1, None)


def test_the_schedule_is_public():
    """Epochs depend on K and the options alone, and a round's noise on nothing at all; with contrasts, on the range of the
    public reward tables."""
    model, other = the_world().model, the_world(seed=7).model
    one, two = (make_agent("private-linopt-vi:contrasts=false", each, 5000) for each in (model, other))
    assert one.schedule == two.schedule
    np.testing.assert_array_equal(one.aggregator.noise_scale, two.aggregator.noise_scale)


def test_a_smaller_epsilon_is_more_noise_and_wider_radii():
    scales = [np.asarray(agent_of(f"epsilon={epsilon}").aggregator.noise_scale).max() for epsilon in (0.1, 1, 10)]
    radii = [float(agent_of(f"epsilon={epsilon}").radii.transition.max()) for epsilon in (0.1, 1, 10)]
    assert scales == sorted(scales, reverse=True)
    assert radii == sorted(radii, reverse=True)
    assert scales[0] / scales[1] == pytest.approx(0.2681 / 0.0325, rel=0.01)


def test_names_say_everything():
    assert agent_of("counter=blt,epsilon=0.5").name == "private-linopt-vi:counter=blt,epsilon=0.5"


def test_a_promise_that_the_papers_noise_does_not_keep_is_refused() -> None:
    """The paper's σ shrinks like 1/ε for ever; beyond some ε the Gaussian mechanism needs more."""
    model = make_world("random-blend:horizon=1").model
    with pytest.raises(InvalidInput, match="really spends"):
        make_agent("private-linopt-vi:calibration=paper,epsilon=100", model, 100)
