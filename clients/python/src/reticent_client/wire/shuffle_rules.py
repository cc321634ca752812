"""What is public about the messages of every round of the shuffle model: for devices, shufflers and the service.

**Users who never send.** A user's share of a round's coins follows from the round and her number in it
(:func:`~reticent_client.wire.shuffling.coins_of_user`): ⌊N/s⌋ or one more, of s users. So n users flip, whoever they are,
at least n⌊N/s⌋ coins. A batch of fewer than ⌈ρs⌉ users, ρ being the share ``honest`` that the promise relies on, is
refused; of as many, :func:`~reticent_client.wire.shuffling.coin_excess` has made sure that their coins are enough.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent_client.wire.arrays import from_json, to_json
from reticent_client.wire.errors import InvalidInput
from reticent_client.wire.shuffling import Tally, coins_of_user, doubled_sum

Integers = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)  # arrays have no single truth value to compare by
class ShuffleRules:
    """How messages are formed and added up.

    Attributes:
      reach: m, the most grid steps that a value can be from 0, ``(rows, D)``.
      coins: N, how many coins all users of a round flip together, ``(rows, D)``.
      round_sizes: users of each released round.
      honest: the share of a round's users that must have sent before anything may leave the shuffler.
    """

    reach: Integers
    coins: Integers
    round_sizes: tuple[int, ...]
    honest: float

    @classmethod
    def read(cls, content: Mapping[str, Any], shape: tuple[int, int]) -> ShuffleRules:
        """The rules in an answer of the service."""
        reach, coins = (
            from_json(f"report.shuffle.{name}", content[name], dtype="<i8", shape=shape) for name in ("reach", "coins")
        )
        return cls(reach, coins, tuple(int(size) for size in content["round_sizes"]), float(content["honest"]))

    def to_json(self) -> dict[str, Any]:
        """What :meth:`read` reads."""
        return {
            "reach": to_json(self.reach),
            "coins": to_json(self.coins),
            "round_sizes": list(self.round_sizes),
            "honest": self.honest,
        }

    def require_hiding(self) -> None:
        """Refuse rules by which a number that can differ between users is hidden by no coin.

        Raises:
          InvalidInput: there is one.
        """
        bare = (self.coins <= 0) & (self.reach > 0)
        if bare.any() or (self.reach < 0).any() or (self.coins < 0).any():
            raise InvalidInput("report.shuffle.coins", "missing", "above 0 for every value", "do not send")

    def size(self, number: int) -> int:
        """Users of round ``number``, 0-based.

        Raises:
          InvalidInput: there is no such round.
        """
        if not 0 <= number < len(self.round_sizes):
            raise InvalidInput("round", number, f"from 0 to {len(self.round_sizes) - 1}", "see the service's model")
        return self.round_sizes[number]

    def fewest(self, number: int) -> int:
        """The fewest users of a round whose batch hides each of them as promised."""
        return math.ceil(self.honest * self.size(number))

    def place(self, admission: int) -> tuple[int, int]:
        """Round and number within the round, 0-based, of the user who was admitted as number ``admission``, 0-based."""
        ends = np.cumsum(self.round_sizes)
        number = int(np.searchsorted(ends, admission, side="right"))
        return number, admission - int(ends[number] - self.round_sizes[number])

    def coins_at(self, number: int, within: int) -> Integers:
        """How many coins user ``within`` of round ``number`` flips, ``(rows, D)``.

        Raises:
          InvalidInput: there is no such place.
        """
        if not (0 <= number < len(self.round_sizes) and 0 <= within < self.round_sizes[number]):
            raise InvalidInput("round, number", (number, within), "a place in a round", "ask the service's operator")
        return coins_of_user(self.coins, self.round_sizes[number], within)

    def require_tally(self, number: int, within: int, tally: Tally) -> None:
        """Refuse messages that user ``within`` of round ``number`` cannot have sent: one of them would spoil the batch.

        How many she sends is public, so a refusal tells nothing.

        Raises:
          InvalidInput: there is no such place, or she sends more or fewer messages, or more ones than messages.
        """
        wanted = 2 * self.reach + self.coins_at(number, within)
        doubled_sum(tally, wanted, wanted)

    def doubled_sum(self, number: int, users: int, batch: Tally) -> Integers:
        """Twice the noisy sum of a round, in grid steps, from a batch of ``users`` of its users.

        Raises:
          InvalidInput: no ``users`` users of this round can have sent that.
        """
        size = self.size(number)
        if not self.fewest(number) <= users <= size:
            raise InvalidInput(
                "users", users, f"from {self.fewest(number)} to {size}, of which the promise relies on the former",
                "wait for more users; post only then",
            )  # fmt: skip
        share, left = np.divmod(self.coins, size)
        values = 2 * users * self.reach + users * share
        return doubled_sum(batch, values + np.maximum(0, left - (size - users)), values + np.minimum(users, left))
