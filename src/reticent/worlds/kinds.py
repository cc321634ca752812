# SPDX-License-Identifier: Apache-2.0
r"""Worlds of latent kinds: every user is of one hidden kind for a whole episode, and kinds have laws of their own.

The model is a blend of M candidates; here each candidate (transitions and rewards together) is the law of one *kind*, and
``shares`` are the kinds' unknown frequencies among users. What a learner sees is the ordinary state; the kind is hidden.
With ``mixed`` a user has no kind: every step is drawn from the blend, as :class:`~reticent.worlds.World` does.

Values of Markov policies are exact (the mean of their values in the kinds). The *known-kind value* is what a policy earns
that is told the kind: no learner reaches it, and the distance to it from the blend's plan is the room for personalisation.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.runtime import double_precision, double_precision_methods, on_device
from reticent.worlds import exact_solutions
from reticent.worlds.models.blend import blend
from reticent.worlds.models.model import Model
from reticent.worlds.world import invert


@double_precision_methods
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class KindsWorld:
    """A model whose candidates are the laws of hidden kinds, and the kinds' true shares.

    States within an episode are *hidden* states z·S + s; :meth:`observed` is what the learner sees of one.

    Attributes:
      shares: of the kinds among users, ``(M,)``.
      cumulative: running sums of each kind's rows, ``(M, S, A, n)``.
      means: mean rewards of each kind, ``(M, S, A)``.
      mixed: whether each step is drawn from the blend instead, so that users have no kind.
    """

    model: Model
    shares: Array
    cumulative: Array
    means: Array
    first: Array
    name: str = dataclasses.field(metadata={"static": True})
    mixed: bool = dataclasses.field(default=False, metadata={"static": True})

    @property
    def kinds(self) -> int:
        """M."""
        return int(self.shares.shape[0])

    # -- sampling -----------------------------------------------------------------------------------------------------

    @property
    def start_draws(self) -> int:
        """Uniform draws that :meth:`start` takes: the state and the kind."""
        return 2

    @property
    def step_draws(self) -> int:
        """Uniform draws that :meth:`step` takes: transition, reward, and the kind of the step where users have none."""
        return 3

    def start(self, uniforms: Array) -> Array:
        """The first hidden state."""
        kind = invert(jnp.cumsum(self.shares), uniforms[1])
        return kind * self.model.states + invert(self.first, uniforms[0])

    def start_again(self, hidden: Array, uniforms: Array) -> Array:
        """The first hidden state of the next visit of the same user, whose kind stays."""
        return hidden // self.model.states * self.model.states + invert(self.first, uniforms[0])

    def observed(self, hidden: Array) -> Array:
        """The state that the learner sees."""
        return hidden % self.model.states

    def step(self, step: Array, hidden: Array, action: Array, uniforms: Array) -> tuple[Array, Array]:
        """Next hidden state and reward."""
        del step
        kind, state = hidden // self.model.states, self.observed(hidden)
        law = invert(jnp.cumsum(self.shares), uniforms[2]) if self.mixed else kind
        following = invert(self.cumulative[law, state, action], uniforms[0])
        if self.model.successors is not None:
            following = self.model.successors[state, action, following].astype(following.dtype)
        reward = (uniforms[1] < self.means[law, state, action]).astype(self.means.dtype)
        return kind * self.model.states + following.astype(kind.dtype), reward

    def mean_reward(self, hidden: Array, action: Array) -> Array:
        """The expected reward of an action in a hidden state."""
        kind, state = hidden // self.model.states, self.observed(hidden)
        if self.mixed:
            return jnp.dot(self.shares, self.means[:, state, action])
        return self.means[kind, state, action]

    # -- exact values -------------------------------------------------------------------------------------------------

    def policy_value(self, policy: Array) -> Array:
        """Expected return of a Markov policy, ``(H, S)`` choices or ``(H, S, A)`` probabilities, over kinds and starts."""
        if self.mixed:
            return self._in_law(self._blended(), policy)
        rows = jnp.diff(self.cumulative, axis=-1, prepend=0.0)
        each = jax.vmap(lambda law: self._in_law(law, policy))((rows, self.means))
        return jnp.dot(self.shares, each)

    def optimal_policy_value(self) -> Array:
        """The known-kind value; where users have no kind, the optimum of the blend."""
        if self.mixed:
            return self._best(self._blended())
        rows = jnp.diff(self.cumulative, axis=-1, prepend=0.0)
        return jnp.dot(self.shares, jax.vmap(self._best)((rows, self.means)))

    @property
    def optimal_value(self) -> float:
        return float(self.optimal_policy_value())

    @property
    def uniform_value(self) -> float:
        """The uniform policy's value."""
        model = self.model
        shape = (model.horizon, model.states, model.actions)
        return float(self.policy_value(jnp.full(shape, 1 / model.actions)))

    def blend_plan(self) -> Array:
        """The plan ``(H, S)`` that is optimal if every step were drawn from the blend with the true shares."""
        rows, means = self._blended()
        table = exact_solutions.optimal_action_values(
            rows[None], means[None], self.model.successors, self.model.horizon
        )
        choices: Array = table.argmax(axis=-1)
        return choices

    def _blended(self) -> tuple[Array, Array]:
        rows = jnp.diff(self.cumulative, axis=-1, prepend=0.0)
        return jnp.tensordot(self.shares, rows, axes=1), jnp.tensordot(self.shares, self.means, axes=1)

    def _in_law(self, law: tuple[Array, Array], policy: Array) -> Array:
        rows, means = law
        values = exact_solutions.evaluate(rows[None], means[None], self.model.successors, policy)
        value: Array = exact_solutions.expected_return(self._initial, values)
        return value

    def _best(self, law: tuple[Array, Array]) -> Array:
        rows, means = law
        table = exact_solutions.optimal_action_values(
            rows[None], means[None], self.model.successors, self.model.horizon
        )
        value: Array = exact_solutions.best_return(self._initial, table)
        return value

    @property
    def _initial(self) -> Array:
        return jnp.diff(self.first, prepend=0.0)


