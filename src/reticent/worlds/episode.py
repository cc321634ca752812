# SPDX-License-Identifier: Apache-2.0
"""What one user leaves behind: the trajectory of one episode."""

from __future__ import annotations

from typing import NamedTuple

from jax import Array


class Episode(NamedTuple):
    """One user's trajectory; leading batch axes are allowed in front of every field.

    A *stay* of V visits is one trajectory: the visits' fields one after another, ``(V·(H + 1),)`` states and ``(V·H,)``
    actions and rewards (:func:`by_visit`).

    Attributes:
      states: ``(H + 1,)`` integers, the last one being where the episode ended.
      actions: ``(H,)`` integers.
      rewards: ``(H,)`` numbers in [0, 1].
    """

    states: Array
    actions: Array
    rewards: Array


def by_visit(stay: Episode, visits: int) -> Episode:
    """The visits of a stay on an axis of their own, behind any batch axes: ``(V, H + 1)``, ``(V, H)`` and ``(V, H)``."""
    return Episode(*(field.reshape(*field.shape[:-1], visits, -1) for field in stay))


def as_stay(visits: Episode) -> Episode:
    """The stay whose visits are on the last axis but one: the inverse of :func:`by_visit`."""
    return Episode(*(field.reshape(*field.shape[:-2], -1) for field in visits))
