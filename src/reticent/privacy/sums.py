# SPDX-License-Identifier: Apache-2.0
"""Sums of users' contributions, released with noise: what every privatizer has in common.

A user's contribution is one array ``(H, D)``, whatever the numbers in it mean: packed regressions
(:mod:`reticent.agents.linear_mixture.privatizer`) or visit counts. Counters are linear, so one counter over that array
with a noise scale per coordinate *is* a counter for each of its numbers.

Formal guarantee. Nothing but the counter's releases is a function of what users sent. After ``counter.rounds`` rounds
nothing more is released: closing further rounds changes nothing. That a contribution stays within the declared
sensitivity is the business of the subclass that forms it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.learning.plan import AnyPlan
from reticent.privacy.counters.counter import Counter
from reticent.privacy.trust import Law, Trust


class SumState(NamedTuple):
    """The counter's state, the open round's sum ``(H, D)``, and the number of closed rounds.

    The open sum is raw in the joint model: it must not leave the server, and no release reads it.
    """

    counter: Any
    open: Array
    rounds: Array


class PrivateSums:
    """The server's side of a privatizer; subclasses are dataclasses with these fields.

    Attributes:
      noise_scale: scale of the noise per coordinate, ``(H, D)``: its standard deviation σ, or b of a Laplace law.
      grid: spacing to which contributions are rounded in deployment and by shuffled users; 0 keeps them as they are.
      counter: how running sums are released.
      trust: who adds noise, and how a contribution leaves its user. Noise that all users of a round flip together
        (``shuffle``) is simulated as noise of the round, which has that law.
      law: the law of the noise. ``binomial`` is a centred sum of fair coins, in steps of the grid.
    """

    noise_scale: Array
    grid: Array
    counter: Counter
    trust: Trust
    law: Law = "gaussian"

    @property
    def contribution_bound(self) -> np.ndarray:
        """The most that a clipped contribution is away from 0 in each coordinate, ``(H, D)``. Deployments ask for it."""
        raise NotImplementedError(f"{type(self).__name__} does not say contribution_bound, which a deployment needs")

    @property
    def device_rules(self) -> dict[str, Any]:
        """What a device needs to form a contribution besides model and billboard: the name of its ``form``
        (:mod:`reticent_wire.forms`), and the bounds that the form clips to. Deployments ask for it."""
        raise NotImplementedError(f"{type(self).__name__} does not say device_rules, which a deployment needs")

    def version_rules(self, plan: AnyPlan) -> dict[str, Array]:
        """What contributions of users who were served ``plan`` are made of besides: arrays by name, as public as it."""
        del plan
        return {}

    @property
    def horizon(self) -> int:
        return int(self.noise_scale.shape[0])

    # -- the user's side ----------------------------------------------------------------------------------------------

    def report(self, seen: Any, noise: Array | None) -> Array:
        """One user's contribution ``(H, D)`` as it leaves the device, within its bounds. Every subclass forms its own."""
        raise NotImplementedError(f"{type(self).__name__} does not form contributions")

    def send(self, contribution: Array, noise: Array | None) -> Array:
        """A contribution ``(H, D)`` as it leaves the user: on the grid, and noised where the trust model says so."""
        return self.trust.send(contribution, noise, self.grid)

    # -- the server's side --------------------------------------------------------------------------------------------

    def init(self) -> SumState:
        shape, dtype = self.noise_scale.shape, self.noise_scale.dtype
        return SumState(self.counter.init(shape, dtype), jnp.zeros(shape, dtype), jnp.zeros((), jnp.int32))

    def absorb(self, state: SumState, report: Array) -> SumState:
        return state._replace(open=state.open + report)

    def close(self, state: SumState, noise: Array | None) -> SumState:
        rounds = state.rounds
        if noise is None:
            if self.trust.noised_rounds:
                raise InvalidInput(
                    "noise", None, f"given in the {self.trust.name} model", "pass fresh noise for every round"
                )
            noise = jnp.zeros_like(state.open)
        closed = self.counter.close(state.counter, state.open, noise)
        within = rounds < self.counter.rounds
        kept = jax.tree.map(lambda new, old: jnp.where(within, new, old), closed, state.counter)
        return SumState(kept, jnp.zeros_like(state.open), rounds + within.astype(rounds.dtype))

    def released_sums(self, state: SumState) -> Array:
        """The noisy sums ``(H, D)`` after the last closed round."""
        return self.counter.release(state.counter)

    # -- simulated noise ----------------------------------------------------------------------------------------------

    def simulate_user_noise(self, key: Array) -> Array | None:
        """What one simulated user needs to send the contribution; None if nothing."""
        return self.trust.simulate_user_noise(key, self.noise_scale, lambda prefix: self._draw(key, prefix))

    def simulate_round_noise(self, key: Array) -> Array | None:
        """A round's noise, whichever party contributes it; None where every report is noised already."""
        return self._draw(key, self.counter.noise_shape_prefix) if self.trust.noised_rounds else None

    def _draw(self, key: Array, prefix: tuple[int, ...]) -> Array:
        scale = self.noise_scale
        if self.law == "binomial":
            return _coin_flips(key, scale, self.grid, prefix)
        draw = jax.random.normal if self.law == "gaussian" else jax.random.laplace
        return scale * draw(key, prefix + scale.shape, scale.dtype)


def _coin_flips(key: Array, scale: Array, grid: Array, prefix: tuple[int, ...]) -> Array:
    r""":math:`g(\mathrm{Bin}(N,\tfrac12)-N/2)` with the N that has standard deviation ``scale``: g√N/2."""
    coins = jnp.broadcast_to(jnp.round(4 * (scale / grid) ** 2), prefix + scale.shape)
    # Compiled even where nothing else is (a replay): the draw sees no data, and its rejection loop would take seconds.
    with jax.disable_jit(False):
        # Double precision whatever the simulation's: millions of coins do not fit into 24 bits.
        heads = jax.random.binomial(key, coins.astype(jnp.float64), 0.5, dtype=jnp.float64)
    return (grid * (heads - coins / 2)).astype(scale.dtype)


def private_sums(agent: Any) -> PrivateSums:
    """The noisy sums behind an agent.

    Raises:
      InvalidInput: it has none: it is not private, or releases something else than sums.
    """
    if not isinstance(agent.aggregator, PrivateSums):
        raise InvalidInput(
            "agent", agent.name, "one that releases noisy sums", "choose a private agent; `reticent agents` lists them"
        )
    return agent.aggregator
