r"""Worst-case neighbours: pairs of users that are as far apart as the code lets them be.

How far apart is measured by the *realised μ* of one item, the distance of the two reports in units of the noise on each
coordinate. Pairs are proposed in four ways, from what a proof suggests to what an attacker tries, and all go
through the agent's own ``report``, so that a clip that is missing shows:

* **corners**: the pair at which the proof of :func:`~reticent.privacy.sensitivity.joint_sensitivity` is tight, in all
  steps and both regressions at once, its variations, and turned in feature space;
* **hostile** observations: far outside the declared bounds, infinite, or not numbers;
* **random** ones, in and out of bounds;
* **gradient** ascent on the realised μ over observations before they are clipped.

:func:`trajectory_pair` is different: two episodes that the world can produce.

Of an agent that counts, an observation is an episode; its pairs are in :mod:`reticent.audit.count_neighbours`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.statistics import Observation, observe
from reticent.agents.tabular.count_privatizer import CountPrivatizer, nothing_seen
from reticent.audit.count_neighbours import episode_pairs, possible_pair
from reticent.audit.subject import Subject, in_noise
from reticent.learning.plan import Plan
from reticent.privacy.packing import pack_symmetric
from reticent.worlds import Episode, World

__all__ = [
    "Pair", "ascend", "corner_pairs", "hostile_pairs", "nothing", "random_pairs", "realised_mu", "trajectory_pair",
    "trajectory_plan", "worst_pair",
]  # fmt: skip


class Pair(NamedTuple):
    """Two users who differ in everything: ``one`` took part, or ``other`` in her place. ``origin`` says who proposed it."""

    one: Any
    other: Any
    origin: str


def nothing(subject: Subject) -> Any:
    """The observation that contributes nothing: what a user is replaced by under zero-out adjacency."""
    if isinstance(subject.privatizer, CountPrivatizer):
        return nothing_seen(len(subject.noise_scale))
    horizon, d1, d2 = len(subject.noise_scale), subject.privatizer.d1, subject.privatizer.d2
    return Observation(jnp.zeros((horizon, d1)), jnp.zeros(horizon), jnp.zeros((horizon, d2)), jnp.zeros(horizon))


def report_of(subject: Subject, seen: Any) -> Array:
    """The agent's own report of an observation, with the local model's noise set to zero."""
    zero = jnp.zeros_like(subject.privatizer.noise_scale) if subject.local else None
    report: Array = subject.privatizer.report(seen, zero)
    return report


def realised_mu(subject: Subject, pair: Pair) -> float:
    """How far the pair's reports are apart, in units of the noise on each coordinate: μ of one item."""
    with np.errstate(all="ignore"):
        moved = np.asarray(report_of(subject, pair.one)) - np.asarray(report_of(subject, pair.other))
        return subject.cost(moved)


