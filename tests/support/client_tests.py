# SPDX-License-Identifier: Apache-2.0
"""The way to what the client's own tests use and these do too: a scripted service, and the guard of entropy."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in ("clients/python", "clients/python/tests"):
    sys.path.append(str(Path(__file__).parents[2] / folder))

from only_secure_entropy import PredictableEntropy, forbid  # noqa: E402

__all__ = ["PredictableEntropy", "forbid"]
