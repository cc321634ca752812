# SPDX-License-Identifier: Apache-2.0
"""Joint differential privacy: the server sees raw data and is the only party trusted with them."""

from __future__ import annotations

from jax import Array

from reticent.privacy.trust.trust import Draw, Trust, on_grid


class Joint(Trust):
    """Users send what they did; the server noises every sum that it releases."""

    name = "joint"
    exposed = "everything shown to all other users together"
    trusted = "the server, with raw data"
    wire = "trajectory"

    def send(self, contribution: Array, noise: Array | None, grid: Array) -> Array:
        del noise
        return on_grid(contribution, grid)

    def simulate_user_noise(self, key: Array, like: Array, draw: Draw) -> None:
        del key, like, draw


JOINT = Joint()