@double_precision
def kinds_world(model: Model, shares: np.ndarray, *, mixed: bool = False, name: str = "kinds") -> KindsWorld:
    """A world whose users are of the kinds that the model's candidates describe.

    Raises:
      InvalidInput: candidates are not pairs of one transition law and one reward table, or shares are no distribution.
    """
    require_kinds(model)
    shares = np.asarray(shares, np.float64)
    if shares.shape != (model.d1,) or (shares < 0).any() or abs(shares.sum() - 1) > 1e-9:
        raise InvalidInput(
            "shares", shares.tolist(), f"{model.d1} nonnegative numbers of sum 1", "give one per candidate"
        )
    rows = np.asarray(model.transition_features, np.float64)
    return KindsWorld(
        model=model,
        shares=on_device(shares),
        cumulative=on_device(np.cumsum(rows, axis=-1)),
        means=on_device(np.asarray(kind_means(model), np.float64)),
        first=on_device(np.cumsum(np.asarray(model.initial, np.float64))),
        name=name,
        mixed=mixed,
    )


def require_kinds(model: Model) -> None:
    """Raise unless each candidate of a stationary model is a law of its own: one transition law, one reward table."""
    remedy = "use private-score-vi, which learns a blend"
    if not (model.stationary and model.sums_to_one):
        raise InvalidInput("model", "one that is no stationary blend", "candidates that are laws for all steps", remedy)
    if model.d1 != model.d2 or model.known_rewards is not None or model.reward_total is None:
        raise InvalidInput(
            "candidates", f"{model.d1} for transitions, {model.d2} for rewards", "as many of each, in pairs", remedy
        )
    if model.d1 < 2:
        raise InvalidInput("candidates", model.d1, "at least 2", remedy)


def kind_means(model: Model) -> Array:
    """Mean rewards of each kind, ``(M, S, A)``: the reward table that its candidate is."""
    assert model.reward_total is not None  # require_kinds
    return model.reward_features * model.reward_total


def random_kinds(
    *,
    states: int = 20,
    actions: int = 4,
    horizon: int = 10,
    kinds: int = 5,
    apart: float = 0.5,
    successors: int = 5,
    seed: int = 0,
    mixed: bool = False,
) -> KindsWorld:
    """A seeded random world of kinds: each law is ``1 − apart`` of a common one and ``apart`` of its own.

    Rows have ``successors`` likely next states, the same for all kinds; rewards are uniform; shares are Dirichlet(1).
    """
    if not 0 <= apart <= 1:
        raise InvalidInput("apart", apart, "from 0 to 1", "1 gives kinds that have nothing in common")
    draw = np.random.default_rng(seed)
    chosen = np.argsort(draw.random((states, actions, states)), axis=2)[:, :, :successors]
    common = draw.dirichlet(np.full(successors, 0.5), (states, actions))
    own = draw.dirichlet(np.full(successors, 0.5), (kinds, states, actions))
    rows = np.zeros((kinds, states, actions, states))
    np.put_along_axis(rows, np.broadcast_to(chosen, own.shape), (1 - apart) * common + apart * own, axis=3)
    means = (1 - apart) * draw.random((states, actions)) + apart * draw.random((kinds, states, actions))
    shares = draw.dirichlet(np.ones(kinds))
    made = blend(rows, means, shares, shares, horizon, initial=np.full(states, 1 / states), name="random-kinds")
    return kinds_world(made.model, shares, mixed=mixed, name="random-kinds")  # one name, one compiled program
