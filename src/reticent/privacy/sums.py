"""Sums of users' contributions, released with noise: what every privatizer has in common.

A user's contribution is one array ``(H, D)``, whatever the numbers in it mean: packed regressions
(:mod:`reticent.privacy.privatizer`) or visit counts. Counters are linear, so one counter over that array with a noise
scale per coordinate *is* a counter for each of its numbers.

Formal guarantee. Nothing but the counter's releases is a function of what users sent. After ``counter.rounds`` rounds
nothing more is released: closing further rounds changes nothing. That a contribution stays within the declared
sensitivity is the business of the subclass that forms it.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.errors import InvalidInput
from reticent.privacy.counters.counter import Counter
from reticent.privacy.ledger import Trust

Law = Literal["gaussian", "laplace"]


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
      grid: spacing to which contributions are rounded in deployment; 0 keeps them as they are.
      counter: how running sums are released.
      trust: who adds noise: the server per round (``joint``) or each user to her report (``local``).
      law: the law of the noise.
    """

    noise_scale: Array
    grid: Array
    counter: Counter
    trust: Trust
    law: Law = "gaussian"

    @property
    def horizon(self) -> int:
        return int(self.noise_scale.shape[0])

    # -- the user's side ----------------------------------------------------------------------------------------------

    def send(self, contribution: Array, noise: Array | None) -> Array:
        """A contribution ``(H, D)`` as it leaves the user: on the grid, and noised in the local model."""
        safe_grid = jnp.where(self.grid > 0, self.grid, 1.0)
        contribution = jnp.where(self.grid > 0, jnp.round(contribution / safe_grid) * safe_grid, contribution)
        if self.trust == "joint":
            return contribution
        if noise is None:
            raise InvalidInput("noise", None, "given in the local model", "pass fresh noise for every user's report")
        return contribution + noise

    # -- the server's side --------------------------------------------------------------------------------------------

    def init(self) -> SumState:
        shape, dtype = self.noise_scale.shape, self.noise_scale.dtype
        return SumState(self.counter.init(shape, dtype), jnp.zeros(shape, dtype), jnp.zeros((), jnp.int32))

    def absorb(self, state: SumState, report: Array) -> SumState:
        return state._replace(open=state.open + report)

    def close(self, state: SumState, noise: Array | None) -> SumState:
        rounds = state.rounds
        if noise is None:
            if self.trust == "joint":
                raise InvalidInput("noise", None, "given in the joint model", "pass fresh noise for every round")
            noise = jnp.zeros_like(state.open)
        closed = self.counter.close(state.counter, state.open, noise)
        within = rounds < self.counter.rounds
        kept = jax.tree.map(lambda new, old: jnp.where(within, new, old), closed, state.counter)
        return SumState(kept, jnp.zeros_like(state.open), rounds + within.astype(rounds.dtype))

    def released(self, state: SumState) -> Array:
        """The noisy sums ``(H, D)`` after the last closed round."""
        return self.counter.release(state.counter)

    # -- simulated noise ----------------------------------------------------------------------------------------------

    def simulate_user_noise(self, key: Array) -> Array | None:
        """A user's own noise in the local model; None in the joint model."""
        return None if self.trust == "joint" else self._draw(key, ())

    def simulate_round_noise(self, key: Array) -> Array | None:
        """A round's noise in the joint model; None in the local model."""
        return self._draw(key, self.counter.noise_shape_prefix) if self.trust == "joint" else None

    def _draw(self, key: Array, prefix: tuple[int, ...]) -> Array:
        scale = self.noise_scale
        draw = jax.random.normal if self.law == "gaussian" else jax.random.laplace
        return scale * draw(key, prefix + scale.shape, scale.dtype)
