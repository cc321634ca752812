# SPDX-License-Identifier: Apache-2.0
"""Local differential privacy: no server is trusted; a report is noised before it leaves the user's device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.privacy.counters.counter import Counter
from reticent.privacy.counters.running_sum import RunningSum
from reticent.privacy.trust.trust import Draw, Trust, on_grid


class Local(Trust):
    """Users noise their own reports; the server adds up what is already private."""

    name = "local"
    exposed = "the report that leaves the user's device, and all that is computed from it,"
    trusted = "no server"
    wire = "report"
    noised_reports = True
    noised_rounds = False
    grouped = True
    silence = (
        " It rests on the device's own budget, which no service can reset."
        " Whether a report comes at all is not hidden: a device whose user leaves early sends an empty one."
    )

    def send(self, contribution: Array, noise: Array | None, grid: Array) -> Array:
        if noise is None:
            raise InvalidInput("noise", None, "given in the local model", "pass fresh noise for every user's report")
        return on_grid(contribution, grid) + noise

    def simulate_user_noise(self, key: Array, like: Array, draw: Draw) -> Array:
        del key, like
        return draw(())

    def counter(self, chosen: Callable[[], Counter], rounds: int) -> Counter:
        del chosen
        return RunningSum(rounds)

    def sensitivity(self, counter: Counter) -> float:
        del counter
        return 1.0

    def exposure(self, counter: Counter) -> np.ndarray:
        return np.ones(counter.rounds)

    def release_std(self, counter: Counter, round_ends: np.ndarray) -> np.ndarray:
        del counter
        return np.asarray(np.sqrt(round_ends))

    def released_by(self, counter: Counter) -> str:
        del counter
        return "local noise"


LOCAL = Local()
