r"""A shuffled batch: what a shuffler hands over of one round, and what it must look like to be believed.

By the theorem of :mod:`reticent.privacy.trust.shuffle_protocol` a permuted sequence of bits says exactly how many bits and how many ones
there are, so a batch *is* two numbers per coordinate: ``ones`` and ``messages``. With n users, reach m and c coins among
them, messages = 2nm + c and

.. math:: 2\cdot\text{ones}-\text{messages}=2\sum x+(2\,\mathrm{Bin}(c,\tfrac12)-c):

twice the noisy sum in grid steps, whoever was missing. It is whole also where c is odd, and this is what is stored.

**Users who never send.** A user's share of a round's coins follows from the round and her number in it
(:func:`reticent.privacy.trust.shuffle_protocol.coins_of_user`): ⌊N/s⌋ or one more, of s users. So n users flip, whoever they are, at least
n⌊N/s⌋ coins. A batch of fewer than ⌈ρs⌉ users, ρ being the share ``honest`` that the promise relies on, is refused; of as
many, :func:`reticent.privacy.trust.shuffle_protocol.coin_excess` has made sure that their coins are enough.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidInput
from reticent.learning.schedule import Schedule
from reticent.privacy.sums import PrivateSums
from reticent.privacy.trust.shuffle_protocol import coins_for

Integers = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)
class BatchRules:
    """What is public about the messages of every round.

    Attributes:
      reach: m per coordinate, ``(H, D)``.
      coins: N per coordinate, ``(H, D)``: what all users of a round flip together.
      sizes: users of each released round.
      honest: the share of a round's users that the promise relies on.
    """

    reach: Integers
    coins: Integers
    sizes: tuple[int, ...]
    honest: float

    def place(self, admission: int) -> tuple[int, int]:
        """Round and number within the round, 0-based, of the user who was admitted as number ``admission``, 0-based."""
        ends = np.cumsum(self.sizes)
        number = int(np.searchsorted(ends, admission, side="right"))
        return number, admission - int(ends[number] - self.sizes[number])

    def fewest(self, number: int) -> int:
        """The fewest users of a round whose batch hides each of them as promised."""
        return math.ceil(self.honest * self.sizes[number])

    def doubled_sum(self, number: int, users: int, ones: Integers, messages: Integers) -> Integers:
        """Twice the noisy sum of a round, in grid steps.

        Raises:
          InvalidInput: no ``users`` users of this round can have sent that.
        """
        if not 0 <= number < len(self.sizes):
            raise InvalidInput("round", number, f"from 0 to {len(self.sizes) - 1}", "see the status for the rounds")
        size = self.sizes[number]
        if not self.fewest(number) <= users <= size:
            raise InvalidInput(
                "users", users, f"from {self.fewest(number)} to {size}, of which the promise relies on the former",
                "wait for more users; post only then",
            )  # fmt: skip
        # Bounded before anything is multiplied or subtracted, so that no request can overflow.
        if not ((messages >= 0) & (ones >= 0) & (ones <= messages)).all():
            raise InvalidInput("ones", "out of range", "from 0 to the number of messages", "count ones and messages")
        share, left = np.divmod(self.coins, size)
        values = 2 * users * self.reach
        low = values + users * share + np.maximum(0, left - (size - users))
        high = values + users * share + np.minimum(users, left)
        if not ((messages >= low) & (messages <= high)).all():
            raise InvalidInput(
                "messages", "inconsistent", f"what {users} users of round {number} send",
                "send every user's values and coins, once",
            )  # fmt: skip
        return 2 * np.asarray(ones, np.int64) - np.asarray(messages, np.int64)


def batch_rules(sums: PrivateSums, schedule: Schedule, honest: float) -> BatchRules:
    """The rules that follow from noisy sums with ``trust=shuffle``."""
    grid = float(sums.grid)
    return BatchRules(
        reach=np.ceil(sums.contribution_bound / grid).astype(np.int64),
        coins=coins_for(np.asarray(sums.noise_scale), grid),
        sizes=tuple(schedule.round_sizes[: schedule.releases].tolist()),
        honest=honest,
    )
