# SPDX-License-Identifier: Apache-2.0
"""What one user leaves behind: the trajectory of one episode."""

from __future__ import annotations

from typing import NamedTuple

from jax import Array


class Episode(NamedTuple):
    """One user's trajectory; leading batch axes are allowed in front of every field.

    Attributes:
      states: ``(H + 1,)`` integers, the last one being where the episode ended.
      actions: ``(H,)`` integers.
      rewards: ``(H,)`` numbers in [0, 1].
    """

    states: Array
    actions: Array
    rewards: Array
