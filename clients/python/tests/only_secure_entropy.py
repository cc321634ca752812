# SPDX-License-Identifier: Apache-2.0
"""Makes predictable generators fail where noise is drawn: ``random`` and NumPy's, for code of a device or of its noise.

A test may still use them for data of its own. The operating system's (``secrets``, ``os.urandom``, ``random.SystemRandom``)
are what noise must come from.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

DRAWING = ("reticent_client", "reticent_wire", "reticent.privacy.noise")
"""Modules whose calls, at whatever depth, must not reach a predictable generator."""


class PredictableEntropy(AssertionError):
    """Something that draws noise asked a generator that can be predicted."""


def forbid(setattr_: Callable[[object, str, Any], None]) -> None:
    """Guard every way to such a generator, by pytest's ``monkeypatch.setattr``."""
    for name in random.__all__:
        if getattr(getattr(random, name), "__self__", None) is random._inst:  # type: ignore[attr-defined]
            setattr_(random, name, _guarded(f"random.{name}", getattr(random, name)))
    setattr_(random.Random, "seed", _guarded("random.Random", random.Random.seed))  # called when one is made
    for name in np.random.__all__:
        if callable(getattr(np.random, name)) and not isinstance(getattr(np.random, name), type):
            setattr_(np.random, name, _guarded(f"np.random.{name}", getattr(np.random, name)))


def _guarded(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def asked(*given: Any, **named: Any) -> Any:
        frame = sys._getframe(1)
        while frame is not None:
            if str(frame.f_globals.get("__name__", "")).startswith(DRAWING):
                raise PredictableEntropy(f"{name} was asked by {frame.f_globals['__name__']}")
            frame = frame.f_back  # type: ignore[assignment]
        return real(*given, **named)

    return asked
