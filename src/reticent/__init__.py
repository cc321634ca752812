# SPDX-License-Identifier: Apache-2.0
"""reticent: online reinforcement learning that learns from every user and reveals none.

>>> import reticent
>>> result = reticent.run("riverswim:states=3", ["ucrl-vtr"], episodes=20, seeds=2)
>>> sorted(result.curves)
['ucrl-vtr']
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reticent import agents, audit, privacy, worlds
    from reticent.agents import make_agent
    from reticent.experiments.play import PlayResult, play
    from reticent.experiments.result import RunResult
    from reticent.experiments.run import run
    from reticent.experiments.saved import Saved, load, save
    from reticent.service.embedded import DeployedAgent
    from reticent.simulation.simulate import Curves, simulate
    from reticent.worlds import fit, make_world
    from reticent.worlds.from_gymnasium import from_gymnasium
    from reticent.worlds.models.blend import blend

__version__ = "0.2.0"

if "gymnasium" in sys.modules:
    from reticent.gymnasium_ids import register

    register()
    del register

# Imported when first used: `import reticent` and the command's help must not wait for JAX.
_HOMES = {
    "Curves": "reticent.simulation.simulate",
    "DeployedAgent": "reticent.service.embedded",
    "PlayResult": "reticent.experiments.play",
    "RunResult": "reticent.experiments.result",
    "Saved": "reticent.experiments.saved",
    "blend": "reticent.worlds.models.blend",
    "fit": "reticent.worlds",
    "from_gymnasium": "reticent.worlds.from_gymnasium",
    "load": "reticent.experiments.saved",
    "make_agent": "reticent.agents",
    "make_world": "reticent.worlds",
    "play": "reticent.experiments.play",
    "run": "reticent.experiments.run",
    "save": "reticent.experiments.saved",
    "simulate": "reticent.simulation.simulate",
}

_PACKAGES = ("agents", "audit", "privacy", "worlds")

__all__ = [
    "Curves",
    "DeployedAgent",
    "PlayResult",
    "RunResult",
    "Saved",
    "__version__",
    "agents",
    "audit",
    "blend",
    "fit",
    "from_gymnasium",
    "load",
    "make_agent",
    "make_world",
    "play",
    "privacy",
    "run",
    "save",
    "simulate",
    "worlds",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"reticent.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'reticent' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
