"""reticent: online reinforcement learning that learns from every user and reveals none."""

__version__ = "0.1.0"
