# SPDX-License-Identifier: Apache-2.0
"""The way to the script that writes the test vectors, whose small deployments tests use too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