def corner_pairs(subject: Subject) -> list[Pair]:
    """Unit features at the angle where the proof is tight, targets and rewards at the ends of their intervals."""
    privatizer, scale = subject.privatizer, subject.noise_scale
    d1, d2 = privatizer.d1, privatizer.d2
    horizon = len(scale)
    bound, low, high = (
        np.asarray(a) for a in (privatizer.feature_bound, privatizer.target_low, privatizer.target_high)
    )
    bare = bound * 0 + 1.0
    gram, moment = scale[:, 0], scale[:, d1 * (d1 + 1) // 2]
    start = d1 * (d1 + 3) // 2
    gram_r, moment_r = scale[:, start], scale[:, start + d2 * (d2 + 1) // 2]
    tight_p = _tight_angle(gram, moment, high, bound)
    tight_r = _tight_angle(gram_r, moment_r, bare, bare)
    # A feature with no noise has no place in a corner; it is left to the hostile pairs.
    pairs = []
    angles_p = {"proof": -tight_p, "same way": tight_p, "opposite": -bare, "orthogonal": 0 * bare, "equal": bare}
    angles_r = {"proof": -tight_r, "orthogonal": 0 * bare}
    for name_p, cosine_p in angles_p.items():
        for name_r, cosine_r in angles_r.items():
            x, y = _two(horizon, d1, cosine_p)
            u, v = _two(horizon, d2, cosine_r)
            one = _observation(bound[:, None] * x, high, u, bare)
            for end, target in (("same", high), ("other", low)):
                other = _observation(bound[:, None] * y, target, v, bare)
                pairs.append(Pair(one, other, f"corner: {name_p}/{name_r}, {end} end"))
    if subject.zero_out:
        return _against_nothing(subject, pairs)
    return [*pairs, *_against_nothing(subject, pairs[:1])]


def hostile_pairs(subject: Subject) -> list[Pair]:
    """Corners far out of bounds, and numbers that are none: a clip that is assumed would show here."""
    pairs = []
    for base in corner_pairs(subject)[:4]:
        for factor in (1e3, 1e160):
            far = [jax.tree.map(lambda leaf, by=factor: leaf * by, side) for side in (base.one, base.other)]
            pairs.append(Pair(far[0], far[1], f"hostile: {base.origin}, times {factor:g}"))
        # One field at a time, so that no other clip can make up for a missing one.
        for field in Observation._fields:
            ten = [side._replace(**{field: 10.0 * getattr(side, field)}) for side in (base.one, base.other)]
            pairs.append(Pair(ten[0], ten[1], f"hostile: ten times {field}"))
            sign = base.other._replace(**{field: -10.0 * getattr(base.one, field)})
            pairs.append(Pair(base.one, sign, f"hostile: minus ten times {field}"))
    base = corner_pairs(subject)[0]
    for bad in (np.nan, np.inf, -np.inf):
        pairs.append(Pair(jax.tree.map(lambda leaf, v=bad: jnp.full_like(leaf, v), base.one), base.other, f"all {bad}"))
        spoiled = base.one._replace(
            targets=jnp.full_like(base.one.targets, bad), rewards=jnp.full_like(base.one.rewards, bad)
        )
        pairs.append(Pair(spoiled, base.other, f"hostile: targets and rewards {bad}"))
    # Features where the declared bound or the noise is zero.
    loud = jax.tree.map(jnp.ones_like, base.one)
    pairs.append(Pair(loud, jax.tree.map(lambda leaf: -leaf, loud), "hostile: ones everywhere"))
    return _against_nothing(subject, pairs) if subject.zero_out else pairs


def rotated_pairs(subject: Subject, count: int, seed: int) -> list[Pair]:
    """The proof's corner turned in every step's feature space: as tight, but rounding falls differently each time."""
    draw = np.random.default_rng(seed)
    base = max(corner_pairs(subject), key=lambda pair: realised_mu(subject, pair))
    horizon, d1 = base.one.value_features.shape
    pairs = []
    for index in range(count):
        turn = np.linalg.qr(draw.normal(size=(horizon, d1, d1)))[0]
        one, other = (
            side._replace(value_features=jnp.einsum("hij,hj->hi", turn, side.value_features))
            for side in (base.one, base.other)
        )
        pairs.append(Pair(one, other, f"corner turned, {index}"))
    return pairs


def random_pairs(subject: Subject, count: int, seed: int) -> list[Pair]:
    """Gaussian directions, lengths from inside to twice the bounds."""
    draw = np.random.default_rng(seed)
    horizon, d1, d2 = len(subject.noise_scale), subject.privatizer.d1, subject.privatizer.d2
    bound, high = (np.asarray(a) for a in (subject.privatizer.feature_bound, subject.privatizer.target_high))

    def one() -> Observation:
        x, y = draw.normal(size=(horizon, d1)), draw.normal(size=(horizon, d2))
        x *= (2 * draw.random() * bound / np.linalg.norm(x, axis=1))[:, None]
        y *= (2 * draw.random() / np.linalg.norm(y, axis=1))[:, None]
        y = np.abs(y) if subject.privatizer.nonnegative_rewards and draw.random() < 0.75 else y
        targets, rewards = draw.uniform(-1.2, 1.2, horizon) * high, draw.uniform(-0.2, 1.2, horizon)
        return _observation(x, targets, y, rewards)

    pairs = [Pair(one(), one(), f"random {index}") for index in range(count)]
    return _against_nothing(subject, pairs) if subject.zero_out else pairs


def ascend(subject: Subject, pairs: Sequence[Pair], steps: int = 60) -> list[Pair]:
    """Follow the gradient of the realised μ² from each pair, over observations before they are clipped."""
    scale = subject.noise_scale
    weight = jnp.asarray(np.where(scale > 0, 1 / np.where(scale > 0, scale, 1.0), 0.0))

    def squared(sides: tuple[Observation, Observation]) -> Array:
        moved = report_of(subject, sides[0]) - report_of(subject, sides[1])
        return ((moved * weight) ** 2).sum()

    @jax.jit
    def climb(sides: tuple[Observation, Observation]) -> tuple[Observation, Observation]:
        def step(at: tuple[Observation, Observation], rate: Array) -> tuple[tuple[Observation, Observation], None]:
            slope = jax.grad(squared)(at)
            # Each field moves by its own normalised gradient: their units differ.
            return jax.tree.map(lambda x, g: x + rate * g / (jnp.sqrt((g**2).sum()) + 1e-12), at, slope), None

        return jax.lax.scan(step, sides, jnp.geomspace(0.5, 0.01, steps))[0]

    found = jax.vmap(climb)((_stack([pair.one for pair in pairs]), _stack([pair.other for pair in pairs])))
    reached = []
    for index, pair in enumerate(pairs):
        one, other = jax.tree.map(lambda leaf, i=index: leaf[i], found)
        reached.append(Pair(one, nothing(subject) if subject.zero_out else other, f"gradient from {pair.origin}"))
    return reached


def worst_pair(subject: Subject, *, seed: int = 0, random: int = 16, gradient: bool = True) -> tuple[Pair, float]:
    """The pair of largest realised μ among all proposals, and that μ (of one item; a counter multiplies it)."""
    if isinstance(subject.privatizer, CountPrivatizer):
        proposed = [Pair(*pair) for pair in episode_pairs(subject, random, seed)]
        return max(((pair, realised_mu(subject, pair)) for pair in proposed), key=lambda both: both[1])
    pairs = [*corner_pairs(subject), *hostile_pairs(subject)]
    pairs += rotated_pairs(subject, random, seed)
    sampled = random_pairs(subject, random, seed)
    if gradient:
        sampled += ascend(subject, sampled)
    pairs += sampled
    one, other = (
        np.asarray(jax.vmap(lambda seen: report_of(subject, seen))(_stack(side)))
        for side in ([pair.one for pair in pairs], [pair.other for pair in pairs])
    )
    with np.errstate(all="ignore"):  # without a clip there may be infinities
        reach = np.linalg.norm(in_noise(one - other, subject.noise_scale).reshape(len(pairs), -1), axis=1)
    best = int(np.argmax(np.where(np.isnan(reach), np.inf, reach)))
    return pairs[best], float(reach[best])


# -- trajectories -------------------------------------------------------------------------------------------------------


def trajectory_plan(subject: Subject, world: World) -> Plan:
    """The plan that a long run would publish: the optimal values, in the agent's frame.

    An adversary may assume any public plan. The very first one is flat, and flat values say nothing of a transition.
    """
    if not isinstance(subject.agent, LinOptLearner):  # what is counted does not depend on the plan
        return subject.agent.plan(subject.agent.init())
    model, best = world.model, world.optimal_action_values
    values = jnp.concatenate([best.max(axis=-1), jnp.zeros((1, model.states))])
    remaining = jnp.arange(model.horizon - 1, -1, -1).astype(values.dtype)
    frames = [subject.agent.frame.features(model, v, left)[1:] for v, left in zip(values[1:], remaining, strict=True)]
    centres, scales = (jnp.asarray([frame[index] for frame in frames], values.dtype) for index in (0, 1))
    return Plan(best.argmax(axis=-1).astype(jnp.int32), values, centres, scales, best)


def trajectory_pair(subject: Subject, world: World, plan: Plan, *, seed: int = 0, starts: int = 8) -> Pair:
    """The two possible episodes whose reports are farthest apart under ``plan``, by coordinate ascent.

    Possible: every transition has positive probability and every reward is in its support. For a fixed episode the one
    farthest from it is found exactly, by dynamic programming over steps; the two take turns until neither gains.
    """
    if isinstance(subject.privatizer, CountPrivatizer):
        return Pair(*possible_pair(subject, world, seed=seed))
    table = _Table.of(subject, world, plan)
    draw = np.random.default_rng(seed)
    best, reach = None, -1.0
    for _ in range(1 if subject.zero_out else starts):
        other = None if subject.zero_out else table.random(draw)
        one, gained = table.farthest_from(other)
        while other is not None:
            other, value = table.farthest_from(one)
            one, again = table.farthest_from(other)
            if again <= max(gained, value) * (1 + 1e-12):
                break
            gained = again
        if gained > reach:
            best, reach = (one, other), gained
    assert best is not None
    sides = [nothing(subject) if path is None else table.observation(path) for path in best]
    return Pair(sides[0], sides[1], "trajectories of this world")


@dataclasses.dataclass(frozen=True)
class _Table:
    """Whitened contributions of every possible step: transition ``(H, S, A, S', p)`` and reward ``(H, S, A, R, q)``."""

    world: World
    plan: Plan
    transition: np.ndarray
    reward: np.ndarray
    rewards: np.ndarray
    possible: np.ndarray

    @classmethod
    def of(cls, subject: Subject, world: World, plan: Plan) -> _Table:
        model, scale = world.model, subject.noise_scale
        framed = plan.framed_values()
        phi = np.moveaxis(np.asarray(jax.vmap(model.value_features)(framed)), 1, -1)
        varphi = np.moveaxis(np.asarray(model.reward_features), 0, -1)
        cut = [0, model.d1 * (model.d1 + 1) // 2, model.d1 * (model.d1 + 3) // 2]
        cut += [cut[2] + model.d2 * (model.d2 + 1) // 2, scale.shape[1]]

        def white(part: np.ndarray, block: int) -> np.ndarray:
            sigma = scale[:, cut[block] : cut[block + 1]]
            safe = np.where(sigma > 0, sigma, np.inf)
            return part / safe.reshape(len(safe), *[1] * (part.ndim - 2), -1)

        gram = white(np.asarray(_packed_products(phi)), 0)
        moment = white(phi[:, :, :, None, :] * np.asarray(framed)[:, None, None, :, None], 1)
        spread = np.broadcast_to(gram[:, :, :, None, :], (*moment.shape[:-1], gram.shape[-1]))
        transition = np.concatenate([spread, moment], axis=-1)
        if world.reward_kind == "bernoulli":
            ends = np.broadcast_to(np.array([0.0, 1.0]), (*world.mean_rewards.shape, 2))
        else:
            ends = np.asarray(world.mean_rewards)[..., None]
        every = np.broadcast_to(varphi, (model.horizon, *varphi.shape))
        gram_r = white(np.asarray(_packed_products(every)), 2)
        moment_r = white(every[:, :, :, None, :] * ends[..., None], 3)
        spread_r = np.broadcast_to(gram_r[:, :, :, None, :], (*moment_r.shape[:-1], gram_r.shape[-1]))
        reward = np.concatenate([spread_r, moment_r], axis=-1)
        return cls(world, plan, transition, reward, ends, np.asarray(world.transitions) > 0)

    def farthest_from(self, path: np.ndarray | None) -> tuple[np.ndarray, float]:
        """The episode ``(H, 4)`` of (state, action, next state, reward index) farthest from ``path``, and how far²."""
        horizon, states = self.possible.shape[:2]
        value = np.zeros(states)
        choices = []
        for h in range(horizon - 1, -1, -1):
            at, gain = (0.0, 0.0) if path is None else self._at(h, path[h])
            far_p = ((self.transition[h] - at) ** 2).sum(axis=-1)
            far_r = ((self.reward[h] - gain) ** 2).sum(axis=-1)
            total = np.where(self.possible[h], far_p + value, -np.inf) + far_r.max(axis=-1)[:, :, None]
            flat = total.reshape(states, -1)
            action, following = np.unravel_index(flat.argmax(axis=1), total.shape[1:])
            rows = np.arange(states)
            choices.append((action, following, far_r[rows, action].argmax(axis=-1)))
            value = flat.max(axis=1)
        start = np.where(np.asarray(self.world.model.initial) > 0, value, -np.inf)
        state, steps = int(start.argmax()), []
        for action, following, reward in reversed(choices):
            steps.append((state, action[state], following[state], reward[state]))
            state = int(following[state])
        return np.array(steps), float(start.max())

    def random(self, draw: np.random.Generator) -> np.ndarray:
        steps = []
        state = int(draw.choice(np.flatnonzero(np.asarray(self.world.model.initial) > 0)))
        for h in range(len(self.possible)):
            action = int(draw.integers(self.possible.shape[2]))
            following = int(draw.choice(np.flatnonzero(self.possible[h, state, action])))
            steps.append((state, action, following, int(draw.integers(self.rewards.shape[-1]))))
            state = following
        return np.array(steps)

    def observation(self, path: np.ndarray) -> Observation:
        """The path as an episode, observed by the library's own function."""
        rewards = self.rewards[np.arange(len(path)), path[:, 0], path[:, 1], path[:, 3]]
        states = np.concatenate([path[:, 0], path[-1:, 2]])
        episode = Episode(jnp.asarray(states), jnp.asarray(path[:, 1]), jnp.asarray(rewards))
        return observe(self.world.model, self.plan.framed_values(), episode)

    def _at(self, h: int, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        state, action, following, reward = step
        return self.transition[h, state, action, following], self.reward[h, state, action, reward]


# -- pieces -------------------------------------------------------------------------------------------------------------


def _tight_angle(gram: np.ndarray, moment: np.ndarray, target: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """t = min(s/2, 1) of the proof, s = w²V²/L² and w the ratio of the noises; 0 where nothing is learned."""
    with np.errstate(all="ignore"):
        s = np.where((gram > 0) & (bound > 0), (gram / moment * target / bound) ** 2, 0.0)
    return np.minimum(np.nan_to_num(s) / 2, 1.0)


def _two(horizon: int, dimension: int, cosine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors per step at the given angle; in one dimension the nearer of ±1."""
    x, y = np.zeros((horizon, dimension)), np.zeros((horizon, dimension))
    x[:, 0] = 1.0
    if dimension == 1:
        y[:, 0] = np.where(cosine < 0, -1.0, np.where(cosine > 0, 1.0, 0.0))
        return x, y
    y[:, 0], y[:, 1] = cosine, np.sqrt(np.maximum(1 - cosine**2, 0.0))
    return x, y


def _observation(*fields: np.ndarray) -> Observation:
    return Observation(*(jnp.asarray(np.asarray(field, float)) for field in fields))


def _stack(observations: Sequence[Observation]) -> Observation:
    return Observation(
        *(jnp.stack([jnp.asarray(leaf, float) for leaf in field]) for field in zip(*observations, strict=True))
    )


def _against_nothing(subject: Subject, pairs: Sequence[Pair]) -> list[Pair]:
    return [Pair(pair.one, nothing(subject), f"{pair.origin}, against nothing") for pair in pairs]


@functools.partial(jax.jit)
def _packed_products(features: Array) -> Array:
    return pack_symmetric(features[..., :, None] * features[..., None, :])
