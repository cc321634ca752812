"""When the learner may change its mind: a fixed public schedule of rounds.

A round is a fixed number of consecutive users who are all served the same plan. At its end the statistics are released
and the next plan is made. The schedule depends on the number of episodes only, never on data.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from reticent.errors import InvalidInput


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Round sizes over K episodes.

    Attributes:
      episodes: K.
      sizes: the rounds' sizes, summing to K; None means that every episode is a round of its own (the paper).
      final_release: whether the sums after the last round are released too. Without it (the paper) the last round is
        played but not learned from; with it the final policy may be published, and is accounted for.
    """

    episodes: int
    sizes: tuple[int, ...] | None = None
    final_release: bool = False

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise InvalidInput("episodes", self.episodes, "at least 1", "give the number of users K")
        if self.sizes is not None and (sum(self.sizes) != self.episodes or min(self.sizes) < 1):
            raise InvalidInput(
                "sizes", f"sum {sum(self.sizes)}", f"positive, with sum {self.episodes}", "recompute the schedule"
            )

    @property
    def rounds(self) -> int:
        """Number of rounds played."""
        return self.episodes if self.sizes is None else len(self.sizes)

    @property
    def releases(self) -> int:
        """Number of rounds whose sums are released (at least 1, so that calibration is always defined)."""
        return max(1, self.rounds if self.final_release else self.rounds - 1)

    @functools.cached_property
    def round_sizes(self) -> np.ndarray:
        return np.ones(self.episodes, np.int64) if self.sizes is None else np.asarray(self.sizes, np.int64)

    @functools.cached_property
    def ends(self) -> np.ndarray:
        """Number of episodes finished when each round ends."""
        return np.cumsum(self.round_sizes)
