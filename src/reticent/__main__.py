"""``python -m reticent`` is the command ``reticent``."""

from reticent.cli import main

main()
