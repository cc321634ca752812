# SPDX-License-Identifier: Apache-2.0
"""``python -m reticent`` is the command ``reticent``."""

from reticent.cli import main

main()
