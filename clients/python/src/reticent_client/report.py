# SPDX-License-Identifier: Apache-2.0
r"""What a device sends in the local model: its contribution on an integer grid, plus its own noise.

Formal guarantee. Whatever the model, the billboard and the trajectory, a contribution is within its bounds before
anything is added (:mod:`reticent_wire.forms`, the very source that the service and the simulation run), and every
coordinate that can be other than zero gets noise. Whether the noise is *enough* is checked in
:mod:`reticent_wire.promise`, on the device too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reticent_client import discrete_gaussian
from reticent_wire.billboard import Billboard
from reticent_wire.boundary import Clipped
from reticent_wire.model import Model
from reticent_wire.trajectory import Trajectory


def noised_report(model: Model, billboard: Billboard, seen: Clipped[Trajectory] | None) -> NDArray[np.int64]:
    """The report that may leave the device; of a user who shows nothing (None), noise alone.

    Fresh noise each time: call it once per episode, keep the result.
    """
    noise = discrete_gaussian.draw(model.rules.noise_scale, model.rules.grid)
    if seen is None:
        return noise
    contribution = seen.within(lambda shown: model.steps(billboard, shown))
    return contribution.release(lambda steps: steps + noise).value
