# SPDX-License-Identifier: Apache-2.0
"""The ids under which worlds are Gymnasium environments, and their registration.

``import reticent`` registers them if Gymnasium is already imported, and ``import reticent.worlds`` does in any case;
``gymnasium.make("reticent:reticent/RiverSwim-v0")`` needs no import at all. The environments themselves (and JAX) are
imported when the first one is made.
"""

from __future__ import annotations

ENVIRONMENTS = {
    "reticent/Glucose-v0": "glucose",
    "reticent/HardInstance-v0": "hard-instance",
    "reticent/Keyboard-v0": "keyboard",
    "reticent/LargeBlend-v0": "large-blend",
    "reticent/MobileHealth-v0": "mobile-health",
    "reticent/RandomBlend-v0": "random-blend",
    "reticent/RiverSwim-v0": "riverswim",
    "reticent/Tutor-v0": "tutor",
}


def register() -> None:
    """Register every id not registered yet; nothing where Gymnasium is missing, as on a node that only simulates."""
    try:
        import gymnasium
    except ModuleNotFoundError:
        return
    for identifier, spec in ENVIRONMENTS.items():
        if identifier not in gymnasium.registry:
            gymnasium.register(identifier, entry_point="reticent.worlds.gymnasium_env:WorldEnv", kwargs={"world": spec})
